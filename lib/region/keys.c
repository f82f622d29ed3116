/* SPDX-License-Identifier: MIT */
/*
 * From a range of a buffer to keys.  Transfers ask this for every slice, so it
 * takes no lock, allocates nothing and divides nothing.
 */
#include <errno.h>

#include "region/mr.h"

static inline uint64_t high_half(uint64_t a, uint64_t b)
{
	return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

/*
 * A plan's pieces are nearly all of one length: windows of 2 GiB, or the
 * largest MR.  So piece (offset + bias) / step is nearly always the right one,
 * where step is an inner piece's length and bias what the first lacks of it.
 * The division is a multiplication by 2^64 / step, rounded up.
 */
void region_mr_index(struct mrg_mr *mr)
{
	const struct region_piece *p = mr->pieces;
	uint64_t step;

	mr->bias = mr->inverse = 0;
	if (mr->count == 1)
		return;
	step = p[1].length > p[0].length ? p[1].length : p[0].length;
	mr->bias = step - p[0].length;
	mr->inverse = UINT64_MAX / step + 1;
	/* Pieces of such lengths that the guess would lead out of the array. */
	if (high_half(mr->length - 1 + mr->bias, mr->inverse) >= mr->count)
		mr->bias = mr->inverse = 0;
}

static size_t search(const struct mrg_mr *mr, uint64_t offset)
{
	size_t low = 0, high = mr->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (mr->pieces[middle].start <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static inline void fill(struct mrg_seg *seg, const struct region_piece *piece, uint64_t offset,
			uint64_t length)
{
	*seg = (struct mrg_seg){ .wire = piece->delta + offset,
				 .length = length,
				 .lkey = piece->lkey,
				 .rkey = piece->rkey };
}

/* Ranges over several pieces, pieces of odd lengths, and refusals. */
__attribute__((noinline)) static ssize_t keys_by_search(const struct mrg_mr *mr, uint64_t offset,
							uint64_t length, struct mrg_seg *segs,
							size_t cap)
{
	size_t first, count;

	/* Length 0 becomes the largest number here, and is refused with it. */
	if (offset >= mr->length || length - 1 >= mr->length - offset)
		return -ERANGE;
	first = search(mr, offset);
	count = search(mr, offset + length - 1) - first + 1;
	if (count > cap)
		return (ssize_t)count;
	for (size_t i = 0; i < count; i++) {
		const struct region_piece *piece = &mr->pieces[first + i];
		uint64_t room = piece->start + piece->length - offset;
		uint64_t part = length < room ? length : room;

		fill(&segs[i], piece, offset, part);
		offset += part;
		length -= part;
	}
	return (ssize_t)count;
}

ssize_t mrg_keys(const struct mrg_mr *mr, uint64_t addr, uint64_t length, struct mrg_seg *segs,
		 size_t cap)
{
	uint64_t offset = addr - mr->addr, room;
	const struct region_piece *piece;

	if (offset >= mr->length)
		return -ERANGE;
	piece = &mr->pieces[high_half(offset + mr->bias, mr->inverse)];
	/* An offset before the piece wraps, and is then beyond it too. */
	if (__builtin_sub_overflow(piece->length, offset - piece->start, &room) ||
	    length - 1 >= room || !cap)
		return keys_by_search(mr, offset, length, segs, cap);
	fill(segs, piece, offset, length);
	return 1;
}

static bool total(const struct mrg_seg *segs, size_t count, uint64_t *sum)
{
	*sum = 0;
	for (size_t i = 0; i < count; i++)
		if (!segs[i].length || __builtin_add_overflow(*sum, segs[i].length, sum))
			return false;
	return true;
}

/* The part of @seg from @from on, @length bytes. */
static struct mrg_seg part(const struct mrg_seg *seg, uint64_t from, uint64_t length)
{
	return (struct mrg_seg){
		.wire = seg->wire + from, .length = length, .lkey = seg->lkey, .rkey = seg->rkey
	};
}

/* Walks both lists side by side; writes where @pairs is not NULL. */
static size_t cut(const struct mrg_seg *local, const struct mrg_seg *remote, uint64_t length,
		  struct mrg_seg_pair *pairs)
{
	uint64_t in_local = 0, in_remote = 0;
	size_t count = 0;

	while (length) {
		uint64_t step = local->length - in_local;

		if (remote->length - in_remote < step)
			step = remote->length - in_remote;
		if (pairs)
			pairs[count] = (struct mrg_seg_pair){ part(local, in_local, step),
							      part(remote, in_remote, step) };
		count++;
		length -= step;
		in_local += step;
		in_remote += step;
		if (in_local == local->length) {
			local++;
			in_local = 0;
		}
		if (in_remote == remote->length) {
			remote++;
			in_remote = 0;
		}
	}
	return count;
}

ssize_t mrg_seg_pairs(const struct mrg_seg *local, size_t nlocal, const struct mrg_seg *remote,
		      size_t nremote, struct mrg_seg_pair *pairs, size_t cap)
{
	uint64_t length, other;
	size_t count;

	if (!total(local, nlocal, &length) || !total(remote, nremote, &other) || length != other)
		return -EINVAL;
	count = cut(local, remote, length, NULL);
	if (count <= cap)
		cut(local, remote, length, pairs);
	return (ssize_t)count;
}

uint64_t mrg_mr_addr(const struct mrg_mr *mr)
{
	return mr->addr;
}

uint64_t mrg_mr_length(const struct mrg_mr *mr)
{
	return mr->length;
}

size_t mrg_mr_count(const struct mrg_mr *mr)
{
	return mr->count;
}

struct ibv_mr *mrg_mr_verbs(const struct mrg_mr *mr, size_t index)
{
	return index < mr->count ? mr->verbs[index] : NULL;
}

const struct mrg_plan *mrg_mr_plan(const struct mrg_mr *mr)
{
	return mr->parts ? NULL : region_decision_plan(mr->decision);
}
