/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ioctl interface of /dev/mrguard.
 *
 * Rules that every call follows:
 *  - The first field, @size, is the size of the structure that the caller was
 *    built with.  A shorter structure is read as if zero-filled; a longer one
 *    is accepted if its unknown tail is zero, else -E2BIG.  Output beyond
 *    @size is not written; output that this module does not know is zero.
 *  - Flags and reserved fields that are not defined are refused with -EINVAL.
 *  - No padding is implicit, so 32-bit and 64-bit callers see one layout.
 *  - Addresses and lengths are in bytes.  All calls can be interrupted by a
 *    fatal signal (-EINTR) and leave nothing mapped, attached or pinned.
 *  - A released structure never changes; it only grows at its end.
 */
#ifndef _UAPI_MRGUARD_H
#define _UAPI_MRGUARD_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MRG_DEVICE_NAME "mrguard"
#define MRG_ABI_VERSION 1
#define MRG_VERSION "0.2.0"

/**
 * struct mrg_ioc_info - MRG_IOC_INFO, what this module and this kernel are
 * @size:	IN	size of this structure
 * @flags:	IN	0
 * @abi:	OUT	MRG_ABI_VERSION of the module
 * @page_size:	OUT	host page size
 * @features:	OUT	MRG_FEATURE_*
 * @walk:	OUT	MRG_WALK_INFO_*; 0 without MRG_FEATURE_WALK.  Found by running
 *			the kernel's own iterator, never from a version.
 * @cap:	OUT	MRG_CAP_INFO_*, of mrguard_cap.ko; since 0.2.0 (0.1.0: reserved,
 *			must be 0 on input).
 * @version:	OUT	the module's version, NUL-terminated
 * @cap_asked:	OUT	page-size picks since mrguard_cap.ko was loaded, without
 *			those of this call; since 0.2.0, like all that follow
 * @cap_capped:	OUT	picks from which pages above 2 GiB were taken
 * @cap_uncapped: OUT	picks that offered larger pages only: not capped
 *
 * A caller that gets MRG_CAP_INFO_EFFECTIVE may rely on it: as long as its file
 * descriptor is open, mrguard_cap.ko cannot be unloaded.
 *
 * Errors: -EFAULT, -EINVAL (flags, reserved, size below 8), -E2BIG.
 */
struct mrg_ioc_info {
	__u32 size;
	__u32 flags;
	__u32 abi;
	__u32 page_size;
	__u64 features;
	__u32 walk;
	__u32 cap;
	char version[16];
	__u64 cap_asked;
	__u64 cap_capped;
	__u64 cap_uncapped;
};

#define MRG_CAP_INFO_OFF 0 /* mrguard_cap.ko is not loaded */
#define MRG_CAP_INFO_WAITING 1 /* loaded; the RDMA core is not */
#define MRG_CAP_INFO_SET 2 /* the probe is set; without mrguard_walk.ko nothing shows its effect */
#define MRG_CAP_INFO_EFFECTIVE 3 /* set, and the kernel's own pick was seen to be capped */
#define MRG_CAP_INFO_NOT_EFFECTIVE 4 /* set, and the kernel's own pick still exceeds 2 GiB */
#define MRG_CAP_INFO_LOST 5 /* the RDMA core is loaded, and the probe could not be set again */

#define MRG_FEATURE_LAYOUT (1ULL << 0)
#define MRG_FEATURE_VMA (1ULL << 1)
#define MRG_FEATURE_WALK (1ULL << 2) /* mrguard_walk.ko is loaded */

#define MRG_WALK_INFO_KNOWN (1U << 0)
#define MRG_WALK_INFO_CROSSES (1U << 1) /* a block can span scatter-list entries */
#define MRG_WALK_INFO_OFFSET32 (1U << 2) /* block offsets are kept in 32 bits */
#define MRG_WALK_INFO_UNBOUNDED (1U << 3) /* ends with the list alone, not with the MR */
#define MRG_WALK_INFO_NARROW (1U << 4) /* the position in an entry overflows 32 bits */
/* Affected: MRG_WALK_INFO_CROSSES and MRG_WALK_INFO_OFFSET32 both set. */

