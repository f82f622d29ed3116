/* SPDX-License-Identifier: MIT */
/*
 * What fork protection really does in this process.  libibverbs keeps one set
 * of counts a process, so what is learnt about them is kept for the process.
 */
#ifndef REGION_FORK_STATE_H
#define REGION_FORK_STATE_H

#include <mrguard/fork.h>

/** region_fork_ask_kernel() - copy-on-fork, over RDMA netlink; @error: OUT errno for
 *  MRG_KERNEL_UNREACHED, else 0 */
enum mrg_kernel_copies region_fork_ask_kernel(int *error);

/** region_fork_rdma_core() - release of the libibverbs in use, 0 if not known */
unsigned int region_fork_rdma_core(void);

/**
 * region_fork_observe() - find out whether libibverbs marks pages, once a process
 *
 * After it ibv_fork_init() is too late, as after any registration; so this is
 * called right before the first one.  Return: it marks.
 */
bool region_fork_observe(void);
/** region_fork_was_observed() - was it found out?  @marks: OUT what region_fork_observe() saw */
bool region_fork_was_observed(bool *marks);

/** region_fork_still_marks() - does it mark a page above @addr?  After a failed madvise
 *  libibverbs' counts are wrong from there up.  Return: 1, 0, or -ENOMEM (no
 *  room for the page: nothing is known). */
int region_fork_still_marks(uint64_t addr);

/** region_fork_distrust() - libibverbs' counts are wrong from now on */
void region_fork_distrust(void);
bool region_fork_is_distrusted(void);

/**
 * region_fork_unmark() - take VM_DONTCOPY off the memory that no live MR of this process covers
 *
 * One up and one down in libibverbs' own counts: where a count was 0, this
 * ends in madvise(MADV_DOFORK); where it was not, nothing happens.
 */
void region_fork_unmark(uint64_t start, uint64_t end);

#endif
