/* SPDX-License-Identifier: MIT */
/*
 * Completions.  A queue pair completes in order, so a completion speaks for all
 * work requests before it that asked for none.
 */
#include <errno.h>
#include <unistd.h>

#include "transfer/request.h"
#include "transfer/endpoint.h"

#define POLL 32

static struct transfer_lane *lane_of(struct mrg_ep *ep, uint64_t wr_id)
{
	uint32_t index = (uint32_t)(wr_id >> 56);
	struct transfer_lane *lane = &ep->lanes[index];

	/* Some devices leave completions of a destroyed queue pair in the CQ. */
	if (index >= ep->lane_count || !lane->qp ||
	    (lane->epoch & 0xffffff) != (wr_id >> 32 & 0xffffff))
		return NULL;
	return lane;
}

/* All up to but not including @end were carried out. */
static void confirm_until(struct transfer_lane *lane, uint32_t end)
{
	while (lane->tail != end) {
		struct transfer_slice *slice = &lane->ring[lane->tail++ & lane->mask];

		transfer_request_confirm(slice->request, slice->length);
	}
}

/* Which range a completion is about: the first of its side. */
static void locate(const struct transfer_slice *slice, struct mrg_result *cause)
{
	const struct transfer_op *op = &slice->request->ops[slice->op];
	struct ibv_sge sge[1];
	struct transfer_cut cut = { .sge = sge };
	struct transfer_cursor at;

	transfer_slice_seek(op, slice->offset, &at);
	transfer_slice_cut(op, &at, slice->length, 1, &cut);
	cause->op = slice->op;
	cause->length = slice->length;
	if (cause->side == MRG_SIDE_LOCAL) {
		cause->addr = sge[0].addr;
		cause->key = sge[0].lkey;
	} else {
		cause->addr = cut.wire;
		cause->key = cut.rkey;
	}
}

/* The first error of a lane names its culprit, if it is not a flush. */
static void blame(struct mrg_ep *ep, struct transfer_lane *lane, uint32_t index,
		  const struct ibv_wc *wc)
{
	struct transfer_slice *slice = &lane->ring[index & lane->mask];
	struct mrg_result cause = { 0 };
	bool repeat = transfer_cause_of(wc, &cause);

	lane->breaks++;
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (repeat && ++slice->tries < ep->transfer->opts.tries)
		return;
	locate(slice, &cause);
	transfer_request_fail(slice->request, &cause);
}

static void complete(struct mrg_ep *ep, const struct ibv_wc *wc)
{
	struct transfer_lane *lane = lane_of(ep, wc->wr_id);
	uint32_t index = (uint32_t)wc->wr_id;

	/* The device may report a slice that is not posted any more. */
	if (!lane || lane->head - index - 1 >= lane->head - lane->tail)
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		lane->breaks = 0;
		confirm_until(lane, index + 1);
		lane->flushed = lane->tail;
		return;
	}
	/*
	 * Slices before a culprit were carried out.  Before a flush they may
	 * not have been, if the device loses completions.
	 */
	if (lane->flushed == lane->tail && wc->status != IBV_WC_WR_FLUSH_ERR)
		confirm_until(lane, index);
	if (lane->state == LANE_UP) {
		blame(ep, lane, index, wc);
		transfer_lane_break(ep, lane);
	}
	lane->flushed = index + 1;
}

void transfer_ep_drain(struct mrg_ep *ep)
{
	struct ibv_wc wc[POLL];
	int n;

	do {
		n = ep->ops->poll_cq(ep->cq, POLL, wc);
		for (int i = 0; i < n; i++)
			complete(ep, &wc[i]);
	} while (n == POLL);
	if (n < 0 && ep->state != EP_FAILED)
		transfer_ep_fail(ep, -EIO, "poll", "Check the device and its log.",
				 "The completion queue cannot be polled.");
}

/*
 * Takes what made the descriptor readable.  The event is a sleeper's to take: it
 * looks at the descriptor once more before it wakes.
 */
static void disarm(struct mrg_ep *ep)
{
	uint64_t count;

	ep->ops->clear_channel(ep->channel, ep->cq);
	if (ep->sleeper) {
		ep->ops->notify_cq(ep->cq);
		return;
	}
	if (read(ep->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	ep->armed = false;
}

void transfer_ep_progress(struct mrg_ep *ep)
{
	if (!ep->cq)
		return;
	if (ep->armed)
		disarm(ep);
	transfer_ep_drain(ep);
	if (!STAILQ_EMPTY(&ep->queue) || ep->repeat.count)
		transfer_post_all(ep);
}
