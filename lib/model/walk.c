/* SPDX-License-Identifier: MIT */
/*
 * __rdma_block_iter_next(), in closed form.
 *
 * A page that the pick allows puts every discontinuity on a page boundary of
 * both the iova and the DMA address.  So a walk that keeps its offsets in 64
 * bits, or that works in pages below 4 GiB, gives every block its right
 * address.
 *
 * With pages of 4 GiB or more, 32-bit arithmetic takes one step to the next
 * 4 GiB line of the DMA address (of length 0 where it starts on one) and then
 * stands still: block 0 is right, and every further block is the one at which
 * the walk stopped.  The number of blocks is computed from the iova, so newer
 * kernels stop there; older ones stop only with the list, that is, never.
 *
 * The narrow walk (before 0afec5e9cea7) also keeps its position in an entry in
 * 32 bits.  It gives all blocks, but where the last entry fills up to 4 GiB in
 * whole pages the position starts over at 0 and the walk never ends.
 */
#include "model/model.h"

static bool wide(enum mrg_walk walk, uint32_t shift)
{
	return walk != MRG_WALK_EXACT && shift >= MODEL_WIDE_SHIFT;
}

/* Bytes from the first page to the 4 GiB line where a wide walk stops. */
static uint64_t step_to_line(const struct model_scan *scan)
{
	return -scan->first & MODEL_LOW32;
}

static uint64_t frozen_at(const struct model_scan *scan)
{
	uint64_t step = step_to_line(scan);

	return step < scan->first_len ? scan->first + step : scan->second;
}

static bool endless(const struct model_scan *scan, enum mrg_walk walk, uint32_t shift)
{
	uint64_t page = 1ULL << shift;
	uint64_t in_page = scan->last_addr & (page - 1);

	if (walk == MRG_WALK_EXACT || walk == MRG_WALK_TRUNCATING || walk == MRG_WALK_UNKNOWN)
		return false;
	if (wide(walk, shift))
		return scan->bytes > step_to_line(scan);
	return walk == MRG_WALK_PER_ENTRY_NARROW &&
	       model_align_up(in_page + scan->last_len, page) - in_page > MODEL_LOW32;
}

static uint64_t block_count(const struct model_mr *mr, uint32_t shift)
{
	return ((mr->iova + mr->length - 1) >> shift) - (mr->iova >> shift) + 1;
}

/*
 * The blocks whose first byte lies in one run: [first, first + count).  Block 0
 * begins with the MR; all others, and all runs but the first, begin on a page
 * boundary, since the pick allows no other page.
 */
struct block_span {
	uint64_t first;
	uint64_t count;
	uint64_t addr; /* right address of the first one */
};

static struct block_span blocks_in_run(const struct model_mr *mr, uint32_t shift,
				       const struct mrg_sg *run, uint64_t va)
{
	uint64_t base = mr->iova >> shift;
	uint64_t end = mr->iova + mr->length - 1; /* inclusive: may be ~0 */
	uint64_t page = 1ULL << shift;
	uint64_t from = va > mr->iova ? va : mr->iova;
	struct block_span span = { 0 };

	/* The MR's pages reach beyond its bytes at both ends. */
	if (from > end)
		return span;
	if (run->len - 1 < end - va)
		end = va + run->len - 1;
	if (from > end)
		return span;
	span.first = (from >> shift) - base;
	span.count = (end >> shift) - (from >> shift) + 1;
	span.addr = (run->addr + (from - va)) & ~(page - 1);
	return span;
}

/*
 * Lists may map one stretch of DMA addresses twice, so a block is wrong if its
 * right address is not the one at which the walk stands still; of a run, one
 * block at most is that one.
 */
static void count_wrong(const struct block_span *span, uint64_t frozen, uint32_t shift,
			struct mrg_outcome *out, uint64_t *first)
{
	uint64_t skip = span->first == 0 ? 1 : 0;
	uint64_t hit = (frozen - span->addr) >> shift;
	bool has_hit = hit >= skip && hit < span->count;

	if (span->count <= skip + (has_hit ? 1 : 0))
		return;
	out->wrong_blocks += span->count - skip - (has_hit ? 1 : 0);
	if (*first == MRG_NO_OFFSET)
		*first = span->first + skip + (has_hit && hit == skip ? 1 : 0);
}

