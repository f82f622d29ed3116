/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mrguard_cap.ko: keeps the running kernel from picking pages above 2 GiB for an
 * MR, so that a walk that truncates block offsets to 32 bits gives right
 * addresses all the same.  It replaces no code: a kprobe at the entry of
 * ib_umem_find_best_pgsz() takes the larger sizes out of the bitmap of page
 * sizes that the driver offers, where a smaller one is left.
 *
 * The function is found by name, so nothing of RDMA is linked or pinned.  It
 * lives in ib_uverbs, from 7.x on in ib_core, beside ib_umem_get().
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/timekeeping.h>

#include "cap.h"
#include "uapi/mrguard.h"

#define PICK "ib_umem_find_best_pgsz"
#define BESIDE "ib_umem_get" /* is in the same module as PICK, in every kernel */

static atomic64_t asked, capped, uncapped;

static unsigned long long since;
module_param(since, ullong, 0444);
MODULE_PARM_DESC(since, "When it was loaded, in seconds since boot (told, not set)");

/* The second argument: unsigned long pgsz_bitmap. */
static unsigned long *bitmap_of(struct pt_regs *regs)
{
#if defined(CONFIG_X86_64)
	return &regs->si;
#elif defined(CONFIG_ARM64)
	return (unsigned long *)&regs->regs[1];
#else
#error "mrguard_cap knows the calling conventions of x86-64 and arm64"
#endif
}

static int before_pick(struct kprobe *probe, struct pt_regs *regs)
{
	const unsigned long small = GENMASK_ULL(MRG_CAP_SHIFT, 0);
	unsigned long *bitmap = bitmap_of(regs);

	atomic64_inc(&asked);
	if (!(*bitmap & ~small))
		return 0;
	if (*bitmap & small) {
		*bitmap &= small;
		atomic64_inc(&capped);
	} else {
		atomic64_inc(&uncapped);
	}
	return 0;
}
NOKPROBE_SYMBOL(before_pick);

static DEFINE_MUTEX(lock); /* guards what follows */
static struct kprobe pick;
static u32 state = MRG_CAP_INFO_WAITING;

/* Is the module that has @name loaded?  A probe that is never armed finds out. */
static bool is_loaded(const char *name)
{
	struct kprobe probe = { .symbol_name = name, .flags = KPROBE_FLAG_DISABLED };

	if (register_kprobe(&probe))
		return false;
	unregister_kprobe(&probe);
	return true;
}

/* With @lock held.  0 also where RDMA is not loaded yet. */
static int set(void)
{
	int ret;

	pick = (struct kprobe){ .symbol_name = PICK, .pre_handler = before_pick };
	ret = register_kprobe(&pick);
	if (!ret) {
		state = MRG_CAP_INFO_SET;
		return 0;
	}
	if (!is_loaded(BESIDE)) {
		state = MRG_CAP_INFO_WAITING;
		return 0;
	}
	return ret;
}

static void set_again(const char *module)
{
	int ret = set();

	if (!ret)
		return;
	state = MRG_CAP_INFO_LOST;
	pr_err("the cap is LOST: %s was loaded, and no probe can be set at " PICK
	       "() (error %d). MRs registered from now on can wrap.\n",
	       module, ret);
}

/* The module that has the function comes and goes; a probe does not come back by itself. */
static int on_module(struct notifier_block *block, unsigned long event, void *data)
{
	struct module *module = data;

	mutex_lock(&lock);
	if (event == MODULE_STATE_COMING && state != MRG_CAP_INFO_SET &&
	    (!strcmp(module->name, "ib_uverbs") || !strcmp(module->name, "ib_core"))) {
		set_again(module->name);
	} else if (event == MODULE_STATE_GOING && state == MRG_CAP_INFO_SET &&
		   within_module((unsigned long)pick.addr, module)) {
		unregister_kprobe(&pick);
		state = MRG_CAP_INFO_WAITING;
	}
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block modules = { .notifier_call = on_module };

void mrg_cap_read(struct mrg_cap_state *to)
{
	mutex_lock(&lock);
	to->state = state;
	mutex_unlock(&lock);
	to->asked = atomic64_read(&asked);
	to->capped = atomic64_read(&capped);
	to->uncapped = atomic64_read(&uncapped);
}
EXPORT_SYMBOL_GPL(mrg_cap_read);

static int __init mrg_cap_init(void)
{
	int ret = register_module_notifier(&modules);

	if (ret)
		return ret;
	since = ktime_get_boottime_seconds();
	mutex_lock(&lock);
	/* The notifier may have been quicker. */
	ret = state == MRG_CAP_INFO_SET ? 0 : set();
	mutex_unlock(&lock);
	if (!ret)
		return 0;
	unregister_module_notifier(&modules);
	pr_err("no probe can be set at " PICK "() (error %d), although the RDMA core is loaded; "
	       "the kernel is as it was\n",
	       ret);
	return ret;
}
module_init(mrg_cap_init);

static void __exit mrg_cap_exit(void)
{
	unregister_module_notifier(&modules);
	if (state == MRG_CAP_INFO_SET)
		unregister_kprobe(&pick);
}
module_exit(mrg_cap_exit);

MODULE_DESCRIPTION("Keeps MRs from getting pages above 2 GiB, which some kernels walk wrong");
MODULE_AUTHOR("The mrguard authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(MRG_VERSION);