/**
 * struct mrg_ioc_importer - the PCI function that would map the DMA-BUF
 * @domain: PCI domain, @bus, @devfn: (device << 3 | function); @reserved: 0
 *
 * The function must be bound to a driver that does DMA through the DMA API
 * (not vfio).  Without CAP_SYS_ADMIN it must have an RDMA device below it.
 */
struct mrg_ioc_importer {
	__u32 domain;
	__u8 bus;
	__u8 devfn;
	__u16 reserved;
};

/* One stretch of DMA addresses. */
struct mrg_ioc_run {
	__u64 addr;
	__u64 len;
};

/**
 * struct mrg_ioc_layout - MRG_IOC_LAYOUT, the DMA addresses behind a DMA-BUF
 * @size:	IN	size of this structure
 * @flags:	IN	MRG_LAYOUT_*
 * @dmabuf_fd:	IN	the DMA-BUF
 * @runs_cap:	IN	room in @runs, 0 asks for the totals alone
 * @importer:	IN	who would map it
 * @iova:	IN	the iova that the MR would have (equivalent addresses
 *			are made against it)
 * @offset:	IN	first byte of the range in the DMA-BUF
 * @length:	IN	bytes of the range; 0 = to the end of the DMA-BUF
 * @start:	IN	index of the first entry (or run) wanted
 * @runs:	IN	user pointer to struct mrg_ioc_run[@runs_cap]
 * @dmabuf_size:	OUT	size of the DMA-BUF
 * @total_entries:	OUT	scatter-list entries as mapped, in the range
 * @total_runs:	OUT	the same, contiguous ones joined
 * @max_seg_size:	OUT	the importer's largest segment
 * @map_ns:	OUT	time that mapping took, nanoseconds
 * @runs_out:	OUT	filled in @runs
 * @info:	OUT	MRG_LAYOUT_INFO_*
 * @iommu:	OUT	MRG_LAYOUT_IOMMU_*
 * @reserved:	IN	0
 * @exporter:	OUT	the exporter's name, NUL-terminated
 *
 * The range is widened to whole host pages at both ends, as ib_core does it;
 * the first run starts at @offset rounded down to a page.
 *
 * With CAP_SYS_ADMIN in the initial user namespace the addresses are raw.
 * Otherwise each run's address keeps from the truth only the lowest bit in
 * which DMA address and iova differ, and that only where it can make a
 * difference (MRG_LAYOUT_INFO_EQUIVALENT); a plan made from these equals the
 * plan made from the raw ones.
 *
 * Errors: -EFAULT; -EINVAL (flags, reserved, range past the end or empty,
 * iova and offset differ within a page, iova + length overflows);
 * -E2BIG; -EBADF (not an open fd); -EMEDIUMTYPE (the fd is no DMA-BUF);
 * -ENODEV (no such PCI function, or it went away); -ENXIO (not bound to a
 * driver, or bound to one that hands DMA to user space); -EPERM (importer
 * needs CAP_SYS_ADMIN); -EADDRNOTAVAIL (the importer's mappings bounce, or it is
 * not coherent: undoing a mapping could undo writes); -ENOMEM; -EINTR; -EIO (the
 * exporter mapped less than the range); or what the exporter answered to attach or map.
 *
 * One call fills at most MRG_LAYOUT_MAX_RUNS, however large @runs_cap is.
 */
struct mrg_ioc_layout {
	__u32 size;
	__u32 flags;
	__s32 dmabuf_fd;
	__u32 runs_cap;
	struct mrg_ioc_importer importer;
	__u64 iova;
	__u64 offset;
	__u64 length;
	__u64 start;
	__u64 runs;
	__u64 dmabuf_size;
	__u64 total_entries;
	__u64 total_runs;
	__u64 max_seg_size;
	__u64 map_ns;
	__u32 runs_out;
	__u32 info;
	__u32 iommu;
	__u32 reserved;
	char exporter[32];
};

#define MRG_LAYOUT_COALESCE (1U << 0) /* runs, not entries */

#define MRG_LAYOUT_MAX_RUNS (1U << 20)

#define MRG_LAYOUT_INFO_EQUIVALENT (1U << 0)
#define MRG_LAYOUT_INFO_MORE (1U << 1) /* further runs follow */
#define MRG_LAYOUT_INFO_MOVES \
	(1U << 2) /* the exporter can move the memory later:
						 * an MR may get other addresses */