static void walk_frozen(const struct model_mr *mr, const struct model_scan *scan,
			enum mrg_walk walk, struct mrg_outcome *out)
{
	uint64_t page = 1ULL << out->page_shift;
	uint64_t frozen = frozen_at(scan) & ~(page - 1);
	uint64_t va = mr->iova - model_mr_pgoff(mr);
	uint64_t first = MRG_NO_OFFSET;
	struct block_span span;
	struct model_runs it;
	struct mrg_sg run;

	model_mr_runs(mr, model_walk_per_entry(walk), &it);
	while (model_runs_next(&it, &run)) {
		span = blocks_in_run(mr, out->page_shift, &run, va);
		count_wrong(&span, frozen, out->page_shift, out, &first);
		va += run.len;
	}
	if (first != MRG_NO_OFFSET) {
		out->verdict = MRG_WRAPS;
		out->period = page;
		out->first_bad_offset =
			(((mr->iova >> out->page_shift) + first) << out->page_shift) - mr->iova;
	}
}

void model_mr_walk(const struct model_mr *mr, const struct model_scan *scan, enum mrg_walk walk,
		   uint32_t shift, struct mrg_outcome *out)
{
	*out = (struct mrg_outcome){
		.verdict = MRG_SAFE,
		.page_shift = shift,
		.blocks = block_count(mr, shift),
		.first_bad_offset = MRG_NO_OFFSET,
	};
	if (wide(walk, shift) && out->blocks > 1)
		walk_frozen(mr, scan, walk, out);
	if (endless(scan, walk, shift)) {
		out->verdict = MRG_HANGS;
		out->period = 0;
	}
}

void model_mr_judge(const struct model_mr *mr, uint64_t pgsz_bitmap, enum mrg_walk walk,
		    struct mrg_outcome *out)
{
	struct model_scan scan;
	uint64_t page;

	model_mr_scan(mr, walk, &scan);
	page = model_pick_page(mr, &scan, walk, pgsz_bitmap);
	if (page) {
		model_mr_walk(mr, &scan, walk, __builtin_ctzll(page), out);
	} else {
		*out = (struct mrg_outcome){
			.verdict = MRG_REFUSED,
			.first_bad_offset = MRG_NO_OFFSET,
		};
	}
}

static void right_blocks(const struct model_mr *mr, bool per_entry, uint32_t shift, uint64_t start,
			 uint64_t *addrs, size_t count)
{
	uint64_t va = mr->iova - model_mr_pgoff(mr);
	struct block_span span;
	struct model_runs it;
	struct mrg_sg run;
	uint64_t k, end;

	model_mr_runs(mr, per_entry, &it);
	while (model_runs_next(&it, &run)) {
		span = blocks_in_run(mr, shift, &run, va);
		va += run.len;
		end = span.first + span.count;
		if (end > start + count)
			end = start + count;
		for (k = span.first > start ? span.first : start; k < end; k++)
			addrs[k - start] = span.addr + ((k - span.first) << shift);
	}
}

size_t model_mr_blocks(const struct model_mr *mr, enum mrg_walk walk, uint32_t shift,
		       uint64_t start, uint64_t *addrs, size_t cap)
{
	uint64_t total = block_count(mr, shift);
	uint64_t page = 1ULL << shift;
	struct model_scan scan;
	size_t count, i;

	if (start >= total)
		return 0;
	count = total - start < cap ? total - start : cap;
	if (!wide(walk, shift)) {
		right_blocks(mr, model_walk_per_entry(walk), shift, start, addrs, count);
		return count;
	}
	model_mr_scan(mr, walk, &scan);
	for (i = 0; i < count; i++)
		addrs[i] = (start + i ? frozen_at(&scan) : scan.first) & ~(page - 1);
	return count;
}

uint64_t model_wrong_bytes(const struct model_mr *mr, const struct mrg_outcome *out)
{
	uint64_t page = 1ULL << out->page_shift;

	if (!out->wrong_blocks)
		return 0;
	/* The last block may end beyond the MR. */
	if (mr->length - out->first_bad_offset < out->wrong_blocks * page)
		return mr->length - out->first_bad_offset;
	return out->wrong_blocks * page;
}
