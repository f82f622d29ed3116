/* SPDX-License-Identifier: MIT */
/*
 * The list as an MR sees it, and ib_umem_find_best_pgsz().
 *
 * Two generations of the pick are in use.  Since 486055f5e09d it judges
 * contiguous runs; before, every entry by itself.  09ea6837a043 made its sums
 * well defined for MRs that cross bit 63; this follows that one throughout.
 */
#include "model/model.h"

void model_mr_runs(const struct model_mr *mr, bool per_entry, struct model_runs *it)
{
	uint64_t pgoff = model_mr_pgoff(mr);
	uint64_t first = mr->offset - pgoff;

	*it = (struct model_runs){
		.sg = mr->sg,
		.end = mr->sg + mr->count,
		.left = model_align_up(pgoff + mr->length, mr->page_size),
		.per_entry = per_entry,
	};
	while (it->sg != it->end && first >= it->sg->len)
		first -= (it->sg++)->len;
	it->skip = first;
}

void model_mr_scan(const struct model_mr *mr, enum mrg_walk walk, struct model_scan *scan)
{
	uint64_t va = mr->iova - model_mr_pgoff(mr);
	struct model_runs it;
	struct mrg_sg run;

	*scan = (struct model_scan){ 0 };
	model_mr_runs(mr, model_walk_per_entry(walk), &it);
	while (model_runs_next(&it, &run)) {
		model_scan_add(scan, &run, va);
		va += run.len;
	}
}

/* bits_per() of the kernel: bits needed to hold @x, at least one */
static uint32_t bits_per(uint64_t x)
{
	return x ? 64 - __builtin_clzll(x) : 1;
}

uint64_t model_pick_page(const struct model_mr *mr, const struct model_scan *scan,
			 enum mrg_walk walk, uint64_t pgsz_bitmap)
{
	uint32_t span = bits_per(mr->iova ^ (mr->iova + mr->length - 1));
	uint64_t mask = scan->mask;

	if (model_smallest_page(walk, mr->page_size) > 1ULL << MRG_MIN_PAGE_SHIFT)
		pgsz_bitmap &= ~(mr->page_size - 1);
	/* No larger page is wanted than the smallest that covers everything. */
	if (span < 64)
		mask |= pgsz_bitmap & (~0ULL << span);
	if (mask)
		pgsz_bitmap &= ~0ULL >> (63 - __builtin_ctzll(mask));
	return pgsz_bitmap ? 1ULL << (63 - __builtin_clzll(pgsz_bitmap)) : 0;
}
