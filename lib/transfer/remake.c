/* SPDX-License-Identifier: MIT */
/*
 * Broken lanes: their work is kept, and they are made again.
 *
 * A slice of a broken lane is held back until neither queue pair of it exists:
 * the own one is destroyed after its completions were taken, and the peer has
 * destroyed its before it offers or answers with a new one.  Until then a packet
 * that is late in the network could still write, and a request that had been
 * repeated and reported would change after its end.
 */
#include <errno.h>
#include <string.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/lane.h"
#include "transfer/request.h"

#define TICK_MS 1
#define RETRY_MS 50 /* while the port is down */
#define BREAKS_MAX 3 /* times opts.tries: without a success between them */

/* Nothing of it can be carried out any more. */
static void settle(struct mrg_ep *ep, struct transfer_lane *lane)
{
	bool unsettled = ep->state == EP_FAILED && !ep->settled;

	while (lane->tail != lane->head) {
		struct transfer_slice slice = lane->ring[lane->tail++ & lane->mask];
		struct transfer_request *request = slice.request;

		if (unsettled && request->ops[slice.op].code == MRG_OP_WRITE)
			request->result.flags |= MRG_RESULT_UNSETTLED;
		transfer_request_repeat(ep, &slice);
	}
	lane->flushed = lane->tail;
}

/* False: the device keeps the queue pair, and may still write. */
static bool take_down(struct mrg_ep *ep, struct transfer_lane *lane)
{
	if (lane->qp && ep->ops->destroy_qp(lane->qp))
		return false;
	lane->qp = NULL;
	lane->state = LANE_DOWN;
	lane->due = transfer_now() + ep->transfer->opts.remake_ms * MS;
	transfer_request_drop_failed(ep, lane);
	return true;
}

/* ---- making it again ---- */

static int tell(struct mrg_ep *ep, struct transfer_lane *lane, enum transfer_message_type type)
{
	struct transfer_message message = {
		.type = type,
		.offer = { .port = ep->port,
			   .index = (uint32_t)(lane - ep->lanes),
			   .epoch = lane->epoch },
	};

	if (lane->qp)
		message.offer.lane =
			(struct transfer_message_lane){ lane->qp->qp_num, lane->local_psn };
	return transfer_socket_send(&ep->socket, &message);
}

static int make_again(struct mrg_ep *ep, struct transfer_lane *lane,
		      const struct transfer_message_port *peer)
{
	struct route_gid_peer gid = { .type = peer->gid_type };
	int theirs, ret;

	memcpy(gid.gid, peer->gid, sizeof(gid.gid));
	ret = transfer_port_find(ep, &gid, 1, &theirs);
	return ret ? ret : transfer_lane_make(ep, lane);
}

