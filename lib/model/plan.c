/* SPDX-License-Identifier: MIT */
/* The planner behind mrguard/plan.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/opts.h"
#include "model/planner.h"

/* Addresses seen, that the MR need not get. */
#define NOT_THE_MRS (MRG_PLAN_TRANSLATED | MRG_PLAN_MOVES)
#define ALL_FLAGS (MRG_PLAN_IOVA_FREE | NOT_THE_MRS | MRG_PLAN_CAPPED)
/* No host has larger pages, and windows are made of whole ones. */
#define MAX_PAGE_SIZE (1ULL << 30)

static bool is_power_of_two(uint64_t x)
{
	return x && !(x & (x - 1));
}

static bool opts_valid(const struct mrg_plan_opts *o)
{
	return !(o->flags & ~ALL_FLAGS) && o->walk <= MRG_WALK_PER_ENTRY_NARROW &&
	       o->strategy < MRG_STRATEGY_NONE &&
	       (!o->max_page_shift || model_shift_valid(o->max_page_shift)) &&
	       is_power_of_two(o->page_size) && o->page_size >= 1ULL << MRG_MIN_PAGE_SHIFT &&
	       o->page_size <= MAX_PAGE_SIZE && is_power_of_two(o->cut_align);
}

static int set_up(struct model_planner *p, const struct mrg_sg *sg, size_t count,
		  const struct mrg_plan_opts *opts)
{
	int err = base_opts_copy(&p->opts, sizeof(p->opts), opts);

	if (err)
		return err;
	if (!p->opts.page_size)
		p->opts.page_size = sysconf(_SC_PAGESIZE);
	if (!p->opts.cut_align)
		p->opts.cut_align = p->opts.page_size;
	if (!opts_valid(&p->opts) || (!sg && count))
		return -EINVAL;
	if (p->opts.cut_align < p->opts.page_size)
		p->opts.cut_align = p->opts.page_size;
	p->walk = p->opts.walk == MRG_WALK_UNKNOWN ? MRG_WALK_TRUNCATING : p->opts.walk;
	p->has_list = sg;
	p->layout_known = sg && !(p->opts.flags & NOT_THE_MRS);
	return sg ? model_read_list(p, sg, count) : 0;
}

static void set_range(struct model_planner *p, const struct mrg_sg *sg, size_t count)
{
	/* Then @wide holds all runs, from the range's first page on. */
	bool all_kept = !(p->scan.mask & MODEL_LOW32);

	p->mr = (struct model_mr){
		.sg = all_kept ? p->wide : sg,
		.count = all_kept ? p->wide_count : count,
		.offset = all_kept ? p->opts.offset & (p->opts.page_size - 1) : p->opts.offset,
		.length = p->opts.length,
		.iova = p->opts.iova,
		.page_size = p->opts.page_size,
	};
}

static bool too_long(const struct model_planner *p)
{
	return p->opts.max_mr_size && p->opts.length > p->opts.max_mr_size;
}

static bool rebase_wanted(const struct model_planner *p)
{
	return p->opts.strategy == MRG_STRATEGY_REBASE ||
	       (p->opts.strategy == MRG_STRATEGY_AUTO && (p->opts.flags & MRG_PLAN_IOVA_FREE));
}

/*
 * A flipped bit 31 moves the range by 2 GiB: where iova and DMA addresses
 * agreed below bit 32 they now differ in bit 31, which bounds the page.
 */
static bool rebase_possible(struct model_planner *p)
{
	uint64_t up = p->opts.iova + MODEL_WINDOW;

	if (p->safety == MRG_ANY_PIECE)
		return true;
	if (p->opts.flags & NOT_THE_MRS)
		p->no_rebase = "the addresses seen are not those that the MR will get";
	else if (!p->layout_known)
		p->no_rebase = "the DMA addresses are not known";
	else if (p->safety == MRG_BY_WINDOW)
		p->no_rebase = "this kernel's walk never ends on entries above 2 GiB";
	else if (up < p->opts.iova || up + (p->opts.length - 1) < up)
		p->no_rebase = "the iova is too close to 2^64";
	return !p->no_rebase;
}

static int choose_cuts(struct model_planner *p, bool any, uint64_t **ends, long *count)
{
	struct model_witness everything = { 0, p->opts.length }, *found = NULL;
	struct model_cut_rule rule = {
		.iova = p->opts.iova,
		.length = p->opts.length,
		.window = MODEL_WINDOW,
		.align = p->opts.cut_align,
		.unit = p->opts.unit,
		.max = p->opts.max_mr_size,
	};
	int err = 0;

	if (any) {
		rule.witness = &everything;
		rule.count = 1;
	} else if (p->safety == MRG_BY_LAYOUT) {
		err = model_find_witnesses(p, &found, &rule.count);
		rule.witness = found;
	}
	*count = err ? err : model_cut(&rule, ends, &p->cuts_inside);
	free(found);
	return *count == -ENOMEM ? -ENOMEM : 0;
}

