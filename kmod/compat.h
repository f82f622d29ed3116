/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything in which kernels 5.15 to 7.3 differ.  The code is written for the
 * newest one.  MRG_HAVE_* come from Kbuild, which looks into the headers, since
 * stable series and vendors take changes that a version does not show.
 */
#ifndef MRG_COMPAT_H
#define MRG_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/task.h>
#include <linux/version.h>
#ifdef MRG_HAVE_EXEC_STATE
#include <linux/sched/exec_state.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 15, 0)
#error "mrguard needs Linux 5.15 or later"
#endif
#ifndef CONFIG_64BIT
#error "mrguard needs a 64-bit kernel: page sizes of 4 GiB do not fit another"
#endif

/* cdd30ebb1b9f (6.13): the namespace became a string. */
#ifdef MRG_HAVE_NS_STRING
#define MRG_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define MRG_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

/* 7.1 renamed the importer's callback; until then a dynamic importer had to
 * have one.
 */
#ifdef MRG_HAVE_INVALIDATE_MAPPINGS
#define mrg_invalidate invalidate_mappings
#else
#define mrg_invalidate move_notify
#endif

/*
 * 512881eacfa7 (5.19): the flag of drivers that hand DMA to user space, or do
 * none.  Older kernels tell them by name alone.
 */
static inline bool mrg_driver_managed_dma(struct pci_dev *pdev)
{
#ifdef MRG_HAVE_DRIVER_MANAGED_DMA
	return to_pci_driver(pdev->dev.driver)->driver_managed_dma;
#else
	const char *name = pdev->dev.driver->name;

	return strstr(name, "vfio") || !strcmp(name, "pci-stub") || !strcmp(name, "pciback");
#endif
}

/*
 * 5.17 named anonymous memory; the name shared its place with the file's tree
 * node until d09e8ca6cb93 (6.2).
 */
static inline bool mrg_same_name(struct vm_area_struct *a, struct vm_area_struct *b)
{
#ifdef CONFIG_ANON_VMA_NAME
	if (LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0) && (a->vm_file || b->vm_file))
		return true;
	return anon_vma_name_eq(a->anon_name, b->anon_name);
#else
	return true;
#endif
}

/* 7.3 moved the namespace that ptrace asks from the memory to the task; call
 * with task_lock() held and task->mm set.
 */
static inline struct user_namespace *mrg_user_ns(struct task_struct *task)
{
#ifdef MRG_HAVE_EXEC_STATE
	return rcu_dereference_protected(task->exec_state, lockdep_is_held(&task->alloc_lock))
		->user_ns;
#else
	return task->mm->user_ns;
#endif
}

/* Flags by which VMAs may differ and merge all the same. */
#ifdef VM_MAYBE_GUARD
#define MRG_VM_STICKY (VM_SOFTDIRTY | VM_MAYBE_GUARD) /* 7.x */
#else
#define MRG_VM_STICKY VM_SOFTDIRTY
#endif

#endif /* MRG_COMPAT_H */
