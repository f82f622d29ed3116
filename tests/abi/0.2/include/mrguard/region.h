/* SPDX-License-Identifier: MIT */
/*
 * Registration that cannot wrap: the calls that an engine makes in place of
 * ibv_reg_dmabuf_mr() and ibv_reg_mr().  See mrg_reg(3).
 *
 * A buffer becomes one handle over one or more MRs on the caller's own
 * protection domain.  mrg_keys() turns a range of it into what goes into work
 * requests.  All or nothing: a failed registration leaves no MR behind.
 */
#ifndef MRGUARD_REGION_H
#define MRGUARD_REGION_H

#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/fork.h>
#include <mrguard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_mr;
struct ibv_pd;
struct mrg_headroom; /* <mrguard/vma.h> */

struct mrg_ctx; /* what is known of module, kernel and RDMA devices */
struct mrg_mr; /* a registered buffer */

#define MRG_OPEN_NO_MODULE (1u << 0) /* do not use /dev/mrguard */

/**
 * struct mrg_open_opts - how to open a context
 * @size:	sizeof(struct mrg_open_opts)
 * @flags:	MRG_OPEN_*
 * @max_page_shift: log2 of the largest page that the devices can be given,
 *		12 to 63, where the caller knows; 0 = not known.  Verbs has no
 *		question for it.
 * @fork:	fork protection, see enum mrg_fork_policy; MRGUARD_FORK in the
 *		environment comes first
 * @reserved:	0
 * @vma_floor:	VMAs that must be left after a registration; 0 = 64
 */
struct mrg_open_opts {
	size_t size;
	uint32_t flags;
	uint32_t max_page_shift;
	enum mrg_fork_policy fork;
	uint32_t reserved;
	uint64_t vma_floor;
};

/**
 * mrg_open() - open a context
 * @ctx: OUT, to be closed with mrg_close()
 * @device: the opened RDMA device that registrations will be on; its facts are
 *	read at once.  NULL: any; a device's facts are read when the first
 *	registration on it comes.  Devices stay the caller's.
 * @opts: NULL for defaults
 *
 * Works without the kernel module: registrations then take the conservative
 * plan, and mrg_mr_describe() says so.  A cap (mrguard_cap.ko) that is not
 * effective yet is not used later either.
 *
 * Return: 0; -EINVAL (unknown flag, non-zero unknown tail of @opts, invalid
 * shift or fork policy, also in MRGUARD_FORK); -ENOMEM; or the -errno of
 * ibv_query_device().  A context may be used by any number of threads at once.
 */
MRG_API int mrg_open(struct mrg_ctx **ctx, struct ibv_context *device,
		     const struct mrg_open_opts *opts);

/**
 * mrg_close() - close a context; NULL is allowed
 *
 * No other thread may be inside one of its calls, and its devices are still
 * open: an MR that a failed registration could not take back is kept, tried
 * again by each later one, and here for the last time.
 *
 * Where handles are left, their memory stays registered and /dev/mrguard open,
 * and mrg_dereg() of the last one frees the context.
 */
MRG_API void mrg_close(struct mrg_ctx *ctx);

/**
 * mrg_last_error() - why the calling thread's last failed call failed
 * @ctx: the context of that call; NULL asks about a failed mrg_open() or mrg_cuts()
 * @error: OUT
 *
 * Each thread keeps its own last failure, so another thread's cannot come in
 * between.  It keeps one: a failure on another context replaces it.
 *
 * Return: 0; -ENODATA (no failure of this thread on this context is kept).
 */
MRG_API int mrg_last_error(const struct mrg_ctx *ctx, struct mrg_error *error);

/**
 * mrg_ctx_headroom() - VMAs left to this process, and for how long
 * @headroom: OUT
 *
 * Return: 0; -errno of reading the count.  Any thread.
 */
MRG_API int mrg_ctx_headroom(const struct mrg_ctx *ctx, struct mrg_headroom *headroom);

#define MRG_REG_IOVA_EQUAL (1u << 0) /* wire addresses must equal virtual addresses */

/**
 * struct mrg_reg_opts - how to register
 * @size:	sizeof(struct mrg_reg_opts)
 * @flags:	MRG_REG_*
 * @strategy:	MRG_STRATEGY_AUTO, _SPLIT or _REBASE, taken only where one MR
 *		would not be safe.  _REBASE contradicts MRG_REG_IOVA_EQUAL.
 * @max_page_shift: as in struct mrg_open_opts, for this registration; 0 = the
 *		context's
 * @max_mr_size: largest MR to make, bytes; 0 = the device's own limit, which
 *		holds in any case
 * @unit:	the caller's block in bytes (a KV block, say), counted from the
 *		buffer's start, that an MR's end should not fall into; 0 = none
 */
struct mrg_reg_opts {
	size_t size;
	uint32_t flags;
	enum mrg_strategy strategy;
	uint32_t max_page_shift;
	uint32_t reserved; /* 0 */
	uint64_t max_mr_size;
	uint64_t unit;
};

