/* SPDX-License-Identifier: MIT */
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guard/process.h"

__thread struct guard_thread guard_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static struct guard_process process;

enum stage { UNSTARTED, STARTING, READY };

/*
 * The stage lies in a page that the kernel clears in a child (MADV_WIPEONFORK,
 * since 4.14): however the process forked, the child's guard is unstarted again.
 * Where there is no such page, it is @spare, which says of which process it is.
 */
static _Atomic(atomic_uint *) stage_place;

static struct {
	atomic_uint stage;
	atomic_int pid;
} spare;

static atomic_uint *map_stage(size_t page)
{
	atomic_uint *made;

	made = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	if (!madvise(made, page, MADV_WIPEONFORK))
		return made;
	munmap(made, page);
	return NULL;
}

static void make_stage(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	atomic_uint *none = NULL, *made = map_stage(page);

	if (!atomic_compare_exchange_strong(&stage_place, &none, made ? made : &spare.stage) &&
	    made)
		munmap(made, page);
}

static atomic_uint *find_stage(void)
{
	atomic_uint *stage = atomic_load_explicit(&stage_place, memory_order_acquire);
	int pid, known;

	if (stage != &spare.stage)
		return stage;
	pid = getpid();
	known = atomic_load(&spare.pid);
	if (known != pid && atomic_compare_exchange_strong(&spare.pid, &known, pid) && known)
		atomic_store(stage, UNSTARTED);
	return stage;
}

static unsigned int stage_now(void)
{
	atomic_uint *stage = find_stage();

	return stage ? atomic_load_explicit(stage, memory_order_acquire) : UNSTARTED;
}

struct guard_process *guard_process_ready(void)
{
	return stage_now() == READY ? &process : NULL;
}

struct guard_process *guard_process_claim(void)
{
	unsigned int unstarted = UNSTARTED;

	if (!find_stage())
		make_stage();
	if (!atomic_compare_exchange_strong(find_stage(), &unstarted, STARTING))
		return NULL;
	return &process;
}

void guard_process_settle(bool made)
{
	atomic_store_explicit(find_stage(), made ? READY : UNSTARTED, memory_order_release);
}

struct guard_process *guard_process_wait(void)
{
	while (stage_now() == STARTING)
		sched_yield();
	return guard_process_ready();
}

int guard_process_stderr(const struct guard_process *p)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) || st.st_dev != p->stderr_dev || st.st_ino != p->stderr_ino)
		return -1;
	return STDERR_FILENO;
}

/* The coarse clock is a read of memory, and its milliseconds are enough. */
uint64_t guard_process_now(const struct guard_process *p)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - p->state->start_ns;
}

bool guard_process_reopen_module(struct guard_process *p)
{
	struct mrg_dev_info info;

	if (!p->ctx->dev || !mrg_dev_info(p->ctx->dev, &info))
		return false;
	/* It is not closed again: its number may belong to another file by now. */
	pthread_mutex_lock(&p->room.lock);
	if (mrg_dev_open(&p->ctx->dev))
		p->ctx->dev = NULL;
	p->room.dev = p->ctx->dev;
	pthread_mutex_unlock(&p->room.lock);
	return p->ctx->dev != NULL;
}
