/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mrguard.ko share, and what mrguard_walk.ko gives it. */
#ifndef MRG_INTERNAL_H
#define MRG_INTERNAL_H

#include <linux/align.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/scatterlist.h>
#include <linux/types.h>

#include "uapi/mrguard.h"

/**
 * struct mrg_walk_job - one list for the kernel's page-size pick and block walk
 * @sgl, @nents: the list, which begins at @address rounded down to a page and
 *		covers the range
 * @address:	the range's first byte in the buffer
 * @length, @iova, @pgsz_bitmap, @start: as in struct mrg_ioc_blocks
 * @blocks:	room for @blocks_cap addresses, or NULL
 */
struct mrg_walk_job {
	struct scatterlist *sgl;
	unsigned int nents;
	u64 address;
	u64 length;
	u64 iova;
	u64 pgsz_bitmap;
	u64 start;
	u64 *blocks;
	u32 blocks_cap;
	/* results, as in struct mrg_ioc_blocks */
	u32 blocks_out;
	u32 info;
	u64 page_size;
	u64 total_blocks;
	u64 walked;
	u64 wrong;
	u64 first_wrong;
};

/**
 * struct mrg_walk_ops - what mrguard_walk.ko offers
 * @owner:	kept from unloading while a call is inside
 * @probe:	finds the MRG_WALK_INFO_* bits by running the iterator
 * @pick:	the page that the kernel picks for 8 GiB that could be one page
 * @blocks:	0, -EINTR, or -EOVERFLOW with page size and total filled in
 */
struct mrg_walk_ops {
	struct module *owner;
	u32 (*probe)(void);
	u64 (*pick)(void);
	int (*blocks)(struct mrg_walk_job *job);
};

int mrg_register_walk(const struct mrg_walk_ops *ops);
void mrg_unregister_walk(const struct mrg_walk_ops *ops);

/* NULL where mrguard_walk.ko is not there; else give it back with mrg_walk_put() */
const struct mrg_walk_ops *mrg_walk_get(void);
void mrg_walk_put(const struct mrg_walk_ops *ops);

/* A range of a DMA-BUF, and what was learnt while it was mapped. */
struct mrg_mapped {
	int fd;
	struct mrg_ioc_importer importer;
	u64 iova;
	u64 offset;
	u64 length;
	u64 dmabuf_size;
	u64 max_seg_size;
	u64 map_ns;
	u32 iommu;
	bool moves;
	char exporter[32];
};

/* Looks at the mapped list, under the importer's and the buffer's locks. */
typedef int (*mrg_look_fn)(struct mrg_mapped *mapped, struct sg_table *sgt, void *arg);

/* The range covers whole pages of the buffer: from here ... */
static inline u64 mrg_first_byte(const struct mrg_mapped *mapped)
{
	return ALIGN_DOWN(mapped->offset, PAGE_SIZE);
}

/* ... to here, or to the list's end where that comes first. */
static inline u64 mrg_end_byte(const struct mrg_mapped *mapped)
{
	return ALIGN(mapped->offset + mapped->length, PAGE_SIZE);
}

/* Calls @look with @mapped's buffer mapped; -errno of mine, or what @look returns. */
int mrg_look_at(struct mrg_mapped *mapped, mrg_look_fn look, void *arg);
/* Fills in a length of 0, and refuses what does not lie in @size bytes. */
int mrg_check_range(struct mrg_mapped *mapped, u64 size);
bool mrg_may_see_raw(void);
/* Room that is charged to the caller, to be freed with kvfree(); NULL for 0. */
void *mrg_alloc_room(u64 count, size_t size);

/* One open of the device. */
struct mrg_file {
	struct list_head holders; /* while @pid is set */
	struct pid *pid; /* the process that read that the cap is effective */
};

void mrg_let_cap_go(struct mrg_file *file);
int mrg_ioc_info(struct mrg_file *file, struct mrg_ioc_info *arg);
int mrg_ioc_holders(struct mrg_ioc_holders *arg);
int mrg_ioc_layout(struct mrg_ioc_layout *arg);
int mrg_ioc_blocks(struct mrg_ioc_blocks *arg);
int mrg_ioc_vma(struct mrg_ioc_vma *arg);

/* A loop over what a caller has chosen the length of: may it go on? */
static inline int mrg_resched(u64 step)
{
	if (step & 0xfff)
		return 0;
	cond_resched();
	return fatal_signal_pending(current) ? -EINTR : 0;
}

#endif /* MRG_INTERNAL_H */
