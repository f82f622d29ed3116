/* SPDX-License-Identifier: MIT */
/*
 * Which MRs a buffer becomes: gathers what is known, and asks the planner.
 * What needs no planner, and no addresses, comes first: most buffers are small
 * or on a kernel that is not affected.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/maps.h"
#include "model/model.h"
#include "region/request.h"

/* No MR gets a page that the truncating walk gets wrong. */
static bool pages_are_bounded(const struct mrg_plan_opts *opts)
{
	return opts->flags & MRG_PLAN_CAPPED ||
	       (opts->max_page_shift && opts->max_page_shift < MODEL_WIDE_SHIFT);
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
	/* All of it, since decisions are compared by their options' bytes. */
	memset(opts, 0, sizeof(*opts));
	opts->size = sizeof(*opts);
	opts->walk = req->ctx->dev_info.walk;
	opts->iova = req->addr;
	/* Where in its first page; the layout, if asked for, says more. */
	opts->offset = req->addr & (req->ctx->page_size - 1);
	opts->length = req->length;
	opts->page_size = req->ctx->page_size;
	opts->strategy = req->opts.strategy;
	opts->unit = req->opts.unit;
	opts->max_mr_size = smaller_limit(max_mr_size, smaller_limit(req->opts.max_mr_size,
								     req->device->max_mr_size));
	opts->max_page_shift = req->opts.max_page_shift;
	if (!opts->max_page_shift)
		opts->max_page_shift = req->device->page_shift_bound;
}

/* The same answer that the planner would give, in the cases that are plain. */
static bool one_is_plainly_safe(const struct mrg_plan_opts *opts)
{
	if (opts->max_mr_size && opts->length > opts->max_mr_size)
		return false;
	return opts->walk == MRG_WALK_EXACT || opts->flags & MRG_PLAN_CAPPED ||
	       model_safe_by_window(opts->walk, opts->iova, opts->length);
}

static int make(const struct region_request *req, const struct mrg_sg *sg, size_t count,
		struct mrg_mr *mr)
{
	struct region_decision *d = mr->decision;
	struct mrg_plan *plan;
	int ret = mrg_plan_make(sg, count, &d->opts, &plan);

	if (ret)
		return base_fail(req->ctx->error_owner, ret, "plan",
				 "Check the options, and free memory if there is none.",
				 "No plan can be made: %s.", strerror(-ret));
	mrg_plan_free(d->plan);
	d->plan = plan;
	mrg_plan_pieces(plan, &mr->count);
	return 0;
}

