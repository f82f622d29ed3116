/* SPDX-License-Identifier: MIT */
/*
 * The guard around ibv_reg_mr() and ibv_dereg_mr() of ordinary memory: after a
 * deregistration the address space is as it was before, and a registration
 * that would run into the VMA limit, or leave libibverbs' fork counts wrong, is
 * refused before libibverbs is called.
 *
 * One guard a context.  All calls may come from any thread; those for one range
 * must come in the order before_reg, after_reg, after_dereg.  A NULL guard lets
 * everything pass.  Registrations whose pages libibverbs does not mark (DMA-BUFs,
 * IBV_ACCESS_ON_DEMAND) need region_vma_guard_room() alone.
 */
#ifndef REGION_VMA_GUARD_H
#define REGION_VMA_GUARD_H

#include <mrguard/fork.h>
#include <mrguard/host.h>
#include <mrguard/vma.h>

struct mrg_vma_guard;

/**
 * region_vma_guard_open() - make a guard
 * @out: OUT
 * @dev: the module, or NULL; must outlive the guard
 * @policy: fork policy, carried out now
 * @floor: VMAs that must stay free after a registration; 0 = 64
 *
 * Return: 0; -ENOMEM; or mrg_fork_apply()'s -EINVAL.  That protection could not
 * be switched on is no failure here: mrg_fork_query() tells.
 */
int region_vma_guard_open(struct mrg_vma_guard **out, struct mrg_dev *dev,
			  enum mrg_fork_policy policy, uint64_t floor);
void region_vma_guard_close(struct mrg_vma_guard *guard);

/**
 * region_vma_guard_room() - are there VMAs left?
 * @err: OUT on failure; may be NULL
 *
 * Return: 0; -ENOSPC.
 */
int region_vma_guard_room(struct mrg_vma_guard *guard, struct mrg_error *err);

/**
 * region_vma_guard_before_reg() - before ibv_reg_mr(); nothing is kept if it fails
 * @addr, @len: what ibv_reg_mr() will be given
 * @err: OUT on failure; may be NULL
 *
 * Return: 0; -ENOSPC (VMA limit); and where pages are marked: -EFAULT (hole),
 * -EINVAL (cuts a huge page), -EBUSY (part of a device mapping that is
 * VM_DONTCOPY by nature), -ENOMEM.
 */
int region_vma_guard_before_reg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				struct mrg_error *err);
/** region_vma_guard_after_reg() - after ibv_reg_mr(), also where it failed;
 *  @result is 0 or -errno */
void region_vma_guard_after_reg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				int result);
/** region_vma_guard_after_dereg() - after ibv_dereg_mr(); @result is 0 or -errno */
void region_vma_guard_after_dereg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				  int result);

/** region_vma_guard_headroom() - VMAs left, and for how long.  Return: 0, or
 *  -errno of reading the count */
int region_vma_guard_headroom(struct mrg_vma_guard *guard, struct mrg_headroom *out);

#endif
