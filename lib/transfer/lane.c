/* SPDX-License-Identifier: MIT */
/*
 * Lanes: queue pairs, and what becomes of their work when they break.
 *
 * A slice of a broken lane is held back until neither queue pair of it exists:
 * the own one is destroyed after its completions were taken, and the peer has
 * destroyed its before it offers or answers with a new one.  Until then a packet
 * that is late in the network could still write, and a request that had been
 * repeated and reported would change under its owner's hands.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "transfer/transfer.h"

#define DRAIN_MS 100 /* for completions, before the queue pair goes without */
#define TICK_MS 1
#define RETRY_MS 50 /* while the port is down */
#define BARREN 3 /* times opts.repeats */
#define MIN_RNR_TIMER 12
#define RNR_RETRY 7
#define HOP_LIMIT 64

static uint32_t random_psn(void)
{
	uint32_t psn = 0;

	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		psn = (uint32_t)transfer_now();
	return psn & 0xffffff;
}

static int to_init(struct mrg_ep *ep, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)ep->transfer->opts.port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
	};

	return ep->ops->modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_qp *new_qp(struct mrg_ep *ep)
{
	const struct transfer_limits *limits = &ep->transfer->limits;
	struct ibv_qp_init_attr init = {
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = limits->depth,
			 .max_recv_wr = 1,
			 .max_send_sge = limits->sges,
			 .max_recv_sge = 1,
			 .max_inline_data = ep->inline_bytes },
	};
	struct ibv_qp *qp = ep->ops->create_qp(ep->transfer->pd, &init);

	/* No attribute tells how much a device takes inline. */
	if (!qp && ep->inline_bytes) {
		ep->inline_bytes = init.cap.max_inline_data = 0;
		qp = ep->ops->create_qp(ep->transfer->pd, &init);
	}
	return qp;
}

/* A queue pair in INIT for @lane. */
static int make_qp(struct mrg_ep *ep, struct transfer_lane *lane)
{
	int err;

	lane->qp = new_qp(ep);
	if (!lane->qp)
		return -(errno ? errno : ENOMEM);
	err = to_init(ep, lane->qp);
	if (err) {
		ep->ops->destroy_qp(lane->qp);
		lane->qp = NULL;
		return -err;
	}
	lane->local_psn = random_psn();
	return 0;
}

static void set_path(struct mrg_ep *ep, const struct transfer_message_port *peer,
		     struct ibv_ah_attr *ah)
{
	const struct mrg_transfer_opts *opts = &ep->transfer->opts;

	ah->dlid = (uint16_t)peer->lid;
	ah->sl = (uint8_t)opts->service_level;
	ah->port_num = (uint8_t)opts->port;
	if (!ep->port.ethernet)
		return;
	ah->is_global = 1;
	memcpy(&ah->grh.dgid, peer->gid, sizeof(ah->grh.dgid));
	ah->grh.sgid_index = (uint8_t)ep->gid.index;
	ah->grh.hop_limit = HOP_LIMIT;
	ah->grh.traffic_class = (uint8_t)opts->traffic_class;
}

