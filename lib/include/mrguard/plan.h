/* SPDX-License-Identifier: MIT */
/*
 * The planner: given the DMA addresses behind a buffer and what is known of
 * device and kernel, tell what one MR would do, and name MRs that cannot wrap.
 *
 * Pure: no I/O, no globals.  Any function may be called from any thread; an
 * object is to be used by one thread at a time, or read by many.
 */
#ifndef MRGUARD_PLAN_H
#define MRGUARD_PLAN_H

#include <stdbool.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct mrg_sg - one stretch of DMA addresses, in bytes
 * @addr: DMA address
 * @len:  length, not 0
 *
 * A list of them is in buffer order.  For the walks that look at single
 * scatter-list entries (MRG_WALK_PER_ENTRY*) it must hold the entries as they
 * were mapped, each below 4 GiB; for all others contiguous entries may be
 * joined, and the result is the same.
 *
 * Frozen: lists travel to the module as they are (struct mrg_ioc_run).
 */
struct mrg_sg {
	uint64_t addr;
	uint64_t len;
};

/**
 * enum mrg_walk - how the running ib_core turns a list into blocks
 * @MRG_WALK_UNKNOWN: not known: the plan is right for the truncating walk
 * @MRG_WALK_EXACT: 64-bit arithmetic, blocks cross entries (since 15fe76e23615)
 * @MRG_WALK_TRUNCATING: blocks cross entries, offsets held in 32 bits
 *	(486055f5e09d until 15fe76e23615), bounded by the number of blocks
 * @MRG_WALK_TRUNCATING_UNBOUNDED: the same, ends only with the list (5.15.185
 *	to 5.15.209), so a frozen walk never ends; such a kernel refuses an MR
 *	that no page of the host's size or above fits
 * @MRG_WALK_PER_ENTRY: one entry a step (0afec5e9cea7 until 486055f5e09d);
 *	judged as ending only with the list, which holds before 4fbc3a52cd4d
 * @MRG_WALK_PER_ENTRY_NARROW: the same with a 32-bit position that overflows
 *	(a808273a495c until 0afec5e9cea7); refuses likewise
 */
enum mrg_walk {
	MRG_WALK_UNKNOWN,
	MRG_WALK_EXACT,
	MRG_WALK_TRUNCATING,
	MRG_WALK_TRUNCATING_UNBOUNDED,
	MRG_WALK_PER_ENTRY,
	MRG_WALK_PER_ENTRY_NARROW,
};

/**
 * enum mrg_verdict - what becomes of an MR
 * @MRG_SAFE:	 every block has the right address
 * @MRG_WRAPS:	 some blocks have wrong addresses: transfers end with status 0
 *		 and move the wrong bytes
 * @MRG_HANGS:	 the kernel's walk never ends
 * @MRG_REFUSED: the kernel or the device refuses the registration
 * @MRG_VERDICT_UNKNOWN: the addresses are unknown, so there is no verdict
 */
enum mrg_verdict {
	MRG_SAFE,
	MRG_WRAPS,
	MRG_HANGS,
	MRG_REFUSED,
	MRG_VERDICT_UNKNOWN,
};

/**
 * enum mrg_strategy - how a range is made safe
 * @MRG_STRATEGY_AUTO:   rebase where the caller allows a free iova, else split
 * @MRG_STRATEGY_SPLIT:  several MRs, each keeps iova = buffer's iova + offset
 * @MRG_STRATEGY_REBASE: one MR (or as few as max_mr_size allows) whose iova
 *	differs from the DMA address in bit 31, so no page exceeds 2 GiB
 * @MRG_STRATEGY_NONE:   (result only) one MR as asked for
 */
enum mrg_strategy {
	MRG_STRATEGY_AUTO,
	MRG_STRATEGY_SPLIT,
	MRG_STRATEGY_REBASE,
	MRG_STRATEGY_NONE,
};

#define MRG_NO_OFFSET UINT64_MAX

/* log2 of the smallest page of any RDMA device, and of the largest page */
#define MRG_MIN_PAGE_SHIFT 12
#define MRG_MAX_PAGE_SHIFT 63

/**
 * struct mrg_outcome - what the kernel makes of one MR
 * @verdict:	see enum mrg_verdict
 * @page_shift:	log2 of the page picked; 0 if none, or if the addresses are not
 *		known
 * @blocks:	number of blocks; 0 where @page_shift is
 * @wrong_blocks: of these, with a wrong address
 * @first_bad_offset: offset in the MR's range of the first byte that lands
 *		wrong; MRG_NO_OFFSET if none
 * @period:	distance in bytes after which the MR repeats itself; 0 if it
 *		does not
 * @reserved:	0
 */
