/* SPDX-License-Identifier: MIT */
/*
 * Seeing what libibverbs does with a page: no question to it tells.  On a
 * kernel that copies, ibv_is_fork_initialized() says IBV_FORK_UNNEEDED, while
 * rdma-core before 51 marks pages all the same once ibv_fork_init() was called.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/maps.h"
#include "region/fork_state.h"

/* Exported since IBVERBS_1.1 for providers, whose header is not installed. */
extern int ibv_dontfork_range(void *base, size_t size);
extern int ibv_dofork_range(void *base, size_t size);

/* Does a VMA end at @addr?  */
static bool vma_ends_at(uint64_t addr)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	bool found = false;

	if (host_maps_open(&maps, "/proc/self/maps"))
		return false;
	while (!found && host_maps_next(&maps, &vma) == 1 && vma.start < addr)
		found = vma.end == addr;
	host_maps_close(&maps);
	return found;
}

/* Marks the first of two pages, and looks whether they were cut apart. */
static int probe(void *hint, uint64_t above)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(hint, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool cut = false;

	if (pages == MAP_FAILED)
		return -ENOMEM;
	if ((uintptr_t)pages < above) {
		munmap(pages, 2 * page);
		return -ENOMEM;
	}
	if (!ibv_dontfork_range(pages, page)) {
		cut = vma_ends_at((uintptr_t)pages + page);
		ibv_dofork_range(pages, page);
	}
	munmap(pages, 2 * page);
	return cut;
}

static atomic_bool observed, marks, distrusted;

bool region_fork_observe(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int cut;

	if (atomic_load_explicit(&observed, memory_order_acquire))
		return atomic_load(&marks);
	pthread_mutex_lock(&lock);
	if (!atomic_load(&observed)) {
		cut = probe(NULL, 0);
		/* Without room for a page nothing is known: take the worse. */
		atomic_store(&marks, cut != 0);
		if (cut >= 0)
			atomic_store_explicit(&observed, true, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return atomic_load(&marks);
}

bool region_fork_was_observed(bool *it_marks)
{
	*it_marks = atomic_load(&marks);
	return atomic_load_explicit(&observed, memory_order_acquire);
}

/* The program's file name lies at the top of the stack, and little above it. */
#define ABOVE_STACK (16u << 20)

int region_fork_still_marks(uint64_t addr)
{
	uintptr_t top = getauxval(AT_EXECFN);

	return probe((void *)(top + ABOVE_STACK), addr);
}

void region_fork_distrust(void)
{
	atomic_store(&distrusted, true);
}

bool region_fork_is_distrusted(void)
{
	return atomic_load(&distrusted);
}

void region_fork_unmark(uint64_t start, uint64_t end)
{
	void *base = (void *)(uintptr_t)start;

	if (!ibv_dontfork_range(base, end - start))
		ibv_dofork_range(base, end - start);
}