#define MRG_LAYOUT_IOMMU_NONE 0 /* DMA addresses are bus addresses */
#define MRG_LAYOUT_IOMMU_IDENTITY 1
#define MRG_LAYOUT_IOMMU_TRANSLATED 2 /* each mapping gets new addresses */
#define MRG_LAYOUT_IOMMU_UNKNOWN 3

/**
 * struct mrg_ioc_blocks - MRG_IOC_BLOCKS, what this kernel makes of a list
 * @size:	IN	size of this structure
 * @flags:	IN	MRG_BLOCKS_*
 * @dmabuf_fd:	IN	with MRG_BLOCKS_DMABUF, else -1
 * @runs_cap:	IN	entries in @runs; 0 with MRG_BLOCKS_DMABUF
 * @importer:	IN	with MRG_BLOCKS_DMABUF, else zero
 * @iova, @offset, @length: IN	as for MRG_IOC_LAYOUT; without
 *			MRG_BLOCKS_DMABUF @offset counts into the given list
 *			and @length must be given
 * @pgsz_bitmap: IN	page sizes that the device takes, one bit each; for callers
 *			without CAP_SYS_ADMIN with MRG_BLOCKS_DMABUF all from
 *			the host page up to some limit, else -EPERM; smaller
 *			sizes may be there or not
 * @runs:	IN	user pointer to struct mrg_ioc_run, each of 1 to
 *			0xffffffff bytes, page-aligned but for the last one's
 *			end; at most MRG_BLOCKS_MAX_RUNS, else -E2BIG
 * @start:	IN	index of the first block address wanted
 * @blocks:	IN	user pointer to __u64[@blocks_cap]
 * @blocks_cap:	IN	room in @blocks; one call fills at most
 *			MRG_BLOCKS_MAX_OUT, however large this is
 * @blocks_out:	OUT	filled in @blocks (0 for callers without
 *			CAP_SYS_ADMIN with MRG_BLOCKS_DMABUF)
 * @page_size:	OUT	the page this kernel picks; 0: it would refuse
 * @total_blocks: OUT	blocks that an MR of this page size has
 * @walked:	OUT	blocks that the kernel's iterator gave before it ended,
 *			or was stopped after @total_blocks
 * @wrong:	OUT	of these, blocks whose address is not the right one: the
 *			DMA address of the block's first byte in the MR, rounded
 *			down to the page
 * @first_wrong:	OUT	offset of the first wrong byte in the MR, ~0 if none
 * @info:	OUT	MRG_BLOCKS_INFO_*
 * @reserved:	IN	0
 *
 * Errors: as MRG_IOC_LAYOUT, and -EINVAL (an MR across iova 2^63, for which the
 * pick of older kernels is undefined), -EOPNOTSUPP (mrguard_walk.ko is not
 * loaded), -EOVERFLOW (more than MRG_BLOCKS_MAX_WALK blocks: not walked; page_size and
 * total_blocks are written all the same).
 */
struct mrg_ioc_blocks {
	__u32 size;
	__u32 flags;
	__s32 dmabuf_fd;
	__u32 runs_cap;
	struct mrg_ioc_importer importer;
	__u64 iova;
	__u64 offset;
	__u64 length;
	__u64 pgsz_bitmap;
	__u64 runs;
	__u64 start;
	__u64 blocks;
	__u32 blocks_cap;
	__u32 blocks_out;
	__u64 page_size;
	__u64 total_blocks;
	__u64 walked;
	__u64 wrong;
	__u64 first_wrong;
	__u32 info;
	__u32 reserved;
};

#define MRG_BLOCKS_DMABUF (1U << 0) /* the list behind @dmabuf_fd */

#define MRG_BLOCKS_INFO_ENDLESS (1U << 0) /* the iterator had not ended by itself */

#define MRG_BLOCKS_MAX_RUNS (1U << 20)
#define MRG_BLOCKS_MAX_OUT (1U << 20)
#define MRG_BLOCKS_MAX_WALK (1U << 24)

