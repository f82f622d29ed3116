/* SPDX-License-Identifier: MIT */
/* Batches: taken in, waited for, ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/registry.h>

#include "base/opts.h"
#include "transfer/transfer.h"

#define SMALL_BYTES 512 /* of requests that are kept to be used again */
#define SPARE_MAX 256

/* ---- the end of a request ---- */

static void unlink_active(struct mrg_ep *ep, struct mrg_request *request)
{
	if (request->prev)
		request->prev->next = request->next;
	else
		ep->active = request->next;
	if (request->next)
		request->next->prev = request->prev;
	request->next = request->prev = NULL;
}

/* The first @count ranges' buffers may be unregistered again. */
static void put_buffers(struct mrg_request *request, uint32_t count)
{
	const struct mrg_local *local = request->ops[0].local;

	for (uint32_t i = 0; i < count && request->holds; i++)
		mrg_buffer_put(local[i].buffer);
}

static void finish(struct mrg_request *request)
{
	struct mrg_ep *ep = request->ep;

	put_buffers(request, request->range_count);
	unlink_active(ep, request);
	ep->ops_out -= request->op_count;
	ep->stats.requests++;
	ep->stats.failed += request->result.status != 0;
	request->result.bytes = request->total - request->left;
	request->done = true;
	request->next = NULL;
	if (!request->waited) {
		request->prev = ep->done_last;
		if (ep->done_last)
			ep->done_last->next = request;
		else
			ep->done_first = request;
		ep->done_last = request;
	}
	if (ep->to_confirm)
		transfer_revoke_confirm(ep);
	if (ep->sleeper || ep->waiters || ep->armed)
		transfer_ep_wake(ep);
}

static void finish_if_over(struct mrg_request *request)
{
	if (!request->done && !request->in_flight && !request->waiting &&
	    (request->result.status || !request->left))
		finish(request);
}

void transfer_request_confirm(struct mrg_request *request, uint32_t length)
{
	request->in_flight--;
	request->left -= length;
	request->ep->stats.bytes += length;
	if (!request->left || request->result.status)
		finish_if_over(request);
}

static void unqueue(struct mrg_request *request)
{
	struct mrg_ep *ep = request->ep;
	struct mrg_request **at = &ep->queue_first, *before = NULL;

	if (!request->queued)
		return;
	while (*at != request) {
		before = *at;
		at = &before->next_queued;
	}
	*at = request->next_queued;
	if (ep->queue_last == request)
		ep->queue_last = before;
	request->next_queued = NULL;
	request->queued = false;
}

static void purge_repeats(struct mrg_request *request)
{
	struct transfer_slice_queue *queue = &request->ep->repeat;
	size_t count = queue->count;
	struct transfer_slice slice;

	if (!request->waiting)
		return;
	while (count--) {
		transfer_slice_queue_pop(queue, &slice);
		if (slice.request == request)
			request->waiting--;
		else
			transfer_slice_queue_push(queue, &slice);
	}
}

void transfer_request_fail(struct mrg_request *request, const struct mrg_result *cause)
{
	uint32_t repeated = request->result.repeated;
	uint64_t now;

	if (request->done || request->result.status)
		return;
	request->result = *cause;
	request->result.repeated = repeated;
	unqueue(request);
	purge_repeats(request);
	if (request->in_flight) {
		now = transfer_now();
		request->abort_at = now + request->ep->transfer->opts.grace_ms * MS;
		transfer_control_look(request->ep, request->abort_at);
	}
	finish_if_over(request);
}

void transfer_request_fail_all(struct mrg_ep *ep, int status)
{
	const struct mrg_result cause = { .status = status, .side = MRG_SIDE_PATH };
	struct mrg_request *next;

	for (struct mrg_request *r = ep->active; r; r = next) {
		next = r->next;
		transfer_request_fail(r, &cause);
	}
}

void transfer_request_repeat(struct mrg_ep *ep, const struct transfer_slice *slice)
{
	static const struct mrg_result no_memory = { .status = -ENOMEM };
	struct mrg_request *request = slice->request;

	request->in_flight--;
	if (!request->result.status) {
		if (!transfer_slice_queue_push(&ep->repeat, slice)) {
			request->waiting++;
			return;
		}
		transfer_request_fail(request, &no_memory);
	}
	finish_if_over(request);
}

/* ---- time ---- */

static bool lane_carries(const struct transfer_lane *lane, const struct mrg_request *request)
{
	for (uint32_t i = lane->tail; i != lane->head; i++)
		if (lane->ring[i & lane->mask].request == request)
			return true;
	return false;
}

