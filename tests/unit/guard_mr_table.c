/* SPDX-License-Identifier: MIT */
/* The guard's table of MRs: what is put is found until it is taken. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The guard is a library of its own, with nothing exported. */
#include "guard/mr_table.c"

#define MRS 2000
#define ROUNDS 200000
#define THREADS 16

static struct guard_state *state;

static int set_up(void **arg)
{
	(void)arg;
	state = calloc(1, sizeof(*state));
	return !state;
}

static int tear_down(void **arg)
{
	(void)arg;
	free(state);
	return 0;
}

/* As malloc() gives them: 96 bytes each, after one another. */
static void *pointer(size_t i)
{
	return (void *)(uintptr_t)(0x555555550010 + i * 96);
}

static size_t live_count(void)
{
	struct guard_record record;
	size_t count = 0;

	for (size_t i = 0; i < GUARD_RECORDS; i++)
		count += guard_mr_at(state, i, &record);
	return count;
}

static void what_is_put_is_found_until_it_is_taken(void **arg)
{
	static bool there[MRS];
	struct guard_record record = { 0 };
	uint64_t x = 1;
	size_t live = 0;

	(void)arg;
	memset(there, 0, sizeof(there));
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		size_t mr;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		mr = (x >> 33) % MRS;
		if (there[mr]) {
			assert_true(guard_mr_remove(state, pointer(mr), &record) >= 0);
			assert_int_equal(record.lkey, mr);
			assert_null(guard_mr_find(state, pointer(mr)));
			assert_int_equal(guard_mr_remove(state, pointer(mr), &record), -1);
		} else {
			record = (struct guard_record){ .lkey = (uint32_t)mr, .number = i };
			assert_true(guard_mr_add(state, pointer(mr), &record));
			assert_int_equal(guard_mr_find(state, pointer(mr))->lkey, mr);
		}
		there[mr] = !there[mr];
		live += there[mr] ? 1 : (size_t)-1;
	}
	assert_int_equal(live_count(), live);
}

static void an_mr_that_does_not_go_is_there_again(void **arg)
{
	struct guard_record record = { .lkey = 7 };
	ssize_t place;

	(void)arg;
	assert_true(guard_mr_add(state, pointer(1), &record));
	place = guard_mr_remove(state, pointer(1), &record);
	assert_true(place >= 0);
	guard_mr_restore(state, pointer(1), place);
	assert_int_equal(guard_mr_find(state, pointer(1))->lkey, 7);
	assert_int_equal(live_count(), 1);
}

static void a_pointer_that_comes_again_takes_its_own_place(void **arg)
{
	struct guard_record record = { .lkey = 1 };

	(void)arg;
	assert_true(guard_mr_add(state, pointer(1), &record));
	record.lkey = 2;
	assert_true(guard_mr_add(state, pointer(1), &record));
	assert_int_equal(guard_mr_find(state, pointer(1))->lkey, 2);
	assert_int_equal(live_count(), 1);
}

/* Pointers of one set, by trying. */
static size_t alike(void **out, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; found < count; i++)
		if (set_of(pointer(i)) == set_of(pointer(0)))
			out[found++] = pointer(i);
	return found;
}

static void a_full_set_says_so_and_takes_the_place_of_what_is_gone(void **arg)
{
	struct guard_record record = { 0 };
	void *mr[GUARD_WAYS + 1];

	(void)arg;
	alike(mr, GUARD_WAYS + 1);
	for (uint32_t i = 0; i < GUARD_WAYS; i++) {
		record.number = i;
		assert_true(guard_mr_add(state, mr[i], &record));
	}
	assert_false(guard_mr_add(state, mr[GUARD_WAYS], &record));
	/* Of two that are gone the older one makes room. */
	assert_true(guard_mr_remove(state, mr[5], &record) >= 0);
	assert_true(guard_mr_remove(state, mr[2], &record) >= 0);
	assert_true(guard_mr_add(state, mr[GUARD_WAYS], &record));
	assert_non_null(guard_mr_find(state, mr[GUARD_WAYS]));
	assert_int_equal(live_count(), GUARD_WAYS - 1);
}

static void *churn(void *arg)
{
	size_t first = (size_t)(uintptr_t)arg * 100;
	struct guard_record record = { 0 };

	for (int round = 0; round < 500; round++) {
		for (size_t i = first; i < first + 100; i++) {
			record.lkey = (uint32_t)i;
			if (!guard_mr_add(state, pointer(i), &record))
				return "no place";
		}
		for (size_t i = first; i < first + 100; i++)
			if (guard_mr_remove(state, pointer(i), &record) < 0 || record.lkey != i)
				return "not found";
	}
	return NULL;
}

static void threads_do_not_lose_each_others(void **arg)
{
	pthread_t thread[THREADS];
	void *fault;

	(void)arg;
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)i);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &fault);
		if (fault)
			fail_msg("%s", (char *)fault);
	}
	assert_int_equal(live_count(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_put_is_found_until_it_is_taken, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_mr_that_does_not_go_is_there_again, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_pointer_that_comes_again_takes_its_own_place,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_full_set_says_so_and_takes_the_place_of_what_is_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(threads_do_not_lose_each_others, set_up, tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("guard's table", tests, NULL, NULL);
}
