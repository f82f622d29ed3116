/* SPDX-License-Identifier: MIT */
/*
 * Fork protection: what happens to registered memory when the process forks.
 *
 * Since 5.13 the kernel copies pinned pages at fork ("copy-on-fork") and says
 * so over RDMA netlink.  Where it does not, libibverbs can mark all registered
 * pages VM_DONTCOPY; that cuts VMAs, and a process has only vm.max_map_count of
 * them.  See mrg_fork(3).
 */
#ifndef MRGUARD_FORK_H
#define MRGUARD_FORK_H

#include <stdbool.h>
#include <mrguard/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum mrg_fork_policy - what the caller wants
 * @MRG_FORK_AUTO:   marks pages only where the kernel does not copy them
 * @MRG_FORK_NEVER:  never calls ibv_fork_init(); another may have done so
 * @MRG_FORK_ALWAYS: calls ibv_fork_init() whatever the kernel does
 */
enum mrg_fork_policy {
	MRG_FORK_AUTO,
	MRG_FORK_NEVER,
	MRG_FORK_ALWAYS,
};

/**
 * enum mrg_fork_mode - what is in force
 * @MRG_FORK_UNPROTECTED: a child, or the parent after a fork, may get a copy
 *	of a page that the device goes on writing to
 * @MRG_FORK_COPIED: the kernel copies pinned pages for the child
 * @MRG_FORK_MARKED: libibverbs marks registered pages VM_DONTCOPY, and cuts
 *	VMAs; the child does not have these pages.  Can hold on a kernel that
 *	copies too: rdma-core before 51 marks whenever it was asked to.
 */
enum mrg_fork_mode {
	MRG_FORK_UNPROTECTED,
	MRG_FORK_COPIED,
	MRG_FORK_MARKED,
};

/** enum mrg_kernel_copies - what the kernel says of copy-on-fork */
enum mrg_kernel_copies {
	MRG_KERNEL_COPIES, /* attribute is 1 */
	MRG_KERNEL_COPIES_NOT, /* attribute is 0 */
	MRG_KERNEL_SILENT, /* no such attribute: older than 5.13 */
	MRG_KERNEL_UNREACHED, /* RDMA netlink refused: see netlink_error */
};

/**
 * struct mrg_fork_info - fork protection in this process
 * @mode:	what is in force
 * @observed:	@mode was seen on a page that was marked for the test; else it
 *		follows from what kernel, library and environment say
 * @reliable:	false once libibverbs' counts are known to be wrong (a madvise
 *		failed, or memory was unmapped while registered): pages of
 *		later registrations may be unprotected
 * @kernel:	see enum mrg_kernel_copies
 * @netlink_error: errno of RDMA netlink for MRG_KERNEL_UNREACHED, else 0
 * @env_safe:	RDMAV_FORK_SAFE or IBV_FORK_SAFE is set
 * @env_huge:	RDMAV_HUGEPAGES_SAFE is set
 * @rdma_core:	release of the libibverbs in use, 44 for rdma-core 44.0; 0 = not
 *		known
 * @reason:	one or two sentences, for people
 */
struct mrg_fork_info {
	enum mrg_fork_mode mode;
	enum mrg_kernel_copies kernel;
	int netlink_error;
	unsigned int rdma_core;
	bool observed;
	bool reliable;
	bool env_safe;
	bool env_huge;
	char reason[256];
	uint64_t reserved[4]; /* 0 */
};

/**
 * mrg_fork_query() - fork protection in this process, without changing it
 * @info: OUT
 *
 * Return: 0.  Any thread.  Asks RDMA netlink: some 20 us.
 */
MRG_API int mrg_fork_query(struct mrg_fork_info *info);

/**
 * mrg_fork_apply() - carry out a policy; mrg_open() does it
 * @policy: MRGUARD_FORK=auto|never|always in the environment comes first
 * @info: OUT what is in force then; may be NULL
 *
 * Fork protection belongs to the process, not to a context: the first to
 * switch it on decides, and nobody can switch it off.
 *
 * Return: 0; -EINVAL (no such policy, also in MRGUARD_FORK); -EALREADY
 * (protection is wanted, but memory was registered before: ibv_fork_init() is
 * too late); -ENOSYS (the kernel refused the marks).  With a failure @info is
 * written too.
 */
MRG_API int mrg_fork_apply(enum mrg_fork_policy policy, struct mrg_fork_info *info);

/**
 * mrg_fork_predict() - the mode that follows from what is known
 * @kernel: what the kernel says
 * @initialized: ibv_fork_init() was called
 * @env_safe: RDMAV_FORK_SAFE or IBV_FORK_SAFE was set when libibverbs started
 * @rdma_core: release of libibverbs; 0 = not known, taken for an old one
 *
 * Pure.  From 51 on ibv_fork_init() does nothing where the kernel copies
 * (rdma-core 5a11b68ca); before, it marks all the same.
 */
MRG_API enum mrg_fork_mode mrg_fork_predict(enum mrg_kernel_copies kernel, bool initialized,
					    bool env_safe, unsigned int rdma_core);

/** mrg_fork_parse() - "auto", "never", "always"; -EINVAL for others */
MRG_API int mrg_fork_parse(const char *word, enum mrg_fork_policy *policy);
/** mrg_fork_mode_name() - "unprotected", "copied", "marked" */
MRG_API const char *mrg_fork_mode_name(enum mrg_fork_mode mode);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_FORK_H */
