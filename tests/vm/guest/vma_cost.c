/* SPDX-License-Identifier: MIT */
/*
 * What it costs to know the number of VMAs, to look at head-room before each
 * registration, and to take a buffer from a pool, side by side with what each
 * stands beside.
 */
#include "region/vma_guard.h"
#include "vma_kit.h"

#include <mrguard/pool.h>

#define VMAS 60000
#define COUNT_RATIO 1000.0
#define ROOM_SHARE 0.02
#define POOL_RATIO 200.0
#define ROUNDS 9
#define SIZE (1ul << 20)

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/*
 * Microseconds of CPU time a call; negative if one failed.  Of @calls in a row,
 * and as often again until the clock has moved by five ticks: where the emulated
 * time-stamp counter is found to be unstable it goes in steps of 4 ms.
 */
static double cost_of(int (*call)(void *arg), void *arg, int calls)
{
	double start = cpu_us(), took = 0;
	long done = 0;

	while (took < 20000) {
		for (int i = 0; i < calls; i++)
			if (call(arg))
				return -1;
		done += calls;
		took = cpu_us() - start;
	}
	return took / (double)done;
}

static int count_with(void *dev)
{
	uint64_t count;

	return mrg_vma_count(dev, 0, &count);
}

static int counting(const void *arg)
{
	double by_module[ROUNDS], by_lines[ROUNDS], module, lines;
	uint64_t first, second;
	struct mrg_dev *dev;
	char *area = kit_map(VMAS);

	(void)arg;
	CHECK(!mrg_dev_open(&dev) && area);
	for (size_t i = 0; i < VMAS; i += 2)
		CHECK(!mprotect(area + i * KIT_PAGE, KIT_PAGE, PROT_READ));
	CHECK(!mrg_vma_count(dev, 0, &first) && !mrg_vma_count(NULL, 0, &second));
	CHECK(first >= VMAS && first - second + 2 <= 4);
	for (int i = 0; i < ROUNDS; i++) {
		by_module[i] = cost_of(count_with, dev, 500);
		by_lines[i] = cost_of(count_with, NULL, 1);
	}
	module = median(by_module);
	lines = median(by_lines);
	snprintf(kit_note, KIT_NOTE / 2,
		 "%lu VMAs: module %.2f us, lines of maps %.0f us, %.0f times", first, module,
		 lines, lines / module);
	CHECK(module > 0 && lines > 0);
	CHECK(lines >= COUNT_RATIO * module);
	return 0;
}

struct bench {
	struct mrg_vma_guard *guard;
	struct mrg_ctx *ctx;
	struct ibv_pd *pd;
	struct mrg_pool *pool;
	char *area;
	size_t size;
};

static int plain_pair(void *arg)
{
	struct bench *b = arg;
	struct ibv_mr *mr = ibv_reg_mr(b->pd, b->area, b->size, KIT_ACCESS);

	return mr ? ibv_dereg_mr(mr) : -errno;
}

static int mrguard_pair(void *arg)
{
	struct bench *b = arg;
	struct mrg_mr *mr;
	int ret = mrg_reg(b->ctx, b->pd, b->area, b->size, KIT_ACCESS, NULL, &mr);

	return ret ? ret : mrg_dereg(mr);
}

static int look_at_room(void *arg)
{
	return region_vma_guard_room(((struct bench *)arg)->guard, NULL);
}

static int pool_pair(void *arg)
{
	const struct mrg_buf *buf;
	int ret = mrg_pool_get(((struct bench *)arg)->pool, SIZE, &buf);

	return ret ? ret : mrg_pool_put(buf);
}

static int open_bench(struct bench *b)
{
	struct mrg_dev *dev;
	struct ibv_context *device = kit_open_device();

	CHECK(device && !mrg_dev_open(&dev));
	CHECK(!region_vma_guard_open(&b->guard, dev, MRG_FORK_AUTO, 0));
	CHECK(!mrg_open(&b->ctx, device, NULL));
	b->pd = ibv_alloc_pd(device);
	b->area = kit_map(SIZE / KIT_PAGE);
	CHECK(b->pd && b->area);
	memset(b->area, 1, SIZE);
	return 0;
}

