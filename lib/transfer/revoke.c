/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "transfer/endpoint.h"
#include "transfer/request.h"
#include "transfer/revoked.h"

static int forget_buffer(struct mrg_ep *ep, uint64_t generation)
{
	const struct mrg_result stale = { .status = -ESTALE, .side = MRG_SIDE_REMOTE };
	struct transfer_request *next;
	int ret = transfer_revoked_add(&ep->revoked, generation);

	if (ret)
		return ret;
	for (struct transfer_request *r = TAILQ_FIRST(&ep->active); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (transfer_revoked_uses(r, generation))
			transfer_request_fail(r, &stale);
	}
	transfer_revoked_confirm(ep);
	return 0;
}

int transfer_revoke_message(struct mrg_ep *ep, const struct transfer_message *message)
{
	int ret;

	/* Generation 0 means "no name"; accepting it would revoke every unnamed buffer. */
	if (!message->generation)
		return -EPROTO;
	if (message->type == MESSAGE_REVOKE)
		return forget_buffer(ep, message->generation);
	ret = transfer_generations_add(&ep->revoked.confirmed, message->generation);
	transfer_ep_wake(ep);
	return ret;
}

static bool is_confirmed(struct mrg_ep *ep, void *arg)
{
	return (ep->state == EP_FAILED && transfer_lanes_quiet(ep)) ||
	       transfer_generations_have(&ep->revoked.confirmed, *(uint64_t *)arg);
}

int mrg_ep_revoke(struct mrg_ep *ep, uint64_t generation, int timeout_ms)
{
	const struct transfer_message message = { .type = MESSAGE_REVOKE,
						  .generation = generation };
	int ret = 0;

	if (!generation)
		return transfer_fail(ep->transfer, -EINVAL, "revoke",
				     "Give mrg_remote_make() a generation to revoke the buffer by.",
				     "The generation is 0, which names no buffer.");
	pthread_mutex_lock(&ep->lock);
	if (ep->state != EP_FAILED && !(ep->peer_abilities & MESSAGE_ABLE_REVOKE))
		ret = -EOPNOTSUPP;
	else if (ep->state != EP_FAILED)
		ret = transfer_socket_send(&ep->socket, &message);
	if (ret)
		ret = transfer_fail(ep->transfer, ret, "revoke", "Close the endpoint.",
				    "The request to revoke generation %llu was not sent: %s.",
				    (unsigned long long)generation, strerror(-ret));
	else if (transfer_ep_await(ep, is_confirmed, &generation, timeout_ms))
		ret = transfer_fail(ep->transfer, -ETIMEDOUT, "revoke",
				    "Close the endpoint: that stops the peer in any case.",
				    "The peer did not confirm within %d ms.", timeout_ms);
	else if (!transfer_generations_have(&ep->revoked.confirmed, generation))
		ret = transfer_fail_with(ep->transfer, &ep->error);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}
