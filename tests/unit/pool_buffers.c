/* SPDX-License-Identifier: MIT */
/* What a pool hands out, takes back, keeps within and gives up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/maps.h"

#include "pool_fake.h"

#define MIB (1ull << 20)

static struct fake fake;

static struct mrg_pool *pool_of(struct mrg_pool_opts opts)
{
	struct mrg_pool *pool;

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(fake_open(&pool, &fake, opts), 0);
	return pool;
}

static void pool_done(struct mrg_pool *pool)
{
	assert_int_equal(mrg_pool_close(pool), 0);
	assert_int_equal(fake.live, 0);
}

static const struct mrg_buf *get(struct mrg_pool *pool, size_t length)
{
	const struct mrg_buf *buf = NULL;

	assert_int_equal(mrg_pool_get(pool, length, &buf), 0);
	assert_non_null(buf);
	assert_true(buf->size >= length);
	return buf;
}

static void put(const struct mrg_buf *buf)
{
	assert_int_equal(mrg_pool_put(buf), 0);
}

static void a_buffer_is_large_enough_and_wastes_at_most_a_third(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){
		.limit = 1ull << 40, .min_size = 64, .max_size = 1ull << 30 });
	unsigned int last = 0;

	(void)state;
	for (uint64_t length = 1; length <= 1ull << 30;
	     length += length < 70000 ? 1 : length / 97) {
		unsigned int class = pool_class_of(pool, length);

		assert_in_range(class, last, last + 1);
		last = class;
		assert_true(pool->sizes[class] >= length);
		assert_true(length <= 64 || pool->sizes[class] * 2 <= length * 3);
		assert_true(!class || pool->sizes[class - 1] < length);
	}
	assert_int_equal(last, pool->classes - 1);
	pool_done(pool);
}

static void buffers_are_aligned_apart_and_in_registered_memory(void **state)
{
	static const size_t lengths[] = { 1, 4096, 5000, 100000, 3 << 20, 9 << 20 };
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 128 * MIB });
	const struct mrg_buf *bufs[6];

	(void)state;
	for (int i = 0; i < 6; i++) {
		uint64_t align;

		bufs[i] = get(pool, lengths[i]);
		align = bufs[i]->size & -bufs[i]->size;
		if (align > 2 * MIB)
			align = 2 * MIB;
		assert_int_equal((uintptr_t)bufs[i]->addr & (align - 1), 0);
		assert_int_equal(bufs[i]->wire, (uintptr_t)bufs[i]->addr);
		memset(bufs[i]->addr, i + 1, bufs[i]->size);
	}
	for (int i = 0; i < 6; i++) {
		assert_int_equal(((char *)bufs[i]->addr)[0], i + 1);
		assert_int_equal(((char *)bufs[i]->addr)[bufs[i]->size - 1], i + 1);
		put(bufs[i]);
	}
	pool_done(pool);
}

static void registrations_stay_the_same_while_buffers_come_and_go(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 64 * MIB });
	struct mrg_pool_stats stats;
	int made;

	(void)state;
	put(get(pool, 64 << 10));
	put(get(pool, 1 << 20));
	made = fake.made;
	for (int i = 0; i < 100000; i++)
		put(get(pool, i % 2 ? 64 << 10 : 1 << 20));
	assert_int_equal(fake.made, made);
	mrg_pool_get_stats(pool, &stats);
	assert_int_equal(stats.registrations, made);
	assert_int_equal(stats.in_use, 0);
	assert_int_equal(stats.slabs, made);
	pool_done(pool);
}

static int vmas_of(const struct pool_arena *arena)
{
	uint64_t start = (uintptr_t)arena->map, end = start + arena->mapped;
	struct host_maps_vma vma;
	struct host_maps maps;
	int count = 0;

	assert_int_equal(host_maps_open(&maps, "/proc/self/maps"), 0);
	while (host_maps_next(&maps, &vma) == 1)
		count += vma.end > start && vma.start < end;
	host_maps_close(&maps);
	return count;
}

static void the_number_of_vmas_does_not_grow_with_use(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 256 * MIB });
	const struct mrg_buf *bufs[64];

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < 64; i++) {
			bufs[i] = get(pool, 4096 << (i * 7 + (size_t)round) % 10);
			memset(bufs[i]->addr, 1, 4096);
		}
		assert_int_equal(vmas_of(&pool->arena), 1);
		for (int i = 0; i < 64; i++)
			put(bufs[i]);
		assert_true(mrg_pool_trim(pool, 0) > 0);
		assert_int_equal(vmas_of(&pool->arena), 1);
	}
	pool_done(pool);
}

static void at_the_limit_it_says_so_and_goes_on_when_a_buffer_returns(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 8 * MIB });
	const struct mrg_buf *bufs[8], *more;
	struct mrg_pool_stats stats;

	(void)state;
	for (int i = 0; i < 8; i++)
		bufs[i] = get(pool, MIB);
	assert_int_equal(mrg_pool_get(pool, MIB, &more), -ENOBUFS);
	mrg_pool_get_stats(pool, &stats);
	assert_int_equal(stats.in_use, 8);
	assert_int_equal(stats.registered, 8 * MIB);
	put(bufs[3]);
	more = get(pool, MIB);
	assert_ptr_equal(more->addr, bufs[3]->addr);
	put(more);
	for (int i = 0; i < 8; i++)
		if (i != 3)
			put(bufs[i]);
	pool_done(pool);
}

static void at_the_limit_unused_slabs_of_other_sizes_go(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 8 * MIB });
	const struct mrg_buf *small[8], *large;

	(void)state;
	for (int i = 0; i < 8; i++)
		small[i] = get(pool, MIB);
	for (int i = 0; i < 8; i++)
		put(small[i]);
	large = get(pool, 8 * MIB);
	assert_int_equal(fake.live, 1);
	put(large);
	pool_done(pool);
}

static void gaps_in_the_memory_do_not_keep_a_long_slab_out(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 16 * MIB });
	const struct mrg_buf *bufs[8], *large;

	(void)state;
	for (int i = 0; i < 8; i++)
		bufs[i] = get(pool, 2 * MIB);
	for (int i = 0; i < 8; i += 2)
		put(bufs[i]);
	large = get(pool, 8 * MIB);
	put(large);
	for (int i = 1; i < 8; i += 2)
		put(bufs[i]);
	pool_done(pool);
}

static void a_buffer_given_back_twice_is_refused(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 8 * MIB });
	const struct mrg_buf *buf = get(pool, 4096);

	(void)state;
	put(buf);
	assert_int_equal(mrg_pool_put(buf), -EALREADY);
	assert_ptr_not_equal(get(pool, 4096), get(pool, 4096));
	assert_int_equal(mrg_pool_close(pool), -EBUSY);
	put(buf);
	assert_int_equal(mrg_pool_close(pool), -EBUSY);
	/* The other one of the two. */
	for (unsigned int i = 0; i < pool->slabs->count; i++)
		mrg_pool_put(&pool->slabs->buffers[i].buf);
	pool_done(pool);
}

