/* SPDX-License-Identifier: MIT */
/*
 * Cutting: a work request ends where an MR of either side ends, and where the
 * device's number of ranges or the slice's size does.
 */
#include <errno.h>
#include <stdlib.h>

#include <mrguard/registry.h>

#include "transfer/slice.h"

#define SEGS 8

ssize_t transfer_slice_keys(const struct mrg_local *local, uint64_t addr, uint64_t length,
			    struct mrg_seg *segs, size_t cap)
{
	if (local->buffer)
		return mrg_buffer_keys(local->buffer, local->device, addr, length, segs, cap);
	return mrg_keys(local->mr, addr, length, segs, cap);
}

/* The piece of the peer that holds the byte @start of the buffer. */
static const struct mrg_desc_piece *piece_at(const struct mrg_remote *remote, uint64_t start)
{
	size_t low = 0, high = remote->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (remote->pieces[middle].start <= start)
			low = middle;
		else
			high = middle;
	}
	return &remote->pieces[low];
}

/* The keys for the start of a range: what lies in one MR. */
static struct mrg_seg first_seg(const struct mrg_local *local, uint64_t from, uint64_t length)
{
	struct mrg_seg segs[SEGS];

	/* A stretch of many small MRs: half of it has fewer. */
	while (transfer_slice_keys(local, local->addr + from, length, segs, SEGS) > SEGS)
		length /= 2;
	return segs[0];
}

static void move_on(const struct transfer_op *op, struct transfer_cursor *at, uint64_t n)
{
	at->in_range += n;
	at->in_op += n;
	if (at->in_range < op->local[at->range].length)
		return;
	at->range++;
	at->in_range = 0;
}

void transfer_slice_cut(const struct transfer_op *op, struct transfer_cursor *at, uint64_t max,
			uint32_t max_sges, struct transfer_cut *cut)
{
	uint64_t start = op->remote_addr + at->in_op - op->remote->addr;
	const struct mrg_desc_piece *piece = piece_at(op->remote, start);
	uint64_t in_piece = start - piece->start, left = op->length - at->in_op;

	if (left > max)
		left = max;
	if (left > piece->length - in_piece)
		left = piece->length - in_piece;
	cut->wire = piece->wire + in_piece;
	cut->rkey = piece->rkey;
	cut->length = 0;
	cut->sges = 0;
	while (left && cut->sges < max_sges) {
		const struct mrg_local *local = &op->local[at->range];
		uint64_t room = local->length - at->in_range;
		struct mrg_seg seg = first_seg(local, at->in_range, room < left ? room : left);

		cut->sge[cut->sges++] =
			(struct ibv_sge){ seg.wire, (uint32_t)seg.length, seg.lkey };
		cut->length += (uint32_t)seg.length;
		left -= seg.length;
		move_on(op, at, seg.length);
	}
}

void transfer_slice_seek(const struct transfer_op *op, uint64_t offset, struct transfer_cursor *at)
{
	at->range = 0;
	at->in_op = at->in_range = offset;
	while (at->in_range >= op->local[at->range].length)
		at->in_range -= op->local[at->range++].length;
}

/* ---- slices to be repeated ---- */

int transfer_slice_queue_push(struct transfer_slice_queue *queue,
			      const struct transfer_slice *slice)
{
	if (queue->count == queue->room) {
		size_t room = queue->room ? 2 * queue->room : 64;
		struct transfer_slice *slices = reallocarray(NULL, room, sizeof(*slices));

		if (!slices)
			return -ENOMEM;
		for (size_t i = 0; i < queue->count; i++)
			slices[i] = queue->slices[(queue->first + i) % queue->room];
		free(queue->slices);
		*queue = (struct transfer_slice_queue){ slices, 0, queue->count, room };
	}
	queue->slices[(queue->first + queue->count++) % queue->room] = *slice;
	return 0;
}

bool transfer_slice_queue_pop(struct transfer_slice_queue *queue, struct transfer_slice *slice)
{
	if (!queue->count)
		return false;
	*slice = queue->slices[queue->first];
	queue->first = (queue->first + 1) % queue->room;
	queue->count--;
	return true;
}
