/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/lane.h"

#define DRAIN_MS 100 /* for completions, before the queue pair goes without */
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

	/* No attribute holds how much a device takes inline. */
	if (!qp && ep->inline_bytes) {
		ep->inline_bytes = init.cap.max_inline_data = 0;
		qp = ep->ops->create_qp(ep->transfer->pd, &init);
	}
	return qp;
}

int transfer_lane_make(struct mrg_ep *ep, struct transfer_lane *lane)
{
	int err;

	lane->qp = new_qp(ep);
	if (!lane->qp)
		return -(errno ? errno : ENOMEM);
	err = to_init(ep, lane->qp);
	if (err) {
		transfer_lane_destroy(ep, lane);
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
		.retry_cnt = (uint8_t)(opts->packet_tries - 1),
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = (uint8_t)(peer->reads < reads ? peer->reads : reads),
	};

	return ep->ops->modify_qp(lane->qp, &attr,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					  IBV_QP_MAX_QP_RD_ATOMIC);
}

int transfer_lane_connect(struct mrg_ep *ep, struct transfer_lane *lane,
			  const struct transfer_message_port *peer,
			  const struct transfer_message_lane *other)
{
	int err = to_rtr(ep, lane, peer, other);

	if (!err)
		err = to_rts(ep, lane, peer);
	return -err;
}

void transfer_lane_break(struct mrg_ep *ep, struct transfer_lane *lane)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t now;

	if (lane->state != LANE_UP)
		return;
	now = transfer_now();
	lane->state = LANE_DRAINING;
	lane->flushed = lane->tail;
	lane->reported = false;
	lane->due = now + DRAIN_MS * MS;
	/* If it fails, destroying the queue pair still ends its work. */
	ep->ops->modify_qp(lane->qp, &attr, IBV_QP_STATE);
	transfer_ep_look(ep, now);
}

void transfer_lane_destroy(struct mrg_ep *ep, struct transfer_lane *lane)
{
	if (lane->qp)
		ep->ops->destroy_qp(lane->qp);
	lane->qp = NULL;
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
			ret = transfer_lane_make(ep, lane);
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
		ret = transfer_lane_connect(ep, &ep->lanes[i], &hello->port, &hello->lane[i]);
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

void transfer_lanes_destroy(struct mrg_ep *ep)
{
	for (uint32_t i = 0; i < LANES_MAX; i++) {
		transfer_lane_destroy(ep, &ep->lanes[i]);
		ep->lanes[i].state = LANE_NONE;
	}
}
