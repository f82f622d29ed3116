/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MRG_IOC_INFO: what this module, the kernel's walk and the cap are.  All of it
 * is asked at each call: a live patch can change the walk, and a switch in
 * debugfs the cap, at any time.
 */
#include <linux/pid.h>
#include <linux/slab.h>

#include "cap.h"
#include "internal.h"

static DEFINE_MUTEX(holders_lock);
static LIST_HEAD(holders); /* files whose reader saw MRG_CAP_INFO_EFFECTIVE */

/*
 * A process that reads that the cap is effective relies on it for its MRs, and the
 * kernel may pick their page size again when memory moves.  So the file
 * keeps its reference to mrguard_cap.ko until it is closed.
 */
static void hold_cap(struct mrg_file *file)
{
	mutex_lock(&holders_lock);
	if (file->pid) {
		symbol_put(mrg_cap_read);
	} else {
		file->pid = get_pid(task_tgid(current));
		list_add_tail(&file->holders, &holders);
	}
	mutex_unlock(&holders_lock);
}

void mrg_let_cap_go(struct mrg_file *file)
{
	mutex_lock(&holders_lock);
	if (file->pid) {
		list_del(&file->holders);
		put_pid(file->pid);
		symbol_put(mrg_cap_read);
	}
	mutex_unlock(&holders_lock);
}

/* With a reference to mrg_cap_read(), which it gives back or hands to @file. */
static void ask_cap(struct mrg_file *file, const struct mrg_walk_ops *walk,
		    void (*read)(struct mrg_cap_state *state), struct mrg_ioc_info *arg)
{
	struct mrg_cap_state state;

	read(&state);
	arg->cap_asked = state.asked;
	arg->cap_capped = state.capped;
	arg->cap_uncapped = state.uncapped;
	arg->cap = state.state;
	if (arg->cap == MRG_CAP_INFO_SET && walk)
		arg->cap = walk->pick() > BIT_ULL(MRG_CAP_SHIFT) ? MRG_CAP_INFO_NOT_EFFECTIVE :
								   MRG_CAP_INFO_EFFECTIVE;
	if (arg->cap == MRG_CAP_INFO_EFFECTIVE)
		hold_cap(file);
	else
		symbol_put(mrg_cap_read);
}

int mrg_ioc_info(struct mrg_file *file, struct mrg_ioc_info *arg)
{
	void (*read)(struct mrg_cap_state * state);
	const struct mrg_walk_ops *walk;

	if (arg->flags || arg->cap)
		return -EINVAL;
	*arg = (struct mrg_ioc_info){
		.size = arg->size,
		.abi = MRG_ABI_VERSION,
		.page_size = PAGE_SIZE,
		.features = MRG_FEATURE_LAYOUT | MRG_FEATURE_VMA,
		.version = MRG_VERSION,
	};
	walk = mrg_walk_get();
	if (walk) {
		arg->features |= MRG_FEATURE_WALK;
		arg->walk = walk->probe();
	}
	read = symbol_get(mrg_cap_read);
	if (read)
		ask_cap(file, walk, read, arg);
	if (walk)
		mrg_walk_put(walk);
	return 0;
}

/* Who holds the cap, for the operator who wants to unload it. */
int mrg_ioc_holders(struct mrg_ioc_holders *arg)
{
	u32 __user *to = u64_to_user_ptr(arg->pids);
	struct mrg_file *file;
	u32 *pids;
	int ret = 0;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	pids = mrg_alloc_room(arg->pids_cap, sizeof(*pids));
	if (arg->pids_cap && !pids)
		return -ENOMEM;
	arg->total = 0;
	arg->pids_out = 0;
	mutex_lock(&holders_lock);
	list_for_each_entry(file, &holders, holders) {
		arg->total++;
		if (arg->pids_out < arg->pids_cap)
			pids[arg->pids_out++] = pid_vnr(file->pid);
	}
	mutex_unlock(&holders_lock);
	if (copy_to_user(to, pids, arg->pids_out * sizeof(*pids)))
		ret = -EFAULT;
	kvfree(pids);
	return ret;
}
