/* SPDX-License-Identifier: MIT */
/* What an explanation rests on.  Internal to lib/host. */
#ifndef HOST_EXPLAIN_H
#define HOST_EXPLAIN_H

#include <stdbool.h>

#include <mrguard/explain.h>

#define UNLIMITED UINT64_MAX

/* What /proc tells of the process.  Each group is known by itself: some files
 * can be read by anyone, others by few. */
struct process_facts {
	bool vmas_known;
	uint64_t vmas;
	uint64_t vma_limit;

	bool memlock_known;
	uint64_t memlock;	/* RLIMIT_MEMLOCK, soft */
	uint64_t pinned;	/* VmPin */
	bool may_lock;		/* CAP_IPC_LOCK that the kernel honours */

	bool range_known;
	uint64_t unmapped;	/* first byte of the range that is not mapped */
	bool has_hole;
	uint64_t page_size;	/* largest in the range */
};

/* Return: 0; -ESRCH. */
int explain_read_process(const struct mrg_explain_opts *opts,
			 struct process_facts *facts);

/* Fills in what @opts lacks of the device's limits, where it can be asked. */
void explain_ask_device(struct mrg_explain_opts *opts);

#endif