static int to_rtr(struct mrg_ep *ep, struct transfer_lane *lane,
		  const struct transfer_message_port *peer,
		  const struct transfer_message_lane *other)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = other->qpn,
		.rq_psn = other->psn,
		.min_rnr_timer = MIN_RNR_TIMER,
		.path_mtu = (enum ibv_mtu)(peer->mtu < ep->port.mtu ? peer->mtu : ep->port.mtu),
		.max_dest_rd_atomic = (uint8_t)ep->transfer->limits.reads_in,
	};

	set_path(ep, peer, &attr.ah_attr);
	return ep->ops->modify_qp(lane->qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct mrg_ep *ep, struct transfer_lane *lane,
		  const struct transfer_message_port *peer)
{
	const struct mrg_transfer_opts *opts = &ep->transfer->opts;
	uint32_t reads = ep->transfer->limits.reads_out;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = lane->local_psn,
		.timeout = (uint8_t)opts->timeout,
		.retry_cnt = (uint8_t)(opts->retry_count - 1),
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = (uint8_t)(peer->reads < reads ? peer->reads : reads),
	};

	return ep->ops->modify_qp(lane->qp, &attr,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					  IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_lane(struct mrg_ep *ep, struct transfer_lane *lane,
			const struct transfer_message_port *peer,
			const struct transfer_message_lane *other)
{
	int err = to_rtr(ep, lane, peer, other);

	if (!err)
		err = to_rts(ep, lane, peer);
	return -err;
}

/* ---- all of an endpoint ---- */

static int alloc_ring(struct mrg_ep *ep, struct transfer_lane *lane)
{
	uint32_t room = 1;

	while (room < ep->transfer->limits.depth)
		room *= 2;
	lane->ring = calloc(room, sizeof(*lane->ring));
	lane->mask = room - 1;
	lane->depth = ep->transfer->limits.depth;
	return lane->ring ? 0 : -ENOMEM;
}

int transfer_lanes_create(struct mrg_ep *ep, uint32_t count, struct transfer_message_hello *hello)
{
	int ret = 0;

	for (ep->lane_count = 0; ep->lane_count < count; ep->lane_count++) {
		struct transfer_lane *lane = &ep->lanes[ep->lane_count];

		ret = alloc_ring(ep, lane);
		if (!ret)
			ret = make_qp(ep, lane);
		if (ret)
			break;
		hello->lane[ep->lane_count].qpn = lane->qp->qp_num;
		hello->lane[ep->lane_count].psn = lane->local_psn;
	}
	hello->lanes = ep->lane_count;
	return ret;
}

int transfer_lanes_connect(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	int ret;

	for (uint32_t i = 0; i < ep->lane_count; i++) {
		ret = connect_lane(ep, &ep->lanes[i], &hello->port, &hello->lane[i]);
		if (ret)
			return ret;
		ep->lanes[i].state = LANE_UP;
	}
	return 0;
}

bool transfer_lanes_quiet(const struct mrg_ep *ep)
{
	for (uint32_t i = 0; i < LANES_MAX; i++)
		if (ep->lanes[i].qp || ep->lanes[i].state != LANE_NONE)
			return false;
	return true;
}

/* Nothing is posted any more, or nobody waits for it. */
void transfer_lanes_destroy(struct mrg_ep *ep)
{
	for (uint32_t i = 0; i < LANES_MAX; i++) {
		struct transfer_lane *lane = &ep->lanes[i];

		if (lane->qp)
			ep->ops->destroy_qp(lane->qp);
		lane->qp = NULL;
		lane->state = LANE_NONE;
	}
}

/* ---- breaking ---- */

void transfer_lane_break(struct mrg_ep *ep, struct transfer_lane *lane)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t now;

	if (lane->state != LANE_UP)
		return;
	now = transfer_now();
	lane->state = LANE_DRAINING;
	lane->flushed = lane->tail;
	lane->told = false;
	lane->due = now + DRAIN_MS * MS;
	/* If it fails, destroying the queue pair still ends its work. */
	ep->ops->modify_qp(lane->qp, &attr, IBV_QP_STATE);
	transfer_control_look(ep, now);
}

/* A READ writes on this side alone, and this side's queue pair is gone. */
void transfer_lane_drop_failed(struct mrg_ep *ep, struct transfer_lane *lane)
{
	uint32_t keep = lane->tail, end = lane->head;

	for (uint32_t i = lane->tail; i != end; i++) {
		struct transfer_slice slice = lane->ring[i & lane->mask];
		const struct mrg_request *request = slice.request;

		if (request->result.status && request->ops[slice.op].code == MRG_OP_READ) {
			transfer_request_repeat(ep, &slice);
			continue;
		}
		lane->ring[keep++ & lane->mask] = slice;
	}
	lane->head = keep;
}

/* Nothing of it can be carried out any more. */
static void settle(struct mrg_ep *ep, struct transfer_lane *lane)
{
	bool unsettled = ep->state == EP_FAILED && !ep->settled;

	while (lane->tail != lane->head) {
		struct transfer_slice slice = lane->ring[lane->tail++ & lane->mask];
		struct mrg_request *request = slice.request;

		if (unsettled && request->ops[slice.op].code == MRG_OP_WRITE)
			request->result.flags |= MRG_RESULT_UNSETTLED;
		transfer_request_repeat(ep, &slice);
	}
	lane->flushed = lane->tail;
}

static bool drained(const struct transfer_lane *lane)
{
	return lane->tail == lane->head || lane->flushed == lane->head;
}

/* False: the device keeps the queue pair, and may still write. */
static bool take_down(struct mrg_ep *ep, struct transfer_lane *lane)
{
	if (lane->qp && ep->ops->destroy_qp(lane->qp))
		return false;
	lane->qp = NULL;
	lane->state = LANE_DOWN;
	lane->due = transfer_now() + ep->transfer->opts.remake_ms * MS;
	transfer_lane_drop_failed(ep, lane);
	return true;
}

/* ---- making it again ---- */