static int plan_with_layout(const struct region_request *req, struct mrg_mr *mr)
{
	const struct region_env *env = req->ctx->env;
	struct region_decision *d = mr->decision;
	uint32_t flags = model_walk_per_entry(d->opts.walk) ? 0 : MRG_LAYOUT_COALESCE;
	struct mrg_layout layout;
	int ret;

	ret = env->dev_layout(req->ctx->dev, req->fd, &req->device->pci, req->addr, req->offset,
			      req->length, flags, &layout);
	if (ret) {
		d->grounds = GROUNDS_LAYOUT_FAILED;
		d->grounds_error = ret;
		return 0;
	}
	d->grounds = GROUNDS_LAYOUT;
	d->translated = layout.iommu == MRG_IOMMU_MODE_TRANSLATED ||
			layout.iommu == MRG_IOMMU_MODE_UNKNOWN;
	d->moves = layout.moves;
	d->opts.flags |= (d->translated ? MRG_PLAN_TRANSLATED : 0) |
			 (d->moves ? MRG_PLAN_MOVES : 0);
	d->opts.offset = req->offset - layout.start;
	ret = make(req, layout.sg, layout.count, mr);
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

static int plan_dmabuf(const struct region_request *req, struct mrg_mr *mr)
{
	const struct mrg_plan_opts *asked = &mr->own_decision.opts;
	struct region_decision *known = region_layout_cache_find(req, asked);
	int ret;

	if (known) {
		mr->decision = known;
		mrg_plan_pieces(known->plan, &mr->count);
		return 0;
	}
	mr->decision = region_decision_new(asked);
	if (!mr->decision)
		return base_fail(req->ctx->error_owner, -ENOMEM, "plan",
				 "Free memory, or raise its limit.",
				 "There is no memory for a plan.");
	ret = make(req, NULL, 0, mr);
	if (ret)
		return ret;
	mr->decision->grounds = GROUNDS_BLIND_IS_ENOUGH;
	if (mr->count == 1 || asked->walk == MRG_WALK_EXACT || pages_are_bounded(asked))
		return 0;
	mr->decision->grounds = layout_grounds(req);
	if (mr->decision->grounds != GROUNDS_LAYOUT)
		return 0;
	ret = plan_with_layout(req, mr);
	if (!ret && mr->count && mr->decision->grounds == GROUNDS_LAYOUT)
		region_layout_cache_add(req, asked, mr->decision);
	return ret;
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

uint64_t region_huge_page(const struct mrg_ctx *ctx, uint64_t addr, uint64_t length)
{
	char path[PATH_MAX];
	uint64_t size;

	snprintf(path, sizeof(path), "%s/self/smaps", ctx->env->proc);
	size = host_maps_page_size(path, addr, length);
	return size > ctx->page_size ? size : 0;
}

static int plan_host(const struct region_request *req, struct mrg_mr *mr)
{
	struct region_decision *d = mr->decision;
	uint64_t huge_page;
	int ret = make(req, NULL, 0, mr);

	if (ret || mr->count == 1)
		return ret;
	huge_page = region_huge_page(req->ctx, req->addr, req->length);
	d->opts.cut_align = huge_page;
	if (d->opts.walk != MRG_WALK_EXACT && !pages_are_bounded(&d->opts)) {
		d->grounds = GROUNDS_HOST_WINDOWS;
		if (!pages_may_join(req, huge_page)) {
			d->grounds = GROUNDS_HOST_DIRECT;
			d->opts.walk = MRG_WALK_EXACT;
		}
	}
	return make(req, NULL, 0, mr);
}

static void start_decision(const struct region_request *req, uint64_t max_mr_size,
			   struct mrg_mr *mr)
{
	struct mrg_plan_opts *opts = &mr->own_decision.opts;

	mr->decision = &mr->own_decision;
	mr->decision->grounds = GROUNDS_BLIND_IS_ENOUGH;
	plan_opts(req, max_mr_size, opts);
	if (req->fd >= 0) {
		if (!(req->opts.flags & MRG_REG_IOVA_EQUAL))
			opts->flags |= MRG_PLAN_IOVA_FREE;
		return;
	}
	/* The addresses of a rebased MR must be known, and these are not. */
	opts->strategy = MRG_STRATEGY_SPLIT;
	/* On-demand MRs have pages of their own, below any limit. */
	if (req->access & IBV_ACCESS_ON_DEMAND)
		opts->walk = MRG_WALK_EXACT;
}

/*
 * The narrow walk can hang in small pages too, and a context that was opened
 * before the cap does not use it.
 */
static bool cap_can_help(const struct region_request *req, const struct mrg_plan_opts *opts)
{
	return !req->without_cap && req->ctx->dev_info.cap == MRG_CAP_EFFECTIVE &&
	       (opts->walk == MRG_WALK_TRUNCATING || opts->walk == MRG_WALK_TRUNCATING_UNBOUNDED) &&
	       !pages_are_bounded(opts);
}

int region_decide(const struct region_request *req, uint64_t max_mr_size, struct mrg_mr *mr)
{
	struct mrg_plan_opts *opts = &mr->own_decision.opts;
	int ret;

	start_decision(req, max_mr_size, mr);
	if (!one_is_plainly_safe(opts) && cap_can_help(req, opts) &&
	    region_cap_holds(req->ctx, req->device) > 0)
		opts->flags |= MRG_PLAN_CAPPED;
	if (one_is_plainly_safe(opts)) {
		mr->count = 1;
		return 0;
	}
	ret = req->fd >= 0 ? plan_dmabuf(req, mr) : plan_host(req, mr);
	if (ret || mr->count)
		return ret;
	return base_fail(req->ctx->error_owner, -EINVAL, "plan",
			 "Change the named limit, or the range.", "%s",
			 mrg_plan_reason(mr->decision->plan));
}

const struct mrg_piece *region_pieces(const struct region_request *req, const struct mrg_mr *mr,
				      struct mrg_piece *room)
{
	size_t count;

	if (mr->decision->plan)
		return mrg_plan_pieces(mr->decision->plan, &count);
	*room = (struct mrg_piece){ .length = req->length, .iova = req->addr };
	return room;
}
