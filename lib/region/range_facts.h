/* SPDX-License-Identifier: MIT */
/* What lies in a range of this process's address space. */
#ifndef REGION_RANGE_FACTS_H
#define REGION_RANGE_FACTS_H

#include <stdbool.h>

#include <mrguard/host.h>

struct region_range {
	uint64_t start;
	uint64_t end;
};

struct region_range_list {
	struct region_range *ranges;
	size_t count;
	size_t room;
};

/* Whether the VMA of a range's first page, and that of its last, may be one
 * that was never written. */
struct region_range_ends {
	bool known; /* by the same reading; not so where the module gave the counts */
	bool start_unwritten;
	bool end_unwritten;
};

/**
 * region_range_facts() - the counts of MRG_IOC_VMA, from the module or from smaps
 * @dev: the module, or NULL
 * @ends: OUT, or NULL
 *
 * smaps makes the kernel walk page tables: 0.1 to 100 ms and more, by the
 * process's size, so that what one reading shows is not read again.  The pairs
 * (joinable, stuck_*) are the module's alone.
 *
 * Return: 0; -errno where neither can be read.
 */
int region_range_facts(struct mrg_dev *dev, struct region_range range, struct mrg_vma_counts *facts,
		       struct region_range_ends *ends);

/**
 * region_range_marked() - the parts of a range that are VM_DONTCOPY, by smaps
 * @list: OUT, to be released with region_range_list_release()
 * @clipped: OUT a device mapping is marked that reaches beyond the range
 *
 * Return: 0; -ENOMEM; -errno of reading smaps.
 */
int region_range_marked(struct region_range range, struct region_range_list *list, bool *clipped);
void region_range_list_release(struct region_range_list *list);
int region_range_list_add(struct region_range_list *list, struct region_range range);

/** region_range_overlap() - what two ranges share; empty (start >= end) if nothing */
struct region_range region_range_overlap(struct region_range a, struct region_range b);

static inline bool region_range_empty(struct region_range range)
{
	return range.start >= range.end;
}

#endif
