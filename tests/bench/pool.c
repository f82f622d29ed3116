/* SPDX-License-Identifier: MIT */
/*
 * What a buffer from a pool costs.  Counted: the instructions and the atomic
 * updates of get and put, and that they wait for no lock but the thread's own: all
 * others are held meanwhile.  Timed: at most 100 ns in one thread, and
 * eight threads together do not fall below one thread's rate.  Registrations are
 * made up; tests/vm/guest/vma_pool.c compares with real ones.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/counted.h"
#include "unit/pool_fake.h"

#define ROUNDS 11
#define PAIRS 400000
#define THREADS 8
#define HELD 16
#define BAR_NS 100.0
#define BAR_INSTRUCTIONS 525.0 /* of get and put; half above what was seen */
#define BAR_ATOMICS 6.0 /* its own lock twice, and whether the buffer is out */
#define HANGS_S 120 /* a get that waits for a lock that is held */

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

static int verdict(int number, int ok, const char *text)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", number, text);
	return ok;
}

/* ---- counted ---- */

static void *stay(void *arg)
{
	pause();
	return arg;
}

/* While all shared locks are held: what needs one hangs.  With a second thread, as
 * libc's locks are not atomic in a process of one. */
static int count_parts(struct mrg_pool *pool)
{
	pthread_t second;

	must(pthread_create(&second, NULL, stay, NULL));
	pairs(pool);
	pthread_mutex_lock(&pool->grow);
	pthread_mutex_lock(&pool->threads);
	pthread_mutex_lock(&pool->central);
	alarm(HANGS_S);
	counted_begin();
	pairs(pool);
	counted_end();
	_exit(0);
}

static int count_all(void)
{
	struct counted sum;
	double instructions, atomics;
	int ok;

	counted("count", &sum, 1);
	instructions = sum.instructions / PAIRS;
	atomics = sum.atomics / PAIRS;
	printf("# %.1f instructions a pair, %.2f of them atomic updates\n", instructions, atomics);
	ok = verdict(3, instructions <= BAR_INSTRUCTIONS,
		     "get and put take few instructions, and no lock that threads share");
	return verdict(4, atomics <= BAR_ATOMICS, "get and put take few atomic updates") && ok;
}

/* A time, shown, and judged where times are. */
static int time_verdict(int number, int ok, const char *text)
{
	return verdict(number, ok || !times_are_judged(), text);
}

int main(int argc, char **argv)
{
	double cpu[ROUNDS], one[ROUNDS], eight[ROUNDS], cost, single, together;
	struct fake fake = { .fail_reg = 0 };
	struct mrg_pool *pool;
	int ok;

	(void)argv;
	must(fake_open(&pool, &fake, (struct mrg_pool_opts){ .limit = 256ull << 20 }));
	if (argc == 2)
		return count_parts(pool);
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
	printf("1..%d\n", can_count() ? 4 : 2);
	ok = time_verdict(1, cost <= BAR_NS, "one thread gets and puts");
	printf("# %.1f ns of CPU time a pair, bar %.0f\n", cost, BAR_NS);
	ok &= time_verdict(2, together <= single, "eight threads get and put");
	printf("# one thread %.1f million pairs/s, eight %.1f million/s (wall clock)\n",
	       1e3 / single, 1e3 / together);
	if (can_count())
		ok &= count_all();
	must(mrg_pool_close(pool));
	return ok ? 0 : 1;
}
