/* SPDX-License-Identifier: MIT */
/* Names and reasons, for report and messages. */
#include "guard/report.h"

static const char *const calls[GUARD_CALLS] = {
	[GUARD_REG_MR] = "ibv_reg_mr",
	[GUARD_REG_MR_IOVA] = "ibv_reg_mr_iova",
	[GUARD_REG_MR_IOVA2] = "ibv_reg_mr_iova2",
	[GUARD_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[GUARD_REG_MR_EX] = "ibv_reg_mr_ex",
	[GUARD_MLX5_REG_DMABUF_MR] = "mlx5dv_reg_dmabuf_mr",
	[GUARD_REREG_MR] = "ibv_rereg_mr",
};

static const char *const paths[GUARD_PATHS] = {
	[GUARD_HOST] = "host",
	[GUARD_PEERMEM] = "peermem",
	[GUARD_HOST_OR_PEERMEM] = "host or peermem",
	[GUARD_DMABUF] = "DMA-BUF",
};

static const char *const grounds[GUARD_GROUNDS] = {
	[GUARD_WALK_EXACT] = "this kernel's walk is exact",
	[GUARD_ONE_WINDOW] =
		"it lies within one 2 GiB window of the iova, so no page exceeds 2 GiB",
	[GUARD_ON_DEMAND] = "on-demand memory has small pages",
	[GUARD_SMALL_PAGES] = "the device or the iova keeps pages at 2 GiB or below",
	[GUARD_SCATTERED] = "ordinary pages, which no IOMMU joins to runs of 4 GiB",
	[GUARD_MAY_JOIN] =
		"an IOMMU or huge pages can join its pages to runs of 4 GiB, and the walk is affected or not known",
	[GUARD_DEVICE_MEMORY] =
		"device memory pinned by its address, whose DMA addresses are not known",
	[GUARD_LAYOUT] = "its DMA addresses were seen",
	[GUARD_LAYOUT_CHANGES] =
		"its DMA addresses were seen, but IOMMU or exporter can give it others",
	[GUARD_NO_MODULE] = "its DMA addresses are not known: /dev/mrguard cannot be used",
	[GUARD_NO_FEATURE] = "its DMA addresses are not known: the module has no layouts",
	[GUARD_NO_IMPORTER] = "its DMA addresses are not known: the device has no PCI function",
	[GUARD_LAYOUT_FAILED] = "its DMA addresses are not known: the module could not map it",
	[GUARD_KERNEL_REFUSES] = "the kernel refuses the range as it is",
	[GUARD_NOT_JUDGED] =
		"it was not judged: no memory, or a signal handler met the guard at work",
};

const char *guard_call_name(uint32_t call)
{
	return call < GUARD_CALLS ? calls[call] : "?";
}

const char *guard_path_name(uint32_t path)
{
	return path < GUARD_PATHS ? paths[path] : "?";
}

const char *guard_grounds_words(uint32_t i)
{
	return i < GUARD_GROUNDS ? grounds[i] : "?";
}
