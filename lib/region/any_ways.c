/* SPDX-License-Identifier: MIT */
/* The ways to register a part of a range, and what each of them met. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/peermem.h"
#include "region/any.h"

/* What came of a part's ways; the last one is under way. */
struct trial {
	struct region_any *any;
	const struct region_any_part *part;
	struct mrg_way ways[REGION_ANY_WAYS];
	size_t count;
	bool range_is_wrong; /* for any way */
};

static struct mrg_way *begin(struct trial *t, const char *name)
{
	struct mrg_way *way = &t->ways[t->count++];

	*way = (struct mrg_way){ .name = name,
				 .kind = t->part->kind,
				 .tried = true,
				 .addr = t->part->addr,
				 .length = t->part->length };
	return way;
}

static int rule_out(struct trial *t, const char *name, int code, const char *remedy,
		    const char *cause)
{
	struct mrg_way *way = begin(t, name);

	way->tried = false;
	return base_error_set(&way->error, code, "rule out", remedy, "%s", cause);
}

/* Takes over why the way that is under way failed; region or gpu kept it. */
static int failed(struct trial *t, int code, bool by_gpu)
{
	struct mrg_error *error = &t->ways[t->count - 1].error;
	int unknown = by_gpu ? mrg_gpu_last_error(t->any->gpu, error) :
			       mrg_last_error(t->any->ctx, error);

	if (unknown)
		base_error_set(error, code, "register", "", "The way fails with %s.",
			       strerror(-code));
	return error->code = code;
}

static int succeeded(const struct trial *t, struct mrg_mr *mr)
{
	const char *name = t->ways[t->count - 1].name;

	mr->way = name;
	for (size_t i = 0; i < mr->part_count; i++)
		mr->parts[i]->way = name;
	return 0;
}

static int try_memory(struct trial *t, const char *name, int access, struct mrg_mr **mr)
{
	int ret;

	begin(t, name);
	ret = mrg_reg(t->any->ctx, t->any->pd, (void *)(uintptr_t)t->part->addr, t->part->length,
		      access, t->any->opts.reg, mr);
	return ret ? failed(t, ret, false) : succeeded(t, *mr);
}

static int try_on_demand(struct trial *t, struct mrg_mr **mr)
{
	return try_memory(t, "on-demand paging", t->any->access | IBV_ACCESS_ON_DEMAND, mr);
}

/* ---- DMA-BUFs ---- */

static void undo(struct mrg_mr **parts, size_t count)
{
	while (count)
		region_mr_undo(parts[--count]);
}

static int reg_pieces(struct trial *t, const struct mrg_export *export, struct mrg_mr **parts)
{
	int ret = 0;
	size_t i = 0;

	for (; i < export->count && !ret; i++)
		ret = mrg_reg_dmabuf(t->any->ctx, t->any->pd, &export->pieces[i].buf,
				     export->pieces[i].addr, export->pieces[i].length,
				     t->any->access, t->any->opts.reg, &parts[i]);
	if (ret)
		undo(parts, i - 1);
	return ret;
}

/* All DMA-BUFs of an export, under one handle. */
static int reg_export(struct trial *t, const struct mrg_export *export, struct mrg_mr **mr)
{
	struct mrg_mr **parts = calloc(export->count, sizeof(*parts));
	int ret;

	if (!parts)
		return base_fail(t->any->ctx->error_owner, -ENOMEM, "register",
				 "Free memory, or raise its limit.",
				 "There is no memory for %zu DMA-BUFs.", export->count);
	ret = reg_pieces(t, export, parts);
	if (!ret && export->count == 1) {
		*mr = parts[0];
	} else if (!ret) {
		ret = region_join(t->any->ctx, parts, export->count, mr);
		if (ret)
			undo(parts, export->count);
	}
	free(parts);
	return ret;
}

static int try_dmabuf(struct trial *t, bool pcie, struct mrg_mr **mr)
{
	const struct mrg_export_opts opts = { .size = sizeof(opts),
					      .flags = pcie ? MRG_EXPORT_PCIE : 0 };
	struct mrg_way *way = begin(t, pcie ? "DMA-BUF over PCIe" : "DMA-BUF");
	struct mrg_export export;
	int ret = mrg_gpu_export(t->any->gpu, t->part->addr, t->part->length, &opts, &export);

	if (ret) {
		t->range_is_wrong = ret == -EFAULT || ret == -ERANGE;
		return failed(t, ret, true);
	}
	if (pcie && !export.pcie)
		ret = base_error_set(&way->error, -EOPNOTSUPP, "export", "",
				     "The GPU's driver makes no DMA-BUF that is mapped over PCIe.");
	else if ((ret = reg_export(t, &export, mr)))
		failed(t, ret, false);
	else
		succeeded(t, *mr);
	mrg_gpu_export_release(t->any->gpu, &export);
	return ret;
}

