/* SPDX-License-Identifier: MIT */
/*
 * Verdicts.  lib/region's planning judges DMA-BUFs: it asks the module for the
 * addresses where they matter, and keeps the answer for a DMA-BUF whose addresses
 * do not change.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/error.h"
#include "host/maps.h"
#include "model/model.h"
#include "region/request.h"

#include "guard/judge.h"

/* The largest page that every walk handles. */
#define HARMLESS_SHIFT 31

static void conclude(struct guard_finding *finding, enum mrg_verdict verdict,
		     enum guard_grounds grounds)
{
	finding->verdict = verdict;
	finding->grounds = grounds;
}

/* Decides from the request and the walk alone, where these are enough. */
static bool decide_at_once(enum mrg_walk walk, const struct guard_request *req,
			   struct guard_finding *finding)
{
	uint64_t last = req->iova + req->length - 1;

	if (!req->length || last < req->iova)
		conclude(finding, MRG_REFUSED, GUARD_KERNEL_REFUSES);
	else if (walk == MRG_WALK_EXACT)
		conclude(finding, MRG_SAFE, GUARD_WALK_EXACT);
	else if (req->access & IBV_ACCESS_ON_DEMAND)
		conclude(finding, MRG_SAFE, GUARD_ON_DEMAND);
	else if (model_safe_by_window(walk, req->iova, req->length))
		conclude(finding, MRG_SAFE, GUARD_ONE_WINDOW);
	else
		return false;
	return true;
}

static enum guard_path path_of(struct guard_process *p, const struct guard_request *req)
{
	struct mrg_vma_counts facts;
	uint64_t page = p->ctx->page_size, start = req->addr & ~(page - 1);

	if (req->fd >= 0)
		return GUARD_DMABUF;
	if (!p->peermem)
		return GUARD_HOST;
	if (!p->ctx->dev || mrg_dev_vma(p->ctx->dev, 0, start, start + page, &facts))
		return GUARD_HOST_OR_PEERMEM;
	return facts.special || !facts.vmas ? GUARD_PEERMEM : GUARD_HOST;
}

static enum guard_grounds dmabuf_grounds(const struct region_decision *d)
{
	switch (d->grounds) {
	case GROUNDS_BLIND_IS_ENOUGH:
		return GUARD_SMALL_PAGES;
	case GROUNDS_LAYOUT:
		return d->translated || d->moves ? GUARD_LAYOUT_CHANGES : GUARD_LAYOUT;
	case GROUNDS_NO_MODULE:
		return GUARD_NO_MODULE;
	case GROUNDS_NO_LAYOUT_FEATURE:
		return GUARD_NO_FEATURE;
	case GROUNDS_NO_IMPORTER:
		return GUARD_NO_IMPORTER;
	case GROUNDS_LAYOUT_FAILED:
		return GUARD_LAYOUT_FAILED;
	default:
		return GUARD_NOT_JUDGED;
	}
}

static void read_plan(struct region_decision *d, struct guard_finding *finding)
{
	struct mrg_plan *plan = region_decision_plan(d);
	const struct mrg_outcome *single;

	if (!plan) {
		conclude(finding, MRG_VERDICT_UNKNOWN, GUARD_NOT_JUDGED);
		return;
	}
	single = mrg_plan_single(plan);
	conclude(finding, single->verdict, dmabuf_grounds(d));
	finding->page_shift = single->page_shift;
	if (finding->verdict != MRG_SAFE)
		snprintf(finding->reason, sizeof(finding->reason), "%s", mrg_plan_reason(plan));
	if (finding->verdict == MRG_REFUSED)
		finding->grounds = GUARD_KERNEL_REFUSES;
}

static void to_region(struct guard_process *p, const struct guard_request *req,
		      struct region_request *out)
{
	*out = (struct region_request){ .ctx = p->ctx,
					.pd = req->pd,
					.fd = req->fd,
					.addr = req->iova,
					.length = req->length,
					.offset = req->offset,
					.access = (int)req->access,
					/* Asked before, and not effective. */
					.without_cap = true };
	out->opts.size = sizeof(out->opts);
	/* The program insists on its iova. */
	out->opts.flags = MRG_REG_IOVA_EQUAL;
	out->opts.strategy = MRG_STRATEGY_SPLIT;
}

static void ask_region(const struct region_request *region, struct guard_finding *finding)
{
	struct mrg_mr mr = { 0 };

	region_decide(region, 0, &mr);
	if (!mr.decision)
		return;
	read_plan(mr.decision, finding);
	region_decision_put(mr.decision);
}

/* The program may have closed the descriptor, and with it let go of the cap. */
static bool cap_holds(struct guard_process *p, const struct region_device *device)
{
	int ret = region_cap_holds(p->ctx, device);

	if (ret < 0 && guard_process_reopen_module(p))
		ret = region_cap_holds(p->ctx, device);
	return ret > 0;
}

static bool judge_by_cap(struct guard_process *p, const struct guard_request *req,
			 struct guard_finding *finding)
{
	enum mrg_walk walk = p->ctx->dev_info.walk;
	const struct region_device *device;

	if (walk != MRG_WALK_TRUNCATING && walk != MRG_WALK_TRUNCATING_UNBOUNDED)
		return false;
	if (region_device_get(p->ctx, req->pd->context, &device))
		return false;
	finding->cap_would_help = device->pick == MRG_PICK_KERNEL;
	if (!cap_holds(p, device))
		return false;
	conclude(finding, MRG_SAFE, GUARD_CAPPED);
	return true;
}

