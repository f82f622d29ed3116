/* SPDX-License-Identifier: MIT */
/* The guard, used by several threads at once. */
#include <pthread.h>

#include "vma_guard_kit.h"

#define GUARD_THREADS 4

struct worker {
	struct mrg_vma_guard *guard;
	char *area;
	unsigned int number;
	int failed;
};

/* Each has pages of its own, and one that all register. */
static void *work(void *arg)
{
	struct worker *worker = arg;
	char *own = worker->area + (8 + 4 * worker->number) * PAGE;

	for (int i = 0; i < 60; i++) {
		if (reg(worker->guard, own, 2 * PAGE) ||
		    reg(worker->guard, worker->area, 2 * PAGE)) {
			worker->failed = 1;
			break;
		}
		own[PAGE] = 1;
		dereg(worker->guard, own, 2 * PAGE);
		dereg(worker->guard, worker->area, 2 * PAGE);
	}
	return NULL;
}

static int in_threads(void)
{
	struct worker workers[GUARD_THREADS];
	pthread_t threads[GUARD_THREADS];
	struct mrg_vma_guard *guard = guard_of(0);
	struct mrg_fork_info info;
	char *area = fresh(64);

	CHECK(guard && area);
	for (unsigned int i = 0; i < GUARD_THREADS; i++) {
		workers[i] = (struct worker){ guard, area, i, 0 };
		CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
	}
	for (unsigned int i = 0; i < GUARD_THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(!workers[i].failed);
	}
	CHECK(vmas_in(area, 64 * PAGE, false) == 1);
	CHECK(vmas_in(area, 64 * PAGE, true) == 0);
	mrg_fork_query(&info);
	CHECK(info.reliable);
	region_vma_guard_close(guard);
	return 0;
}

static void threads_can_register_at_once(void **state)
{
	(void)state;
	in_child(in_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_can_register_at_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