/*
 * Only a GPU that shares the CPU's page tables has two mappings.  Amazon's EFA
 * reaches such a GPU over PCIe; others take the default, and the one over PCIe
 * where the exporter does not let them in with that.
 */
static int try_dmabufs(struct trial *t, struct mrg_mr **mr)
{
	bool pcie_first = t->part->coherent && !strcmp(t->any->device->pci_driver, "efa");
	int ret = try_dmabuf(t, pcie_first, mr);

	if (!ret || !t->part->coherent || t->range_is_wrong)
		return ret;
	return try_dmabuf(t, !pcie_first, mr);
}

/* ---- peermem ---- */

static int try_peermem(struct trial *t, struct mrg_mr **mr)
{
	const char *sys = t->any->ctx->env->sys;
	bool hip = t->part->kind >= MRG_MEM_HIP;

	if (hip ? host_peermem_amd(sys) : host_peermem_nvidia(sys))
		return try_memory(t, "peermem", t->any->access, mr);
	if (hip)
		return rule_out(t, "peermem", -ENODEV, "",
				"The file memory_peers/amdkfd/version is not in /sys/kernel/mm.");
	if (host_peermem_loaded(sys))
		return rule_out(
			t, "peermem", -ENODEV,
			"Reinstall the GPU driver after the vendor's RDMA stack, so that the module is built against it.",
			"The module nvidia_peermem is loaded, and nothing shows that it is linked to the RDMA core.");
	return rule_out(
		t, "peermem", -ENODEV,
		"Install the vendor's RDMA stack, then the GPU driver, and run modprobe nvidia_peermem.",
		"The module nvidia_peermem is not loaded.");
}

/* ---- a part ---- */

static int try_gpu(struct trial *t, struct mrg_mr **mr)
{
	int ret = try_dmabufs(t, mr);

	return !ret || t->range_is_wrong ? ret : try_peermem(t, mr);
}

static int try_host(struct trial *t, struct mrg_mr **mr)
{
	if (t->any->on_demand && !try_on_demand(t, mr))
		return 0;
	return try_memory(t, "pinned memory", t->any->access, mr);
}

static int try_managed(struct trial *t, struct mrg_mr **mr)
{
	if (t->any->on_demand)
		return try_on_demand(t, mr);
	return rule_out(
		t, "on-demand paging", -EOPNOTSUPP,
		"Allocate the buffer with cudaMalloc() or hipMalloc(), or ask for IBV_ACCESS_ON_DEMAND.",
		"Managed memory moves between host and device, so it is not pinned.");
}

static int try_all(struct trial *t, struct mrg_mr **mr)
{
	if (t->part->kind == MRG_MEM_CUDA_MANAGED || t->part->kind == MRG_MEM_HIP_MANAGED)
		return try_managed(t, mr);
	return t->part->on_gpu ? try_gpu(t, mr) : try_host(t, mr);
}

static void give_ways(const struct trial *t)
{
	struct mrg_any_opts *opts = &t->any->opts;

	for (size_t i = 0; i < t->count; i++, t->any->way_count++)
		if (opts->ways && t->any->way_count < opts->way_room)
			opts->ways[t->any->way_count] = t->ways[i];
	if (opts->way_count)
		*opts->way_count = t->any->way_count;
}

/* The way whose failure is the call's: the first that was tried. */
static const struct mrg_way *telling_way(const struct trial *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->ways[i].tried)
			return &t->ways[i];
	return &t->ways[0];
}

/* "DMA-BUF (EPERM), peermem (ruled out)" */
static void list_ways(const struct trial *t, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < t->count && used < size; i++) {
		const struct mrg_way *way = &t->ways[i];
		const char *name = strerrorname_np(-way->error.code);

		used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", i ? ", " : "",
					 way->name,
					 !way->tried ? "ruled out" :
					 name	     ? name :
						       "failed");
	}
}

static int no_way(const struct trial *t)
{
	const struct mrg_way *way = telling_way(t);
	uint64_t owner = t->any->ctx->error_owner;
	char list[128];

	if (t->count == 1)
		return mrg_private_error_keep(owner, &way->error);
	list_ways(t, list, sizeof(list));
	return base_fail_piece(owner, way->error.code, way->error.piece, way->error.stage,
			       way->error.remedy, "No way works for %s memory: %s. %s",
			       mrg_mem_kind_name(t->part->kind), list, way->error.cause);
}

int region_any_part_reg(struct region_any *any, const struct region_any_part *part,
			struct mrg_mr **mr)
{
	struct trial t = { .any = any, .part = part };
	int ret = try_all(&t, mr);

	give_ways(&t);
	return ret ? no_way(&t) : 0;
}
