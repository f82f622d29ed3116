/* SPDX-License-Identifier: MIT */
/*
 * An options structure whose size was never set: what it says must not send
 * the library through memory.  The structure ends where its mapping does, so a
 * call that reads on ends the test.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/check.h>
#include <mrguard/explain.h>
#include <mrguard/gpu.h>
#include <mrguard/plan.h>
#include <mrguard/pool.h>
#include <mrguard/region.h>
#include <mrguard/registry.h>
#include <mrguard/share.h>
#include <mrguard/vma.h>

#define LONGEST 4096 /* as <mrguard/common.h> says */

static const struct mrg_sg sg = { 1ull << 32, 1 << 20 };

static int plan(const void *opts)
{
	struct mrg_plan *out;
	int ret = mrg_plan_make(&sg, 1, opts, &out);

	if (!ret)
		mrg_plan_free(out);
	return ret;
}

static int vma(const void *opts)
{
	struct mrg_vma_report *out;
	int ret = mrg_vma_report_make(opts, &out);

	if (!ret)
		mrg_vma_report_free(out);
	return ret;
}

static int check(const void *opts)
{
	struct mrg_check_report *out;
	int ret = mrg_check_run(opts, &out);

	if (!ret)
		mrg_check_free(out);
	return ret;
}

static int explain(const void *opts)
{
	static struct mrg_explanation out;

	return mrg_explain(opts, &out);
}

static int gpu(const void *opts)
{
	struct mrg_gpu *out;
	int ret = mrg_gpu_open(&out, opts);

	if (!ret)
		mrg_gpu_close(out);
	return ret;
}

static int share(const void *opts)
{
	struct mrg_share *out;
	int ret = mrg_share_open(&out, opts);

	if (!ret)
		mrg_share_close(out);
	return ret;
}

static int region(const void *opts)
{
	struct mrg_ctx *out;
	int ret = mrg_open(&out, NULL, opts);

	if (!ret)
		mrg_close(out);
	return ret;
}

static int registry(const void *opts)
{
	struct mrg_registry *out;
	int ret = mrg_registry_open(&out, opts);

	if (!ret)
		mrg_registry_close(out);
	return ret;
}

static int pool(const void *opts)
{
	struct mrg_pool *out;
	int ret = mrg_pool_open(&out, NULL, NULL, opts);

	if (!ret)
		mrg_pool_close(out);
	return ret;
}

static const struct {
	const char *name;
	int (*call)(const void *opts);
	size_t size;
	bool zero_will_do; /* all defaults, on any host */
} calls[] = {
	{ "plan", plan, sizeof(struct mrg_plan_opts), true },
	{ "vma", vma, sizeof(struct mrg_vma_opts), true },
	{ "check", check, sizeof(struct mrg_check_opts), true },
	{ "explain", explain, sizeof(struct mrg_explain_opts), false },
	{ "gpu", gpu, sizeof(struct mrg_gpu_opts), true },
	{ "share", share, sizeof(struct mrg_share_opts), true },
	{ "region", region, sizeof(struct mrg_open_opts), true },
	{ "registry", registry, sizeof(struct mrg_registry_opts), true },
	{ "pool", pool, sizeof(struct mrg_pool_opts), true },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* @bytes zeros, and no memory behind them. */
static char *zeros_at_the_edge(size_t bytes, char **map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 2 * page;

	*map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(*map, MAP_FAILED);
	assert_int_equal(mprotect(*map + room, page, PROT_NONE), 0);
	return *map + room - bytes;
}

static int call_with(size_t i, size_t claimed, size_t real)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map, *opts = zeros_at_the_edge(real, &map);
	int ret;

	memcpy(opts, &claimed, sizeof(claimed));
	printf("# %s: size %zu\n", calls[i].name, claimed);
	fflush(stdout);
	ret = calls[i].call(opts);
	munmap(map, 3 * page);
	return ret;
}

static void a_size_that_was_never_set_is_refused_unread(void **state)
{
	static const size_t garbage[] = { LONGEST + 1, 1ull << 40, SIZE_MAX };

	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		for (size_t g = 0; g < 3; g++)
			assert_int_equal(call_with(i, garbage[g], calls[i].size), -EINVAL);
}

static void the_longest_structure_may_come_from_a_later_release(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].zero_will_do)
			assert_int_equal(call_with(i, LONGEST, LONGEST), 0);
}

static void a_field_that_is_not_known_is_refused_in_its_last_byte(void **state)
{
	static char opts[LONGEST] __attribute__((aligned(16)));
	const size_t size = LONGEST;

	(void)state;
	memcpy(opts, &size, sizeof(size));
	opts[LONGEST - 1] = 1;
	for (size_t i = 0; i < CALLS; i++)
		assert_int_equal(calls[i].call(opts), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_size_that_was_never_set_is_refused_unread),
		cmocka_unit_test(the_longest_structure_may_come_from_a_later_release),
		cmocka_unit_test(a_field_that_is_not_known_is_refused_in_its_last_byte),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