struct mrg_outcome {
	enum mrg_verdict verdict;
	uint32_t page_shift;
	uint64_t blocks;
	uint64_t wrong_blocks;
	uint64_t first_bad_offset;
	uint64_t period;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_piece - one MR of a plan
 * @offset: first byte, counted from the start of the planned range
 * @length: bytes
 * @iova:   the iova to register it with
 * @outcome: what the kernel makes of it, under the worst limits that are
 *	still possible
 * @reserved: 0
 */
struct mrg_piece {
	uint64_t offset;
	uint64_t length;
	uint64_t iova;
	struct mrg_outcome outcome;
	uint64_t reserved[2]; /* 0 */
};

#define MRG_PLAN_IOVA_FREE (1u << 0) /* the caller does not need iova = virtual address */
#define MRG_PLAN_TRANSLATED (1u << 1) /* an IOMMU gives the MR other addresses than those seen */
#define MRG_PLAN_MOVES (1u << 2) /* so does an exporter that can move the memory */
/* The kernel's pick is capped at 2 GiB (mrguard_cap.ko), and the driver takes pages from it */
#define MRG_PLAN_CAPPED (1u << 3)

/**
 * struct mrg_plan_opts - what is asked for, and what is known
 * @size:	sizeof(struct mrg_plan_opts)
 * @flags:	MRG_PLAN_*
 * @iova:	iova (normally the virtual address) of the range's first byte
 * @offset:	first byte of the range in the list, which starts at byte 0 of
 *		the DMA-BUF
 * @length:	bytes of the range; 0 = to the end of the list
 * @page_size:	host page size in bytes, a power of two; 0 = of the running host
 * @walk:	see enum mrg_walk
 * @max_page_shift: log2 of the largest page that the device takes, 12 to 63;
 *		0 = not known: the plan is right for every limit from 31 to 63
 * @strategy:	see enum mrg_strategy
 * @max_mr_size: the device's limit for one MR in bytes; 0 = none
 * @unit:	the caller's block in bytes, counted from the range's start,
 *		that cuts should not fall into; 0 = none
 * @cut_align:	cuts must fall on multiples of this in iova (huge-page size of
 *		hugetlb memory); a power of two; 0 = host page
 */
struct mrg_plan_opts {
	size_t size;
	uint32_t flags;
	enum mrg_walk walk;
	uint64_t iova;
	uint64_t offset;
	uint64_t length;
	uint64_t page_size;
	uint32_t max_page_shift;
	enum mrg_strategy strategy;
	uint64_t max_mr_size;
	uint64_t unit;
	uint64_t cut_align;
};

struct mrg_plan;

/**
 * mrg_plan_make() - judge one MR over a range, and plan safe ones
 * @sg:	   the list; NULL where the addresses are not known
 * @count: its entries; 0 with NULL
 * @opts:  see struct mrg_plan_opts; NULL = all zero but the size
 * @plan:  OUT the plan, to be freed with mrg_plan_free()
 *
 * A range that cannot be registered at all is a plan too: its single verdict
 * is MRG_REFUSED, it has no pieces, and mrg_plan_reason() says why.  So is one
 * that no pieces could make safe, or only more than 2^20 of them.
 *
 * Return: 0; -EINVAL (opts malformed: unknown flag, non-zero unknown tail,
 * shift or alignment that is no such thing, entry of length 0 or that passes
 * 2^64, list longer than 2^63 bytes, entry of 4 GiB or more for a walk that
 * looks at single entries); -ENOMEM.
 */
MRG_API int mrg_plan_make(const struct mrg_sg *sg, size_t count, const struct mrg_plan_opts *opts,
			  struct mrg_plan **plan);
/** mrg_plan_free() - free a plan; NULL is allowed */
MRG_API void mrg_plan_free(struct mrg_plan *plan);

/** mrg_plan_single() - what one MR over the whole range at the given iova does.
 *  Lives as long as the plan. */
MRG_API const struct mrg_outcome *mrg_plan_single(const struct mrg_plan *plan);
/** mrg_plan_pieces() - the plan's MRs in order; NULL and 0 if there is none.
 *  They live as long as the plan. */
MRG_API const struct mrg_piece *mrg_plan_pieces(const struct mrg_plan *plan, size_t *count);
/** mrg_plan_strategy() - SPLIT, REBASE or NONE: what the pieces came from */
MRG_API enum mrg_strategy mrg_plan_strategy(const struct mrg_plan *plan);
/** mrg_plan_reason() - one or two sentences: the verdict's grounds, with every
 *  assumption named.  Lives as long as the plan. */
MRG_API const char *mrg_plan_reason(const struct mrg_plan *plan);

/** mrg_verdict_name() - "safe", "wraps", "hangs", "refused", "unknown" */
MRG_API const char *mrg_verdict_name(enum mrg_verdict verdict);
/** mrg_strategy_name() - "auto", "split", "rebase", "none" */
MRG_API const char *mrg_strategy_name(enum mrg_strategy strategy);
/** mrg_walk_name() - "unknown", "exact", "truncating", ... */
MRG_API const char *mrg_walk_name(enum mrg_walk walk);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_PLAN_H */
