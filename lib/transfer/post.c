/* SPDX-License-Identifier: MIT */
/*
 * From queued requests to work requests.  A chain goes to one lane in one call;
 * only its last work request, and the last of a request with many bytes since,
 * ask for a completion: a queue pair completes in order.
 */
#include <errno.h>

#include "transfer/endpoint.h"

#define CHAIN 32
#define CHAIN_SGES 128
#define SIGNAL_BYTES 32768 /* more than so many do not wait for others */
/* Where there are several lanes, a large transfer is to use them all. */
#define CHAIN_SLICES 2

/* Work requests that are made, and where their slices come from. */
struct chain {
	struct ibv_send_wr wr[CHAIN];
	struct ibv_sge sge[CHAIN_SGES];
	uint32_t count, sges;
	uint64_t bytes, unsignalled;
};

static struct transfer_lane *lane_with_room(struct mrg_ep *ep, uint32_t *room)
{
	struct transfer_lane *best = NULL;

	*room = 0;
	for (uint32_t i = 0; i < ep->lane_count; i++) {
		struct transfer_lane *lane = &ep->lanes[(ep->next_lane + i) % ep->lane_count];
		uint32_t free;

		if (lane->state != LANE_UP)
			continue;
		free = lane->depth - (lane->head - lane->tail);
		if (free > *room) {
			*room = free;
			best = lane;
		}
	}
	ep->next_lane = ep->lane_count > 1 ? (ep->next_lane + 1) % ep->lane_count : 0;
	return best;
}

static uint64_t wr_id(const struct mrg_ep *ep, const struct transfer_lane *lane)
{
	return (uint64_t)(lane - ep->lanes) << 56 | (uint64_t)(lane->epoch & 0xffffff) << 32 |
	       lane->head;
}

static void add_wr(struct mrg_ep *ep, struct transfer_lane *lane, struct chain *chain,
		   const struct transfer_slice *slice, const struct transfer_cut *cut)
{
	const struct transfer_op *op = &slice->request->ops[slice->op];
	struct ibv_send_wr *wr = &chain->wr[chain->count];

	wr->wr_id = wr_id(ep, lane);
	wr->next = NULL;
	wr->sg_list = cut->sge;
	wr->num_sge = (int)cut->sges;
	wr->opcode = op->code == MRG_OP_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr->send_flags = 0;
	if (op->code == MRG_OP_WRITE && cut->length <= ep->inline_bytes)
		wr->send_flags = IBV_SEND_INLINE;
	wr->wr.rdma.remote_addr = cut->wire;
	wr->wr.rdma.rkey = cut->rkey;
	if (chain->count)
		chain->wr[chain->count - 1].next = wr;
	lane->ring[lane->head++ & lane->mask] = *slice;
	slice->request->in_flight++;
	chain->count++;
	chain->sges += cut->sges;
	chain->bytes += cut->length;
	chain->unsignalled += cut->length;
}

/* One that failed on its way: cut as it was. */
static bool next_repeated(struct mrg_ep *ep, struct transfer_slice *slice, struct transfer_cut *cut)
{
	const struct transfer_op *op;
	struct transfer_cursor at;

	if (!transfer_slice_queue_pop(&ep->repeat, slice))
		return false;
	slice->request->waiting--;
	op = &slice->request->ops[slice->op];
	transfer_slice_seek(op, slice->offset, &at);
	transfer_slice_cut(op, &at, slice->length, ep->transfer->limits.sges, cut);
	ep->stats.repeated++;
	slice->request->result.repeated++;
	return true;
}

static bool next_slice(struct mrg_ep *ep, struct transfer_slice *slice, struct transfer_cut *cut,
		       bool *last)
{
	struct transfer_request *request = STAILQ_FIRST(&ep->queue);
	const struct transfer_op *op;

	*last = false;
	if (ep->repeat.count)
		return next_repeated(ep, slice, cut);
	if (!request)
		return false;
	op = &request->ops[request->cursor.op];
	*slice = (struct transfer_slice){ .request = request,
					  .op = request->cursor.op,
					  .offset = request->cursor.in_op };
	transfer_slice_cut(op, &request->cursor, ep->transfer->limits.slice,
			   ep->transfer->limits.sges, cut);
	slice->length = cut->length;
	if (request->cursor.in_op < op->length)
		return true;
	request->cursor = (struct transfer_cursor){ .op = request->cursor.op + 1 };
	*last = request->cursor.op == request->op_count;
	if (*last) {
		STAILQ_REMOVE_HEAD(&ep->queue, in_queue);
		request->queued = false;
	}
	return true;
}

