/* SPDX-License-Identifier: MIT */
/*
 * What becomes of an MR, as far as the addresses, the walk and the device's
 * largest page are known.
 */
#include "model/planner.h"

static bool refuse(struct model_planner *p)
{
	p->refused = true;
	p->plan->single = (struct mrg_outcome){
		.verdict = MRG_REFUSED,
		.first_bad_offset = MRG_NO_OFFSET,
	};
	return true;
}

/* What the kernel refuses whatever the addresses are. */
bool model_refused(struct model_planner *p)
{
	struct mrg_plan_opts *o = &p->opts;
	uint64_t in_page = o->page_size - 1;

	if (!o->length && p->has_list && o->offset < p->list_bytes)
		o->length = p->list_bytes - o->offset;
	if (p->has_list && (o->offset >= p->list_bytes || o->length > p->list_bytes - o->offset)) {
		model_say(
			p->plan,
			"The list holds 0x%llx bytes, and the range of 0x%llx bytes from offset 0x%llx on ends behind it: shorten the range, or give the whole list.",
			MODEL_X(p->list_bytes), MODEL_X(o->length), MODEL_X(o->offset));
		return refuse(p);
	}
	if (!o->length) {
		model_say(p->plan, "The range is empty (length 0): name its length.");
		return refuse(p);
	}
	if (o->length > MODEL_LIST_MAX || o->iova + (o->length - 1) < o->iova ||
	    o->offset + (o->length - 1) < o->offset) {
		model_say(
			p->plan,
			"The range of 0x%llx bytes at iova 0x%llx, offset 0x%llx, passes the end of the address space: no MR can reach beyond 2^64 or be longer than 2^63.",
			MODEL_X(o->length), MODEL_X(o->iova), MODEL_X(o->offset));
		return refuse(p);
	}
	if ((o->iova ^ o->offset) & in_page) {
		model_say(
			p->plan,
			"The kernel refuses it: iova 0x%llx and offset 0x%llx differ within a page of 0x%llx bytes; use an iova with 0x%llx in its low bits.",
			MODEL_X(o->iova), MODEL_X(o->offset), MODEL_X(o->page_size),
			MODEL_X(o->offset & in_page));
		return refuse(p);
	}
	return false;
}

/*
 * The narrow walk hangs on entries near 4 GiB even in small pages; an entry cut
 * to a 2 GiB window is too short for that.
 */
static bool narrow_risk(const struct model_planner *p)
{
	return p->walk == MRG_WALK_PER_ENTRY_NARROW &&
	       (!p->layout_known || p->scan.longest > MODEL_WINDOW);
}

enum model_safety model_which_pieces(const struct model_planner *p)
{
	bool narrow_pages = model_highest_limit(p) < MODEL_WIDE_SHIFT;

	if (p->walk == MRG_WALK_EXACT || (narrow_pages && !narrow_risk(p)))
		return MRG_ANY_PIECE;
	return p->layout_known && !narrow_risk(p) ? MRG_BY_LAYOUT : MRG_BY_WINDOW;
}

/* The verdict on an MR whose addresses are unknown. */
void model_judge_blind(const struct model_planner *p, uint64_t iova, uint64_t length,
		       struct mrg_outcome *out)
{
	bool safe = p->safety == MRG_ANY_PIECE || model_in_one_window(iova, length);

	*out = (struct mrg_outcome){
		.verdict = safe ? MRG_SAFE : MRG_VERDICT_UNKNOWN,
		.first_bad_offset = MRG_NO_OFFSET,
	};
}

static bool worse(const struct model_mr *mr, const struct mrg_outcome *a,
		  const struct mrg_outcome *b)
{
	if ((a->verdict == MRG_SAFE) != (b->verdict == MRG_SAFE))
		return b->verdict == MRG_SAFE;
	return model_wrong_bytes(mr, a) > model_wrong_bytes(mr, b);
}

/* The worst under all limits that are possible; returns the limit. */
uint32_t model_judge_worst(const struct model_planner *p, const struct model_mr *mr,
			   const struct model_scan *scan, struct mrg_outcome *worst)
{
	uint32_t limit, at = 0;
	uint64_t page, last = 0;
	struct mrg_outcome out;

	*worst = (struct mrg_outcome){
		.verdict = MRG_REFUSED,
		.first_bad_offset = MRG_NO_OFFSET,
	};
	for (limit = model_lowest_limit(p); limit <= model_highest_limit(p); limit++) {
		page = model_pick_page(mr, scan, p->walk, model_pages_up_to(limit));
		if (page == last)
			continue;
		last = page;
		model_mr_walk(mr, scan, p->walk, __builtin_ctzll(page), &out);
		if (!at || worse(mr, &out, worst)) {
			*worst = out;
			at = limit;
		}
	}
	return at;
}

uint64_t model_largest_page(const struct model_planner *p, const struct model_mr *mr,
			    const struct model_scan *scan)
{
	return model_pick_page(mr, scan, p->walk, model_pages_up_to(model_highest_limit(p)));
}

static void say_no_page(const struct model_planner *p)
{
	uint64_t least = model_smallest_page(p->walk, p->opts.page_size);

	if (model_pages_up_to(model_highest_limit(p)) < least)
		model_say(
			p->plan,
			"No page fits: the device's largest is 2^%u, and this kernel picks none below the host's page of 0x%llx bytes.",
			model_highest_limit(p), MODEL_X(least));
	else
		model_say(
			p->plan,
			"No page fits: DMA addresses and iova 0x%llx agree, or the list is contiguous, only up to bit %d, and the smallest page is %llu KiB (bit %d).",
			MODEL_X(p->mr.iova), __builtin_ctzll(p->scan.mask), MODEL_X(least >> 10),
			__builtin_ctzll(least));
}

void model_judge_single(struct model_planner *p)
{
	struct mrg_outcome *single = &p->plan->single;
	uint64_t largest;

	if (p->layout_known) {
		p->worst_limit = model_judge_worst(p, &p->mr, &p->scan, single);
		largest = model_largest_page(p, &p->mr, &p->scan);
		p->strict = p->walk == MRG_WALK_EXACT || largest <= MODEL_WINDOW;
		p->limit_matters = largest > 1ULL << model_lowest_limit(p);
	} else {
		model_judge_blind(p, p->mr.iova, p->mr.length, single);
		p->strict = single->verdict == MRG_SAFE;
	}
	if (single->verdict == MRG_REFUSED) {
		say_no_page(p);
		refuse(p);
	}
}