static struct transfer_message_offer step_of(struct mrg_ep *ep, const struct transfer_lane *lane)
{
	return (struct transfer_message_offer){ .index = (uint32_t)(lane - ep->lanes),
						.epoch = lane->epoch };
}

static int tell(struct mrg_ep *ep, struct transfer_lane *lane, enum transfer_message_type type)
{
	struct transfer_message message = { .type = type };

	message.offer = step_of(ep, lane);
	message.offer.port = ep->port;
	if (lane->qp)
		message.offer.lane =
			(struct transfer_message_lane){ lane->qp->qp_num, lane->local_psn };
	return transfer_socket_send(ep, &message);
}

static int make_again(struct mrg_ep *ep, struct transfer_lane *lane,
		      const struct transfer_message_port *peer)
{
	struct transfer_message_gid gid = { .type = peer->gid_type };
	int theirs, ret;

	memcpy(gid.gid, peer->gid, sizeof(gid.gid));
	ret = transfer_handshake_port(ep, &gid, 1, &theirs);
	return ret ? ret : make_qp(ep, lane);
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
		transfer_control_look(ep, now + RETRY_MS * MS);
		return;
	}
	transfer_ep_fail(ep, ret, "re-make lane", "Look at the device.",
			 "a queue pair cannot be made again: %s", strerror(-ret));
}

static void offer(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	int ret;

	if (lane->barren > BARREN * ep->transfer->opts.repeats) {
		transfer_ep_fail(ep, -EHOSTUNREACH, "re-make lane",
				 "Check both ports, their GIDs and the network between them.",
				 "lane %u of the endpoint broke %u times without moving a byte",
				 (uint32_t)(lane - ep->lanes), lane->barren);
		return;
	}
	ret = make_again(ep, lane, &ep->peer_port);
	/* The peer's GID may be gone; its answer tells the one that it has now. */
	if (ret == -ENETUNREACH || ret == -ENODATA) {
		ret = transfer_handshake_same_port(ep);
		if (!ret)
			ret = make_qp(ep, lane);
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
		ret = connect_lane(ep, lane, &lane->offer.port, &lane->offer.lane);
	}
	if (ret && lane->qp) {
		ep->ops->destroy_qp(lane->qp);
		lane->qp = NULL;
	}
	if (ret) {
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
	} else if (!lane->told) {
		lane->told = true;
		tell(ep, lane, MESSAGE_BROKEN);
	}
}

static void end_drain(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	transfer_ep_drain(ep);
	if (!drained(lane) && now < lane->due) {
		transfer_control_look(ep, now + TICK_MS * MS);
		return;
	}
	if (!take_down(ep, lane)) {
		transfer_control_look(ep, now + RETRY_MS * MS);
		return;
	}
	next_step(ep, lane, now);
	transfer_control_look(ep, lane->due);
}

static void wait_for_peer(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
{
	if (ep->state == EP_OPEN && now >= lane->due) {
		transfer_ep_fail(ep, -ETIMEDOUT, "re-make lane",
				 "Check that the peer's process runs, and the network.",
				 "the peer did not re-make lane %u within %u ms",
				 (uint32_t)(lane - ep->lanes), ep->transfer->opts.remake_ms);
		return;
	}
	transfer_control_look(ep, lane->due);
}

void transfer_lane_tick(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now)
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
	transfer_control_look(ep, transfer_now());
	return 0;
}

/* The kernel looks for the way when a queue pair is connected: none now may be
 * one soon.  lane->due stays, and bounds this. */
static int offer_later(struct mrg_ep *ep, struct transfer_lane *lane, int ret)
{
	if (!may_pass(ret) || ep->ops->destroy_qp(lane->qp))
		return ret;
	lane->qp = NULL;
	lane->state = LANE_DOWN;
	transfer_control_look(ep, transfer_now() + RETRY_MS * MS);
	return 0;
}

static int on_answer(struct mrg_ep *ep, struct transfer_lane *lane,
		     const struct transfer_message_offer *answer_in)
{
	int ret;

	if (lane->state != LANE_OFFERED || answer_in->epoch != lane->epoch)
		return ep->dialed ? 0 : -EPROTO;
	ret = connect_lane(ep, lane, &answer_in->port, &answer_in->lane);
	if (ret)
		return offer_later(ep, lane, ret);
	ep->peer_port = answer_in->port;
	tell(ep, lane, MESSAGE_RESUME);
	up(ep, lane);
	return 0;
}

int transfer_lane_message(struct mrg_ep *ep, const struct transfer_message *message)
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
