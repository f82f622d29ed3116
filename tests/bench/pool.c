/* SPDX-License-Identifier: MIT */
/*
 * What a buffer from a pool costs: get and put at most 100 ns in one thread, and
 * eight threads together do not fall below one thread's rate.  Registrations are
 * made up; tests/vm/guest/vma_pool.c compares with real ones.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unit/pool_fake.h"

#define ROUNDS 11
#define PAIRS 400000
#define THREADS 8
#define HELD 16
#define BAR_NS 100.0

static double now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

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

static void must(int ret)
{
	if (!ret)
		return;
	printf("Bail out! the pool answered %d\n", ret);
	exit(1);
}

/* Buffers are held for a while, as transfers hold them. */
static void *pairs(void *arg)
{
	const struct mrg_buf *held[HELD];
	struct mrg_pool *pool = arg;

	for (int i = 0; i < PAIRS; i += HELD) {
		for (int k = 0; k < HELD; k++)
			must(mrg_pool_get(pool, 16384, &held[k]));
		for (int k = 0; k < HELD; k++)
			must(mrg_pool_put(held[k]));
	}
	return NULL;
}

static double one_thread_cpu_ns(struct mrg_pool *pool)
{
	double start = now_ns(CLOCK_THREAD_CPUTIME_ID);

	pairs(pool);
	return (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
}

/* Wall-clock time a pair, of @count threads together. */
static double wall_ns(struct mrg_pool *pool, unsigned int count)
{
	pthread_t threads[THREADS];
	double start = now_ns(CLOCK_MONOTONIC);

	for (unsigned int i = 0; i < count; i++)
		must(pthread_create(&threads[i], NULL, pairs, pool));
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return (now_ns(CLOCK_MONOTONIC) - start) / ((double)PAIRS * count);
}

static void verdict(int number, int ok, const char *text)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", number, text);
}

int main(void)
{
	double cpu[ROUNDS], one[ROUNDS], eight[ROUNDS], cost, single, together;
	struct fake fake = { .fail_reg = 0 };
	struct mrg_pool *pool;

	must(fake_open(&pool, &fake, (struct mrg_pool_opts){ .limit = 256ull << 20 }));
	pairs(pool);
	/* In turns, so that other load meets all alike. */
	for (int i = 0; i < ROUNDS; i++) {
		cpu[i] = one_thread_cpu_ns(pool);
		one[i] = wall_ns(pool, 1);
		eight[i] = wall_ns(pool, THREADS);
	}
	cost = median(cpu);
	single = median(one);
	together = median(eight);
	printf("1..2\n");
	verdict(1, cost <= BAR_NS, "get and put cost at most 100 ns in one thread");
	printf("# %.1f ns of CPU time a pair\n", cost);
	verdict(2, together <= single,
		"eight threads together do not fall below one thread's rate");
	printf("# one thread %.1f million pairs/s, eight %.1f million/s (wall clock)\n",
	       1e3 / single, 1e3 / together);
	must(mrg_pool_close(pool));
	return cost <= BAR_NS && together <= single ? 0 : 1;
}