static void trimming_keeps_what_is_in_use_and_as_much_as_asked(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 64 * MIB });
	const struct mrg_buf *bufs[8];

	(void)state;
	for (int i = 0; i < 8; i++)
		bufs[i] = get(pool, 2 * MIB);
	for (int i = 1; i < 8; i++)
		put(bufs[i]);
	assert_int_equal(mrg_pool_trim(pool, 6 * MIB), 10 * MIB);
	assert_int_equal(fake.live, 3);
	assert_int_equal(mrg_pool_trim(pool, 0), 4 * MIB);
	assert_int_equal(fake.live, 1);
	put(bufs[0]);
	pool_done(pool);
}

static void a_failed_registration_leaves_nothing(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 64 * MIB });
	const struct mrg_buf *buf;
	struct mrg_pool_stats stats;

	(void)state;
	fake.fail_reg = -ENOSPC;
	assert_int_equal(mrg_pool_get(pool, 4096, &buf), -ENOSPC);
	mrg_pool_get_stats(pool, &stats);
	assert_int_equal(stats.registered, 0);
	assert_int_equal(stats.slabs, 0);
	fake.fail_reg = 0;
	put(get(pool, 4096));
	pool_done(pool);
}

static void a_failed_deregistration_can_be_tried_again(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 8 * MIB });

	(void)state;
	put(get(pool, 4096));
	fake.fail_dereg = -EBUSY;
	assert_int_equal(mrg_pool_trim(pool, 0), -EBUSY);
	assert_int_equal(mrg_pool_close(pool), -EBUSY);
	/* Its keys may be gone: a new buffer is not one of it. */
	put(get(pool, 4096));
	assert_int_equal(fake.live, 2);
	fake.fail_dereg = 0;
	pool_done(pool);
}

static void buffers_that_two_mrs_would_share_are_left_out(void **state)
{
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .limit = 64 * MIB });
	const struct mrg_buf *buf;

	(void)state;
	fake.max_mr = MIB;
	put(get(pool, MIB));
	assert_int_equal(fake.last_unit, MIB);
	buf = get(pool, MIB / 2 + MIB / 8);
	assert_int_equal((uintptr_t)buf->addr / MIB, ((uintptr_t)buf->addr + buf->size - 1) / MIB);
	put(buf);
	assert_int_equal(mrg_pool_get(pool, 2 * MIB, &buf), -EMSGSIZE);
	pool_done(pool);
}

struct bank {
	int out;
	int fd;
	uint64_t reserved;
};

static int bank_get(void *arg, size_t align, struct mrg_pool_memory *memory)
{
	struct bank *bank = arg;

	memory->addr = aligned_alloc(align, memory->length);
	if (!memory->addr)
		return -ENOMEM;
	memory->dmabuf_fd = bank->fd;
	memory->handle = bank;
	memory->reserved[0] = bank->reserved;
	bank->out++;
	return 0;
}

static void bank_put(void *arg, struct mrg_pool_memory *memory)
{
	struct bank *bank = arg;

	assert_ptr_equal(memory->handle, bank);
	free(memory->addr);
	bank->out--;
}

