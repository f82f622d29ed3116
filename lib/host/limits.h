/* SPDX-License-Identifier: MIT */
/* What the kernel holds a process to, as /proc tells. */
#ifndef HOST_LIMITS_H
#define HOST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Each group is known by itself: some files can be read by anyone, others by few. */
struct host_limits {
	bool vmas_known;
	uint64_t vmas;
	uint64_t vma_limit;

	bool memlock_known;
	uint64_t memlock; /* RLIMIT_MEMLOCK, soft; UINT64_MAX: no limit */
	uint64_t pinned; /* VmPin: what counts against it */
	bool may_lock; /* CAP_IPC_LOCK where the kernel honours it */
};

/**
 * host_limits_read() - read the limits, and what counts against them
 * @proc: "/proc", or a copy
 * @process: "self", "4711"
 *
 * Return: 0; -errno of open(2): the process cannot be read.
 */
int host_limits_read(const char *proc, const char *process, struct host_limits *limits);

/** host_vma_limit() - vm.max_map_count; -errno of open(2); -EBADMSG */
int host_vma_limit(const char *proc, uint64_t *limit);

#endif