bool guard_judge_cap(struct guard_process *p, const struct guard_request *req)
{
	const struct region_device *device;
	bool holds = false;
	int cancel;

	if (!guard_enter(&cancel))
		return false;
	if (!region_device_get(p->ctx, req->pd->context, &device))
		holds = cap_holds(p, device);
	guard_leave(cancel);
	return holds;
}

static void judge_dmabuf(struct guard_process *p, const struct guard_request *req,
			 struct guard_finding *finding)
{
	struct region_request region;

	to_region(p, req, &region);
	/* uverbs refuses a range whose page offsets differ. */
	if ((req->iova ^ req->offset) & (p->ctx->page_size - 1)) {
		conclude(finding, MRG_REFUSED, GUARD_KERNEL_REFUSES);
		return;
	}
	if (region_device_get(p->ctx, req->pd->context, &region.device))
		return;
	ask_region(&region, finding);
	if (finding->grounds == GUARD_LAYOUT_FAILED && guard_process_reopen_module(p))
		ask_region(&region, finding);
}

/* Whether the range has huge pages or device memory.  Where no VMA covers a part,
 * it is device memory, or the kernel refuses it. */
static bool look_at_range(const struct guard_process *p, uint64_t start, uint64_t end, bool *huge,
			  bool *device)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	uint64_t covered = start;
	char path[PATH_MAX];

	*huge = *device = false;
	/* The kernel walks page tables for smaps: slow, so only for what may wrap. */
	snprintf(path, sizeof(path), "%s/self/smaps", p->ctx->env->proc);
	if (host_maps_open(&maps, path))
		return false;
	while (host_maps_next(&maps, &vma) == 1 && vma.start < end) {
		if (vma.end <= start)
			continue;
		if (vma.start <= covered)
			covered = vma.end;
		*huge |= (vma.flags & HOST_MF_HUGETLB) != 0;
		*device |= (vma.flags & (HOST_MF_IO | HOST_MF_PFNMAP | HOST_MF_MIXEDMAP)) != 0;
	}
	host_maps_close(&maps);
	*device |= covered < end;
	return true;
}

/* Whether ordinary memory can have runs of 4 GiB, contiguous for the device. */
static void judge_memory(struct guard_process *p, const struct guard_request *req,
			 struct guard_finding *finding)
{
	const struct region_device *device;
	bool huge, special;

	if (region_device_get(p->ctx, req->pd->context, &device))
		return;
	if (device->page_shift_bound && device->page_shift_bound <= HARMLESS_SHIFT) {
		conclude(finding, MRG_SAFE, GUARD_SMALL_PAGES);
		return;
	}
	if (!look_at_range(p, req->addr, req->addr + req->length, &huge, &special))
		return;
	if (special && p->peermem) {
		finding->path = GUARD_PEERMEM;
		conclude(finding, MRG_VERDICT_UNKNOWN, GUARD_DEVICE_MEMORY);
	} else if (huge || device->iommu == MRG_IOMMU_MODE_TRANSLATED ||
		   device->iommu == MRG_IOMMU_MODE_UNKNOWN) {
		conclude(finding, MRG_VERDICT_UNKNOWN, GUARD_MAY_JOIN);
	} else {
		conclude(finding, MRG_SAFE, GUARD_SCATTERED);
	}
}

void guard_judge(struct guard_process *p, const struct guard_request *req,
		 struct guard_finding *finding)
{
	int cancel;

	finding->page_shift = 0;
	finding->cap_would_help = false;
	finding->reason[0] = '\0';
	finding->path = path_of(p, req);
	if (decide_at_once(p->ctx->dev_info.walk, req, finding))
		return;
	conclude(finding, MRG_VERDICT_UNKNOWN, GUARD_NOT_JUDGED);
	if (!guard_enter(&cancel))
		return;
	if (judge_by_cap(p, req, finding))
		;
	else if (req->fd >= 0)
		judge_dmabuf(p, req, finding);
	else
		judge_memory(p, req, finding);
	guard_leave(cancel);
}

void guard_judge_bare(const struct guard_request *req, struct guard_finding *finding)
{
	finding->page_shift = 0;
	finding->cap_would_help = false;
	finding->reason[0] = '\0';
	finding->path = req->fd >= 0 ? GUARD_DMABUF : GUARD_HOST_OR_PEERMEM;
	if (!decide_at_once(MRG_WALK_UNKNOWN, req, finding))
		conclude(finding, MRG_VERDICT_UNKNOWN, GUARD_NOT_JUDGED);
}

void guard_explain(struct guard_process *p, const struct guard_request *req, int error,
		   struct mrg_error *why)
{
	const struct mrg_piece piece = { .length = req->length, .iova = req->iova };
	struct region_request region;
	struct host_limits limits;
	int cancel;

	base_error_set(
		why, -error, "register", "Run mrguard explain with this call and errno.",
		"Verbs failed with errno %d, unexplained: memory was short, or a signal handler interrupted the guard.",
		error);
	to_region(p, req, &region);
	if (req->fd < 0)
		region.addr = req->addr;
	if (!guard_enter(&cancel))
		return;
	if (!region_device_get(p->ctx, req->pd->context, &region.device)) {
		host_limits_read(p->env.proc, "self", &limits);
		region_explain(&region, -error, 0, &piece, &limits);
		mrg_last_error(p->ctx, why);
	}
	guard_leave(cancel);
}