/**
 * struct mrg_dmabuf - a DMA-BUF, and which virtual address stands where in it
 * @fd:		the DMA-BUF; stays the caller's, and may be closed once the
 *		registration is made
 * @base:	virtual address of the exported range's first byte: the
 *		allocation's base, not the pointer that was asked about
 * @offset:	where in the DMA-BUF that byte lies: 0, or what the exporter
 *		returned with the fd
 *
 * A sub-buffer at address a lies at @offset + (a - @base).  This is worked out
 * in one place, mrg_dmabuf_offset(): 0 is right for the base alone.
 */
struct mrg_dmabuf {
	int fd;
	uint32_t reserved0; /* 0 */
	uint64_t base;
	uint64_t offset;
	uint64_t reserved[2]; /* 0 */
};

/**
 * mrg_dmabuf_offset() - where in a DMA-BUF a virtual address lies
 * @buf: @buf->fd is not looked at
 * @addr: virtual address
 * @offset: OUT bytes from the start of the DMA-BUF
 *
 * Return: 0; -EINVAL (a reserved word of @buf is not zero); -ERANGE (below the
 * base, or the sum overflows).  Any thread.
 */
MRG_API int mrg_dmabuf_offset(const struct mrg_dmabuf *buf, uint64_t addr, uint64_t *offset);

/**
 * mrg_reg_dmabuf() - register a range of a DMA-BUF
 * @ctx: the context
 * @pd: the caller's protection domain
 * @buf: see struct mrg_dmabuf
 * @addr: virtual address of the range's first byte, which is what mrg_keys()
 *	is asked with.  Its offset in a host page must be that of its place in
 *	the DMA-BUF.
 * @length: bytes
 * @access: IBV_ACCESS_*
 * @opts: NULL for defaults
 * @mr: OUT the handle, to be given to mrg_dereg()
 *
 * Return: 0, or
 * -EINVAL: malformed options, @buf or access; the range ends past the DMA-BUF (it is
 *	asked for its size first); the page offsets of @addr and of its place
 *	in the DMA-BUF differ; an MR limit smaller than a page; or the kernel's
 * -ERANGE: @addr lies below @buf->base, or the range overflows
 * -EBADF: no open fd;  -EMEDIUMTYPE: the fd is no DMA-BUF
 * -EOPNOTSUPP: provider, kernel or driver lack DMA-BUF MRs, or the exporter
 *	refused; which of them, mrg_last_error() says
 * -ENOMEM, -EAGAIN, and others as ibv_reg_dmabuf_mr() gives them, 524 among
 *	them (the exporter does not let this device in)
 *
 * Any thread.  Source of the rules: ib_uverbs' and ib_core's own checks
 * (UVERBS_METHOD_REG_DMABUF_MR, ib_umem_dmabuf_get) and ibv_reg_mr(3).
 */
MRG_API int mrg_reg_dmabuf(struct mrg_ctx *ctx, struct ibv_pd *pd, const struct mrg_dmabuf *buf,
			   uint64_t addr, uint64_t length, int access,
			   const struct mrg_reg_opts *opts, struct mrg_mr **mr);

/**
 * mrg_reg() - register ordinary memory (or GPU memory through peermem)
 * @addr: first byte
 * @length: bytes
 * Others as for mrg_reg_dmabuf().
 *
 * One MR up to the device's limit, unless the kernel's walk can truncate it:
 * where it is affected or unknown, and the device sits behind a translating
 * IOMMU or the memory is hugetlb, MRs end at multiples of 2 GiB.  In hugetlb
 * memory they end at huge-page borders.
 *
 * Return: 0, or
 * -EINVAL: as above; or an MR limit below the huge page of hugetlb memory
 * -ERANGE: the range overflows
 * -ENOMEM: memlock, VMAs or device keys ran out; mrg_last_error() tells which
 * -EFAULT: not all of the range is mapped, or it is memory of a device
 * -ENOSPC: too few VMAs are left (struct mrg_open_opts' @vma_floor)
 * -EBUSY: part of a device mapping that fork protection would mark
 * and others as ibv_reg_mr() gives them.
 */
MRG_API int mrg_reg(struct mrg_ctx *ctx, struct ibv_pd *pd, void *addr, size_t length, int access,
		    const struct mrg_reg_opts *opts, struct mrg_mr **mr);

/**
 * mrg_dereg() - deregister; the handle is gone when this returns 0
 * @mr: NULL is allowed
 *
 * No other thread may use the handle, and no transfer the memory.
 *
 * Return: 0, or the first -errno of ibv_dereg_mr(); MRs that could not be
 * deregistered (bound memory windows, say) are still in the handle, which has
 * no keys any more and can be given to this call again.
 */
MRG_API int mrg_dereg(struct mrg_mr *mr);

/**
 * struct mrg_seg - what a stretch of a buffer is in a work request
 * @wire:	the address there: of a scatter/gather element, or the remote one
 * @length:	bytes
 * @lkey, @rkey: keys
 *
 * Frozen, as struct ibv_sge is: look-up writes one for every slice.
 */