/* The grace is over: its queue pairs go, and take their packets with them. */
static void abort_now(struct mrg_ep *ep, struct mrg_request *request)
{
	request->abort_at = NEVER;
	for (uint32_t i = 0; i < ep->lane_count; i++) {
		struct transfer_lane *lane = &ep->lanes[i];

		if (!lane_carries(lane, request))
			continue;
		if (lane->state == LANE_UP)
			transfer_lane_break(ep, lane);
		else if (!lane->qp || lane->state != LANE_DRAINING)
			transfer_lane_drop_failed(ep, lane);
		if (request->done)
			return;
	}
}

void transfer_request_tick(struct mrg_ep *ep, uint64_t now)
{
	const struct mrg_result late = { .status = -ETIMEDOUT };
	struct mrg_request *next;

	for (struct mrg_request *r = ep->active; r; r = next) {
		next = r->next;
		if (r->deadline <= now && !r->result.status) {
			transfer_request_fail(r, &late);
			continue;
		}
		if (r->abort_at <= now)
			abort_now(ep, r);
		if (!r->result.status)
			transfer_control_look(ep, r->deadline);
		transfer_control_look(ep, r->abort_at);
	}
}

/* ---- taking it in ---- */

static int refuse_range(struct mrg_ep *ep, size_t op, const char *side, uint64_t addr,
			uint64_t length, uint64_t have, uint64_t have_length)
{
	return transfer_fail(
		ep->transfer, -ERANGE, "check batch", "Keep to the registered range.",
		"operation %zu: %llu bytes at 0x%llx are not all in %s buffer of %llu bytes at 0x%llx",
		op, (unsigned long long)length, (unsigned long long)addr, side,
		(unsigned long long)have_length, (unsigned long long)have);
}

static bool within(uint64_t addr, uint64_t length, uint64_t have, uint64_t have_length)
{
	return addr >= have && addr - have < have_length && length <= have_length - (addr - have);
}

static int check_buffer(struct mrg_ep *ep, const struct mrg_local *local, size_t index,
			uint64_t *have, uint64_t *have_length)
{
	if (!local->buffer) {
		*have = mrg_mr_addr(local->mr);
		*have_length = mrg_mr_length(local->mr);
		return 0;
	}
	*have = mrg_buffer_addr(local->buffer);
	*have_length = mrg_buffer_length(local->buffer);
	if (transfer_slice_keys(local, *have, *have_length, NULL, 0) >= 0)
		return 0;
	return transfer_fail(ep->transfer, -ENOPROTOOPT, "check batch",
			     "Register it for verbs on the endpoint's device.",
			     "operation %zu: the buffer at 0x%llx has no keys on device %u", index,
			     (unsigned long long)*have, local->device);
}

static int check_locals(struct mrg_ep *ep, const struct mrg_op *op, size_t index, uint64_t *length)
{
	uint64_t have, have_length;
	int ret;

	*length = 0;
	for (uint32_t i = 0; i < op->local_count; i++) {
		const struct mrg_local *local = &op->local[i];

		if (!local->mr == !local->buffer)
			return transfer_fail(ep->transfer, -EINVAL, "check batch",
					     "Set mr or buffer.",
					     "operation %zu: local range %u has no buffer, or two",
					     index, i);
		ret = check_buffer(ep, local, index, &have, &have_length);
		if (ret)
			return ret;
		if (!local->length)
			return transfer_fail(ep->transfer, -EINVAL, "check batch",
					     "Leave empty ranges out.",
					     "operation %zu: local range %u has no bytes", index,
					     i);
		if (!within(local->addr, local->length, have, have_length) ||
		    __builtin_add_overflow(*length, local->length, length))
			return refuse_range(ep, index, "this side's", local->addr, local->length,
					    have, have_length);
	}
	return 0;
}

static int check_op(struct mrg_ep *ep, const struct mrg_op *op, size_t index, uint64_t *length)
{
	int ret;

	if (op->code > MRG_OP_WRITE || !op->local_count || !op->local || !op->remote)
		return transfer_fail(ep->transfer, -EINVAL, "check batch",
				     "Use MRG_OP_READ or MRG_OP_WRITE with ranges of both sides.",
				     "operation %zu has code %d and %u local ranges", index,
				     (int)op->code, op->local_count);
	ret = check_locals(ep, op, index, length);
	if (ret)
		return ret;
	if (!within(op->remote_addr, *length, op->remote->addr, op->remote->length))
		return refuse_range(ep, index, "the peer's", op->remote_addr, *length,
				    op->remote->addr, op->remote->length);
	return 0;
}