static bool chain_full(const struct mrg_ep *ep, const struct chain *chain, uint32_t room)
{
	const struct transfer_limits *limits = &ep->transfer->limits;

	return chain->count == room || chain->count == CHAIN ||
	       chain->sges + limits->sges > CHAIN_SGES ||
	       (ep->lane_count > 1 && chain->bytes >= CHAIN_SLICES * limits->slice);
}

static void make_chain(struct mrg_ep *ep, struct transfer_lane *lane, uint32_t room,
		       struct chain *chain)
{
	chain->count = chain->sges = 0;
	chain->bytes = chain->unsignalled = 0;
	while (!chain_full(ep, chain, room)) {
		struct transfer_cut cut = { .sge = &chain->sge[chain->sges] };
		struct transfer_slice slice;
		bool last;

		if (!next_slice(ep, &slice, &cut, &last))
			break;
		add_wr(ep, lane, chain, &slice, &cut);
		if (!last || chain->unsignalled < SIGNAL_BYTES)
			continue;
		chain->wr[chain->count - 1].send_flags |= IBV_SEND_SIGNALED;
		chain->unsignalled = 0;
	}
	if (chain->count)
		chain->wr[chain->count - 1].send_flags |= IBV_SEND_SIGNALED;
}

static void post_failed(const struct transfer_slice *slice, int err)
{
	struct mrg_result cause = {
		.status = -EIO,
		.side = MRG_SIDE_DEVICE,
		.op = slice->op,
		.length = slice->length,
		.vendor = (uint32_t)err,
	};

	transfer_request_fail(slice->request, &cause);
}

/*
 * The provider had less room than it promised: take fewer from now on.  Any
 * other refusal is the work request's own, or the queue pair's.
 */
static void refused(struct mrg_ep *ep, struct transfer_lane *lane, struct chain *chain,
		    const struct ibv_send_wr *bad, int err)
{
	uint32_t posted = (uint32_t)(bad - chain->wr);
	uint32_t count = chain->count - posted;
	struct transfer_slice first = lane->ring[(lane->head - count) & lane->mask];

	ep->stats.slices -= count;
	lane->head -= count;
	for (uint32_t i = 0; i < count; i++)
		transfer_request_repeat(ep, &lane->ring[(lane->head + i) & lane->mask]);
	if (err == ENOMEM && lane->head != lane->tail) {
		lane->depth = lane->head - lane->tail;
		/* The last slice that was posted may not ask for a completion. */
		if (posted && !(chain->wr[posted - 1].send_flags & IBV_SEND_SIGNALED))
			transfer_lane_break(ep, lane);
		return;
	}
	post_failed(&first, err);
	transfer_lane_break(ep, lane);
}

static bool post_chain(struct mrg_ep *ep, struct transfer_lane *lane, uint32_t room)
{
	struct ibv_send_wr *bad = NULL;
	struct chain chain;
	int err;

	make_chain(ep, lane, room, &chain);
	if (!chain.count)
		return false;
	ep->stats.slices += chain.count;
	err = ep->ops->post_send(lane->qp, chain.wr, &bad);
	if (!err)
		return true;
	refused(ep, lane, &chain, bad ? bad : chain.wr, err);
	return false;
}

void transfer_post_all(struct mrg_ep *ep)
{
	struct transfer_lane *lane;
	uint32_t room;

	while (ep->repeat.count || !STAILQ_EMPTY(&ep->queue)) {
		lane = lane_with_room(ep, &room);
		if (!lane || !post_chain(ep, lane, room))
			return;
	}
}
