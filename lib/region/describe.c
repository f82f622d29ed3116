/* SPDX-License-Identifier: MIT */
/* Which plan a buffer got and why, in words. */
#include <stdio.h>
#include <string.h>

#include "region/mr.h"

static const char *layout_words(const struct region_decision *d)
{
	if (d->translated)
		return "its DMA addresses were seen, but the IOMMU gives each mapping new ones";
	return d->moves ? "its DMA addresses were seen, but its exporter can move it" :
			  "its DMA addresses were seen";
}

static const char *grounds_words(const struct mrg_mr *mr)
{
	switch (mr->decision->grounds) {
	case GROUNDS_BLIND_IS_ENOUGH:
		return "its DMA addresses do not matter";
	case GROUNDS_LAYOUT:
		return layout_words(mr->decision);
	case GROUNDS_NO_MODULE:
		return mr->ctx->dev_error ?
			       "its DMA addresses are not known: /dev/mrguard" :
			       "its DMA addresses are not known: the module was not to be used";
	case GROUNDS_NO_LAYOUT_FEATURE:
		return "its DMA addresses are not known: the module has no layouts";
	case GROUNDS_NO_IMPORTER:
		return "its DMA addresses are not known: the device has no PCI function";
	case GROUNDS_LAYOUT_FAILED:
		return "its DMA addresses are not known: the module answered";
	case GROUNDS_HOST_DIRECT:
		return "ordinary pages, which no IOMMU joins to runs of 4 GiB";
	case GROUNDS_HOST_WINDOWS:
		return "pages that an IOMMU or huge pages can join to runs of 4 GiB";
	}
	return "";
}

static int grounds_error(const struct mrg_mr *mr)
{
	if (mr->decision->grounds == GROUNDS_NO_MODULE)
		return mr->ctx->dev_error;
	return mr->decision->grounds == GROUNDS_LAYOUT_FAILED ? mr->decision->grounds_error : 0;
}

static size_t describe_parts(const struct mrg_mr *mr, char *text, size_t cap)
{
	size_t used = 0, room;
	int len = snprintf(text, cap, "%zu MRs in %zu parts.", mr->count, mr->part_count);

	for (size_t i = 0; len >= 0 && i < mr->part_count; i++) {
		used += (size_t)len;
		room = used < cap ? cap - used : 0;
		len = snprintf(room ? text + used : NULL, room, " Part %zu: ", i + 1);
		used += len > 0 ? (size_t)len : 0;
		room = used < cap ? cap - used : 0;
		len = (int)mrg_mr_describe(mr->parts[i], room ? text + used : NULL, room);
	}
	return used + (len > 0 ? (size_t)len : 0);
}

size_t mrg_mr_describe(const struct mrg_mr *mr, char *text, size_t cap)
{
	const struct mrg_plan *plan;
	int error, len;

	if (mr->parts)
		return describe_parts(mr, text, cap);
	plan = region_decision_plan(mr->decision);
	error = grounds_error(mr);
	len = snprintf(
		text, cap, "%s%s%zu MR%s (%s), kernel's walk %s%s; %s%s%s. %s%s",
		mr->way ? mr->way : "", mr->way ? ": " : "", mr->count, mr->count == 1 ? "" : "s",
		plan ? mrg_strategy_name(mrg_plan_strategy(plan)) : "none",
		mrg_walk_name(mr->ctx->dev_info.walk), region_counts_on_cap(mr) ? " (capped)" : "",
		grounds_words(mr), error ? ": " : "", error ? strerror(-error) : "",
		mr->decision->shrunk ?
			"Pieces are of 1 GiB, since larger ones met ENOMEM behind an IOMMU that translates. " :
			"",
		plan ? mrg_plan_reason(plan) : "");
	return len < 0 ? 0 : (size_t)len;
}
