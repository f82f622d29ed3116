/* SPDX-License-Identifier: MIT */
/* The last failure of each thread, also where memory is short. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static _Atomic long allocated;
static bool memory_is_short;

static void *counted_malloc(size_t size)
{
	void *memory = memory_is_short ? NULL : malloc(size);

	allocated += memory != NULL;
	return memory;
}

static void counted_free(void *memory)
{
	allocated -= memory != NULL;
	free(memory);
}

#define malloc counted_malloc
#define free counted_free
#include "base/last_error.c"
#undef malloc
#undef free

#define THREADS 64
/* The guard preloads this store and may not take more than 64 bytes in all. */
_Static_assert(sizeof(last) <= 32, "the store takes too much thread-local storage");

static void fails_and_reads(uint64_t owner, int code)
{
	struct mrg_error error;

	assert_int_equal(base_fail(owner, code, "test", "", "Error %d of owner %d.", -code,
				   (int)owner),
			 code);
	assert_int_equal(mrg_private_error_read(owner, &error), 0);
	assert_int_equal(error.code, code);
	assert_string_equal(error.stage, "test");
	assert_int_equal(mrg_private_error_read(owner + 1, &error), -ENODATA);
}

static void *thread_that_fails(void *arg)
{
	struct mrg_error error;

	assert_int_equal(mrg_private_error_read(1, &error), -ENODATA);
	for (int code = 1; code < 100; code++)
		fails_and_reads((uintptr_t)arg, -code);
	return NULL;
}

static void run_threads(size_t count)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, thread_that_fails,
						(void *)(uintptr_t)(i + 100)),
				 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void a_failure_is_its_own_threads_alone(void **state)
{
	struct mrg_error error;

	(void)state;
	fails_and_reads(1, -ENOSPC);
	run_threads(THREADS);
	assert_int_equal(mrg_private_error_read(1, &error), 0);
	assert_string_equal(error.cause, "Error 28 of owner 1.");
}

static void the_memory_is_freed_when_its_thread_ends(void **state)
{
	(void)state;
	fails_and_reads(1, -EIO);
	for (int i = 0; i < 20; i++)
		run_threads(8);
	assert_int_equal(allocated, 1);
}

static void *thread_without_memory(void *arg)
{
	struct mrg_error error;

	(void)arg;
	memory_is_short = true;
	assert_int_equal(base_fail_piece(7, -ENOMEM, 3, "test", "", "It is %s.", "lost"), -ENOMEM);
	assert_int_equal(mrg_private_error_read(7, &error), 0);
	assert_int_equal(error.code, -ENOMEM);
	assert_int_equal(error.piece, 3);
	assert_non_null(strstr(error.cause, "error 12, and no memory was left"));
	memory_is_short = false;
	fails_and_reads(7, -EBUSY);
	return NULL;
}

static void without_memory_the_code_stays_and_the_cause_says_so(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, thread_without_memory, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void errno_is_kept(void **state)
{
	(void)state;
	errno = EXDEV;
	fails_and_reads(1, -EIO);
	assert_int_equal(errno, EXDEV);
}

static void a_failure_follows_its_handle(void **state)
{
	struct mrg_error error;
	uint64_t owner = mrg_private_error_owner();

	(void)state;
	fails_and_reads(owner, -EIO);
	mrg_private_error_move(owner, 0);
	assert_int_equal(mrg_private_error_read(owner, &error), -ENODATA);
	assert_int_equal(mrg_private_error_read(0, &error), 0);
}

static void a_child_keeps_its_parents_failure_and_its_own(void **state)
{
	struct mrg_error error;
	int status;
	pid_t child;

	(void)state;
	fails_and_reads(1, -EPERM);
	child = fork();
	if (!child) {
		int right = !mrg_private_error_read(1, &error) && error.code == -EPERM;

		base_fail(1, -EIO, "test", "", "It failed in the child.");
		right &= !mrg_private_error_read(1, &error) && error.code == -EIO;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(mrg_private_error_read(1, &error), 0);
	assert_int_equal(error.code, -EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_is_its_own_threads_alone),
		cmocka_unit_test(the_memory_is_freed_when_its_thread_ends),
		cmocka_unit_test(without_memory_the_code_stays_and_the_cause_says_so),
		cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(a_failure_follows_its_handle),
		cmocka_unit_test(a_child_keeps_its_parents_failure_and_its_own),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("last failure", tests, NULL, NULL);
}
