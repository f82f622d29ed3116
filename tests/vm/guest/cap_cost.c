/* SPDX-License-Identifier: MIT */
/*
 * What mrguard_cap.ko costs a registration, by plain verbs.  The switch in debugfs
 * turns the probe off and on in one process, so neighbouring measurements differ
 * in the probe alone.
 */
#include <time.h>

#include "ground.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TURNS 41 /* of off and on */
#define SAFE_IOVA 0x700080000000ULL /* differs from the DMA addresses in bit 31 */

static struct ibv_context *verbs;
static struct ibv_pd *pd;

struct buffer {
	const char *name;
	double bar;
	int fd;
	void *memory;
	uint64_t length;
	int registrations; /* in each turn */
};

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

static double part(double *values, int count, int nth, int of)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count * nth / of];
}

static double register_once(const struct buffer *b)
{
	double start = now_us();
	struct ibv_mr *mr = b->fd < 0 ?
				    ibv_reg_mr(pd, b->memory, b->length, ACCESS) :
				    ibv_reg_dmabuf_mr(pd, 0, b->length, SAFE_IOVA, b->fd, ACCESS);

	if (!mr || ibv_dereg_mr(mr))
		bail("%s: %s", b->name, strerror(errno));
	return now_us() - start;
}

static void turn(bool on)
{
	if (run_command("echo %d >/sys/kernel/debug/kprobes/enabled", on))
		bail("no debugfs");
	usleep(100000);
}

/* What the work costs, without what else this machine does meanwhile. */
static double one_turn(const struct buffer *b)
{
	double us[512];

	for (int i = 0; i < b->registrations / 8 + 2; i++)
		register_once(b);
	for (int i = 0; i < b->registrations; i++)
		us[i] = register_once(b);
	return part(us, b->registrations, 1, 10);
}

static void compare(const struct buffer *b)
{
	double off[TURNS], on[TURNS], ratio[TURNS], mid, low, high;

	for (int i = 0; i < TURNS; i++) {
		/* Each is first as often as it is second. */
		for (int second = 0; second < 2; second++) {
			bool with = (i + second) % 2;

			turn(with);
			(with ? on : off)[i] = one_turn(b);
		}
		ratio[i] = on[i] / off[i];
	}
	mid = part(ratio, TURNS, 1, 2);
	low = part(ratio, TURNS, 1, 4);
	high = part(ratio, TURNS, 3, 4);
	printf("# %s: %.1f us without, %.1f us with; ratio of neighbours %.3f (quarters %.3f, %.3f), bar %.2f\n",
	       b->name, part(off, TURNS, 1, 2), part(on, TURNS, 1, 2), mid, low, high, b->bar);
	/* Ratios that scatter more than what is asked about say nothing. */
	if (high - low > b->bar - 1)
		printf("ok %d - %s: the cap's cost # SKIP the machine is busy, ratios scatter\n",
		       ++tap_count, b->name);
	else
		ok(mid <= b->bar, "%s: the cap costs at most %.0f%%", b->name, (b->bar - 1) * 100);
}

static void compare_dmabuf(const char *name, uint64_t length, uint64_t seg, int n, double bar)
{
	const struct mrg_sg sg = { 4 * GIB, length };
	struct buffer b = { .name = name,
			    .bar = bar,
			    .fd = make_dmabuf(&sg, 1, seg),
			    .length = length,
			    .registrations = n };

	compare(&b);
	close(b.fd);
}

static void compare_memory(const char *name, uint64_t length, int n, double bar)
{
	struct buffer b = {
		.name = name, .bar = bar, .fd = -1, .length = length, .registrations = n
	};

	b.memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.memory == MAP_FAILED)
		bail("no memory");
	memset(b.memory, 1, length);
	compare(&b);
	munmap(b.memory, length);
}

int main(int argc, char **argv)
{
	(void)argc;
	preload_shim(argv);
	ground_up();
	cap_load();
	usleep(500000);
	/* [FTRACE], [OPTIMIZED], or neither: an exception */
	run_command(
		"sed -n 's/.*\\(ib_umem_find_best_pgsz.*\\)/# the probe: \\1/p' /sys/kernel/debug/kprobes/list");
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd)
		bail("simnic0 cannot be opened");
	compare_memory("memory of 4 KiB", 4096, 200, 1.05);
	compare_memory("memory of 1 MiB", MIB, 60, 1.02);
	compare_dmabuf("DMA-BUF of 1 GiB in one entry", GIB, 2 * GIB, 200, 1.05);
	compare_dmabuf("DMA-BUF of 12 GiB in entries of 2 MiB", 12 * GIB, 2 * MIB, 12, 1.02);
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
	cap_unload();
	ground_down();
	tap_end();
	return 0;
}
