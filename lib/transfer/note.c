/* SPDX-License-Identifier: MIT */
/* Notes, and buffers that are revoked: what goes by TCP once an endpoint is open. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/transfer.h"

#define NAMES_MAX 4096 /* generations that are remembered, the latest */

/* ---- notes ---- */

int mrg_ep_send(struct mrg_ep *ep, const void *bytes, size_t length)
{
	const struct transfer_message message = { .type = MESSAGE_NOTE, .note = { bytes, length } };
	int ret;

	if (!length || length > MRG_NOTE_MAX)
		return transfer_fail(ep->transfer, -EINVAL, "send note", "Send it in parts.",
				     "a note has 1 to %d bytes, and this one %zu", MRG_NOTE_MAX,
				     length);
	pthread_mutex_lock(&ep->lock);
	if (ep->state == EP_FAILED)
		ret = transfer_fail_with(ep->transfer, &ep->error);
	else
		ret = transfer_socket_send(ep, &message);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

static bool has_note(struct mrg_ep *ep, void *arg)
{
	(void)arg;
	return ep->note_first || ep->state == EP_FAILED;
}

static ssize_t take_note(struct mrg_ep *ep, void *bytes, size_t cap)
{
	struct transfer_note *note = ep->note_first;
	ssize_t length;

	if (!note)
		return transfer_fail_with(ep->transfer, &ep->error);
	if (note->length > cap)
		return transfer_fail(ep->transfer, -EMSGSIZE, "receive note",
				     "Offer room for MRG_NOTE_MAX bytes.",
				     "the note has %zu bytes, and there is room for %zu",
				     note->length, cap);
	ep->note_first = note->next;
	if (!ep->note_first)
		ep->note_last = NULL;
	ep->note_bytes -= sizeof(*note) + note->length;
	length = (ssize_t)note->length;
	memcpy(bytes, note->bytes, note->length);
	free(note);
	return length;
}

ssize_t mrg_ep_receive(struct mrg_ep *ep, void *bytes, size_t cap, int timeout_ms)
{
	ssize_t ret;

	pthread_mutex_lock(&ep->lock);
	ret = transfer_ep_await(ep, has_note, NULL, timeout_ms);
	if (!ret)
		ret = take_note(ep, bytes, cap);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

/* ---- revoked buffers ---- */

static bool among(const uint64_t *names, size_t count, uint64_t generation)
{
	for (size_t i = count; i-- > 0;)
		if (names[i] == generation)
			return true;
	return false;
}

static int add_name(uint64_t **names, size_t *count, uint64_t generation)
{
	uint64_t *more = *names;

	if (!more)
		more = calloc(NAMES_MAX, sizeof(*more));
	if (!more)
		return -ENOMEM;
	*names = more;
	if (*count == NAMES_MAX)
		memmove(more, more + 1, --*count * sizeof(*more));
	more[(*count)++] = generation;
	return 0;
}

bool transfer_revoke_names(const struct mrg_ep *ep, uint64_t generation)
{
	return generation && among(ep->revoked, ep->revoked_count, generation);
}

static bool in_use(const struct mrg_ep *ep, uint64_t generation)
{
	for (const struct mrg_request *r = ep->active; r; r = r->next)
		if (transfer_request_uses(r, generation))
			return true;
	return false;
}

void transfer_revoke_confirm(struct mrg_ep *ep)
{
	struct transfer_revocation **at = &ep->to_confirm, *r;
	struct transfer_message message = { .type = MESSAGE_REVOKED };

	while ((r = *at) != NULL) {
		if (in_use(ep, r->generation)) {
			at = &r->next;
			continue;
		}
		message.generation = r->generation;
		*at = r->next;
		free(r);
		if (ep->state == EP_OPEN)
			transfer_socket_send(ep, &message);
	}
}

static int forget_buffer(struct mrg_ep *ep, uint64_t generation)
{
	const struct mrg_result stale = { .status = -ESTALE, .side = MRG_SIDE_REMOTE };
	struct transfer_revocation *r = malloc(sizeof(*r));
	struct mrg_request *next;

	if (!r || add_name(&ep->revoked, &ep->revoked_count, generation)) {
		free(r);
		return -ENOMEM;
	}
	r->generation = generation;
	r->next = NULL;
	for (struct mrg_request *q = ep->active; q; q = next) {
		next = q->next;
		if (transfer_request_uses(q, generation))
			transfer_request_fail(q, &stale);
	}
	r->next = ep->to_confirm;
	ep->to_confirm = r;
	transfer_revoke_confirm(ep);
	return 0;
}

int transfer_revoke_message(struct mrg_ep *ep, const struct transfer_message *message)
{
	int ret;

	/* What no buffer has as its name would be all that have none. */
	if (!message->generation)
		return -EPROTO;
	if (message->type == MESSAGE_REVOKE)
		return forget_buffer(ep, message->generation);
	ret = add_name(&ep->confirmed, &ep->confirmed_count, message->generation);
	transfer_ep_wake(ep);
	return ret;
}

static bool is_confirmed(struct mrg_ep *ep, void *arg)
{
	return (ep->state == EP_FAILED && transfer_lanes_quiet(ep)) ||
	       among(ep->confirmed, ep->confirmed_count, *(uint64_t *)arg);
}

int mrg_ep_revoke(struct mrg_ep *ep, uint64_t generation, int timeout_ms)
{
	const struct transfer_message message = { .type = MESSAGE_REVOKE,
						  .generation = generation };
	int ret = 0;

	if (!generation)
		return transfer_fail(ep->transfer, -EINVAL, "revoke",
				     "Give mrg_remote_make() a generation to revoke the buffer by.",
				     "generation 0 names no buffer");
	pthread_mutex_lock(&ep->lock);
	if (ep->state != EP_FAILED)
		ret = transfer_socket_send(ep, &message);
	if (!ret && transfer_ep_await(ep, is_confirmed, &generation, timeout_ms))
		ret = transfer_fail(ep->transfer, -ETIMEDOUT, "revoke",
				    "Close the endpoint: that stops the peer in any case.",
				    "the peer has not confirmed within %d ms", timeout_ms);
	else if (!ret && !among(ep->confirmed, ep->confirmed_count, generation))
		ret = transfer_fail_with(ep->transfer, &ep->error);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}
