/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/endpoint.h"
#include "transfer/note.h"

#define NOTES_MAX (64u << 20)

int mrg_ep_send(struct mrg_ep *ep, const void *bytes, size_t length)
{
	const struct transfer_message message = { .type = MESSAGE_NOTE, .note = { bytes, length } };
	int ret;

	if (!length || length > MRG_NOTE_MAX)
		return transfer_fail(ep->transfer, -EINVAL, "send note",
				     "Send 1 to 65536 bytes at a time.",
				     "The note has %zu bytes, and at most %d are possible.", length,
				     MRG_NOTE_MAX);
	pthread_mutex_lock(&ep->lock);
	if (ep->state == EP_FAILED)
		ret = transfer_fail_with(ep->transfer, &ep->error);
	else
		ret = transfer_socket_send(&ep->socket, &message);
	if (ret && ep->state != EP_FAILED)
		transfer_fail(ep->transfer, ret, "send note", "Let the peer collect its notes.",
			      "A note of %zu bytes was not sent: %s.", length, strerror(-ret));
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

static bool has_note(struct mrg_ep *ep, void *arg)
{
	(void)arg;
	return !STAILQ_EMPTY(&ep->notes.list) || ep->state == EP_FAILED;
}

static ssize_t take_note(struct mrg_ep *ep, void *bytes, size_t cap)
{
	struct transfer_note *note = STAILQ_FIRST(&ep->notes.list);
	ssize_t length;

	if (!note)
		return transfer_fail_with(ep->transfer, &ep->error);
	if (note->length > cap)
		return transfer_fail(ep->transfer, -EMSGSIZE, "receive note",
				     "Offer room for MRG_NOTE_MAX bytes.",
				     "The note has %zu bytes, and there is room for %zu.",
				     note->length, cap);
	STAILQ_REMOVE_HEAD(&ep->notes.list, next);
	ep->notes.bytes -= sizeof(*note) + note->length;
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

int transfer_note_message(struct mrg_ep *ep, const struct transfer_message_bytes *bytes)
{
	struct transfer_note *note;

	if (ep->notes.bytes > NOTES_MAX) {
		transfer_ep_fail(
			ep, -ENOBUFS, "receive note", "Collect notes as they come.",
			"%zu bytes of notes and their heads wait to be collected, and at most %u may.",
			ep->notes.bytes, NOTES_MAX);
		return 0;
	}
	note = malloc(sizeof(*note) + bytes->length);
	if (!note)
		return -ENOMEM;
	note->length = bytes->length;
	memcpy(note->bytes, bytes->bytes, bytes->length);
	STAILQ_INSERT_TAIL(&ep->notes.list, note, next);
	ep->notes.bytes += sizeof(*note) + note->length;
	transfer_ep_wake(ep);
	return 0;
}
