/* SPDX-License-Identifier: MIT */
/* Fork protection: which mode follows from what, and what a process really has. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include <mrguard/fork.h>

#include "region/fork_state.h"

extern int ibv_dontfork_range(void *base, size_t size);

#define BEFORE_51 44
#define SINCE_51 56

/* Netlink attribute absent, 0, 1 x environment x rdma-core before and after
 * ibv_fork_init() learnt to look at the kernel. */
static void vmas_are_cut_only_where_marks_are_asked_for_and_taken(void **state)
{
	static const struct {
		enum mrg_kernel_copies kernel;
		bool init;
		bool env;
		unsigned int rdma_core;
		enum mrg_fork_mode mode;
	} rows[] = {
		{ MRG_KERNEL_SILENT, false, false, BEFORE_51, MRG_FORK_UNPROTECTED },
		{ MRG_KERNEL_SILENT, false, false, SINCE_51, MRG_FORK_UNPROTECTED },
		{ MRG_KERNEL_SILENT, true, false, BEFORE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_SILENT, true, false, SINCE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_SILENT, false, true, BEFORE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_SILENT, false, true, SINCE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_COPIES_NOT, false, false, SINCE_51, MRG_FORK_UNPROTECTED },
		{ MRG_KERNEL_COPIES_NOT, true, false, SINCE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_COPIES_NOT, false, true, BEFORE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_UNREACHED, true, false, SINCE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_UNREACHED, false, false, SINCE_51, MRG_FORK_UNPROTECTED },
		{ MRG_KERNEL_COPIES, false, false, BEFORE_51, MRG_FORK_COPIED },
		{ MRG_KERNEL_COPIES, false, false, SINCE_51, MRG_FORK_COPIED },
		{ MRG_KERNEL_COPIES, true, false, SINCE_51, MRG_FORK_COPIED },
		{ MRG_KERNEL_COPIES, false, true, SINCE_51, MRG_FORK_COPIED },
		/* The one that surprises. */
		{ MRG_KERNEL_COPIES, false, true, BEFORE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_COPIES, true, false, BEFORE_51, MRG_FORK_MARKED },
		{ MRG_KERNEL_COPIES, false, true, 0, MRG_FORK_MARKED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(mrg_fork_predict(rows[i].kernel, rows[i].init, rows[i].env,
						  rows[i].rdma_core),
				 rows[i].mode);
}

static void policies_have_names(void **state)
{
	enum mrg_fork_policy policy = MRG_FORK_ALWAYS;

	(void)state;
	assert_int_equal(mrg_fork_parse("auto", &policy), 0);
	assert_int_equal(policy, MRG_FORK_AUTO);
	assert_int_equal(mrg_fork_parse("never", &policy), 0);
	assert_int_equal(policy, MRG_FORK_NEVER);
	assert_int_equal(mrg_fork_parse("always", &policy), 0);
	assert_int_equal(policy, MRG_FORK_ALWAYS);
	assert_int_equal(mrg_fork_parse("Auto", &policy), -EINVAL);
	assert_int_equal(policy, MRG_FORK_ALWAYS);
}

/* Fork protection is the process's: each of these has one of its own. */
static void in_child(int (*test)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(test());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int always(void)
{
	struct mrg_fork_info info;

	if (mrg_fork_apply(MRG_FORK_ALWAYS, &info))
		return 1;
	if (info.observed || !info.reliable || !info.reason[0])
		return 2;
	if (!region_fork_observe())
		return 3;
	mrg_fork_query(&info);
	return info.observed && info.mode == MRG_FORK_MARKED ? 0 : 4;
}

/* On this machine with rdma-core before 51, or a kernel that does not copy. */
static void always_is_seen_to_mark_pages(void **state)
{
	struct mrg_fork_info info;

	(void)state;
	mrg_fork_query(&info);
	if (info.kernel == MRG_KERNEL_COPIES && info.rdma_core >= 51)
		skip();
	in_child(always);
}

static int never(void)
{
	struct mrg_fork_info info;

	if (mrg_fork_apply(MRG_FORK_NEVER, &info) || region_fork_observe())
		return 1;
	mrg_fork_query(&info);
	return info.observed && info.mode != MRG_FORK_MARKED ? 0 : 2;
}

static void never_marks_nothing(void **state)
{
	(void)state;
	in_child(never);
}

static int somebody_else(void)
{
	struct mrg_fork_info info;

	if (ibv_fork_init() || mrg_fork_apply(MRG_FORK_NEVER, NULL))
		return 1;
	region_fork_observe();
	mrg_fork_query(&info);
	return info.mode == MRG_FORK_MARKED ? 0 : 2;
}

static void what_somebody_else_switched_on_is_reported(void **state)
{
	struct mrg_fork_info info;

	(void)state;
	mrg_fork_query(&info);
	if (info.kernel == MRG_KERNEL_COPIES && info.rdma_core >= 51)
		skip();
	in_child(somebody_else);
}

static int too_late(void)
{
	struct mrg_fork_info info;
	char page[4096];

	ibv_dontfork_range(page, sizeof(page));
	if (mrg_fork_apply(MRG_FORK_ALWAYS, &info) != -EALREADY)
		return 1;
	return info.mode == MRG_FORK_MARKED ? 2 : 0;
}

static void after_the_first_registration_it_is_too_late_and_that_is_said(void **state)
{
	struct mrg_fork_info info;

	(void)state;
	mrg_fork_query(&info);
	if (info.kernel == MRG_KERNEL_COPIES && info.rdma_core >= 51)
		skip();
	in_child(too_late);
}

static int environment(void)
{
	setenv("MRGUARD_FORK", "sometimes", 1);
	if (mrg_fork_apply(MRG_FORK_NEVER, NULL) != -EINVAL)
		return 1;
	setenv("MRGUARD_FORK", "never", 1);
	if (mrg_fork_apply(MRG_FORK_ALWAYS, NULL))
		return 2;
	return region_fork_observe() ? 3 : 0;
}

static void the_environment_comes_first(void **state)
{
	(void)state;
	in_child(environment);
}

static void the_library_in_use_is_recognized(void **state)
{
	struct mrg_fork_info info;

	(void)state;
	assert_int_equal(mrg_fork_query(&info), 0);
	assert_in_range(info.rdma_core, 17, 999);
	assert_int_equal(info.kernel == MRG_KERNEL_UNREACHED, info.netlink_error != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vmas_are_cut_only_where_marks_are_asked_for_and_taken),
		cmocka_unit_test(policies_have_names),
		cmocka_unit_test(always_is_seen_to_mark_pages),
		cmocka_unit_test(never_marks_nothing),
		cmocka_unit_test(what_somebody_else_switched_on_is_reported),
		cmocka_unit_test(after_the_first_registration_it_is_too_late_and_that_is_said),
		cmocka_unit_test(the_environment_comes_first),
		cmocka_unit_test(the_library_in_use_is_recognized),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
