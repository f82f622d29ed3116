/* SPDX-License-Identifier: MIT */
/* Makes the guard of a process: reads the policy, opens a context, maps the state. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region/fork_state.h"

#include "guard/message.h"
#include "guard/real.h"
#include "guard/report_send.h"

/* VMAs that a registration leaves free, as in mrg_open(). */
#define VMA_FLOOR 64

/* Never 0 to 2: a program that closed those expects its next files to get them. */
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

/* For a process that gets no memory file: the guard works, and no other process
 * can read what it knows. */
static struct guard_state spare;

static struct guard_state *get_state(int *error)
{
	struct guard_state *state = map_state();

	*error = state ? 0 : errno;
	if (state)
		return state;
	/* A child has its parent's. */
	if (atomic_load(&spare.mark))
		memset((void *)&spare, 0, sizeof(spare));
	return &spare;
}

static void drop_state(struct guard_state *state)
{
	if (state && state != &spare)
		munmap(state, sizeof(*state));
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

/* Modules that pin the GPU memory of NVIDIA and AMD by its address. */
static bool peermem_loaded(void)
{
	return !access("/sys/module/nvidia_peermem", F_OK) ||
	       !access("/sys/module/nv_peer_mem", F_OK) || !access("/sys/module/amdp2p", F_OK);
}

/* A module that could not be opened for want of something is tried again. */
static bool passes(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

static bool open_context(struct guard_process *p)
{
	const struct mrg_open_opts opts = { .size = sizeof(opts), .fork = MRG_FORK_NEVER };

	p->env = region_env_host;
	p->env.reg_dmabuf = guard_real_reg_dmabuf;
	p->env.dereg = guard_real_dereg;
	/* The guard itself sees to fork protection and the count of VMAs. */
	p->env.guards_vmas = false;
	if (region_open(&p->ctx, NULL, &opts, &p->env))
		return false;
	if (!passes(p->ctx->dev_error))
		return true;
	mrg_close(p->ctx);
	p->ctx = NULL;
	return false;
}

static void fill_header(struct guard_process *p)
{
	struct guard_state *s = p->state;
	int error;

	s->size = sizeof(*s);
	s->pid = getpid();
	/* Still 0, so this is the clock's own time. */
	s->start_ns = guard_process_now(p);
	s->at_risk = p->policy.at_risk;
	s->unknown = p->policy.unknown;
	s->module_error = p->ctx->dev_error;
	s->walk = p->ctx->dev_info.walk;
	s->kernel_copies = region_fork_ask_kernel(&error);
	read_name(s->program, sizeof(s->program));
	atomic_store_explicit(&s->mark, GUARD_STATE_MARK, memory_order_release);
}

static void note_stderr(struct guard_process *p)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st))
		return;
	p->stderr_dev = st.st_dev;
	p->stderr_ino = st.st_ino;
}

static bool start(struct guard_process *p)
{
	struct mrg_ctx *inherited = p->ctx ? p->ctx : p->inherited;
	struct mrg_error error;
	int wrong, hidden;

	/* A child inherits its parent's mapping, which is shared with the parent. */
	drop_state(p->state);
	memset(p, 0, sizeof(*p));
	p->inherited = inherited;
	note_stderr(p);
	wrong = guard_policy_read(&p->policy, &error);
	if (!open_context(p))
		return false;
	p->state = get_state(&hidden);
	region_headroom_init(&p->room, p->ctx->dev, VMA_FLOOR);
	p->peermem = peermem_loaded();
	fill_header(p);
	if (wrong)
		guard_message(p, "%s %s", error.cause, error.remedy);
	if (hidden)
		guard_message(
			p,
			"The guard gets no memory file (errno %d), so mrguard run --status shows nothing of process %d.",
			hidden, (int)getpid());
	guard_report_listen();
	return true;
}

void guard_process_bare(struct guard_process *p)
{
	struct mrg_error error;

	memset(p, 0, sizeof(*p));
	note_stderr(p);
	guard_policy_read(&p->policy, &error);
}

struct guard_process *guard_process_start(void)
{
	struct guard_process *p = guard_process_ready();
	int cancel;

	if (p || !guard_enter(&cancel))
		return p;
	p = guard_process_claim();
	if (p)
		guard_process_settle(start(p));
	guard_leave(cancel);
	return guard_process_wait();
}