struct mrg_seg {
	uint64_t wire;
	uint64_t length;
	uint32_t lkey;
	uint32_t rkey;
};

/**
 * mrg_keys() - keys for a range of a registered buffer
 * @mr: the handle
 * @addr: virtual address of the range's first byte
 * @length: bytes
 * @segs: OUT the segments, in order; together they are exactly the range
 * @cap: room in @segs; 0 just counts, @segs may then be NULL
 *
 * Costs O(log MRs), in practice one comparison: it allocates nothing and takes
 * no lock.  Any number of threads may ask at once.
 *
 * Return: the number of segments; nothing was written if it is above @cap.
 * -ERANGE: not all bytes of the range are in the buffer, or @length is 0.
 */
MRG_API ssize_t mrg_keys(const struct mrg_mr *mr, uint64_t addr, uint64_t length,
			 struct mrg_seg *segs, size_t cap);

/** struct mrg_seg_pair - one work request's share of a transfer: both segments
 *  are of one length, and neither crosses an MR's end.  Frozen. */
struct mrg_seg_pair {
	struct mrg_seg local;
	struct mrg_seg remote;
};

/**
 * mrg_seg_pairs() - cut a transfer where either side's MRs end
 * @local, @nlocal: segments of this side
 * @remote, @nremote: segments of the other side, of the same total length
 * @pairs: OUT in order; room for @nlocal + @nremote - 1 is always enough
 * @cap: room in @pairs
 *
 * Return: the number of pairs; nothing was written if it is above @cap.
 * -EINVAL: the sides' lengths differ, or a segment is empty.  Any thread.
 */
MRG_API ssize_t mrg_seg_pairs(const struct mrg_seg *local, size_t nlocal,
			      const struct mrg_seg *remote, size_t nremote,
			      struct mrg_seg_pair *pairs, size_t cap);

/** mrg_mr_addr() - virtual address of the registered buffer's first byte */
MRG_API uint64_t mrg_mr_addr(const struct mrg_mr *mr);
/** mrg_mr_length() - its length in bytes */
MRG_API uint64_t mrg_mr_length(const struct mrg_mr *mr);
/** mrg_mr_count() - how many MRs stand behind it */
MRG_API size_t mrg_mr_count(const struct mrg_mr *mr);
/** mrg_mr_verbs() - MR number @index, to read from or for verbs that take one;
 *  NULL past the last.  Never to be deregistered by the caller. */
MRG_API struct ibv_mr *mrg_mr_verbs(const struct mrg_mr *mr, size_t index);
/** mrg_mr_plan() - the plan that was carried out: pieces, strategy, verdict of
 *  a single MR.  Lives as long as the handle.  NULL: there was no memory to
 *  make it, as it is made late where one MR is plainly safe; or mrg_reg_any()
 *  registered the range part by part.  Any thread. */
MRG_API const struct mrg_plan *mrg_mr_plan(const struct mrg_mr *mr);

/**
 * mrg_mr_describe() - which plan a buffer got and why, in words for people
 * @text: OUT, NUL-terminated if @cap > 0
 * @cap: room in @text
 *
 * Return: length of the whole text, which was cut if that is @cap or more.
 * The words may change between versions.  Any thread.
 */
MRG_API size_t mrg_mr_describe(const struct mrg_mr *mr, char *text, size_t cap);

/**
 * mrg_cuts() - where an engine's own registration must begin a new MR
 * @fd: a DMA-BUF, not consumed; -1: ordinary memory of this process, at @iova
 * @device: the RDMA device's name, "mlx5_0"
 * @iova: of the first byte, as the MRs have it; piece n's is @iova + its cut
 * @offset: of the first byte in the DMA-BUF; 0 for ordinary memory
 * @length: bytes
 * @opts: as for mrg_reg(), NULL for defaults.  The device's largest MR is not known
 *	here: set @opts->max_mr_size.  MRG_STRATEGY_REBASE is refused.
 * @cuts: OUT offsets from the range's start at which a further MR begins, ascending;
 *	0 and @length are not among them
 * @cap: room in @cuts; 0 just counts, @cuts may then be NULL
 *
 * For programs that register by verbs themselves, also by dlopen(3): it needs no
 * context and no opened device, and keeps nothing.  It never counts on a cap
 * (mrguard_cap.ko), since a cap holds only while a descriptor of the module is open.
 * Each call opens /dev/mrguard, and asks the file of ib_core where the module does
 * not know the walk (mrg_walk_ask_host(): some 20 ms).
 *
 * Return: the number of cuts, 0 where one MR is right; nothing was written if it is
 * above @cap.
 * -ENODEV: no RDMA device of that name
 * and as mrg_reg_dmabuf() and mrg_reg(), of which nothing is registered.
 * mrg_last_error() of NULL has the cause.  Any thread.
 */
MRG_API ssize_t mrg_cuts(int fd, const char *device, uint64_t iova, uint64_t offset,
			 uint64_t length, const struct mrg_reg_opts *opts, uint64_t *cuts,
			 size_t cap);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_REGION_H */
