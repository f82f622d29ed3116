/* SPDX-License-Identifier: MIT */
/* What a registered buffer consists of.  Internal to lib/region. */
#ifndef REGION_MR_H
#define REGION_MR_H

#include "context.h"

/* Why the plan knew what it knew; describe.c has the words. */
enum region_grounds {
	GROUNDS_BLIND_IS_ENOUGH,	/* one MR is safe for any layout */
	GROUNDS_LAYOUT,			/* the module showed the addresses */
	GROUNDS_NO_MODULE,
	GROUNDS_NO_LAYOUT_FEATURE,
	GROUNDS_NO_IMPORTER,		/* no PCI function behind the device */
	GROUNDS_LAYOUT_FAILED,
	GROUNDS_HOST_DIRECT,		/* no IOMMU joins the pages */
	GROUNDS_HOST_WINDOWS,
};

/* One MR, as look-up needs it: two to a cache line. */
struct region_piece {
	uint64_t start;		/* offset in the buffer */
	uint64_t length;
	uint64_t delta;		/* wire address = offset in the buffer + this */
	uint32_t lkey;
	uint32_t rkey;
};

struct mrg_mr {
	/* Read by mrg_keys(), never written while others may read. */
	uint64_t addr;
	uint64_t length;	/* 0 once deregistration has begun */
	uint64_t bias;		/* see region_mr_index() */
	uint64_t inverse;
	size_t count;
	struct region_piece *pieces;

	struct ibv_mr **verbs;
	struct mrg_ctx *ctx;
	struct mrg_plan *plan;
	enum region_grounds grounds;
	int grounds_error;
	bool translated;
	bool shrunk;		/* pieces were made small after an ENOMEM */
	bool marks_pages;	/* libibverbs marks them where fork protection is on */
};

/* Prepares look-up; length, pieces and count are set. */
void region_mr_index(struct mrg_mr *mr);

#endif