/* Goes through the list as pieces are made from left to right. */
struct place_in_list {
	const struct mrg_sg *sg;
	uint64_t start;
};

static void set_piece(const struct model_planner *p, struct place_in_list *at,
		      const struct mrg_piece *piece, struct model_mr *mr)
{
	uint64_t offset = p->mr.offset + piece->offset;

	*mr = p->mr;
	mr->iova = piece->iova;
	mr->length = piece->length;
	while (at->start + at->sg->len <= offset - model_mr_pgoff(mr))
		at->start += (at->sg++)->len;
	mr->sg = at->sg;
	mr->count -= at->sg - p->mr.sg;
	mr->offset = offset - at->start;
}

static void judge_piece(struct model_planner *p, bool rebase, struct place_in_list *at,
			struct mrg_piece *piece)
{
	struct model_scan scan;
	struct model_mr mr;

	if (!p->layout_known) {
		model_judge_blind(p, piece->iova, piece->length, &piece->outcome);
		return;
	}
	set_piece(p, at, piece, &mr);
	model_mr_scan(&mr, p->walk, &scan);
	if (rebase && p->walk != MRG_WALK_EXACT &&
	    model_largest_page(p, &mr, &scan) > MODEL_WINDOW) {
		piece->iova ^= MODEL_WINDOW;
		mr.iova = piece->iova;
		model_mr_scan(&mr, p->walk, &scan);
		p->plan->strategy = MRG_STRATEGY_REBASE;
	}
	model_judge_worst(p, &mr, &scan, &piece->outcome);
}

static int make_pieces(struct model_planner *p, bool rebase, const uint64_t *ends, size_t count)
{
	struct place_in_list at = { .sg = p->mr.sg };
	struct mrg_plan *plan = p->plan;
	size_t i;

	plan->pieces = calloc(count, sizeof(*plan->pieces));
	if (!plan->pieces)
		return -ENOMEM;
	plan->count = count;
	plan->strategy = count > 1 ? MRG_STRATEGY_SPLIT : MRG_STRATEGY_NONE;
	for (i = 0; i < count; i++) {
		struct mrg_piece *piece = &plan->pieces[i];

		piece->offset = i ? ends[i - 1] : 0;
		piece->length = ends[i] - piece->offset;
		piece->iova = p->opts.iova + piece->offset;
		judge_piece(p, rebase, &at, piece);
	}
	return 0;
}

static int make_plan(struct model_planner *p)
{
	bool as_asked = p->plan->single.verdict == MRG_SAFE && p->strict && !too_long(p);
	bool rebase = !as_asked && rebase_wanted(p) && rebase_possible(p);
	bool any = rebase || p->safety == MRG_ANY_PIECE;
	uint64_t *ends = NULL;
	long count;
	int err;

	if (as_asked)
		return make_pieces(p, false, &p->opts.length, 1);
	err = choose_cuts(p, any, &ends, &count);
	if (!err && count > 0)
		err = make_pieces(p, rebase, ends, count);
	if (count < 0)
		p->cut_error = count;
	free(ends);
	return err;
}

static int plan_range(struct model_planner *p)
{
	int err;

	p->safety = model_which_pieces(p);
	model_judge_single(p);
	if (p->refused)
		return 0;
	err = make_plan(p);
	if (!err)
		model_write_reason(p);
	if (too_long(p))
		p->plan->single = (struct mrg_outcome){
			.verdict = MRG_REFUSED,
			.first_bad_offset = MRG_NO_OFFSET,
		};
	return err;
}

int mrg_plan_make(const struct mrg_sg *sg, size_t count, const struct mrg_plan_opts *opts,
		  struct mrg_plan **plan)
{
	struct model_planner p = { 0 };
	int err = set_up(&p, sg, count, opts);

	if (!err) {
		p.plan = calloc(1, sizeof(*p.plan));
		err = p.plan ? 0 : -ENOMEM;
	}
	if (!err) {
		p.plan->strategy = MRG_STRATEGY_NONE;
		if (!model_refused(&p)) {
			set_range(&p, sg, count);
			err = plan_range(&p);
		}
	}
	free(p.wide);
	if (err)
		mrg_plan_free(p.plan);
	else
		*plan = p.plan;
	return err;
}

void mrg_plan_free(struct mrg_plan *plan)
{
	if (!plan)
		return;
	free(plan->pieces);
	free(plan);
}

const struct mrg_outcome *mrg_plan_single(const struct mrg_plan *plan)
{
	return &plan->single;
}

const struct mrg_piece *mrg_plan_pieces(const struct mrg_plan *plan, size_t *count)
{
	*count = plan->count;
	return plan->pieces;
}

enum mrg_strategy mrg_plan_strategy(const struct mrg_plan *plan)
{
	return plan->strategy;
}

const char *mrg_plan_reason(const struct mrg_plan *plan)
{
	return plan->reason;
}
