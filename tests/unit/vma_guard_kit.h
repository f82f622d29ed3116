/* SPDX-License-Identifier: MIT */
/* Registrations of the guard's tests: libibverbs' counts, and no device. */
#ifndef VMA_GUARD_KIT_H
#define VMA_GUARD_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include <mrguard/fork.h>
#include <mrguard/vma.h>

#include "host/maps.h"
#include "region/fork_state.h"
#include "region/vma_guard.h"

extern int ibv_dontfork_range(void *base, size_t size);
extern int ibv_dofork_range(void *base, size_t size);

#define PAGE 4096ul

/* The child's answer: the line where it found something wrong. */
#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

static inline void in_child(int (*test)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		int line = test();

		if (line)
			fprintf(stderr, "# %s:%d\n", __FILE__, line);
		_exit(line != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static inline struct mrg_vma_guard *guard_of(uint64_t floor)
{
	struct mrg_vma_guard *guard = NULL;

	if (region_vma_guard_open(&guard, NULL, MRG_FORK_ALWAYS, floor))
		return NULL;
	return guard;
}

static inline int reg(struct mrg_vma_guard *guard, void *addr, size_t len)
{
	uint64_t at = (uintptr_t)addr;
	int ret = region_vma_guard_before_reg(guard, at, len, NULL);

	if (ret)
		return ret;
	errno = 0;
	ret = ibv_dontfork_range(addr, len) ? -errno : 0;
	region_vma_guard_after_reg(guard, at, len, ret);
	return ret;
}

static inline void dereg(struct mrg_vma_guard *guard, void *addr, size_t len)
{
	ibv_dofork_range(addr, len);
	region_vma_guard_after_dereg(guard, (uintptr_t)addr, len, 0);
}

static inline char *fresh(size_t pages)
{
	char *area = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	return area == MAP_FAILED ? NULL : area;
}

/* VMAs that touch [start, start + len), or those of them that are marked. */
static inline long vmas_in(void *start, size_t len, bool marked)
{
	uint64_t from = (uintptr_t)start, to = from + len;
	struct host_maps_vma vma;
	struct host_maps maps;
	long count = 0;

	if (host_maps_open(&maps, "/proc/self/smaps"))
		return -1;
	while (host_maps_next(&maps, &vma) == 1)
		if (vma.end > from && vma.start < to && (!marked || vma.flags & HOST_MF_DONTCOPY))
			count++;
	host_maps_close(&maps);
	return count;
}

#endif