static int check_batch(struct mrg_ep *ep, const struct mrg_op *ops, size_t count, size_t *ranges)
{
	uint64_t length;
	int ret;

	if (!count)
		return transfer_fail(ep->transfer, -EINVAL, "check batch",
				     "Give at least one operation.", "the batch has no operation");
	if (count > ep->transfer->opts.max_ops)
		return transfer_fail(ep->transfer, -E2BIG, "check batch",
				     "Submit it in parts, or raise max_ops.",
				     "the batch has %zu operations, and max_ops is %u", count,
				     ep->transfer->opts.max_ops);
	*ranges = 0;
	for (size_t i = 0; i < count; i++) {
		ret = check_op(ep, &ops[i], i, &length);
		if (ret)
			return ret;
		*ranges += ops[i].local_count;
	}
	return 0;
}

/* Whatever depends on the endpoint's present state; with its lock held. */
static int check_state(struct mrg_ep *ep, const struct mrg_op *ops, size_t count)
{
	const struct mrg_remote *last = NULL;

	if (ep->state == EP_FAILED)
		return transfer_fail_with(ep->transfer, &ep->error);
	for (size_t i = 0; i < count; i++) {
		if (ops[i].code == MRG_OP_READ && !ep->peer_port.reads)
			return transfer_fail(
				ep->transfer, -EOPNOTSUPP, "check batch",
				"Let the peer WRITE instead.",
				"operation %zu is a READ, and the peer's device serves none", i);
		if (ops[i].remote == last)
			continue;
		last = ops[i].remote;
		if (transfer_revoke_names(ep, last->generation))
			return transfer_fail(
				ep->transfer, -ESTALE, "check batch",
				"Get the peer's present descriptor.",
				"operation %zu: the peer has revoked the buffer of generation %llu",
				i, (unsigned long long)last->generation);
	}
	return 0;
}

static struct mrg_request *take_memory(struct mrg_ep *ep, size_t bytes)
{
	struct mrg_request *request = NULL;

	if (bytes <= SMALL_BYTES) {
		bytes = SMALL_BYTES;
		request = ep->spare;
		if (request) {
			ep->spare = request->next;
			ep->spare_count--;
		}
	}
	if (!request)
		request = malloc(bytes);
	if (request) {
		memset(request, 0, sizeof(*request));
		request->bytes = bytes;
	}
	return request;
}

static struct mrg_request *copy_batch(struct mrg_ep *ep, const struct mrg_op *ops, size_t count,
				      size_t ranges)
{
	struct mrg_request *request =
		take_memory(ep, sizeof(*request) + count * sizeof(request->ops[0]) +
					ranges * sizeof(struct mrg_local));
	struct mrg_local *local;

	if (!request)
		return NULL;
	local = (struct mrg_local *)&request->ops[count];
	request->op_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		struct transfer_request_op *op = &request->ops[i];

		*op = (struct transfer_request_op){ .code = ops[i].code,
						    .local_count = ops[i].local_count,
						    .local = local,
						    .remote = ops[i].remote,
						    .remote_addr = ops[i].remote_addr };
		for (uint32_t r = 0; r < op->local_count; r++) {
			request->holds |= ops[i].local[r].buffer != NULL;
			*local++ = ops[i].local[r];
			op->length += ops[i].local[r].length;
		}
		request->total += op->length;
	}
	request->left = request->total;
	request->range_count = (uint32_t)ranges;
	return request;
}

static int hold_buffers(struct mrg_request *request)
{
	const struct mrg_local *local = request->ops[0].local;

	for (uint32_t i = 0; i < request->range_count && request->holds; i++) {
		if (!local[i].buffer || !mrg_buffer_hold(local[i].buffer))
			continue;
		put_buffers(request, i);
		return -EBUSY;
	}
	return 0;
}

static void start(struct mrg_ep *ep, struct mrg_request *request,
		  const struct mrg_submit_opts *opts, uint64_t deadline)
{
	request->ep = ep;
	request->user = opts->user;
	request->deadline = deadline;
	request->abort_at = NEVER;
	request->next = ep->active;
	if (ep->active)
		ep->active->prev = request;
	ep->active = request;
	ep->ops_out += request->op_count;
	request->queued = true;
	if (ep->queue_last)
		ep->queue_last->next_queued = request;
	else
		ep->queue_first = request;
	ep->queue_last = request;
	transfer_control_look(ep, deadline);
}

static bool has_room(struct mrg_ep *ep, void *arg)
{
	return ep->state == EP_FAILED || ep->ops_out + *(size_t *)arg <= ep->transfer->opts.max_ops;
}

static int wait_for_room(struct mrg_ep *ep, size_t count, int timeout_ms)
{
	if (has_room(ep, &count))
		return 0;
	transfer_ep_progress(ep);
	if (transfer_ep_await(ep, has_room, &count, timeout_ms))
		return transfer_fail(ep->transfer, -EAGAIN, "submit",
				     "Poll, or use MRG_SUBMIT_WAIT.",
				     "%llu operations are on their way, and max_ops is %u",
				     (unsigned long long)ep->ops_out, ep->transfer->opts.max_ops);
	return 0;
}