/* A port that is down may come back, and a GID or a route with it. */
static bool may_pass(int ret)
{
	static const int codes[] = {
		ENETDOWN, ENODEV, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT, ENODATA
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (ret == -codes[i])
			return true;
	return false;
}

static void not_made(struct mrg_ep *ep, int ret, uint64_t now)
{
	if (may_pass(ret)) {
		transfer_ep_look(ep, now + RETRY_MS * MS);
		return;
	}
	transfer_ep_fail(ep, ret, "re-make lane", "Look at the device.",
			 "A queue pair cannot be made again: %s.", strerror(-ret));
}

static void offer(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	int ret;

	if (lane->breaks > BREAKS_MAX * ep->transfer->opts.tries) {
		transfer_ep_fail(ep, -EHOSTUNREACH, "re-make lane",
				 "Check both ports, their GIDs and the network between them.",
				 "Lane %u of the endpoint broke %u times without moving a byte.",
				 (uint32_t)(lane - ep->lanes), lane->breaks);
		return;
	}
	ret = make_again(ep, lane, &ep->peer_port);
	/* The peer's GID may be gone; its answer has the present one. */
	if (ret == -ENETUNREACH || ret == -ENODATA) {
		ret = transfer_port_same(ep);
		if (!ret)
			ret = transfer_lane_make(ep, lane);
	}
	if (ret) {
		not_made(ep, ret, now);
		return;
	}
	lane->epoch++;
	lane->state = LANE_OFFERED;
	tell(ep, lane, MESSAGE_OFFER);
}

static void answer(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	int ret = make_again(ep, lane, &lane->offer.port);

	if (!ret) {
		ep->peer_port = lane->offer.port;
		ret = transfer_lane_connect(ep, lane, &lane->offer.port, &lane->offer.lane);
	}
	if (ret) {
		transfer_lane_destroy(ep, lane);
		not_made(ep, ret, now);
		return;
	}
	lane->epoch = lane->offer.epoch;
	lane->offered = false;
	lane->state = LANE_ANSWERED;
	tell(ep, lane, MESSAGE_ANSWER);
}

static void up(struct mrg_ep *ep, struct transfer_lane *lane)
{
	lane->state = LANE_UP;
	ep->stats.remade++;
	settle(ep, lane);
	transfer_post_all(ep);
	transfer_ep_wake(ep);
}

static void next_step(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	if (ep->state != EP_OPEN) {
		settle(ep, lane);
		lane->state = LANE_NONE;
		transfer_ep_wake(ep);
	} else if (ep->dialed) {
		offer(ep, lane, now);
	} else if (lane->offered) {
		answer(ep, lane, now);
	} else if (!lane->reported) {
		lane->reported = true;
		tell(ep, lane, MESSAGE_BROKEN);
	}
}

static void end_drain(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	transfer_ep_drain(ep);
	if (lane->tail != lane->head && lane->flushed != lane->head && now < lane->due) {
		transfer_ep_look(ep, now + TICK_MS * MS);
		return;
	}
	if (!take_down(ep, lane)) {
		transfer_ep_look(ep, now + RETRY_MS * MS);
		return;
	}
	next_step(ep, lane, now);
	transfer_ep_look(ep, lane->due);
}

static void wait_for_peer(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	if (ep->state == EP_OPEN && now >= lane->due) {
		transfer_ep_fail(ep, -ETIMEDOUT, "re-make lane",
				 "Check the peer's process and the network.",
				 "The peer did not re-make lane %u within %u ms.",
				 (uint32_t)(lane - ep->lanes), ep->transfer->opts.remake_ms);
		return;
	}
	transfer_ep_look(ep, lane->due);
}

void transfer_remake_tick(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	switch (lane->state) {
	case LANE_NONE:
	case LANE_UP:
		return;
	case LANE_DRAINING:
		end_drain(ep, lane, now);
		return;
	case LANE_DOWN:
		next_step(ep, lane, now);
		break;
	case LANE_OFFERED:
	case LANE_ANSWERED:
		if (ep->state != EP_OPEN && take_down(ep, lane))
			next_step(ep, lane, now);
		break;
	}
	if (lane->state != LANE_NONE && lane->state != LANE_UP)
		wait_for_peer(ep, lane, now);
}

/* ---- what the peer says about lanes ---- */

static int on_offer(struct mrg_ep *ep, struct transfer_lane *lane,
		    const struct transfer_message_offer *offer_in)
{
	if (ep->dialed || (int32_t)(offer_in->epoch - lane->epoch) <= 0)
		return -EPROTO;
	lane->offer = *offer_in;
	lane->offered = true;
	transfer_lane_break(ep, lane);
	if (lane->state == LANE_ANSWERED)
		take_down(ep, lane);
	transfer_ep_look(ep, transfer_now());
	return 0;
}

/* The kernel looks for the route when a queue pair is connected: a route that is
 * missing now may be there soon.  lane->due stays, and bounds this. */
static int offer_later(struct mrg_ep *ep, struct transfer_lane *lane, int ret)
{
	if (!may_pass(ret) || ep->ops->destroy_qp(lane->qp))
		return ret;
	lane->qp = NULL;
	lane->state = LANE_DOWN;
	transfer_ep_look(ep, transfer_now() + RETRY_MS * MS);
	return 0;
}

static int on_answer(struct mrg_ep *ep, struct transfer_lane *lane,
		     const struct transfer_message_offer *answer_in)
{
	int ret;

	if (lane->state != LANE_OFFERED || answer_in->epoch != lane->epoch)
		return ep->dialed ? 0 : -EPROTO;
	ret = transfer_lane_connect(ep, lane, &answer_in->port, &answer_in->lane);
	if (ret)
		return offer_later(ep, lane, ret);
	ep->peer_port = answer_in->port;
	tell(ep, lane, MESSAGE_RESUME);
	up(ep, lane);
	return 0;
}

int transfer_remake_message(struct mrg_ep *ep, const struct transfer_message *message)
{
	const struct transfer_message_offer *step = &message->offer;
	struct transfer_lane *lane = &ep->lanes[step->index];

	if (step->index >= ep->lane_count)
		return -EPROTO;
	switch (message->type) {
	case MESSAGE_OFFER:
		return on_offer(ep, lane, step);
	case MESSAGE_ANSWER:
		return on_answer(ep, lane, step);
	case MESSAGE_BROKEN:
		if (ep->dialed && step->epoch == lane->epoch)
			transfer_lane_break(ep, lane);
		return 0;
	default:
		if (lane->state == LANE_ANSWERED && step->epoch == lane->epoch)
			up(ep, lane);
		return 0;
	}
}
