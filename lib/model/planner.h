/* SPDX-License-Identifier: MIT */
/* What the parts of the planner share. */
#ifndef MODEL_PLANNER_H
#define MODEL_PLANNER_H

#include "model/cut.h"
#include "model/model.h"

struct mrg_plan {
	struct mrg_outcome single;
	enum mrg_strategy strategy;
	struct mrg_piece *pieces;
	size_t count;
	char reason[1024];
};

/* Which pieces are safe. */
enum model_safety {
	MRG_ANY_PIECE, /* no page, or no walk, that could do harm */
	MRG_BY_LAYOUT, /* those that the list keeps from wide pages */
	MRG_BY_WINDOW, /* those within a 2 GiB window of the iova */
};

struct model_planner {
	struct mrg_plan_opts opts; /* as given, defaults filled in */
	enum mrg_walk walk; /* to judge by: ANY taken for truncating */
	bool has_list;
	bool layout_known; /* the MR will get the list's addresses */
	uint64_t list_bytes;
	struct model_mr mr; /* the whole range, over @wide or the list */
	struct model_scan scan;
	struct mrg_sg *wide; /* its runs, while all allow wide pages */
	size_t wide_count;
	size_t wide_room;

	bool refused; /* whatever the pieces */
	uint32_t worst_limit; /* the one that @plan->single is for */
	bool limit_matters; /* other limits, other pages */
	bool strict; /* one MR never has a page above 2 GiB */
	enum model_safety safety;
	const char *no_rebase; /* why not, where it was wanted */
	size_t cuts_inside; /* cuts inside the caller's units */
	long cut_error;
	struct mrg_plan *plan;
};

/* model_read_list() - check the list, and scan the range in the same pass */
int model_read_list(struct model_planner *p, const struct mrg_sg *sg, size_t count);

/* model_find_witnesses() - what bounds pages, in order; to be freed */
int model_find_witnesses(const struct model_planner *p, struct model_witness **out, size_t *count);

/* model_refused() - whether the kernel refuses it whatever the addresses are */
bool model_refused(struct model_planner *p);
/* model_which_pieces() - from what is known of walk, device and layout */
enum model_safety model_which_pieces(const struct model_planner *p);
/* model_judge_single() - one MR over the whole range; may refuse it */
void model_judge_single(struct model_planner *p);
/* model_judge_blind() - an MR whose addresses are not known */
void model_judge_blind(const struct model_planner *p, uint64_t iova, uint64_t length,
		       struct mrg_outcome *out);
/* model_judge_worst() - under all limits that are possible; returns the worst */
uint32_t model_judge_worst(const struct model_planner *p, const struct model_mr *mr,
			   const struct model_scan *scan, struct mrg_outcome *worst);
/* model_largest_page() - the page of a device that takes all possible ones */
uint64_t model_largest_page(const struct model_planner *p, const struct model_mr *mr,
			    const struct model_scan *scan);

/* For printf's %llx. */
#define MODEL_X(n) ((unsigned long long)(n))

/* model_say() - add a sentence to the plan's reason */
void model_say(struct mrg_plan *plan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* model_write_reason() - the verdict's grounds, and what the plan does about it */
void model_write_reason(struct model_planner *p);

static inline bool model_limit_known(const struct model_planner *p)
{
	return p->opts.max_page_shift != 0;
}

/* The cap changes nothing for a device that takes no page above it. */
static inline bool model_cap_matters(const struct model_planner *p)
{
	return p->opts.flags & MRG_PLAN_CAPPED &&
	       (!model_limit_known(p) || p->opts.max_page_shift > MODEL_CAP_SHIFT);
}

static inline uint32_t model_highest_limit(const struct model_planner *p)
{
	if (model_cap_matters(p))
		return MODEL_CAP_SHIFT;
	return model_limit_known(p) ? p->opts.max_page_shift : MRG_MAX_PAGE_SHIFT;
}

static inline uint32_t model_lowest_limit(const struct model_planner *p)
{
	if (model_cap_matters(p))
		return MODEL_CAP_SHIFT;
	return model_limit_known(p) ? p->opts.max_page_shift : MODEL_MIN_LIMIT;
}

#endif
