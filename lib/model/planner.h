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
enum mrg_safety {
	MRG_ANY_PIECE, /* no page, or no walk, that could do harm */
	MRG_BY_LAYOUT, /* those that the list keeps from wide pages */
	MRG_BY_WINDOW, /* those within a 2 GiB window of the iova */
};

struct mrg_planner {
	struct mrg_plan_opts opts; /* as given, defaults filled in */
	enum mrg_walk walk; /* to judge by: ANY taken for truncating */
	bool has_list;
	bool layout_known; /* the MR will get the list's addresses */
	uint64_t list_bytes;
	struct mrg_mr mr; /* the whole range, over @wide or the list */
	struct mrg_scan scan;
	struct mrg_sg *wide; /* its runs, while all allow wide pages */
	size_t wide_count;
	size_t wide_room;

	bool refused; /* whatever the pieces */
	uint32_t worst_limit; /* the one that @plan->single is for */
	bool limit_matters; /* other limits, other pages */
	bool strict; /* one MR never has a page above 2 GiB */
	enum mrg_safety safety;
	const char *no_rebase; /* why not, where it was wanted */
	size_t cuts_inside; /* cuts inside the caller's units */
	long cut_error;
	struct mrg_plan *plan;
};

/* mrg_read_list() - check the list, and scan the range in the same pass */
int mrg_read_list(struct mrg_planner *p, const struct mrg_sg *sg, size_t count);

/* mrg_find_witnesses() - what bounds pages, in order; to be freed */
int mrg_find_witnesses(const struct mrg_planner *p, struct mrg_witness **out,
		       size_t *count);

/* mrg_refused() - whether the kernel refuses it whatever the addresses are */
bool mrg_refused(struct mrg_planner *p);
/* mrg_which_pieces() - from what is known of walk, device and layout */
enum mrg_safety mrg_which_pieces(const struct mrg_planner *p);
/* mrg_judge_single() - one MR over the whole range; may refuse it */
void mrg_judge_single(struct mrg_planner *p);
/* mrg_judge_blind() - an MR whose addresses are not known */
void mrg_judge_blind(const struct mrg_planner *p, uint64_t iova,
		     uint64_t length, struct mrg_outcome *out);
/* mrg_judge_worst() - under all limits that are possible; returns the worst */
uint32_t mrg_judge_worst(const struct mrg_planner *p, const struct mrg_mr *mr,
			 const struct mrg_scan *scan,
			 struct mrg_outcome *worst);
/* mrg_largest_page() - the page of a device that takes all possible ones */
uint64_t mrg_largest_page(const struct mrg_planner *p, const struct mrg_mr *mr,
			  const struct mrg_scan *scan);

/* For printf's %llx. */
#define MRG_X(n) ((unsigned long long)(n))

/* mrg_say() - add a sentence to the plan's reason */
void mrg_say(struct mrg_plan *plan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* mrg_write_reason() - the verdict's grounds, and what the plan does about it */
void mrg_write_reason(struct mrg_planner *p);

static inline bool mrg_limit_known(const struct mrg_planner *p)
{
	return p->opts.max_page_shift != 0;
}

static inline uint32_t mrg_highest_limit(const struct mrg_planner *p)
{
	return mrg_limit_known(p) ? p->opts.max_page_shift : MRG_MAX_SHIFT;
}

static inline uint32_t mrg_lowest_limit(const struct mrg_planner *p)
{
	return mrg_limit_known(p) ? p->opts.max_page_shift : MRG_MIN_LIMIT;
}

#endif
