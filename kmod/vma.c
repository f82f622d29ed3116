/* SPDX-License-Identifier: GPL-2.0-only */
/* MRG_IOC_VMA: how many VMAs a process holds, and which never merge again. */
#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/userfaultfd_k.h>

#include "compat.h"
#include "internal.h"

/* Writers get their turn after so many VMAs. */
#define VMAS_PER_LOCK 16384

/* ---- whose memory ------------------------------------------------------ */

/* As ptrace does it: under the lock under which execve changes memory and owner. */
static struct mm_struct *mm_of_task(struct task_struct *task)
{
	struct mm_struct *mm;

	task_lock(task);
	mm = task->flags & PF_KTHREAD ? NULL : task->mm;
	if (!mm)
		mm = ERR_PTR(-ESRCH);
	else if (mm != current->mm && !ns_capable(mrg_user_ns(task), CAP_SYS_PTRACE))
		mm = ERR_PTR(-EPERM);
	else
		mmget(mm);
	task_unlock(task);
	return mm;
}

/* @nr as the caller's PID namespace has it; 0 is the caller. */
static struct mm_struct *get_mm(pid_t nr)
{
	struct mm_struct *mm;
	struct task_struct *task;
	struct pid *pid;

	if (!nr)
		return mm_of_task(current);
	pid = find_get_pid(nr);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);
	mm = mm_of_task(task);
	put_task_struct(task);
	return mm;
}

/* ---- pairs of neighbours ----------------------------------------------- */

static bool is_special(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_SPECIAL;
}

/* A VMA with a close callback cannot be the one that a merge removes. */
static bool never_merges(const struct vm_area_struct *vma)
{
	return is_special(vma) || (vma->vm_ops && vma->vm_ops->close);
}

static bool same_file(struct vm_area_struct *a, struct vm_area_struct *b)
{
	return a->vm_file == b->vm_file && a->vm_pgoff + vma_pages(a) == b->vm_pgoff;
}

/* What mpol_equal() compares, as far as it matters here; that is not exported. */
static bool same_policy(struct vm_area_struct *a, struct vm_area_struct *b)
{
#ifdef CONFIG_NUMA
	const struct mempolicy *p = a->vm_policy, *q = b->vm_policy;

	if (p == q || !p || !q)
		return p == q;
	return p->mode == q->mode && p->flags == q->flags && nodes_equal(p->nodes, q->nodes);
#else
	return true;
#endif
}

static bool same_rest(struct vm_area_struct *a, struct vm_area_struct *b)
{
	return same_policy(a, b) && mrg_same_name(a, b) &&
	       is_mergeable_vm_userfaultfd_ctx(a, b->vm_userfaultfd_ctx);
}

/*
 * Two that were written to while they were apart have two anon_vmas for good.
 * One without may join one whose anon_vma no fork has inherited.
 */
static bool same_anon(const struct vm_area_struct *a, const struct vm_area_struct *b)
{
	if (a->anon_vma == b->anon_vma)
		return true;
	if (a->anon_vma && b->anon_vma)
		return false;
	return list_is_singular(a->anon_vma ? &a->anon_vma_chain : &b->anon_vma_chain);
}

/* The counter that two neighbours with equal flags belong to; NULL: they merge. */
static __u64 *why_stuck(struct mrg_ioc_vma *arg, struct vm_area_struct *a, struct vm_area_struct *b)
{
	if (never_merges(a) || never_merges(b))
		return &arg->stuck_special;
	if (!same_file(a, b))
		return &arg->stuck_file;
	if (!same_rest(a, b))
		return &arg->stuck_other;
	return same_anon(a, b) ? NULL : &arg->stuck_anon;
}

static void count_pair(struct mrg_ioc_vma *arg, struct vm_area_struct *a, struct vm_area_struct *b)
{
	unsigned long differ = (a->vm_flags ^ b->vm_flags) & ~(unsigned long)MRG_VM_STICKY;
	__u64 *stuck;

	if (a->vm_end != b->vm_start || differ & ~(unsigned long)VM_DONTCOPY)
		return;
	stuck = why_stuck(arg, a, b);
	if (differ)
		arg->joinable += !stuck;
	else if (stuck)
		++*stuck;
}

/* ---- the range --------------------------------------------------------- */

static __u64 cut_size(struct vm_area_struct *vma)
{
	if (vma->vm_ops && vma->vm_ops->pagesize)
		return vma->vm_ops->pagesize(vma);
	return PAGE_SIZE;
}

static bool is_unwritten(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & (VM_SHARED | VM_WRITE)) == VM_WRITE && !vma->anon_vma;
}

static void count_vma(struct mrg_ioc_vma *arg, struct vm_area_struct *vma)
{
	arg->vmas++;
	arg->dontcopy += !!(vma->vm_flags & VM_DONTCOPY);
	arg->special += is_special(vma);
	arg->unwritten += is_unwritten(vma);
	arg->mapped +=
		min_t(__u64, vma->vm_end, arg->end) - max_t(__u64, vma->vm_start, arg->start);
	arg->page_size = max(arg->page_size, cut_size(vma));
}

/*
 * Counts up to VMAS_PER_LOCK VMAs from @addr on and returns where to go on, or
 * 0 at the end.  The VMA before @addr, if it was counted, makes the first pair.
 */
static unsigned long count_some(struct mrg_ioc_vma *arg, struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *prev = NULL, *vma;
	unsigned int n = 0;

	if (addr > arg->start)
		prev = vma_lookup(mm, addr - 1);
	for (vma = find_vma(mm, addr); vma && vma->vm_start < arg->end;
	     vma = find_vma(mm, vma->vm_end)) {
		count_vma(arg, vma);
		if (prev)
			count_pair(arg, prev, vma);
		if (++n == VMAS_PER_LOCK)
			return vma->vm_end;
		prev = vma;
	}
	return 0;
}

static int count_range(struct mrg_ioc_vma *arg, struct mm_struct *mm)
{
	unsigned long addr = arg->start;

	do {
		if (mmap_read_lock_killable(mm))
			return -EINTR;
		addr = count_some(arg, mm, addr);
		mmap_read_unlock(mm);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	} while (addr && addr < arg->end);
	return 0;
}

static int check_vma(const struct mrg_ioc_vma *arg)
{
	if (arg->flags & ~MRG_VMA_RANGE || arg->reserved)
		return -EINVAL;
	if (arg->flags & MRG_VMA_RANGE)
		return arg->start >= arg->end ? -EINVAL : 0;
	return arg->start || arg->end ? -EINVAL : 0;
}

int mrg_ioc_vma(struct mrg_ioc_vma *arg)
{
	struct mm_struct *mm;
	int ret = check_vma(arg);

	if (ret)
		return ret;
	mm = get_mm(arg->pid);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	*arg = (struct mrg_ioc_vma){
		.size = arg->size,
		.flags = arg->flags,
		.pid = arg->pid,
		.start = arg->start,
		.end = arg->end,
		.map_count = READ_ONCE(mm->map_count),
	};
	if (arg->flags & MRG_VMA_RANGE)
		ret = count_range(arg, mm);
	mmput(mm);
	return ret;
}
