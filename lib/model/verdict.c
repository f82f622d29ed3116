/* SPDX-License-Identifier: MIT */
/*
 * What becomes of an MR, as far as the addresses, the walk and the device's
 * largest page are known.
 */
#include "model/planner.h"

static bool refuse(struct mrg_planner *p)
{
	p->refused = true;
	p->plan->single = (struct mrg_outcome){
		.verdict = MRG_REFUSED,
		.first_bad_offset = MRG_NO_OFFSET,
	};
	return true;
}

/* What the kernel refuses whatever the addresses are. */
bool mrg_refused(struct mrg_planner *p)
{
	struct mrg_plan_opts *o = &p->opts;
	uint64_t in_page = o->page_size - 1;

	if (!o->length && p->has_list && o->offset < p->list_bytes)
		o->length = p->list_bytes - o->offset;
	if (p->has_list && (o->offset >= p->list_bytes ||
			    o->length > p->list_bytes - o->offset)) {
		mrg_say(p->plan,
			"The list holds 0x%llx bytes, and the range of 0x%llx bytes from offset 0x%llx on ends behind it: shorten the range, or give the whole list.",
			MRG_X(p->list_bytes), MRG_X(o->length),
			MRG_X(o->offset));
		return refuse(p);
	}
	if (!o->length) {
		mrg_say(p->plan,
			"The range is empty (length 0): name its length.");
		return refuse(p);
	}
	if (o->length > MRG_LIST_MAX || o->iova + (o->length - 1) < o->iova ||
	    o->offset + (o->length - 1) < o->offset) {
		mrg_say(p->plan,
			"The range of 0x%llx bytes at iova 0x%llx, offset 0x%llx, passes the end of the address space: no MR can reach beyond 2^64 or be longer than 2^63.",
			MRG_X(o->length), MRG_X(o->iova), MRG_X(o->offset));
		return refuse(p);
	}
	if ((o->iova ^ o->offset) & in_page) {
		mrg_say(p->plan,
			"The kernel refuses it: iova 0x%llx and offset 0x%llx differ within a page of 0x%llx bytes; use an iova with 0x%llx in its low bits.",
			MRG_X(o->iova), MRG_X(o->offset), MRG_X(o->page_size),
			MRG_X(o->offset & in_page));
		return refuse(p);
	}
	return false;
}

static bool in_one_window(uint64_t iova, uint64_t length)
{
	return (iova ^ (iova + length - 1)) < MRG_WINDOW;
}

/*
 * The narrow walk hangs on entries near 4 GiB even in small pages; an entry cut
 * to a 2 GiB window is too short for that.
 */
static bool narrow_risk(const struct mrg_planner *p)
{
	return p->walk == MRG_WALK_PER_ENTRY_NARROW &&
	       (!p->layout_known || p->scan.longest > MRG_WINDOW);
}

enum mrg_safety mrg_which_pieces(const struct mrg_planner *p)
{
	bool narrow_pages = mrg_highest_limit(p) < MRG_WIDE_SHIFT;

	if (p->walk == MRG_WALK_EXACT || (narrow_pages && !narrow_risk(p)))
		return MRG_ANY_PIECE;
	return p->layout_known && !narrow_risk(p) ? MRG_BY_LAYOUT :
						    MRG_BY_WINDOW;
}

/* What can be said of an MR whose addresses are not known. */
void mrg_judge_blind(const struct mrg_planner *p, uint64_t iova,
		     uint64_t length, struct mrg_outcome *out)
{
	bool safe = p->safety == MRG_ANY_PIECE || in_one_window(iova, length);

	*out = (struct mrg_outcome){
		.verdict = safe ? MRG_SAFE : MRG_VERDICT_UNKNOWN,
		.first_bad_offset = MRG_NO_OFFSET,
	};
}

static bool worse(const struct mrg_mr *mr, const struct mrg_outcome *a,
		  const struct mrg_outcome *b)
{
	if ((a->verdict == MRG_SAFE) != (b->verdict == MRG_SAFE))
		return b->verdict == MRG_SAFE;
	return mrg_wrong_bytes(mr, a) > mrg_wrong_bytes(mr, b);
}

/* The worst under all limits that are possible; returns the limit. */
uint32_t mrg_judge_worst(const struct mrg_planner *p, const struct mrg_mr *mr,
			 const struct mrg_scan *scan, struct mrg_outcome *worst)
{
	uint32_t limit, at = 0;
	uint64_t page, last = 0;
	struct mrg_outcome out;

	*worst = (struct mrg_outcome){
		.verdict = MRG_REFUSED,
		.first_bad_offset = MRG_NO_OFFSET,
	};
	for (limit = mrg_lowest_limit(p); limit <= mrg_highest_limit(p);
	     limit++) {
		page = mrg_pick_page(mr, scan, p->walk, mrg_pages_up_to(limit));
		if (page == last)
			continue;
		last = page;
		mrg_mr_walk(mr, scan, p->walk, __builtin_ctzll(page), &out);
		if (!at || worse(mr, &out, worst)) {
			*worst = out;
			at = limit;
		}
	}
	return at;
}

uint64_t mrg_largest_page(const struct mrg_planner *p, const struct mrg_mr *mr,
			  const struct mrg_scan *scan)
{
	return mrg_pick_page(mr, scan, p->walk,
			     mrg_pages_up_to(mrg_highest_limit(p)));
}

static void say_no_page(const struct mrg_planner *p)
{
	uint64_t least = mrg_smallest_page(p->walk, p->opts.page_size);

	if (mrg_pages_up_to(mrg_highest_limit(p)) < least)
		mrg_say(p->plan,
			"No page fits: the device's largest is 2^%u, and this kernel picks none below the host's page of 0x%llx bytes.",
			mrg_highest_limit(p), MRG_X(least));
	else
		mrg_say(p->plan,
			"No page fits: DMA addresses and iova 0x%llx agree, or the list is contiguous, only up to bit %d, and the smallest page is %llu KiB (bit %d).",
			MRG_X(p->mr.iova), __builtin_ctzll(p->scan.mask),
			MRG_X(least >> 10), __builtin_ctzll(least));
}

void mrg_judge_single(struct mrg_planner *p)
{
	struct mrg_outcome *single = &p->plan->single;
	uint64_t largest;

	if (p->layout_known) {
		p->worst_limit = mrg_judge_worst(p, &p->mr, &p->scan, single);
		largest = mrg_largest_page(p, &p->mr, &p->scan);
		p->strict = p->walk == MRG_WALK_EXACT || largest <= MRG_WINDOW;
		p->limit_matters = largest > 1ULL << mrg_lowest_limit(p);
	} else {
		mrg_judge_blind(p, p->mr.iova, p->mr.length, single);
		p->strict = single->verdict == MRG_SAFE;
	}
	if (single->verdict == MRG_REFUSED) {
		say_no_page(p);
		refuse(p);
	}
}