static int head_room(const void *arg)
{
	double pairs[ROUNDS], looks[ROUNDS], pair, look;
	struct bench b = { .size = KIT_PAGE };
	int line = open_bench(&b);

	(void)arg;
	if (line)
		return line;
	for (int i = 0; i < ROUNDS; i++) {
		pairs[i] = cost_of(plain_pair, &b, 200);
		looks[i] = cost_of(look_at_room, &b, 2000);
	}
	pair = median(pairs);
	look = median(looks);
	snprintf(kit_note, KIT_NOTE / 2,
		 "a look %.3f us, register and deregister 4 KiB %.1f us: %.2f%%", look, pair,
		 look / pair * 100);
	CHECK(look > 0 && pair > 0);
	CHECK(look <= ROOM_SHARE * pair);
	return 0;
}

static int pool(const void *arg)
{
	double pairs[ROUNDS], plain[ROUNDS], takes[ROUNDS], pair, take;
	struct bench b = { .size = SIZE };
	int line = open_bench(&b);

	(void)arg;
	if (line)
		return line;
	CHECK(!mrg_pool_open(&b.pool, b.ctx, b.pd, NULL));
	CHECK(!pool_pair(&b));
	for (int i = 0; i < ROUNDS; i++) {
		plain[i] = cost_of(plain_pair, &b, 50);
		pairs[i] = cost_of(mrguard_pair, &b, 50);
		takes[i] = cost_of(pool_pair, &b, 20000);
	}
	pair = median(plain);
	take = median(takes);
	snprintf(
		kit_note, KIT_NOTE / 2,
		"get and put %.3f us; register and deregister 1 MiB: plain %.0f us (%.0f times), mrguard %.0f us",
		take, pair, pair / take, median(pairs));
	CHECK(take > 0 && pair > 0);
	CHECK(pair >= POOL_RATIO * take);
	CHECK(!mrg_pool_close(b.pool));
	return 0;
}

/* Pages marked: what all of the guard's looks cost together. */
static int marked(const void *arg)
{
	double pairs[ROUNDS], plain[ROUNDS];
	struct bench b = { .size = SIZE };
	int line;

	(void)arg;
	CHECK(!mrg_fork_apply(MRG_FORK_ALWAYS, NULL));
	line = open_bench(&b);
	if (line)
		return line;
	for (int i = 0; i < ROUNDS; i++) {
		plain[i] = cost_of(plain_pair, &b, 50);
		pairs[i] = cost_of(mrguard_pair, &b, 50);
		CHECK(plain[i] > 0 && pairs[i] > 0);
	}
	snprintf(kit_note, KIT_NOTE / 2,
		 "register and deregister 1 MiB, pages marked: plain %.0f us, mrguard %.0f us",
		 median(plain), median(pairs));
	return 0;
}

/* Buffers of a pool carry bytes, and cut no VMA while pages are marked. */
static int pool_stays_flat(const void *arg)
{
	struct bench b = { .size = SIZE };
	struct mrg_pool_stats stats;
	uint64_t before, after;
	int line;

	(void)arg;
	CHECK(!mrg_fork_apply(MRG_FORK_ALWAYS, NULL));
	line = open_bench(&b);
	if (line)
		return line;
	CHECK(!mrg_pool_open(&b.pool, b.ctx, b.pd, NULL));
	CHECK(!mrg_vma_count(NULL, 0, &before));
	for (int i = 0; i < 20000; i++) {
		const struct mrg_buf *buf;

		CHECK(!mrg_pool_get(b.pool, 4096ul << i % 11, &buf));
		CHECK(buf->lkey && buf->rkey);
		CHECK(!mrg_pool_put(buf));
	}
	CHECK(!mrg_vma_count(NULL, 0, &after));
	mrg_pool_get_stats(b.pool, &stats);
	snprintf(kit_note, KIT_NOTE / 2,
		 "20,000 buffers, %lu registrations: %lu VMAs before, %lu after",
		 stats.registrations, before, after);
	CHECK(after <= before + 8);
	CHECK(!mrg_pool_close(b.pool));
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const void *arg);
} scenarios[] = {
	{ "the module counts 60,000 VMAs at least 1,000 times faster than lines of maps",
	  counting },
	{ "a look at head-room costs at most 2% of register and deregister", head_room },
	{ "a pool is at least 200 times faster than register and deregister of 1 MiB", pool },
	{ "a pool keeps the number of VMAs flat where pages are marked", pool_stays_flat },
	{ "register and deregister with marked pages, beside plain verbs", marked },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

int main(void)
{
	kit_start(SCENARIOS);
	for (size_t i = 0; i < SCENARIOS; i++)
		kit_run(scenarios[i].name, scenarios[i].run, NULL);
	return kit_end();
}
