/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The ioctl interface of /dev/simgpu: DMA-BUFs with any scatter list.
 *
 * A DMA-BUF is a list of extents.  Each has a bus address and a length, and
 * the list's order is the order of the bytes in the DMA-BUF.  When an importer
 * maps it, each extent is cut into segments, which become the scatter-list
 * entries.
 *
 * Real extents lie in the RAM that memmap= keeps from the kernel (see
 * SIMGPU_IOC_STAT for where) and can be mapped by the CPU through the fd:
 * MAP_SHARED, and MAP_FIXED for an address of the caller's choice, since the
 * kernel only aligns it to a page.  Two DMA-BUFs may name the same memory.
 *
 * With SIMGPU_FAKE the addresses are invented, any 64-bit number, and there is
 * nothing behind them: good for all that only looks at addresses, never for a
 * device that moves data.
 *
 * It behaves as NVIDIA's exporter does: it never moves, has no pin, cuts at
 * the importer's largest segment, and refuses a dynamic importer that does not
 * allow peer-to-peer.  With the module's parameter dynamic=1 it is like amdgpu's
 * and xe's: importers pin a buffer, and SIMGPU_IOC_MOVE moves one that is not
 * pinned.
 */
#ifndef TOOLS_SIMGPU_H
#define TOOLS_SIMGPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SIMGPU_DEVICE "/dev/simgpu"
#define SIMGPU_MAX_EXTENTS (8U << 20)
#define SIMGPU_MAX_ENTRIES (32U << 20) /* scatter-list entries of a map */

struct simgpu_extent {
	__u64 addr;
	__u64 len;
};

/**
 * struct simgpu_create - SIMGPU_IOC_CREATE, make a DMA-BUF; returns its fd
 * @size:	size of this structure
 * @flags:	SIMGPU_*
 * @extents:	user pointer to struct simgpu_extent[@extents_n]; real ones are
 *		whole pages in the reserved RAM
 * @extents_n:	1 .. SIMGPU_MAX_EXTENTS
 * @delay_ms:	each map takes so much longer, not interruptible, under the
 *		reservation lock; up to 10,000
 * @seg:	largest segment in bytes, 0 = the importer's; whole pages
 *		unless SIMGPU_FAKE; at most 0xffffffff
 * @fail_errno:	what a failing map answers, a positive errno, 0 = never fails
 * @fail_after:	maps that succeed before that
 *
 * Errors: -EFAULT; -EINVAL (size, flags, counts, zero length, not whole
 * pages, delay, errno above 4095); -ERANGE (a real extent outside the reserved
 * RAM); -E2BIG (more entries than SIMGPU_MAX_ENTRIES even in the largest
 * segments); -ENOMEM; -EMFILE.
 */
struct simgpu_create {
	__u32 size;
	__u32 flags;
	__u64 extents;
	__u32 extents_n;
	__u32 delay_ms;
	__u64 seg;
	__u32 fail_errno;
	__u32 fail_after;
};

#define SIMGPU_FAKE (1U << 0) /* invented addresses, no memory */
#define SIMGPU_WHOLE \
	(1U << 1) /* map an extent at once, then cut it:
						 * contiguous behind an IOMMU */
#define SIMGPU_FAIL_ATTACH (1U << 2) /* fail_* tell of attach, not map */

/**
 * struct simgpu_stat - SIMGPU_IOC_STAT
 * @fd:		IN	a DMA-BUF of simgpu, or -1 for all that live
 * @buffers:	OUT	DMA-BUFs alive
 * @attached:	OUT	attachments alive
 * @mapped:	OUT	mappings alive
 * @maps:	OUT	mappings made so far, of all or of this one
 * @base, @bytes: OUT	the reserved RAM
 * @pinned:	OUT	pins held, of all or of this one
 * @moves:	OUT	moves so far, of all or of this one
 *
 * Errors: -EFAULT, -EBADF, -EINVAL (no DMA-BUF of simgpu).
 */
struct simgpu_stat {
	__s32 fd;
	__u32 buffers;
	__u64 attached;
	__u64 mapped;
	__u64 maps;
	__u64 base;
	__u64 bytes;
	__u64 pinned;
	__u64 moves;
};

/**
 * struct simgpu_move - SIMGPU_IOC_MOVE, give a DMA-BUF other memory
 * @fd:		a DMA-BUF of simgpu, real
 * @flags:	SIMGPU_MOVE_PINNED
 * @extents:	user pointer to struct simgpu_extent[@extents_n], of as many bytes
 *		as the DMA-BUF has, none of them its own
 * @extents_n:	1 .. SIMGPU_MAX_EXTENTS
 * @reserved:	0
 *
 * dma_buf_move_notify() tells importers first; the CPU's mappings go and
 * come back at the next access; the bytes are copied.
 *
 * Where CONFIG_DMABUF_MOVE_NOTIFY is off, as in Debian, the core pins what a
 * dynamic importer maps, so nothing moves under it.  SIMGPU_MOVE_PINNED moves it
 * all the same, as such a kernel would with the option on.  That is right where
 * every importer follows moves; others would then use memory that is not the
 * buffer's.
 *
 * Errors: -EFAULT, -EBADF; -EINVAL (no DMA-BUF of simgpu, flags, other length,
 * overlap, no whole pages); -EOPNOTSUPP (without dynamic=1, or invented
 * addresses); -ERANGE; -ENOMEM; -ENODEV (revoked); -EBUSY (pinned).
 */
struct simgpu_move {
	__s32 fd;
	__u32 flags;
	__u64 extents;
	__u32 extents_n;
	__u32 reserved;
};

#define SIMGPU_MOVE_PINNED (1U << 0) /* also where importers have pinned it */

/*
 * SIMGPU_IOC_REVOKE takes the fd of a DMA-BUF: importers must unmap,
 * later maps fail with -ENODEV, the CPU's mappings are torn down and give
 * SIGBUS.  Errors as SIMGPU_IOC_STAT.
 */
#define SIMGPU_IOC_CREATE _IOW('g', 0xa0, struct simgpu_create)
#define SIMGPU_IOC_STAT _IOWR('g', 0xa1, struct simgpu_stat)
#define SIMGPU_IOC_REVOKE _IO('g', 0xa2)
#define SIMGPU_IOC_MOVE _IOW('g', 0xa3, struct simgpu_move)

#endif
