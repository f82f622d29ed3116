/* SPDX-License-Identifier: MIT */
/* Borders for programs that register by verbs: the same as a registration's own. */
#include "region_fake.h"

#include "region/request.h"

#define ADDR 0x700000000000ULL

/* 12 GiB whose DMA address agrees with ADDR in the low 32 bits: it wraps. */
static struct mrg_sg wrapping[] = { { 0x100000000, 12 * GIB } };

static ssize_t cuts_of(const struct mrg_reg_opts *opts, uint64_t *cuts, size_t cap)
{
	return region_cuts(&host.env, 5, "fake0", ADDR, 0, 12 * GIB, opts, cuts, cap);
}

static void show_wrapping(void)
{
	host.sg = wrapping;
	host.sg_count = 1;
}

/* All MRs that a registration with equal addresses makes, and no other border. */
static void cuts_are_where_a_split_registration_begins_its_mrs(void **state)
{
	const struct mrg_reg_opts equal = { .size = sizeof(equal), .flags = MRG_REG_IOVA_EQUAL };
	uint64_t cuts[16];
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	ssize_t n;

	(void)state;
	show_wrapping();
	n = cuts_of(NULL, cuts, 16);
	assert_true(n > 0 && n < 16);
	assert_int_equal(host.live_count, 0);
	assert_int_equal(host.devs_open, 0);
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), 0);
	assert_int_equal(mrg_mr_count(mr), n + 1);
	for (struct fake_mr *p = host.live; p; p = p->next) {
		bool found = !p->offset;

		for (ssize_t i = 0; i < n; i++)
			found |= cuts[i] == p->offset;
		assert_true(found);
	}
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void a_range_that_one_mr_is_right_for_has_no_cut(void **state)
{
	(void)state;
	show_wrapping();
	assert_int_equal(region_cuts(&host.env, 5, "fake0", ADDR, 0, GIB, NULL, NULL, 0), 0);
	host.walk = MRG_WALK_EXACT;
	assert_int_equal(cuts_of(NULL, NULL, 0), 0);
}

/* A cap holds only while a descriptor is open, and here none stays open. */
static void a_cap_is_not_counted_on(void **state)
{
	const struct mrg_reg_opts equal = { .size = sizeof(equal), .flags = MRG_REG_IOVA_EQUAL };
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	ssize_t before;

	(void)state;
	show_wrapping();
	before = cuts_of(NULL, NULL, 0);
	assert_true(before > 0);
	host.cap = MRG_CAP_EFFECTIVE;
	set_module("mlx5_core", "");
	/* The control: a registration relies on it. */
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), 0);
	assert_int_equal(mrg_mr_count(mr), 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
	assert_int_equal(cuts_of(NULL, NULL, 0), before);
}

static void without_the_module_the_borders_are_right_for_any_addresses(void **state)
{
	uint64_t cuts[16];
	ssize_t n;

	(void)state;
	host.module_error = -ENOENT;
	host.walk = MRG_WALK_UNKNOWN;
	n = cuts_of(NULL, cuts, 16);
	assert_int_equal(n, 5);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal((ADDR + cuts[i]) % (2 * GIB), 0);
}

static void a_list_that_does_not_fit_is_counted_and_left_alone(void **state)
{
	uint64_t cuts[1] = { 7 };

	(void)state;
	host.module_error = -ENOENT;
	assert_int_equal(cuts_of(NULL, cuts, 1), 5);
	assert_int_equal(cuts[0], 7);
}

static void the_callers_largest_mr_cuts_too(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = GIB };
	uint64_t cuts[16];

	(void)state;
	host.walk = MRG_WALK_EXACT;
	assert_int_equal(cuts_of(&opts, cuts, 16), 11);
	assert_int_equal(cuts[0], GIB);
}

static void ordinary_memory_is_cut_by_its_addresses(void **state)
{
	(void)state;
	set_iommu("DMA\n");
	assert_int_equal(region_cuts(&host.env, -1, "fake0", ADDR, 0, 4 * GIB, NULL, NULL, 0), 1);
	set_iommu(NULL);
	assert_int_equal(region_cuts(&host.env, -1, "fake0", ADDR, 0, 4 * GIB, NULL, NULL, 0), 0);
}

static void refused(ssize_t ret, int code, const char *stage)
{
	struct mrg_error error;

	assert_int_equal(ret, code);
	assert_int_equal(mrg_last_error(NULL, &error), 0);
	assert_int_equal(error.code, code);
	assert_string_equal(error.stage, stage);
	assert_int_equal(host.devs_open, 0);
}

static void what_cannot_be_registered_has_no_borders(void **state)
{
	const struct mrg_reg_opts rebase = { .size = sizeof(rebase),
					     .strategy = MRG_STRATEGY_REBASE };

	(void)state;
	refused(region_cuts(&host.env, 5, "fake9", ADDR, 0, GIB, NULL, NULL, 0), -ENODEV,
		"find device");
	refused(region_cuts(&host.env, 5, "", ADDR, 0, GIB, NULL, NULL, 0), -ENODEV, "find device");
	refused(cuts_of(&rebase, NULL, 0), -EINVAL, "check options");
	refused(region_cuts(&host.env, -1, "fake0", ADDR, 4096, GIB, NULL, NULL, 0), -EINVAL,
		"check options");
	refused(region_cuts(&host.env, 5, "fake0", ADDR, 512, GIB, NULL, NULL, 0), -EINVAL,
		"check offset");
	refused(region_cuts(&host.env, 5, "fake0", ADDR, 0, 0, NULL, NULL, 0), -EINVAL,
		"check range");
	host.dmabuf_size = MIB;
	refused(region_cuts(&host.env, 5, "fake0", ADDR, 0, GIB, NULL, NULL, 0), -EINVAL,
		"check fd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(cuts_are_where_a_split_registration_begins_its_mrs),
		FAKE_TEST(a_range_that_one_mr_is_right_for_has_no_cut),
		FAKE_TEST(a_cap_is_not_counted_on),
		FAKE_TEST(without_the_module_the_borders_are_right_for_any_addresses),
		FAKE_TEST(a_list_that_does_not_fit_is_counted_and_left_alone),
		FAKE_TEST(the_callers_largest_mr_cuts_too),
		FAKE_TEST(ordinary_memory_is_cut_by_its_addresses),
		FAKE_TEST(what_cannot_be_registered_has_no_borders),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuts", tests, NULL, NULL);
}
