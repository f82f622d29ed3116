/* SPDX-License-Identifier: MIT */
/* What a registered buffer consists of.  Internal to lib/region. */
#ifndef REGION_MR_H
#define REGION_MR_H

#include "region/context.h"

/* Why the plan knew what it knew; describe.c has the words. */
enum region_grounds {
	GROUNDS_BLIND_IS_ENOUGH, /* one MR is safe for any layout */
	GROUNDS_LAYOUT, /* the module showed the addresses */
	GROUNDS_NO_MODULE,
	GROUNDS_NO_LAYOUT_FEATURE,
	GROUNDS_NO_IMPORTER, /* no PCI function behind the device */
	GROUNDS_LAYOUT_FAILED,
	GROUNDS_HOST_DIRECT, /* no IOMMU joins the pages */
	GROUNDS_HOST_WINDOWS,
};

/*
 * What was decided for a range.  Handles of one DMA-BUF can share it
 * (layout_cache.c).
 * The planner's object is made late where one MR is plainly enough: nearly
 * nobody asks for it, and its words cost more than the rest.
 */
struct region_decision {
	atomic_uint refs; /* 0: part of a handle */
	_Atomic(struct mrg_plan *) plan;
	struct mrg_plan_opts opts; /* a plan without addresses is made from these */
	enum region_grounds grounds;
	int grounds_error;
	bool translated; /* the IOMMU gives each mapping new addresses */
	bool moves; /* so can the exporter */
	bool shrunk; /* pieces were made small after an ENOMEM */
};

/* One MR, as look-up needs it: two to a cache line. */
struct region_piece {
	uint64_t start; /* offset in the buffer */
	uint64_t length;
	uint64_t delta; /* wire address = offset in the buffer + this */
	uint32_t lkey;
	uint32_t rkey;
};

struct mrg_mr {
	/* Read by mrg_keys(), never written while others may read. */
	uint64_t addr;
	uint64_t length; /* 0 once deregistration has begun */
	uint64_t bias; /* see region_mr_index() */
	uint64_t inverse;
	size_t count;
	struct region_piece *pieces;

	struct ibv_mr **verbs;
	struct mrg_ctx *ctx;
	struct region_decision *decision;
	bool marks_pages; /* libibverbs marks them where fork protection is on */
	bool stuck; /* rolled back, but MRs of it would not go */
	struct mrg_mr *next; /* the next stuck one */
	const char *way; /* that mrg_reg_any() took; NULL: not made by it */
	/* Handles that this one stands for, in order; NULL: it has MRs of its own. */
	struct mrg_mr **parts;
	size_t part_count;

	/* One MR is the rule: no memory of its own for it. */
	struct region_piece one_piece;
	struct ibv_mr *one_verbs;
	struct region_decision own_decision;
};

/* Prepares look-up; length, pieces and count are set. */
void region_mr_index(struct mrg_mr *mr);

/**
 * region_join() - one handle over others that follow one another
 * @parts: at least one; taken over on success.  The parts of a joined one become
 *	parts of the new handle.
 *
 * Return: 0; -ENOMEM, with the failure kept.
 */
int region_join(struct mrg_ctx *ctx, struct mrg_mr **parts, size_t count, struct mrg_mr **mr);
/* Frees a joined handle, and none of its parts. */
void region_join_free(struct mrg_mr *mr);

/* Of a handle that has MRs of its own: */
/* Deregisters it: 0, or -errno with the failure kept. */
int region_own_dereg(struct mrg_mr *mr);
/* Undoes a registration that its caller never sees; what does not go is tried again
 * by later registrations. */
void region_own_undo(struct mrg_mr *mr);

/* The same, of any handle. */
void region_mr_undo(struct mrg_mr *mr);

/* One that can be shared, with a reference for the caller; NULL without memory. */
struct region_decision *region_decision_new(const struct mrg_plan_opts *opts);
/* The decision's plan, made now if need be; NULL without memory. */
struct mrg_plan *region_decision_plan(struct region_decision *decision);
void region_decision_put(struct region_decision *decision);

/* Whether one MR is safe only while the kernel's cap holds. */
static inline bool region_counts_on_cap(const struct mrg_mr *mr)
{
	return mr->decision->opts.flags & MRG_PLAN_CAPPED;
}

/* Forgets what is stuck, with a last try to deregister it. */
void region_stuck_drop(struct mrg_ctx *ctx);

#endif
