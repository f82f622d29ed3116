/* SPDX-License-Identifier: MIT */
/*
 * Which MRs a buffer becomes: gathers what is known, and asks the planner.
 * The plan without addresses comes first, since most buffers need no better.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "request.h"

/* Pages of 4 GiB and more are what the walk truncates. */
#define TRUNCATED_SHIFT	32

static bool page_bound_known(const struct mrg_plan_opts *opts)
{
	return opts->max_page_shift && opts->max_page_shift < TRUNCATED_SHIFT;
}

static uint64_t smaller_limit(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static void plan_opts(const struct region_request *req, uint64_t max_mr_size,
		      struct mrg_plan_opts *opts)
{
	uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);

	*opts = (struct mrg_plan_opts){
		.size = sizeof(*opts),
		.walk = req->ctx->dev_info.walk,
		.iova = req->addr,
		/* Where in its first page; the layout, if asked for, says more. */
		.offset = req->addr & (page_size - 1),
		.length = req->length,
		.page_size = page_size,
		.max_page_shift = req->opts.max_page_shift,
		.strategy = req->opts.strategy,
		.unit = req->opts.unit,
	};
	opts->max_mr_size = smaller_limit(max_mr_size,
					  smaller_limit(req->opts.max_mr_size,
							req->device->max_mr_size));
	if (!opts->max_page_shift)
		opts->max_page_shift = req->device->page_shift_bound;
}

static int make(const struct region_request *req, const struct mrg_sg *sg,
		size_t count, const struct mrg_plan_opts *opts,
		struct mrg_mr *mr)
{
	struct mrg_plan *plan;
	int ret = mrg_plan_make(sg, count, opts, &plan);

	if (ret)
		return region_fail(req->ctx, ret, -1, "plan", "",
				   "No plan could be made: %s.", strerror(-ret));
	mrg_plan_free(mr->plan);
	mr->plan = plan;
	mrg_plan_pieces(plan, &mr->count);
	return 0;
}

static int need_pieces(const struct region_request *req, const struct mrg_mr *mr)
{
	if (mr->count)
		return 0;
	return region_fail(req->ctx, -EINVAL, -1, "plan",
			   "Change the named limit, or the range.", "%s",
			   mrg_plan_reason(mr->plan));
}

static bool walks_entries(enum mrg_walk walk)
{
	return walk == MRG_WALK_PER_ENTRY || walk == MRG_WALK_PER_ENTRY_NARROW;
}

static int plan_with_layout(const struct region_request *req,
			    struct mrg_plan_opts *opts, struct mrg_mr *mr)
{
	const struct region_env *env = req->ctx->env;
	uint32_t flags = walks_entries(opts->walk) ? MRG_LAYOUT_ENTRIES : 0;
	struct mrg_layout layout;
	int ret;

	ret = env->dev_layout(req->ctx->dev, req->fd, &req->device->pci, req->addr,
			      req->offset, req->length, flags, &layout);
	if (ret) {
		mr->grounds = GROUNDS_LAYOUT_FAILED;
		mr->grounds_error = ret;
		return 0;
	}
	mr->grounds = GROUNDS_LAYOUT;
	mr->translated = layout.iommu == MRG_IOMMU_MODE_TRANSLATED ||
			 layout.iommu == MRG_IOMMU_MODE_UNKNOWN;
	if (mr->translated)
		opts->flags |= MRG_PLAN_TRANSLATED;
	opts->offset = req->offset - layout.start;
	ret = make(req, layout.sg, layout.count, opts, mr);
	env->layout_release(&layout);
	return ret;
}

/* Why the addresses cannot be asked for; _LAYOUT where they can. */
static enum region_grounds layout_grounds(const struct region_request *req)
{
	if (!req->ctx->dev)
		return GROUNDS_NO_MODULE;
	if (!req->ctx->dev_info.has_layout)
		return GROUNDS_NO_LAYOUT_FEATURE;
	return req->device->has_pci ? GROUNDS_LAYOUT : GROUNDS_NO_IMPORTER;
}

static int plan_dmabuf(const struct region_request *req,
		       struct mrg_plan_opts *opts, struct mrg_mr *mr)
{
	int ret;

	if (!(req->opts.flags & MRG_REG_IOVA_EQUAL))
		opts->flags |= MRG_PLAN_IOVA_FREE;
	ret = make(req, NULL, 0, opts, mr);
	if (ret)
		return ret;
	mr->grounds = GROUNDS_BLIND_IS_ENOUGH;
	if (mr->count == 1 || opts->walk == MRG_WALK_EXACT || page_bound_known(opts))
		return 0;
	mr->grounds = layout_grounds(req);
	return mr->grounds == GROUNDS_LAYOUT ? plan_with_layout(req, opts, mr) : 0;
}

/*
 * Pages of ordinary memory are contiguous for 4 GiB and more, and so in danger,
 * behind an IOMMU that translates, or where they are huge pages.
 */
static bool pages_may_join(const struct region_request *req, uint64_t huge_page)
{
	return huge_page || req->device->iommu == MRG_IOMMU_MODE_TRANSLATED ||
	       req->device->iommu == MRG_IOMMU_MODE_UNKNOWN;
}

static int plan_host(const struct region_request *req,
		     struct mrg_plan_opts *opts, struct mrg_mr *mr)
{
	uint64_t huge_page;
	int ret;

	/* The addresses of a rebased MR must be known, and these are not. */
	opts->strategy = MRG_STRATEGY_SPLIT;
	/* On-demand MRs have pages of their own, below any limit. */
	if (req->access & IBV_ACCESS_ON_DEMAND)
		opts->walk = MRG_WALK_EXACT;
	ret = make(req, NULL, 0, opts, mr);
	if (ret)
		return ret;
	mr->grounds = GROUNDS_BLIND_IS_ENOUGH;
	if (mr->count == 1)
		return 0;
	huge_page = region_huge_page(req->ctx->env, req->addr, req->length);
	opts->cut_align = huge_page;
	if (opts->walk != MRG_WALK_EXACT && !page_bound_known(opts)) {
		mr->grounds = GROUNDS_HOST_WINDOWS;
		if (!pages_may_join(req, huge_page)) {
			mr->grounds = GROUNDS_HOST_DIRECT;
			opts->walk = MRG_WALK_EXACT;
		}
	}
	return make(req, NULL, 0, opts, mr);
}

int region_plan(const struct region_request *req, uint64_t max_mr_size,
		struct mrg_mr *mr)
{
	struct mrg_plan_opts opts;
	int ret;

	plan_opts(req, max_mr_size, &opts);
	ret = req->fd >= 0 ? plan_dmabuf(req, &opts, mr)
			   : plan_host(req, &opts, mr);
	return ret ? ret : need_pieces(req, mr);
}
