/* SPDX-License-Identifier: MIT */
/*
 * Registration of any pointer: split into parts (any.c), each registered by the
 * first way that works (any_ways.c).  Internal to lib/region.
 */
#ifndef REGION_ANY_H
#define REGION_ANY_H

#include <mrguard/any.h>

#include "region/mr.h"

struct region_any {
	struct mrg_ctx *ctx;
	struct ibv_pd *pd;
	const struct region_device *device;
	int access; /* without IBV_ACCESS_ON_DEMAND */
	bool on_demand; /* asked for */
	struct mrg_any_opts opts;
	struct mrg_gpu *gpu;
	uint32_t way_count;
};

/* A part of the range, of one kind and on one device. */
struct region_any_part {
	uint64_t addr;
	uint64_t length;
	enum mrg_mem_kind kind;
	bool on_gpu;
	bool coherent; /* the GPU shares the CPU's page tables */
};

#define REGION_ANY_WAYS 4 /* that one part can have */

/* Registers a part: 0, or -errno with the failure kept. */
int region_any_part_reg(struct region_any *any, const struct region_any_part *part,
			struct mrg_mr **mr);

#endif
