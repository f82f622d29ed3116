/* SPDX-License-Identifier: MIT */
/*
 * Which MRs are older than the cap, and whether it was chosen for each boot, by
 * the files of a recorded host.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/cap.h"

#define SINCE "/sys/module/mrguard_cap/parameters/since"
#define LIST "/run/mrguard-cap/before"
#define NOW "/.mrguard/mrs"

static char root[PATH_MAX];

static void command(const char *format, ...)
{
	char text[3 * PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert_int_equal(system(text), 0);
}

static void put(const char *path, const char *text)
{
	command("mkdir -p $(dirname %s%s) && printf '%s' >%s%s", root, path, text, root, path);
}

static void link_to(const char *target, const char *path)
{
	command("mkdir -p $(dirname %s%s) && ln -s %s %s%s", root, path, target, root, path);
}

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/cap_before.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
	(void)state;
	command("rm -rf %s", root);
	return 0;
}

static ssize_t before(struct mrg_cap_mr **mrs)
{
	struct mrg_tree *tree;
	ssize_t n;

	*mrs = NULL;
	assert_int_equal(host_tree_open(&tree, root, NULL), 0);
	n = host_cap_before(tree, mrs);
	host_tree_close(tree);
	return n;
}

static ssize_t count_before(void)
{
	struct mrg_cap_mr *mrs;
	ssize_t n = before(&mrs);

	free(mrs);
	return n;
}

static void without_the_cap_there_is_no_before(void **state)
{
	(void)state;
	put(NOW, "mlx5_0 7 1200 5000 8589934592 engine\n");
	assert_int_equal(count_before(), -ENOENT);
}

static void an_mr_of_the_list_counts_until_it_is_gone(void **state)
{
	struct mrg_cap_mr *mrs;

	(void)state;
	put(SINCE, "100\n");
	put(LIST,
	    "since 100\nmlx5_0 7 1200 5000 8589934592 my engine\nmlx5_0 8 1200 5000 8589934592 x\n");
	put(NOW, "mlx5_0 7 1200 5000 8589934592 my engine\nmlx5_0 9 1200 5000 8589934592 x\n");
	assert_int_equal(before(&mrs), 1);
	assert_string_equal(mrs[0].device, "mlx5_0");
	assert_string_equal(mrs[0].comm, "my engine");
	assert_int_equal(mrs[0].number, 7);
	assert_int_equal(mrs[0].pid, 1200);
	assert_int_equal(mrs[0].length, 8589934592);
	assert_true(mrs[0].certain);
	free(mrs);
	put(NOW, "");
	assert_int_equal(count_before(), 0);
}

static void another_process_of_that_id_is_not_the_one_listed(void **state)
{
	(void)state;
	put(SINCE, "100\n");
	put(LIST, "since 100\nmlx5_0 7 1200 5000 8589934592 engine\n");
	put(NOW, "mlx5_0 7 1200 77000 8589934592 engine\n");
	assert_int_equal(count_before(), 0);
}

/* The thread that registered has ended, and with it the number that names it. */
static void an_mr_whose_thread_has_ended_still_counts(void **state)
{
	(void)state;
	put(SINCE, "100\n");
	put(LIST, "since 100\nmlx5_0 7 1200 5000 8589934592 engine\n");
	put(NOW, "mlx5_0 7 0 0 8589934592 \n");
	assert_int_equal(count_before(), 1);
}

static void without_a_list_of_this_load_older_processes_may_hold_some(void **state)
{
	struct mrg_cap_mr *mrs;
	char now[256];
	long tick = sysconf(_SC_CLK_TCK);

	(void)state;
	put(SINCE, "100\n");
	put(LIST, "since 50\nmlx5_0 9 1300 5000 8589934592 other\n");
	snprintf(now, sizeof(now),
		 "mlx5_0 7 1200 %ld 8589934592 old\nmlx5_0 8 1300 %ld 8589934592 young\n"
		 "mlx5_0 9 1400 0 8589934592 unknown\n",
		 99 * tick, 101 * tick);
	put(NOW, now);
	assert_int_equal(before(&mrs), 2);
	assert_string_equal(mrs[0].comm, "old");
	assert_string_equal(mrs[1].comm, "unknown");
	assert_false(mrs[0].certain || mrs[1].certain);
	free(mrs);
}

static void a_length_that_is_not_told_is_not_certain(void **state)
{
	struct mrg_cap_mr *mrs;

	(void)state;
	put(SINCE, "100\n");
	put(LIST, "since 100\nefa_0 7 1200 5000 0 engine\n");
	put(NOW, "efa_0 7 1200 5000 0 engine\n");
	assert_int_equal(before(&mrs), 1);
	assert_false(mrs[0].certain);
	free(mrs);
}

static void what_was_not_recorded_is_not_none(void **state)
{
	(void)state;
	put(SINCE, "100\n");
	assert_int_equal(count_before(), -ENODATA);
	put(NOW, "errno 5\n");
	assert_int_equal(count_before(), -EIO);
}

static void lines_that_are_none_are_left_out(void **state)
{
	(void)state;
	put(SINCE, "100\n");
	put(LIST, "since 100\n\nnonsense\nmlx5_0 x 1 1 1 a\n");
	put(NOW, "nonsense\nmlx5_0 7 1200\n\001\002\n");
	assert_int_equal(count_before(), 0);
}

static bool is_for_boot(void)
{
	struct mrg_tree *tree;
	bool answer;

	assert_int_equal(host_tree_open(&tree, root, NULL), 0);
	answer = host_cap_is_for_boot(tree);
	host_tree_close(tree);
	return answer;
}

static void the_unit_is_chosen_by_its_link_unless_masked(void **state)
{
	(void)state;
	put("/usr/lib/systemd/system/mrguard-cap.service", "x");
	assert_false(is_for_boot());
	link_to("/usr/lib/systemd/system/mrguard-cap.service",
		"/etc/systemd/system/basic.target.wants/mrguard-cap.service");
	assert_true(is_for_boot());
	command("mkdir -p %s/dev && : >%s/dev/null", root, root);
	link_to("/dev/null", "/etc/systemd/system/mrguard-cap.service");
	assert_false(is_for_boot());
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)
	const struct CMUnitTest tests[] = {
		TEST(without_the_cap_there_is_no_before),
		TEST(an_mr_of_the_list_counts_until_it_is_gone),
		TEST(another_process_of_that_id_is_not_the_one_listed),
		TEST(an_mr_whose_thread_has_ended_still_counts),
		TEST(without_a_list_of_this_load_older_processes_may_hold_some),
		TEST(a_length_that_is_not_told_is_not_certain),
		TEST(what_was_not_recorded_is_not_none),
		TEST(lines_that_are_none_are_left_out),
		TEST(the_unit_is_chosen_by_its_link_unless_masked),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
