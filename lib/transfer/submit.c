/* SPDX-License-Identifier: MIT */
/* Batches: checked, copied, queued. */
#include <errno.h>

#include <mrguard/registry.h>

#include "base/opts.h"
#include "transfer/endpoint.h"
#include "transfer/clock.h"
#include "transfer/slice.h"

static int refuse_range(struct mrg_ep *ep, size_t op, const char *side, uint64_t addr,
			uint64_t length, uint64_t have, uint64_t have_length)
{
	return transfer_fail(
		ep->transfer, -ERANGE, "check batch", "Keep to the registered range.",
		"Operation %zu: %llu bytes at 0x%llx are not all in %s buffer of %llu bytes at 0x%llx.",
		op, (unsigned long long)length, (unsigned long long)addr, side,
		(unsigned long long)have_length, (unsigned long long)have);
}

static int refuse_reserved(struct mrg_ep *ep, size_t op)
{
	return transfer_fail(ep->transfer, -EINVAL, "check batch",
			     "Zero the structure before its fields are set.",
			     "Operation %zu has a reserved word that is not 0.", op);
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
			     "Register the buffer for verbs on the endpoint's device.",
			     "Operation %zu: the buffer at 0x%llx has no keys on device %u.", index,
			     (unsigned long long)*have, local->device);
}

static int check_locals(struct mrg_ep *ep, const struct mrg_op *op, size_t index, uint64_t *length)
{
	uint64_t have, have_length;
	int ret;

	*length = 0;
	for (uint32_t i = 0; i < op->local_count; i++) {
		const struct mrg_local *local = &op->local[i];

		if (local->reserved[0] | local->reserved[1] | local->reserved[2])
			return refuse_reserved(ep, index);
		if (!local->mr == !local->buffer)
			return transfer_fail(ep->transfer, -EINVAL, "check batch",
					     "Set mr or buffer.",
					     "Operation %zu: local range %u has no buffer, or two.",
					     index, i);
		ret = check_buffer(ep, local, index, &have, &have_length);
		if (ret)
			return ret;
		if (!local->length)
			return transfer_fail(ep->transfer, -EINVAL, "check batch",
					     "Leave empty ranges out.",
					     "Operation %zu: local range %u has no bytes.", index,
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

	if (op->reserved[0] | op->reserved[1])
		return refuse_reserved(ep, index);
	if (op->code > MRG_OP_WRITE || !op->local_count || !op->local || !op->remote)
		return transfer_fail(ep->transfer, -EINVAL, "check batch",
				     "Use MRG_OP_READ or MRG_OP_WRITE with ranges of both sides.",
				     "Operation %zu has code %d and %u local ranges.", index,
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
				     "Give at least one operation.", "The batch has no operation.");
	if (count > ep->transfer->opts.max_ops)
		return transfer_fail(ep->transfer, -E2BIG, "check batch",
				     "Submit the batch in parts, or raise max_ops.",
				     "The batch has %zu operations, and max_ops is %u.", count,
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

/* Checks the endpoint's present state; with its lock held. */
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
				"Operation %zu is a READ, and the peer's device serves none.", i);
		if (ops[i].remote == last)
			continue;
		last = ops[i].remote;
		if (ep->revoked.by_peer.count &&
		    transfer_generations_have(&ep->revoked.by_peer, last->generation))
			return transfer_fail(
				ep->transfer, -ESTALE, "check batch",
				"Get the peer's present descriptor.",
				"Operation %zu: the peer has revoked the buffer of generation %llu.",
				i, (unsigned long long)last->generation);
	}
	return 0;
}

static struct transfer_request *copy_batch(struct mrg_ep *ep, const struct mrg_op *ops,
					   size_t count, size_t ranges)
{
	struct transfer_request *request =
		transfer_request_new(ep, sizeof(*request) + count * sizeof(request->ops[0]) +
						 ranges * sizeof(struct mrg_local));
	struct mrg_local *local;

	if (!request)
		return NULL;
	local = (struct mrg_local *)&request->ops[count];
	request->op_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		struct transfer_op *op = &request->ops[i];

		*op = (struct transfer_op){ .code = ops[i].code,
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

static int hold_buffers(struct transfer_request *request)
{
	const struct mrg_local *local = request->ops[0].local;

	for (uint32_t i = 0; i < request->range_count && request->holds; i++) {
		if (!local[i].buffer || !mrg_buffer_hold(local[i].buffer))
			continue;
		transfer_request_put_buffers(request, i);
		return -EBUSY;
	}
	return 0;
}

static void start(struct mrg_ep *ep, struct transfer_request *request)
{
	TAILQ_INSERT_HEAD(&ep->active, request, link);
	ep->ops_out += request->op_count;
	STAILQ_INSERT_TAIL(&ep->queue, request, in_queue);
	request->queued = true;
	transfer_ep_look(ep, request->deadline);
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
				     "%llu operations are on their way, and max_ops is %u.",
				     (unsigned long long)ep->ops_out, ep->transfer->opts.max_ops);
	return 0;
}

static int submit_locked(struct mrg_ep *ep, const struct mrg_op *ops, size_t count, size_t ranges,
			 const struct mrg_submit_opts *opts, uint64_t deadline, uint64_t *out)
{
	struct transfer_request *request;
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
		return transfer_fail(ep->transfer, -ENOMEM, "submit",
				     "Free memory, or free requests that are done.",
				     "No memory is left for a batch of %zu operations.", count);
	if (hold_buffers(request)) {
		transfer_request_free(request);
		return transfer_fail(ep->transfer, -EBUSY, "submit",
				     "Leave the buffer out, or register it again.",
				     "A buffer of the batch is being unregistered.");
	}
	request->user = opts->user;
	request->deadline = deadline;
	request->abort_at = NEVER;
	start(ep, request);
	if (out)
		*out = request->handle;
	transfer_post_all(ep);
	return 0;
}

int mrg_submit(struct mrg_ep *ep, const struct mrg_op *ops, size_t count,
	       const struct mrg_submit_opts *opts, uint64_t *request)
{
	struct mrg_submit_opts o = { 0 };
	uint64_t deadline = NEVER;
	size_t ranges = 0;
	int ret;

	if ((opts && base_opts_copy(&o, sizeof(o), opts)) || o.flags & ~MRG_SUBMIT_WAIT)
		return transfer_fail(
			ep->transfer, -EINVAL, "check options",
			"Zero the structure, set its size, and use values of this library's header.",
			"The options hold an unknown flag or field.");
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