static int submit_locked(struct mrg_ep *ep, const struct mrg_op *ops, size_t count, size_t ranges,
			 const struct mrg_submit_opts *opts, uint64_t deadline,
			 struct mrg_request **out)
{
	struct mrg_request *request;
	int wait_ms = !opts->deadline_ms	    ? -1 :
		      opts->deadline_ms > INT32_MAX ? INT32_MAX :
						      (int)opts->deadline_ms;
	int ret = wait_for_room(ep, count, opts->flags & MRG_SUBMIT_WAIT ? wait_ms : 0);

	if (!ret)
		ret = check_state(ep, ops, count);
	if (ret)
		return ret;
	request = copy_batch(ep, ops, count, ranges);
	if (!request)
		return transfer_fail(ep->transfer, -ENOMEM, "submit", "",
				     "no memory for a batch of %zu operations", count);
	if (hold_buffers(request)) {
		free(request);
		return transfer_fail(ep->transfer, -EBUSY, "submit", "",
				     "a buffer of the batch is being unregistered");
	}
	start(ep, request, opts, deadline);
	if (out)
		*out = request;
	transfer_post_all(ep);
	return 0;
}

int mrg_submit(struct mrg_ep *ep, const struct mrg_op *ops, size_t count,
	       const struct mrg_submit_opts *opts, struct mrg_request **request)
{
	struct mrg_submit_opts o = { 0 };
	uint64_t deadline = NEVER;
	size_t ranges = 0;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts) || o.flags & ~MRG_SUBMIT_WAIT)
		return transfer_fail(
			ep->transfer, -EINVAL, "check options",
			"Zero the structure, set its size, and use values of this library's header.",
			"the options hold an unknown flag or field");
	ret = check_batch(ep, ops, count, &ranges);
	if (ret)
		return ret;
	if (o.deadline_ms)
		deadline = transfer_now() + o.deadline_ms * MS;
	pthread_mutex_lock(&ep->lock);
	ret = submit_locked(ep, ops, count, ranges, &o, deadline, request);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

/* ---- collecting ---- */

static void take_off_done(struct mrg_request *request)
{
	struct mrg_ep *ep = request->ep;

	if (request->prev)
		request->prev->next = request->next;
	else
		ep->done_first = request->next;
	if (request->next)
		request->next->prev = request->prev;
	else
		ep->done_last = request->prev;
	request->next = request->prev = NULL;
}

int mrg_poll(struct mrg_ep *ep, struct mrg_done *done, int cap)
{
	int n = 0;

	pthread_mutex_lock(&ep->lock);
	transfer_ep_progress(ep);
	while (n < cap && ep->done_first) {
		struct mrg_request *request = ep->done_first;

		take_off_done(request);
		request->waited = true;
		done[n++] = (struct mrg_done){ request, request->user, request->result.status };
	}
	pthread_mutex_unlock(&ep->lock);
	return n;
}

static bool is_done(struct mrg_ep *ep, void *arg)
{
	(void)ep;
	return ((struct mrg_request *)arg)->done;
}

int mrg_wait(struct mrg_request *request, int timeout_ms)
{
	struct mrg_ep *ep = request->ep;
	int ret;

	pthread_mutex_lock(&ep->lock);
	if (request->done && !request->waited)
		take_off_done(request);
	request->waited = true;
	ret = transfer_ep_await(ep, is_done, request, timeout_ms);
	request->waited = !ret;
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

void mrg_cancel(struct mrg_request *request)
{
	const struct mrg_result cancelled = { .status = -ECANCELED };
	struct mrg_ep *ep = request->ep;

	pthread_mutex_lock(&ep->lock);
	transfer_request_fail(request, &cancelled);
	pthread_mutex_unlock(&ep->lock);
}

void mrg_request_free(struct mrg_request *request)
{
	struct mrg_ep *ep;

	if (!request)
		return;
	ep = request->ep;
	pthread_mutex_lock(&ep->lock);
	if (request->done && !request->waited)
		take_off_done(request);
	if (request->bytes == SMALL_BYTES && ep->spare_count < SPARE_MAX) {
		request->next = ep->spare;
		ep->spare = request;
		ep->spare_count++;
		request = NULL;
	}
	pthread_mutex_unlock(&ep->lock);
	free(request);
}

void mrg_request_result(const struct mrg_request *request, struct mrg_result *result)
{
	*result = request->result;
}

bool transfer_request_uses(const struct mrg_request *request, uint64_t generation)
{
	for (uint32_t i = 0; i < request->op_count; i++)
		if (request->ops[i].remote->generation == generation)
			return true;
	return false;
}
