/* SPDX-License-Identifier: MIT */
/*
 * What the guard costs a registration, side by side in one process that is
 * preloaded with it: the program's own symbol is the guard's, and the same looked
 * up in the library by name, without the audit library, is plain verbs.
 *
 * The module's part is one question for addresses, where they decide.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>

#include "ground.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TURNS 200
#define ROUNDS 8 /* the best one counts: others use this machine too */
#define BAR 1.05
/* Its DMA addresses and this iova differ in bit 31: pages of 2 GiB, no wrap. */
#define SAFE_IOVA 0x700080000000ULL

typedef struct ibv_mr *reg_fn(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
typedef struct ibv_mr *reg_dmabuf_fn(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef int dereg_fn(struct ibv_mr *);

/* One way to verbs.  Not ibv_reg_mr(): that calls ibv_reg_mr_iova2() through the
 * library's own table, where the guard is again. */
struct way {
	reg_fn *reg;
	reg_dmabuf_fn *reg_dmabuf;
	dereg_fn *dereg;
};

struct buffer {
	const char *name;
	void *memory;
	int fd;
	uint64_t length;
	uint64_t iova;
};

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct way plain, guarded;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The tenth part is below it: what the work costs, without what else this
 * machine does meanwhile. */
static double low(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 10];
}

/* Microseconds of a registration; deregistration apart. */
static double once(const struct way *way, const struct buffer *b)
{
	double start = now_us(), us;
	struct ibv_mr *mr =
		b->fd < 0 ? way->reg(pd, b->memory, b->length, (uintptr_t)b->memory, ACCESS) :
			    way->reg_dmabuf(pd, 0, b->length, b->iova, b->fd, ACCESS);

	us = now_us() - start;
	if (!mr || way->dereg(mr))
		bail("%s: %s", b->name, strerror(errno));
	return us;
}

static void round_of(const struct buffer *b, double *p, double *g)
{
	static double ps[TURNS], gs[TURNS];

	for (int i = 0; i < TURNS; i++) {
		/* Whoever comes second finds warm caches: take turns at that. */
		if (i % 2)
			ps[i] = once(&plain, b);
		gs[i] = once(&guarded, b);
		if (!(i % 2))
			ps[i] = once(&plain, b);
	}
	*p = low(ps, TURNS);
	*g = low(gs, TURNS);
}

static void compare(const struct buffer *b, bool has_bar)
{
	double p, g, ratio = 1e9;

	once(&guarded, b);
	for (int i = 0; i < ROUNDS && (!i || ratio > BAR); i++) {
		round_of(b, &p, &g);
		printf("# %s: plain %.1f us, guarded %.1f us, ratio %.3f\n", b->name, p, g, g / p);
		if (g / p < ratio)
			ratio = g / p;
	}
	if (has_bar)
		ok(ratio <= BAR, "%s: guarded costs at most %.2f times plain", b->name, BAR);
}

static void compare_memory(const char *name, uint64_t length, bool has_bar)
{
	struct buffer b = { .name = name, .fd = -1, .length = length };

	b.memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(b.memory, 1, length);
	compare(&b, has_bar);
	munmap(b.memory, length);
}

static void compare_dmabuf(const char *name, uint64_t length, bool has_bar)
{
	const struct mrg_sg sg = { 4 * GIB, length };
	struct buffer b = { .name = name, .length = length, .iova = SAFE_IOVA };

	b.fd = make_dmabuf(&sg, 1, 2 * GIB);
	compare(&b, has_bar);
	close(b.fd);
}

/* A DMA-BUF that was never seen, so that the module is asked each time. */
static void show_modules_part(void)
{
	const struct mrg_sg sg = { 4 * GIB, 12 * GIB };
	static double first[TURNS], again[TURNS];
	struct buffer b = { .name = "first", .length = 12 * GIB, .iova = SAFE_IOVA };
	double f, a;

	for (int i = 0; i < TURNS; i++) {
		b.fd = make_dmabuf(&sg, 1, 2 * GIB);
		first[i] = once(&guarded, &b);
		again[i] = once(&guarded, &b);
		close(b.fd);
	}
	f = low(first, TURNS);
	a = low(again, TURNS);
	printf("# DMA-BUF of 12 GiB: first seen %.1f us, seen before %.1f us; the question for its addresses %.1f us\n",
	       f, a, f - a);
}

static void preload_guard(char **argv)
{
	const char *build = getenv("MRG_BUILD");
	char list[1100];

	if (getenv("LD_PRELOAD"))
		return;
	snprintf(list, sizeof(list), "%s/libmrguard-guard.so:%s/tests/vm/shim/simnic-verbs.so",
		 build, build);
	setenv("LD_PRELOAD", list, 1);
	execv("/proc/self/exe", argv);
	bail("cannot start again with %s: %s", list, strerror(errno));
}

static struct way plain_way(void)
{
	char path[512];
	void *core = dlopen("libibverbs.so.1", RTLD_NOW), *dmabuf;

	snprintf(path, sizeof(path), "%s/tests/vm/shim/simnic-verbs.so", getenv("MRG_BUILD"));
	dmabuf = dlopen(path, RTLD_NOW);
	if (!core || !dmabuf)
		bail("%s", dlerror());
	return (struct way){
		.reg = (reg_fn *)dlvsym(core, "ibv_reg_mr_iova2", "IBVERBS_1.8"),
		.reg_dmabuf = (reg_dmabuf_fn *)dlvsym(dmabuf, "ibv_reg_dmabuf_mr", "IBVERBS_1.12"),
		.dereg = (dereg_fn *)dlvsym(core, "ibv_dereg_mr", "IBVERBS_1.1"),
	};
}

/* In a process of its own: its guard holds the module. */
static void measure(void)
{
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd)
		bail("simnic0 cannot be opened");
	plain = plain_way();
	guarded = (struct way){ ibv_reg_mr_iova2, ibv_reg_dmabuf_mr, ibv_dereg_mr };
	ok(plain.reg != guarded.reg && plain.reg_dmabuf != guarded.reg_dmabuf,
	   "the two ways are two");
	compare_memory("memory of 4 KiB", 4096, false);
	compare_memory("memory of 1 MiB", MIB, true);
	compare_memory("memory of 64 MiB", 64 * MIB, true);
	compare_dmabuf("DMA-BUF of 1 MiB", MIB, false);
	compare_dmabuf("DMA-BUF of 1 GiB", GIB, false);
	compare_dmabuf("DMA-BUF of 12 GiB", 12 * GIB, false);
	show_modules_part();
	exit(tap_count);
}

int main(int argc, char **argv)
{
	int status;

	(void)argc;
	preload_guard(argv);
	setenv("MRGUARD_GUARD_FORMAT", "none", 1);
	ground_up();
	fflush(stdout);
	if (!fork())
		measure();
	wait(&status);
	if (!WIFEXITED(status))
		bail("the measuring process ended with status 0x%x", (unsigned int)status);
	tap_count = WEXITSTATUS(status);
	ground_down();
	tap_end();
	return 0;
}
