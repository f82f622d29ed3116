/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "region/fork_state.h"

#include "guard/output.h"
#include "guard/process.h"
#include "guard/real.h"

/* VMAs that a registration leaves free, as in mrg_open(). */
#define VMA_FLOOR 64

__thread struct guard_thread guard_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static struct guard_process process;

enum stage { UNSTARTED, STARTING, READY, FAILED };

/*
 * The stage lies in a page that the kernel clears in a child (MADV_WIPEONFORK,
 * since 4.14): whatever way it was forked, its guard is unstarted again.
 */
static _Atomic(atomic_uint *) stage_page;

static atomic_uint *make_stage(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	atomic_uint *none = NULL, *made;

	made = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	if (!madvise(made, page, MADV_WIPEONFORK) &&
	    atomic_compare_exchange_strong(&stage_page, &none, made))
		return made;
	munmap(made, page);
	return none;
}

/* The coarse clock is a read of memory, and its milliseconds are enough. */
static uint64_t monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t guard_now(const struct guard_process *p)
{
	return monotonic() - p->state->start_ns;
}

/* Never 0 to 2: a program that closed those expects them back from open(). */
static int memory_file(void)
{
	int fd = memfd_create(GUARD_FILE, MFD_CLOEXEC), high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

/* The descriptor stays open for `mrguard run --status'; the guard itself never
 * uses it again, so the program may close it. */
static struct guard_state *map_state(void)
{
	struct guard_state *state = MAP_FAILED;
	int fd = memory_file();

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, sizeof(*state)))
		state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state != MAP_FAILED)
		return state;
	close(fd);
	return NULL;
}

static void read_name(char *name, size_t size)
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, name, size - 1);

	if (fd >= 0)
		close(fd);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

/* Modules that let the GPU memory of NVIDIA and AMD be pinned by its address. */
static bool peermem_loaded(void)
{
	return !access("/sys/module/nvidia_peermem", F_OK) ||
	       !access("/sys/module/nv_peer_mem", F_OK) || !access("/sys/module/amdp2p", F_OK);
}

/* Past the guard's own entries, which are for the program's calls. */
static struct ibv_mr *past_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
				      uint64_t iova, int fd, int access)
{
	real_reg_dmabuf_mr *call = guard_real(0, REAL_REG_DMABUF_MR);

	errno = EOPNOTSUPP;
	return call ? call(pd, offset, length, iova, fd, access) : NULL;
}

static int past_dereg(struct ibv_mr *mr)
{
	real_dereg_mr *call = guard_real(0, REAL_DEREG_MR);

	return call ? call(mr) : ENOSYS;
}

static bool open_context(struct guard_process *p)
{
	const struct mrg_open_opts opts = { .size = sizeof(opts), .fork = MRG_FORK_NEVER };

	p->env = region_env_host;
	p->env.reg_dmabuf = past_reg_dmabuf;
	p->env.dereg = past_dereg;
	/* Fork protection and the count of VMAs are the guard's own. */
	p->env.guards_vmas = false;
	return !region_open(&p->ctx, NULL, &opts, &p->env);
}

static void fill_header(struct guard_process *p)
{
	struct guard_state *s = p->state;
	int error;

	s->size = sizeof(*s);
	s->pid = getpid();
	s->start_ns = monotonic();
	s->at_risk = p->policy.at_risk;
	s->unknown = p->policy.unknown;
	s->module_error = p->ctx->dev_error;
	s->walk = p->ctx->dev_info.walk;
	s->kernel_copies = region_fork_ask_kernel(&error);
	read_name(s->program, sizeof(s->program));
	s->magic = GUARD_MAGIC;
}

static void note_stderr(struct guard_process *p)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st))
		return;
	p->stderr_dev = st.st_dev;
	p->stderr_ino = st.st_ino;
}

int guard_stderr(const struct guard_process *p)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) || st.st_dev != p->stderr_dev || st.st_ino != p->stderr_ino)
		return -1;
	return STDERR_FILENO;
}

static bool start(struct guard_process *p)
{
	struct mrg_ctx *inherited = p->ctx;
	const char *wrong;

	/* A child has its parent's: the mapping is shared, and not its own. */
	if (p->state)
		munmap(p->state, sizeof(*p->state));
	memset(p, 0, sizeof(*p));
	p->inherited = inherited;
	note_stderr(p);
	wrong = guard_policy_read(&p->policy);
	p->state = map_state();
	if (!p->state || !open_context(p))
		return false;
	region_headroom_init(&p->room, p->ctx->dev, VMA_FLOOR);
	p->peermem = peermem_loaded();
	fill_header(p);
	if (wrong)
		guard_output_line(p, "mrguard: ", wrong,
				  " holds no word that it can; its default is taken", NULL);
	guard_output_listen();
	return true;
}

struct guard_process *guard_process_ready(void)
{
	atomic_uint *stage = atomic_load_explicit(&stage_page, memory_order_acquire);

	if (!stage || atomic_load_explicit(stage, memory_order_acquire) != READY)
		return NULL;
	return &process;
}

static void start_once(atomic_uint *stage)
{
	unsigned int unstarted = UNSTARTED;
	bool started;
	int cancel;

	if (!atomic_compare_exchange_strong(stage, &unstarted, STARTING)) {
		while (atomic_load_explicit(stage, memory_order_acquire) == STARTING)
			sched_yield();
		return;
	}
	guard_enter(&cancel);
	started = start(&process);
	atomic_store_explicit(stage, started ? READY : FAILED, memory_order_release);
	guard_leave(cancel);
}

struct guard_process *guard_process(void)
{
	struct guard_process *p = guard_process_ready();
	atomic_uint *stage;

	if (p || guard_thread.busy)
		return p;
	stage = atomic_load(&stage_page);
	if (!stage)
		stage = make_stage();
	if (!stage)
		return NULL;
	start_once(stage);
	return guard_process_ready();
}

bool guard_module_again(struct guard_process *p)
{
	struct mrg_dev_info info;

	if (!p->ctx->dev || !mrg_dev_info(p->ctx->dev, &info))
		return false;
	/* Not closed: the number may be another file's by now. */
	pthread_mutex_lock(&p->room.lock);
	if (mrg_dev_open(&p->ctx->dev))
		p->ctx->dev = NULL;
	p->room.dev = p->ctx->dev;
	pthread_mutex_unlock(&p->room.lock);
	return p->ctx->dev != NULL;
}