/**
 * struct mrg_ioc_vma - MRG_IOC_VMA, the VMAs that a process holds
 * @size:	IN	size of this structure
 * @flags:	IN	MRG_VMA_*
 * @pid:	IN	in the caller's PID namespace; 0 = the caller
 * @reserved:	IN	0
 * @start, @end: IN	address range for MRG_VMA_RANGE, else 0
 * @map_count:	OUT	VMAs of the whole process, in O(1)
 * @vmas:	OUT	VMAs that touch the range
 * @dontcopy:	OUT	of these, with VM_DONTCOPY
 * @joinable:	OUT	adjacent pairs that differ in VM_DONTCOPY alone: they
 *			merge again once it is gone
 * @stuck_anon:	OUT	adjacent pairs with equal flags that never merge, since
 *			each has an anon_vma of its own
 * @stuck_special: OUT	... since a VMA is special (hugetlb, device, ...)
 * @stuck_file:	OUT	... since file or offset do not continue
 * @stuck_other: OUT	... since policy, name or userfaultfd differ
 * @mapped:	OUT	bytes of the range that VMAs cover; less than its length:
 *			there is a hole
 * @special:	OUT	VMAs in the range with VM_IO, VM_PFNMAP, VM_MIXEDMAP or
 *			VM_DONTEXPAND (hugetlb has it): once cut they stay cut,
 *			and from 7.2 MADV_DOFORK is refused on them
 * @unwritten:	OUT	private writable VMAs in the range without an anon_vma:
 *			pieces cut from one and then written never merge
 * @page_size:	OUT	largest page by which a VMA in the range can be cut
 *			(hugetlb), else the host page; 0 where nothing is mapped
 *
 * Another process needs CAP_SYS_PTRACE over its user namespace.
 *
 * Errors: -EFAULT; -EINVAL (flags, reserved, start >= end, range without
 * MRG_VMA_RANGE); -E2BIG; -ESRCH (no such process, or one without memory);
 * -EPERM; -EINTR.
 */
struct mrg_ioc_vma {
	__u32 size;
	__u32 flags;
	__s32 pid;
	__u32 reserved;
	__u64 start;
	__u64 end;
	__u64 map_count;
	__u64 vmas;
	__u64 dontcopy;
	__u64 joinable;
	__u64 stuck_anon;
	__u64 stuck_special;
	__u64 stuck_file;
	__u64 stuck_other;
	__u64 mapped;
	__u64 special;
	__u64 unwritten;
	__u64 page_size;
};

#define MRG_VMA_RANGE (1U << 0) /* count in [start, end) too */

/**
 * struct mrg_ioc_holders - MRG_IOC_HOLDERS, who keeps the cap from being unloaded
 * @size:	IN	size of this structure
 * @flags:	IN	0
 * @pids_cap:	IN	room in @pids, 0 asks for the total alone
 * @pids_out:	OUT	filled in @pids
 * @pids:	IN	user pointer to __u32[@pids_cap]: the processes that were
 *			told MRG_CAP_INFO_EFFECTIVE through a file that is still open; 0
 *			for one that the caller's PID namespace does not show.  A
 *			process that inherited the file is not told apart.
 * @total:	OUT	open files that hold the cap
 * @reserved:	IN	0
 *
 * Since 0.2.0.  Errors: -EFAULT; -EINVAL (flags, reserved, size below 8);
 * -E2BIG; -EPERM (needs CAP_SYS_ADMIN); -ENOMEM.
 */
struct mrg_ioc_holders {
	__u32 size;
	__u32 flags;
	__u32 pids_cap;
	__u32 pids_out;
	__u64 pids;
	__u32 total;
	__u32 reserved;
};

#define MRG_IOC_TYPE 0xE7
#define MRG_IOC_INFO _IOWR(MRG_IOC_TYPE, 0x00, struct mrg_ioc_info)
#define MRG_IOC_LAYOUT _IOWR(MRG_IOC_TYPE, 0x01, struct mrg_ioc_layout)
#define MRG_IOC_BLOCKS _IOWR(MRG_IOC_TYPE, 0x02, struct mrg_ioc_blocks)
#define MRG_IOC_VMA _IOWR(MRG_IOC_TYPE, 0x03, struct mrg_ioc_vma)
#define MRG_IOC_HOLDERS _IOWR(MRG_IOC_TYPE, 0x04, struct mrg_ioc_holders)

#endif /* _UAPI_MRGUARD_H */
