/* SPDX-License-Identifier: MIT */
/* One pool, many threads: a buffer belongs to one of them at a time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool_fake.h"

#define MIB (1ull << 20)
#define THREADS 8
#define ROUNDS 4000
#define HELD 6
#define MAILBOXES 32

static struct fake fake;

struct crew {
	struct mrg_pool *pool;
	/* Buffers that one thread takes and another gives back. */
	_Atomic(const struct mrg_buf *) mail[MAILBOXES];
	atomic_int torn;
	atomic_int full;
};

struct worker {
	struct crew *crew;
	unsigned int number;
	uint64_t seed;
};

static uint64_t draw(struct worker *worker)
{
	worker->seed = worker->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return worker->seed >> 33;
}

static void sign(const struct mrg_buf *buf, uint64_t word)
{
	memcpy(buf->addr, &word, sizeof(word));
	memcpy((char *)buf->addr + buf->size - sizeof(word), &word, sizeof(word));
}

static bool signed_by(const struct mrg_buf *buf, uint64_t word)
{
	return !memcmp(buf->addr, &word, sizeof(word)) &&
	       !memcmp((char *)buf->addr + buf->size - sizeof(word), &word, sizeof(word));
}

/* Half of them are given back here, half by whoever finds them next. */
static void part_with(struct worker *worker, const struct mrg_buf *buf)
{
	struct crew *crew = worker->crew;

	if (draw(worker) % 2)
		buf = atomic_exchange(&crew->mail[draw(worker) % MAILBOXES], buf);
	if (buf)
		mrg_pool_put(buf);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct crew *crew = worker->crew;
	const struct mrg_buf *held[HELD] = { NULL };
	uint64_t words[HELD] = { 0 };

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int slot = i % HELD;

		if (held[slot]) {
			if (!signed_by(held[slot], words[slot]))
				atomic_fetch_add(&crew->torn, 1);
			part_with(worker, held[slot]);
			held[slot] = NULL;
		}
		if (mrg_pool_get(crew->pool, 4096ul << draw(worker) % 8, &held[slot])) {
			atomic_fetch_add(&crew->full, 1);
			continue;
		}
		words[slot] = (uint64_t)worker->number << 32 | i;
		sign(held[slot], words[slot]);
		if (i % 1000 == 999)
			mrg_pool_trim(crew->pool, 4 * MIB);
	}
	for (unsigned int i = 0; i < HELD; i++)
		if (held[i])
			mrg_pool_put(held[i]);
	return NULL;
}

static void run_crew(struct crew *crew)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .crew = crew, .number = i, .seed = i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int i = 0; i < MAILBOXES; i++) {
		const struct mrg_buf *buf = atomic_exchange(&crew->mail[i], NULL);

		if (buf)
			mrg_pool_put(buf);
	}
}

static void crew_works(uint64_t limit, struct mrg_pool_stats *stats, int *full)
{
	struct crew crew = { .torn = 0 };
	struct mrg_pool_stats idle;

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(
		fake_open(&crew.pool, &fake,
			  (struct mrg_pool_opts){ .limit = limit, .thread_cache = 256 << 10 }),
		0);
	run_crew(&crew);
	assert_int_equal(crew.torn, 0);
	mrg_pool_get_stats(crew.pool, stats);
	assert_int_equal(stats->in_use, 0);
	assert_true(stats->registered <= limit);
	*full = crew.full;
	mrg_pool_trim(crew.pool, 0);
	mrg_pool_get_stats(crew.pool, &idle);
	assert_int_equal(idle.registered, 0);
	assert_int_equal(mrg_pool_close(crew.pool), 0);
	assert_int_equal(fake.live, 0);
}

static void no_two_threads_hold_one_buffer(void **state)
{
	struct mrg_pool_stats stats;
	int full;

	(void)state;
	crew_works(256 * MIB, &stats, &full);
	assert_int_equal(full, 0);
}

/* 16 MiB: less than what eight caches would like to keep. */
static void at_the_limit_threads_live_on_what_others_keep(void **state)
{
	struct mrg_pool_stats stats;
	int full;

	(void)state;
	crew_works(16 * MIB, &stats, &full);
	assert_true(stats.steals > 0);
}

static void *take_and_leave(void *arg)
{
	struct mrg_pool *pool = arg;
	const struct mrg_buf *buf;

	if (mrg_pool_get(pool, MIB, &buf) || mrg_pool_put(buf))
		return arg;
	return NULL;
}

static void a_thread_that_ends_leaves_its_buffers_to_all(void **state)
{
	struct mrg_pool_stats stats;
	struct mrg_pool *pool;
	pthread_t thread;
	void *failed;

	(void)state;
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(fake_open(&pool, &fake, (struct mrg_pool_opts){ .limit = 2 * MIB }), 0);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(pthread_create(&thread, NULL, take_and_leave, pool), 0);
		pthread_join(thread, &failed);
		assert_null(failed);
	}
	mrg_pool_get_stats(pool, &stats);
	assert_int_equal(stats.cached, 0);
	assert_int_equal(stats.registrations, 1);
	assert_int_equal(mrg_pool_close(pool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_two_threads_hold_one_buffer),
		cmocka_unit_test(at_the_limit_threads_live_on_what_others_keep),
		cmocka_unit_test(a_thread_that_ends_leaves_its_buffers_to_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
