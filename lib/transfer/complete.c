/* SPDX-License-Identifier: MIT */
/*
 * Completions.  A queue pair completes in order, so a completion speaks for all
 * work requests before it that asked for none.
 */
#include <errno.h>
#include <unistd.h>

#include "transfer/transfer.h"

#define POLL	32

static struct lane *lane_of(struct mrg_ep *ep, uint64_t wr_id)
{
	uint32_t index = (uint32_t)(wr_id >> 56);
	struct lane *lane = &ep->lanes[index];

	/* Of a queue pair that is gone: some devices leave them in the CQ. */
	if (index >= ep->lane_count || !lane->qp ||
	    (lane->epoch & 0xffffff) != (wr_id >> 32 & 0xffffff))
		return NULL;
	return lane;
}

/* All up to but not including @end were carried out. */
static void confirm_until(struct lane *lane, uint32_t end)
{
	while (lane->tail != end) {
		struct slice *slice = &lane->ring[lane->tail++ & lane->mask];

		request_confirm(slice->request, slice->length);
	}
}

/* Which range a completion is about: the first of its side. */
static void locate(const struct slice *slice, struct mrg_result *cause)
{
	const struct request_op *op = &slice->request->ops[slice->op];
	struct ibv_sge sge[1];
	struct cut cut = { .sge = sge };
	struct cursor at;

	slice_seek(op, slice->offset, &at);
	slice_cut(op, &at, slice->length, 1, &cut);
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
static void blame(struct mrg_ep *ep, struct lane *lane, uint32_t index,
		  const struct ibv_wc *wc)
{
	struct slice *slice = &lane->ring[index & lane->mask];
	struct mrg_result cause = { 0 };
	bool repeat = cause_of(wc, &cause);

	lane->barren++;
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (repeat && ++slice->tries < ep->transfer->opts.repeats)
		return;
	locate(slice, &cause);
	request_fail(slice->request, &cause);
}

static void complete(struct mrg_ep *ep, const struct ibv_wc *wc)
{
	struct lane *lane = lane_of(ep, wc->wr_id);
	uint32_t index = (uint32_t)wc->wr_id;

	/* Of what is not posted any more, a confused device's. */
	if (!lane || lane->head - index - 1 >= lane->head - lane->tail)
		return;
	if (wc->status == IBV_WC_SUCCESS) {
		lane->barren = 0;
		confirm_until(lane, index + 1);
		lane->flushed = lane->tail;
		return;
	}
	/*
	 * What came before a culprit was carried out.  Before a flush it may
	 * not have been, where a device loses completions.
	 */
	if (lane->flushed == lane->tail && wc->status != IBV_WC_WR_FLUSH_ERR)
		confirm_until(lane, index);
	if (lane->state == LANE_UP) {
		blame(ep, lane, index, wc);
		lane_break(ep, lane);
	}
	lane->flushed = index + 1;
}

void ep_drain(struct mrg_ep *ep)
{
	struct ibv_wc wc[POLL];
	int n;

	do {
		n = ep->ops->poll_cq(ep->cq, POLL, wc);
		for (int i = 0; i < n; i++)
			complete(ep, &wc[i]);
	} while (n == POLL);
	if (n < 0 && ep->state != EP_FAILED)
		ep_fail(ep, -EIO, "poll", "Look at the device.",
			"the completion queue cannot be polled");
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

void ep_progress(struct mrg_ep *ep)
{
	if (!ep->cq)
		return;
	if (ep->armed)
		disarm(ep);
	ep_drain(ep);
	post_all(ep);
}