static void memory_can_come_from_the_callers_allocator(void **state)
{
	struct bank bank = { .fd = 77 };
	const struct mrg_pool_source source = { .get = bank_get, .put = bank_put, .arg = &bank };
	struct mrg_pool *pool =
		pool_of((struct mrg_pool_opts){ .limit = 64 * MIB, .source = &source });

	(void)state;
	put(get(pool, 4096));
	assert_int_equal(fake.last_fd, 77);
	assert_int_equal(bank.out, 1);
	put(get(pool, 40 * MIB));
	assert_int_equal(bank.out, 2);
	pool_done(pool);
	assert_int_equal(bank.out, 0);
}

static void a_registration_that_fails_gives_the_callers_memory_back(void **state)
{
	struct bank bank = { .fd = -1 };
	const struct mrg_pool_source source = { .get = bank_get, .put = bank_put, .arg = &bank };
	struct mrg_pool *pool = pool_of((struct mrg_pool_opts){ .source = &source });
	const struct mrg_buf *buf;

	(void)state;
	fake.fail_reg = -EIO;
	assert_int_equal(mrg_pool_get(pool, 4096, &buf), -EIO);
	assert_int_equal(bank.out, 0);
	fake.fail_reg = 0;
	bank.reserved = 1;
	assert_int_equal(mrg_pool_get(pool, 4096, &buf), -EINVAL);
	assert_int_equal(bank.out, 0);
	pool_done(pool);
}

static void memory_that_stays_registered_is_not_given_back(void **state)
{
	struct bank bank = { .fd = -1 };
	const struct mrg_pool_source source = { .get = bank_get, .put = bank_put, .arg = &bank };
	struct mrg_pool *pool =
		pool_of((struct mrg_pool_opts){ .source = &source, .limit = 64 * MIB });
	const struct mrg_buf *buf;
	struct mrg_pool_stats stats;

	(void)state;
	fake.max_mr = MIB; /* a buffer of 2 MiB lies in no single MR */
	fake.fail_dereg = -EBUSY;
	assert_int_equal(mrg_pool_get(pool, 2 * MIB, &buf), -EMSGSIZE);
	assert_int_equal(fake.live, 1);
	assert_int_equal(bank.out, 1);
	mrg_pool_get_stats(pool, &stats);
	assert_true(stats.registered >= 2 * MIB);
	assert_int_equal(stats.buffers, 0);
	fake.fail_dereg = 0;
	pool_done(pool);
	assert_int_equal(bank.out, 0);
}

static void malformed_options_and_lengths_are_refused(void **state)
{
	static const struct mrg_pool_source no_put = { .get = bank_get };
	static const struct mrg_pool_source newer = { .get = bank_get,
						      .put = bank_put,
						      .reserved = { 0, 1 } };
	const struct mrg_pool_opts bad[] = {
		{ .flags = 1 },
		{ .reserved = 1 },
		{ .min_size = 3000 },
		{ .min_size = 32 },
		{ .min_size = 8192, .max_size = 4096 },
		{ .limit = 4 * MIB, .max_size = 8 * MIB },
		{ .limit = 1ull << 61 },
		{ .source = &no_put },
		{ .source = &newer },
	};
	struct mrg_pool *pool;
	const struct mrg_buf *buf;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fake_open(&pool, &fake, bad[i]), -EINVAL);
	pool = pool_of((struct mrg_pool_opts){ .max_size = MIB });
	assert_int_equal(mrg_pool_get(pool, 0, &buf), -EINVAL);
	assert_int_equal(mrg_pool_get(pool, MIB + 1, &buf), -EMSGSIZE);
	pool_done(pool);
	assert_int_equal(mrg_pool_close(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_is_large_enough_and_wastes_at_most_a_third),
		cmocka_unit_test(buffers_are_aligned_apart_and_in_registered_memory),
		cmocka_unit_test(registrations_stay_the_same_while_buffers_come_and_go),
		cmocka_unit_test(the_number_of_vmas_does_not_grow_with_use),
		cmocka_unit_test(at_the_limit_it_says_so_and_goes_on_when_a_buffer_returns),
		cmocka_unit_test(at_the_limit_unused_slabs_of_other_sizes_go),
		cmocka_unit_test(gaps_in_the_memory_do_not_keep_a_long_slab_out),
		cmocka_unit_test(a_buffer_given_back_twice_is_refused),
		cmocka_unit_test(trimming_keeps_what_is_in_use_and_as_much_as_asked),
		cmocka_unit_test(a_failed_registration_leaves_nothing),
		cmocka_unit_test(a_failed_deregistration_can_be_tried_again),
		cmocka_unit_test(buffers_that_two_mrs_would_share_are_left_out),
		cmocka_unit_test(memory_can_come_from_the_callers_allocator),
		cmocka_unit_test(a_registration_that_fails_gives_the_callers_memory_back),
		cmocka_unit_test(memory_that_stays_registered_is_not_given_back),
		cmocka_unit_test(malformed_options_and_lengths_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
