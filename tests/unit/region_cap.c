/* SPDX-License-Identifier: MIT */
/* Registration under mrguard_cap.ko: one MR while the cap holds, a safe plan else. */
#include "region_fake.h"

#define ADDR 0x700000000000ULL

/* 12 GiB whose DMA address agrees with ADDR in the low 32 bits: it wraps. */
static struct mrg_sg wrapping[] = { { 0x100000000, 12 * GIB } };
static const struct mrg_reg_opts equal = { .size = sizeof(equal), .flags = MRG_REG_IOVA_EQUAL };

/* The cap is effective, and mlx5 of the kernel's tree drives the device. */
static int capped_setup(void **state)
{
	int ret = fake_setup(state);

	host.cap = MRG_CAP_EFFECTIVE;
	host.sg = wrapping;
	host.sg_count = 1;
	set_module("mlx5_core", "");
	return ret;
}

#define CAPPED_TEST(test) cmocka_unit_test_setup_teardown(test, capped_setup, fake_teardown)

static size_t mrs_of(struct mrg_ctx *ctx)
{
	struct mrg_mr *mr;
	size_t count;

	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), 0);
	count = host.live_count;
	assert_int_equal(mrg_mr_count(mr), count);
	assert_int_equal(mrg_dereg(mr), 0);
	return count;
}

static size_t mrs_here(void)
{
	struct mrg_ctx *ctx = open_fake();
	size_t count = mrs_of(ctx);

	mrg_close(ctx);
	assert_int_equal(host.devs_open, 0);
	return count;
}

static void one_mr_does_and_the_handle_says_that_it_is_capped(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	char text[2048];
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(host.live->iova, ADDR);
	assert_int_equal(host.layouts, 0);
	/* At mrg_open(), before the MR was made and after. */
	assert_int_equal(host.infos, 3);
	mrg_mr_describe(mr, text, sizeof(text));
	assert_non_null(strstr(text, "kernel's walk truncating (capped)"));
	assert_non_null(strstr(text, "the cap keeps this kernel from picking a page above 2 GiB"));
	assert_int_equal(mrg_plan_strategy(mrg_mr_plan(mr)), MRG_STRATEGY_NONE);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void memory_that_an_iommu_or_huge_pages_join_is_one_mr(void **state)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	set_iommu("DMA-FQ");
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 12 * GIB, all_access, NULL, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void the_device_s_largest_mr_is_all_that_cuts(void **state)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	host.max_mr_size = 8 * GIB;
	assert_int_equal(mrs_here(), 2);
	assert_int_equal(host.layouts, 0);
	set_iommu("DMA");
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 12 * GIB, all_access, NULL, &mr), 0);
	assert_int_equal(host.live_count, 2);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void only_a_registration_that_counts_on_it_asks(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 2 * GIB, NULL, &mr), 0);
	assert_int_equal(host.infos, 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
	host.walk = MRG_WALK_EXACT;
	host.infos = 0;
	assert_int_equal(mrs_here(), 1);
	assert_int_equal(host.infos, 1);
}

static void no_state_but_effective_is_counted_on(void **state)
{
	(void)state;
	for (int cap = MRG_CAP_OFF; cap <= MRG_CAP_LOST + 1; cap++) {
		host.cap = (enum mrg_cap)cap;
		assert_int_equal(mrs_here(), cap == MRG_CAP_EFFECTIVE ? 1 : 6);
	}
}

static void a_context_from_before_the_cap_does_not_use_it(void **state)
{
	struct mrg_ctx *ctx;

	(void)state;
	host.cap = MRG_CAP_OFF;
	ctx = open_fake();
	host.cap = MRG_CAP_EFFECTIVE;
	assert_int_equal(mrs_of(ctx), 6);
	mrg_close(ctx);
	assert_int_equal(mrs_here(), 1);
}

static void a_cap_that_lost_its_effect_is_not_counted_on(void **state)
{
	struct mrg_ctx *ctx = open_fake();

	(void)state;
	assert_int_equal(mrs_of(ctx), 1);
	host.cap = MRG_CAP_NOT_EFFECTIVE;
	assert_int_equal(mrs_of(ctx), 6);
	host.cap = MRG_CAP_LOST;
	assert_int_equal(mrs_of(ctx), 6);
	host.cap = MRG_CAP_EFFECTIVE;
	assert_int_equal(mrs_of(ctx), 1);
	mrg_close(ctx);
}

