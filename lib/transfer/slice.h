/* SPDX-License-Identifier: MIT */
/* Operations, cut into work requests. */
#ifndef TRANSFER_SLICE_H
#define TRANSFER_SLICE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include <mrguard/transfer.h>

struct transfer_request;

/* An operation of a request. */
struct transfer_op {
	enum mrg_op_code code;
	uint32_t local_count;
	const struct mrg_local *local;
	const struct mrg_remote *remote;
	uint64_t remote_addr;
	uint64_t length;
};

/* Where the next slice is cut from. */
struct transfer_cursor {
	uint32_t op;
	uint32_t range; /* of the operation's local ones */
	uint64_t in_range;
	uint64_t in_op;
};

/* A work request: part of an operation. */
struct transfer_slice {
	struct transfer_request *request;
	uint64_t offset; /* in the operation */
	uint32_t op;
	uint32_t length;
	uint32_t tries;
	uint32_t reserved;
};

/* Room for the ranges of one work request. */
struct transfer_cut {
	struct ibv_sge *sge;
	uint32_t sges; /* OUT */
	uint64_t wire; /* OUT, the remote side's */
	uint32_t rkey; /* OUT */
	uint32_t length; /* OUT, > 0 */
};

/**
 * transfer_slice_cut() - the next work request of an operation
 * @at: moved on behind it; its op is not looked at
 * @max: bytes, at most
 */
void transfer_slice_cut(const struct transfer_op *op, struct transfer_cursor *at, uint64_t max,
			uint32_t max_sges, struct transfer_cut *cut);
/* mrg_keys(), wherever the range is registered. */
ssize_t transfer_slice_keys(const struct mrg_local *local, uint64_t addr, uint64_t length,
			    struct mrg_seg *segs, size_t cap);
/* A cursor for @offset of an operation. */
void transfer_slice_seek(const struct transfer_op *op, uint64_t offset, struct transfer_cursor *at);

/* Slices to be repeated, first in first out. */
struct transfer_slice_queue {
	struct transfer_slice *slices;
	size_t first, count, room;
};

int transfer_slice_queue_push(struct transfer_slice_queue *queue,
			      const struct transfer_slice *slice);
bool transfer_slice_queue_pop(struct transfer_slice_queue *queue, struct transfer_slice *slice);

/* A buffer of the peer. */

struct mrg_remote {
	uint64_t addr;
	uint64_t length;
	uint64_t generation;
	size_t count;
	struct mrg_desc_piece pieces[];
};

#endif
