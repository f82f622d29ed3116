/* SPDX-License-Identifier: MIT */
/*
 * The planner's one pass over the caller's list, and the second one that only
 * an MR size limit makes necessary.
 */
#include "base/grow.h"
#include "model/planner.h"

/* Takes an entry that lies outside the range. */
static int pass_entry(const struct mrg_sg *sg, uint64_t *bytes)
{
	if (!model_entry_valid(sg) || sg->len > MODEL_LIST_MAX - *bytes)
		return -EINVAL;
	*bytes += sg->len;
	return 0;
}

/*
 * While every run lies on 4 GiB lines, as wide pages need it, runs are kept:
 * they are few, and judging page after page then needs no pass of its own.
 */
static int keep_run(struct model_planner *p, const struct mrg_sg *run)
{
	struct mrg_sg *wide;

	if (p->scan.mask & MODEL_LOW32)
		return 0;
	wide = base_grow(p->wide, &p->wide_room, p->wide_count, sizeof(*wide));
	if (!wide)
		return -ENOMEM;
	p->wide = wide;
	p->wide[p->wide_count++] = *run;
	return 0;
}

static int read_range(struct model_planner *p, struct model_runs *it, uint64_t va)
{
	struct mrg_sg run;
	int err = 0;

	while (!err && model_runs_next(it, &run)) {
		model_scan_add(&p->scan, &run, va);
		err = keep_run(p, &run);
		va += run.len;
	}
	if (it->malformed || it->passed > MODEL_LIST_MAX ||
	    (it->per_entry && p->scan.longest > MODEL_LOW32))
		return -EINVAL;
	return err;
}

static uint64_t range_bytes(const struct model_planner *p, uint64_t pgoff, uint64_t before)
{
	uint64_t most = MODEL_LIST_MAX - before;
	uint64_t length = p->opts.length;

	if (!length || length > most)
		return most;
	length = model_align_up(pgoff + length, p->opts.page_size);
	return length < most ? length : most;
}

int model_read_list(struct model_planner *p, const struct mrg_sg *sg, size_t count)
{
	uint64_t pgoff = p->opts.offset & (p->opts.page_size - 1);
	uint64_t skip = p->opts.offset - pgoff;
	struct model_runs it = {
		.sg = sg,
		.end = sg + count,
		.per_entry = model_walk_per_entry(p->walk),
	};
	int err = 0;

	for (; !err && it.sg != it.end && skip >= it.sg->len; it.sg++) {
		skip -= it.sg->len;
		err = pass_entry(it.sg, &it.passed);
	}
	if (!err && it.sg != it.end) {
		it.skip = skip;
		it.passed += skip;
		it.left = range_bytes(p, pgoff, it.passed);
		err = read_range(p, &it, p->opts.iova - pgoff);
	}
	for (; !err && it.sg != it.end; it.sg++)
		err = pass_entry(it.sg, &it.passed);
	p->list_bytes = it.passed;
	return err;
}

struct witness_list {
	struct model_witness *at;
	size_t count;
	size_t room;
};

static int add_witness(struct witness_list *list, uint64_t lo, uint64_t hi)
{
	struct model_witness *at;

	at = base_grow(list->at, &list->room, list->count, sizeof(*at));
	if (!at)
		return -ENOMEM;
	list->at = at;
	list->at[list->count++] = (struct model_witness){ lo, hi };
	return 0;
}

/*
 * A run whose DMA addresses differ from the iova in a bit below 32 bounds the
 * page of any MR that holds a part of it, since the lowest such bit is the same
 * all along a run.  Between other runs a discontinuity that is not on a 4 GiB
 * line does so for MRs that hold both its sides.
 */
int model_find_witnesses(const struct model_planner *p, struct model_witness **out, size_t *count)
{
	uint64_t pgoff = model_mr_pgoff(&p->mr), pos = 0;
	struct witness_list list = { 0 };
	bool bound, was_bound = true; /* the first run has none before it */
	struct model_runs it;
	struct mrg_sg run;
	int err = 0;

	model_mr_runs(&p->mr, model_walk_per_entry(p->walk), &it);
	for (; !err && model_runs_next(&it, &run); was_bound = bound) {
		uint64_t lo = pos > pgoff ? pos - pgoff : 0;
		uint64_t va = p->mr.iova - pgoff + pos;

		pos += run.len;
		bound = (run.addr ^ va) & MODEL_LOW32;
		if (bound && list.count && list.at[list.count - 1].hi == lo)
			list.at[list.count - 1].hi = pos - pgoff;
		else if (bound)
			err = add_witness(&list, lo, pos - pgoff);
		else if (!was_bound && (va & MODEL_LOW32))
			err = add_witness(&list, lo, lo);
	}
	*out = list.at;
	*count = list.count;
	return err;
}