/* The MR that was made meanwhile may have large pages. */
static void a_cap_that_ends_while_the_mr_is_made_leaves_no_such_mr(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	host.cap_ends = 3;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), 0);
	assert_int_equal(host.calls, 1 + 6);
	assert_int_equal(host.dereg_calls, 1);
	assert_int_equal(mrg_mr_count(mr), 6);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void an_mr_that_the_lost_cap_leaves_behind_is_an_error(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	host.cap_ends = 3;
	host.dereg_fails = 1;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), -EBUSY);
	assert_error(ctx, -EBUSY, "register", "lost its effect during the registration");
	mrg_close(ctx);
	assert_int_equal(host.live_count, 0);
}

static void a_driver_with_a_pick_of_its_own_is_not_helped(void **state)
{
	(void)state;
	set_module("mlx5_core", "OE");
	assert_int_equal(mrs_here(), 6);
	set_module("mlx5_core", "");
	assert_int_equal(mrs_here(), 1);
}

/* Of which device it was is not known. */
static void a_pick_that_could_not_be_capped_ends_the_trust(void **state)
{
	(void)state;
	host.cap_uncapped = 1;
	assert_int_equal(mrs_here(), 6);
}

static void the_narrow_walk_keeps_its_windows(void **state)
{
	static struct mrg_sg entries[] = { { 0x100000000, 0xfffff000 } };
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	host.walk = MRG_WALK_PER_ENTRY_NARROW;
	host.sg = entries;
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 0xfffff000, &equal, &mr), 0);
	assert_int_equal(host.live_count, 2);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

/* ---- as long as an MR counts on it, the descriptor is open ----------------- */

static void a_context_closed_with_live_handles_keeps_the_descriptor(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *first, *second;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &first), 0);
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &second), 0);
	mrg_close(ctx);
	assert_int_equal(host.devs_open, 1);
	assert_int_equal(mrg_dereg(first), 0);
	assert_int_equal(host.devs_open, 1);
	assert_int_equal(mrg_dereg(second), 0);
	assert_int_equal(host.devs_open, 0);
}

/* Of two pieces the second fails, and the first cannot be taken back. */
static size_t descriptors_after_a_lost_mr(void)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	host.calls = host.dereg_calls = 0;
	host.fail_call = 2;
	host.fail_errno = EIO;
	host.dereg_fails = 1;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &equal, &mr), -EIO);
	host.dereg_fails = 2;
	mrg_close(ctx);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(fake_dereg(&host.live->mr), 0);
	return host.devs_open;
}

static void an_mr_that_is_lost_keeps_the_descriptor_while_it_counts_on_the_cap(void **state)
{
	(void)state;
	host.max_mr_size = 8 * GIB;
	host.cap = MRG_CAP_OFF;
	assert_int_equal(descriptors_after_a_lost_mr(), 0);
	host.cap = MRG_CAP_EFFECTIVE;
	assert_int_equal(descriptors_after_a_lost_mr(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CAPPED_TEST(one_mr_does_and_the_handle_says_that_it_is_capped),
		CAPPED_TEST(memory_that_an_iommu_or_huge_pages_join_is_one_mr),
		CAPPED_TEST(the_device_s_largest_mr_is_all_that_cuts),
		CAPPED_TEST(only_a_registration_that_counts_on_it_asks),
		CAPPED_TEST(no_state_but_effective_is_counted_on),
		CAPPED_TEST(a_context_from_before_the_cap_does_not_use_it),
		CAPPED_TEST(a_cap_that_lost_its_effect_is_not_counted_on),
		CAPPED_TEST(a_cap_that_ends_while_the_mr_is_made_leaves_no_such_mr),
		CAPPED_TEST(an_mr_that_the_lost_cap_leaves_behind_is_an_error),
		CAPPED_TEST(a_driver_with_a_pick_of_its_own_is_not_helped),
		CAPPED_TEST(a_pick_that_could_not_be_capped_ends_the_trust),
		CAPPED_TEST(the_narrow_walk_keeps_its_windows),
		CAPPED_TEST(a_context_closed_with_live_handles_keeps_the_descriptor),
		CAPPED_TEST(an_mr_that_is_lost_keeps_the_descriptor_while_it_counts_on_the_cap),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("tests", tests, NULL, NULL);
}
