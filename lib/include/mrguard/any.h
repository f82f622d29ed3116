/* SPDX-License-Identifier: MIT */
/*
 * One call that registers any pointer: of the host, of CUDA or of HIP.  See
 * mrg_reg_any(3).
 */
#ifndef MRGUARD_ANY_H
#define MRGUARD_ANY_H

#include <stdbool.h>
#include <mrguard/common.h>
#include <mrguard/gpu.h>
#include <mrguard/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct mrg_way - one way to register a part of a range, and what came of it
 * @name:	"DMA-BUF", "DMA-BUF over PCIe", "peermem", "pinned memory" or
 *		"on-demand paging"; a string that lives for ever
 * @kind:	of the part's memory
 * @tried:	false: it was ruled out before anything was asked of verbs;
 *		@error says by what
 * @addr, @length: the part, bytes
 * @error:	why it does not work, with the remedy; @error.code is 0 for the
 *		way that was taken
 */
struct mrg_way {
	const char *name;
	enum mrg_mem_kind kind;
	bool tried;
	uint64_t addr;
	uint64_t length;
	struct mrg_error error;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_any_opts - how to register any pointer
 * @size:	sizeof(struct mrg_any_opts)
 * @flags:	0
 * @way_room:	room in @ways
 * @gpu:	the handle to classify and export with; NULL = one of the context's
 *		own, with default options
 * @reg:	how each MR is registered, as for mrg_reg(); NULL for defaults
 * @ways:	OUT, also where the call fails: the ways in the order in which they
 *		came up, the first @way_room of them; NULL = not wanted
 * @way_count:	OUT how many there were, which may be more than @way_room; NULL =
 *		not wanted
 */
struct mrg_any_opts {
	size_t size;
	uint32_t flags;
	uint32_t way_room;
	struct mrg_gpu *gpu;
	const struct mrg_reg_opts *reg;
	struct mrg_way *ways;
	uint32_t *way_count;
};

/**
 * mrg_reg_any() - register a range, whatever memory it is
 * @ctx: the context
 * @pd: the caller's protection domain
 * @ptr: first byte, an address of the host or of a GPU
 * @length: bytes
 * @access: IBV_ACCESS_*.  IBV_ACCESS_ON_DEMAND asks for on-demand paging of host
 *	and managed memory; host memory is pinned where the device refuses that.
 *	The flag is not passed on for memory of a GPU.
 * @opts: NULL for defaults
 * @mr: OUT the handle, for mrg_keys(), mrg_dereg() and the others
 *
 * A range of which parts lie on different devices, or on a GPU and in the host's
 * memory, is registered part by part, under one handle.  Of each part, the first
 * way that works is taken:
 *
 * memory of a GPU: DMA-BUFs, by the driver's default mapping or by that over PCIe,
 *	the one that fits GPU and NIC first; peermem, where its module is linked to
 *	the RDMA core
 * memory of the host: on-demand paging where asked for; pinning
 * managed memory: on-demand paging where asked for
 *
 * All or nothing: if a part has no way, no MR is left.
 *
 * Return: 0, or the -errno of the first way that was tried for the part that has
 * none; mrg_last_error() then names every way and its -errno, and @opts->ways has
 * the cause and remedy of each.  Further:
 * -EINVAL: malformed options, access or length
 * -ERANGE: the range overflows, or ends outside its allocation
 * -EFAULT: not all of the range is mapped
 * -EOPNOTSUPP: managed memory without IBV_ACCESS_ON_DEMAND
 * -ENOTCONN: the GPU has no CUDA context in this process, see MRG_GPU_CONTEXT
 * -ECHILD: a GPU's memory, in a child after fork(2)
 * -ENOMEM, and what mrg_gpu_classify(), mrg_gpu_export(), mrg_reg() and
 *	mrg_reg_dmabuf() return
 *
 * Any thread.  No driver is loaded or initialised, and the thread's current
 * context or device is the same after the call.
 */
MRG_API int mrg_reg_any(struct mrg_ctx *ctx, struct ibv_pd *pd, void *ptr, size_t length,
			int access, const struct mrg_any_opts *opts, struct mrg_mr **mr);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_ANY_H */
