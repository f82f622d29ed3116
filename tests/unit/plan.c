/* SPDX-License-Identifier: MIT */
/* Verdicts and plans for measured rows, field reports and refusals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <mrguard/plan.h>

#define KiB (1ULL << 10)
#define MiB (1ULL << 20)
#define GiB (1ULL << 30)

static struct mrg_plan *plan;

static int drop_plan(void **state)
{
	(void)state;
	mrg_plan_free(plan);
	plan = NULL;
	return 0;
}

static void make(const struct mrg_sg *sg, size_t count, struct mrg_plan_opts opts)
{
	drop_plan(NULL);
	opts.size = sizeof(opts);
	if (!opts.page_size)
		opts.page_size = 4096;
	assert_int_equal(mrg_plan_make(sg, count, &opts, &plan), 0);
}

static void check_single(enum mrg_verdict verdict, uint32_t shift, uint64_t blocks, uint64_t wrong,
			 uint64_t first_bad, uint64_t period)
{
	const struct mrg_outcome *o = mrg_plan_single(plan);

	assert_int_equal(o->verdict, verdict);
	assert_int_equal(o->page_shift, shift);
	assert_int_equal(o->blocks, blocks);
	assert_int_equal(o->wrong_blocks, wrong);
	assert_int_equal(o->first_bad_offset, first_bad);
	assert_int_equal(o->period, period);
}

static void check_safe(uint32_t shift, uint64_t blocks)
{
	check_single(MRG_SAFE, shift, blocks, 0, MRG_NO_OFFSET, 0);
}

/* The plan's pieces: how many, and that none is above @most bytes. */
static void check_pieces(enum mrg_strategy strategy, size_t wanted, uint64_t most)
{
	const struct mrg_piece *pieces;
	size_t count, i;

	pieces = mrg_plan_pieces(plan, &count);
	assert_int_equal(mrg_plan_strategy(plan), strategy);
	assert_int_equal(count, wanted);
	for (i = 0; i < count; i++) {
		assert_int_equal(pieces[i].outcome.verdict, MRG_SAFE);
		assert_true(pieces[i].length <= most);
	}
}

static void check_reason(const char *part)
{
	if (!strstr(mrg_plan_reason(plan), part))
		fail_msg("'%s' is not in: %s", part, mrg_plan_reason(plan));
}

/* ---- the six measured rows: 12 GiB in one run ----------------------------- */

struct row {
	uint64_t iova, addr;
	uint32_t shift;
	uint64_t blocks, wrong, first_bad, period;
	size_t split; /* MRs */
};

static const struct row rows[] = {
	{ 0x700000000000, 0x100000000, 32, 3, 2, 0x100000000, 0x100000000, 6 },
	{ 0x700200000000, 0x400000000, 33, 2, 1, 0x200000000, 0x200000000, 6 },
	{ 0x700000001000, 0x100001000, 32, 4, 2, 0x1fffff000, 0x100000000, 7 },
	{ 0x700100000000, 0x100000000, 34, 1, 0, MRG_NO_OFFSET, 0, 6 },
	{ 0x700080000000, 0x100000000, 31, 6, 0, MRG_NO_OFFSET, 0, 1 },
	{ 0x700300000000, 0x340000000, 30, 12, 0, MRG_NO_OFFSET, 0, 1 },
};

static void check_row(const struct row *row, enum mrg_walk walk)
{
	struct mrg_sg run = { row->addr, 12 * GiB };
	struct mrg_plan_opts opts = { .iova = row->iova, .walk = walk, .max_page_shift = 63 };

	make(&run, 1, opts);
	check_single(row->wrong ? MRG_WRAPS : MRG_SAFE, row->shift, row->blocks, row->wrong,
		     row->first_bad, row->period);
	check_pieces(row->split > 1 ? MRG_STRATEGY_SPLIT : MRG_STRATEGY_NONE, row->split,
		     row->split > 1 ? 2 * GiB : 12 * GiB);

	opts.flags = MRG_PLAN_IOVA_FREE;
	make(&run, 1, opts);
	check_pieces(row->split > 1 ? MRG_STRATEGY_REBASE : MRG_STRATEGY_NONE, 1, 12 * GiB);
}

static void six_measured_rows_are_judged_and_split_on_an_affected_kernel(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		check_row(&rows[i], MRG_WALK_TRUNCATING);
		check_row(&rows[i], MRG_WALK_UNKNOWN);
	}
}

static void six_measured_rows_are_one_safe_mr_on_a_fixed_kernel(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mrg_sg run = { rows[i].addr, 12 * GiB };

		make(&run, 1,
		     (struct mrg_plan_opts){
			     .iova = rows[i].iova, .walk = MRG_WALK_EXACT, .max_page_shift = 63 });
		check_safe(rows[i].shift, rows[i].blocks);
		check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
	}
}

static void rebasing_moves_the_iova_by_bit_31(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };
	const struct mrg_piece *piece;
	size_t count;

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){ .iova = 0x700000000000, .strategy = MRG_STRATEGY_REBASE });
	check_pieces(MRG_STRATEGY_REBASE, 1, 12 * GiB);
	piece = mrg_plan_pieces(plan, &count);
	assert_int_equal(piece->iova, 0x700080000000);
	assert_int_equal(piece->outcome.page_shift, 31);
	assert_int_equal(piece->outcome.blocks, 6);
	check_reason("0x700080000000");
}

static void a_run_that_differs_in_bit_31_is_never_rebased(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){ .iova = 0x700080000000, .strategy = MRG_STRATEGY_REBASE });
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
	check_safe(31, 6);
}

/* ---- field reports --------------------------------------------------------- */

/* 8 GiB that an IOMMU or exporter cut below 4 GiB */
static const struct mrg_sg a1[] = {
	{ 0x1000000000, 0xfffff000 },
	{ 0x10fffff000, 0xfffff000 },
	{ 0x11ffffe000, 0x2000 },
};

static void a1_wraps_at_limit_32(void **state)
{
	(void)state;
	make(a1, 3,
	     (struct mrg_plan_opts){
		     .iova = 0x7f0000000000, .walk = MRG_WALK_TRUNCATING, .max_page_shift = 32 });
	check_single(MRG_WRAPS, 32, 2, 1, 0x100000000, 0x100000000);
	check_pieces(MRG_STRATEGY_SPLIT, 4, 2 * GiB);
}

static void a1_and_a8_are_safe_on_a_device_whose_pages_end_at_31(void **state)
{
	(void)state;
	make(a1, 3,
	     (struct mrg_plan_opts){
		     .iova = 0x7f0000000000, .walk = MRG_WALK_TRUNCATING, .max_page_shift = 31 });
	check_safe(31, 4);
	check_pieces(MRG_STRATEGY_NONE, 1, 8 * GiB);
}

static void a8_verdict_is_per_device_and_names_the_worst_limit(void **state)
{
	struct mrg_plan_opts opts = { .iova = 0x7f0000000000, .walk = MRG_WALK_TRUNCATING };

	(void)state;
	/* One page covers all at 63; 32 is the limit that wraps. */
	opts.max_page_shift = 63;
	make(a1, 3, opts);
	check_safe(33, 1);
	check_pieces(MRG_STRATEGY_SPLIT, 4, 2 * GiB);
	opts.max_page_shift = 0;
	make(a1, 3, opts);
	check_single(MRG_WRAPS, 32, 2, 1, 0x100000000, 0x100000000);
	check_reason("largest page is not known: 2^32, the worst of 2^31 to 2^63");
}

static void a4a_is_safe_but_its_plan_rests_on_no_4_gib_page(void **state)
{
	struct mrg_sg run = { 0x1000200000, 5 * GiB };

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){
		     .iova = 0x7f0000200000, .walk = MRG_WALK_TRUNCATING, .max_page_shift = 32 });
	check_safe(32, 2);
	check_pieces(MRG_STRATEGY_SPLIT, 3, 2 * GiB);
	check_reason("rest on pages of 4 GiB");
}

static void a4b_and_a4c_and_a4d_are_safe(void **state)
{
	struct mrg_sg b[] = { { 0x1000000000, 2 * GiB }, { 0x1080000000, 2 * GiB } };
	struct mrg_sg c = { 0x1080000000, 3 * GiB };
	struct mrg_sg d = { 0x1000000000, 8 * GiB };
	struct mrg_plan_opts opts = { .walk = MRG_WALK_TRUNCATING, .max_page_shift = 32 };

	(void)state;
	opts.iova = 0x7f0000000000;
	make(b, 2, opts);
	check_safe(32, 1);
	opts.iova = 0x7f0080000000;
	make(&c, 1, opts);
	check_safe(32, 2);
	opts.iova = 0x7f0040000000;
	make(&d, 1, opts);
	check_safe(30, 8);
	check_pieces(MRG_STRATEGY_NONE, 1, 8 * GiB);
}

static void a4e_scattered_chunks_of_2_mib_are_safe(void **state)
{
	static struct mrg_sg sg[4096];
	size_t i;

	(void)state;
	for (i = 0; i < 4096; i++)
		sg[i] = (struct mrg_sg){ 0x2000000000 + (i * 2731 % 4096) * 4 * MiB, 2 * MiB };
	make(sg, 4096, (struct mrg_plan_opts){ .iova = 0x7f0000000000 });
	check_safe(21, 4096);
	check_pieces(MRG_STRATEGY_NONE, 1, 8 * GiB);
}

static void a7_one_page_covers_a_mapping_that_crosses_a_page_line(void **state)
{
	struct mrg_sg run = { 61440, 28672 };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 61440 });
	check_safe(17, 1);
}

static void a10_seven_gib_on_a_fixed_kernel_are_not_the_kernels_fault(void **state)
{
	struct mrg_sg run = { 0x1000000000, 32ULL * 4096 * 7168 * 8 };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x7f0000000000, .walk = MRG_WALK_EXACT });
	assert_int_equal(mrg_plan_single(plan)->verdict, MRG_SAFE);
	check_reason("exact walk gives every block its right address");
}

static void b1_five_gib_under_a_cap_of_2_gib_are_three_mrs(void **state)
{
	static const uint64_t lengths[] = { 2 * GiB, 2 * GiB, GiB };
	const struct mrg_piece *pieces;
	size_t count, i;

	(void)state;
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x7f0000000000,
				     .length = 5 * GiB,
				     .walk = MRG_WALK_EXACT,
				     .max_mr_size = 2 * GiB });
	check_single(MRG_REFUSED, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_reason("0x140000000 bytes are above the device's largest MR, 0x80000000");
	check_pieces(MRG_STRATEGY_SPLIT, 3, 2 * GiB);
	pieces = mrg_plan_pieces(plan, &count);
	for (i = 0; i < count; i++)
		assert_int_equal(pieces[i].length, lengths[i]);
}

static void b5_sixty_three_gib_and_5_mib_in_mrs_of_1_gib_are_64(void **state)
{
	struct mrg_sg run = { 0x1000000000, 63 * GiB + 5 * MiB };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x7f0000000000, .max_mr_size = GiB });
	check_pieces(MRG_STRATEGY_SPLIT, 64, GiB);
	make(&run, 1,
	     (struct mrg_plan_opts){
		     .iova = 0x7f0000000000, .max_mr_size = GiB, .flags = MRG_PLAN_TRANSLATED });
	check_pieces(MRG_STRATEGY_SPLIT, 64, GiB);
}

static void c7_cuts_are_rounded_down_to_huge_pages(void **state)
{
	const struct mrg_piece *pieces;
	size_t count, i;

	(void)state;
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x7f0000000000,
				     .length = 33 * MiB,
				     .max_mr_size = 33 * MiB / 16,
				     .cut_align = 2 * MiB });
	check_pieces(MRG_STRATEGY_SPLIT, 17, 2 * MiB);
	pieces = mrg_plan_pieces(plan, &count);
	for (i = 0; i < count; i++)
		assert_int_equal(pieces[i].iova % (2 * MiB), 0);
}

static void c7_a_limit_below_the_huge_page_is_refused_with_both_numbers(void **state)
{
	(void)state;
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x7f0000000000,
				     .length = 33 * MiB,
				     .max_mr_size = MiB,
				     .cut_align = 2 * MiB });
	check_pieces(MRG_STRATEGY_NONE, 0, 0);
	check_single(MRG_REFUSED, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_reason("the largest MR of 1 MiB is below the huge page of 2 MiB");
	check_reason("use smaller huge pages, or a device or setting with a larger MR");
	/* An mrg_error has room for 255 bytes of it. */
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x7f0000000000,
				     .length = 64 * GiB,
				     .max_mr_size = 64 * MiB,
				     .cut_align = 512 * MiB,
				     .walk = MRG_WALK_UNKNOWN });
	check_reason("the largest MR of 64 MiB is below the huge page of 512 MiB");
	if (strlen(mrg_plan_reason(plan)) > 255)
		fail_msg("longer than 255 bytes: %s", mrg_plan_reason(plan));
}

static void c7_a_range_within_one_512_mib_page_needs_no_cut(void **state)
{
	(void)state;
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x400026200000,
				     .length = 10485760,
				     .page_size = 65536,
				     .cut_align = 512 * MiB,
				     .max_mr_size = 64 * MiB });
	check_pieces(MRG_STRATEGY_NONE, 1, 10485760);
}

/* ---- what is not known ------------------------------------------------------ */

static void unknown_limit_judges_by_the_one_with_most_wrong_bytes(void **state)
{
	struct mrg_sg run = { 0x400000000, 12 * GiB };

	(void)state;
	/* At 33 and above 4 GiB are wrong, at 32 it is 8 GiB. */
	make(&run, 1,
	     (struct mrg_plan_opts){ .iova = 0x700200000000, .walk = MRG_WALK_TRUNCATING });
	check_single(MRG_WRAPS, 32, 3, 2, 0x100000000, 0x100000000);
	check_reason("2^32, the worst of");
}

static void of_limits_that_are_equally_good_the_lowest_is_told(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x700100000000, .walk = MRG_WALK_EXACT });
	check_safe(31, 6);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
}

static void unknown_walk_is_taken_for_truncating_and_says_so(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x700000000000, .max_page_shift = 32 });
	check_single(MRG_WRAPS, 32, 3, 2, 0x100000000, 0x100000000);
	check_reason("Assumed, since this kernel's walk is not known");
}

static void unknown_addresses_are_split_by_windows_of_the_iova(void **state)
{
	struct mrg_plan_opts opts = { .iova = 0x700000001000,
				      .length = 12 * GiB,
				      .offset = 0x1000 };
	const struct mrg_piece *pieces;
	size_t count;

	(void)state;
	make(NULL, 0, opts);
	check_single(MRG_VERDICT_UNKNOWN, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_pieces(MRG_STRATEGY_SPLIT, 7, 2 * GiB);
	check_reason("addresses are not known");
	pieces = mrg_plan_pieces(plan, &count);
	assert_int_equal(pieces[0].length, 2 * GiB - 0x1000);
	assert_int_equal(pieces[1].iova, 0x700080000000);
	opts.walk = MRG_WALK_EXACT;
	make(NULL, 0, opts);
	check_safe(0, 0);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
	opts.walk = MRG_WALK_UNKNOWN;
	opts.max_page_shift = 31;
	make(NULL, 0, opts);
	check_safe(0, 0);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
}

static void addresses_behind_a_translating_iommu_are_not_believed(void **state)
{
	/* These addresses would be safe as they are, and rebasing needs them. */
	struct mrg_sg run = { 0x1234567000, 12 * GiB };
	struct mrg_plan_opts opts = { .iova = 0x700000000000,
				      .flags = MRG_PLAN_TRANSLATED,
				      .strategy = MRG_STRATEGY_REBASE };

	(void)state;
	make(&run, 1, opts);
	check_single(MRG_VERDICT_UNKNOWN, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_pieces(MRG_STRATEGY_SPLIT, 6, 2 * GiB);
	check_reason("Not rebased: the addresses seen are not those that the MR will get");
	opts.length = GiB;
	make(&run, 1, opts);
	check_safe(0, 0);
	check_pieces(MRG_STRATEGY_NONE, 1, GiB);
	check_reason("one 2 GiB window");
	check_reason("behind a translating IOMMU");
}

static void addresses_that_the_exporter_can_change_are_not_blamed_on_the_iommu(void **state)
{
	struct mrg_sg run = { 0x1234567000, 12 * GiB };
	struct mrg_plan_opts opts = { .iova = 0x700000000000,
				      .flags = MRG_PLAN_MOVES,
				      .strategy = MRG_STRATEGY_REBASE };

	(void)state;
	make(&run, 1, opts);
	check_single(MRG_VERDICT_UNKNOWN, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_pieces(MRG_STRATEGY_SPLIT, 6, 2 * GiB);
	check_reason("its exporter can move the memory");
	if (strstr(mrg_plan_reason(plan), "IOMMU"))
		fail_msg("an IOMMU is in: %s", mrg_plan_reason(plan));
}

static void rebasing_without_addresses_falls_back_to_split_and_says_so(void **state)
{
	(void)state;
	make(NULL, 0,
	     (struct mrg_plan_opts){
		     .iova = 0x700000000000, .length = 4 * GiB, .flags = MRG_PLAN_IOVA_FREE });
	check_pieces(MRG_STRATEGY_SPLIT, 2, 2 * GiB);
	check_reason("Not rebased: the DMA addresses are not known");
}

/* ---- the cap ------------------------------------------------------------------ */

static void under_the_cap_one_mr_is_enough_for_any_addresses(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };
	struct mrg_plan_opts opts = { .iova = 0x700000000000, .walk = MRG_WALK_TRUNCATING };

	(void)state;
	make(&run, 1, opts);
	check_single(MRG_WRAPS, 32, 3, 2, 4 * GiB, 4 * GiB);
	check_pieces(MRG_STRATEGY_SPLIT, 6, 2 * GiB);
	opts.flags = MRG_PLAN_CAPPED;
	make(&run, 1, opts);
	check_safe(31, 6);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
	check_reason("The cap keeps this kernel from picking a page above 2 GiB");
	opts.flags |= MRG_PLAN_IOVA_FREE | MRG_PLAN_TRANSLATED;
	make(&run, 1, opts);
	check_safe(0, 0);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
	check_reason("the cap keeps this kernel");
	opts.flags = MRG_PLAN_CAPPED;
	opts.length = 12 * GiB;
	make(NULL, 0, opts);
	check_safe(0, 0);
	check_pieces(MRG_STRATEGY_NONE, 1, 12 * GiB);
}

static void the_cap_is_not_named_where_the_device_has_no_larger_page(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){
		     .iova = 0x700000000000, .max_page_shift = 30, .flags = MRG_PLAN_CAPPED });
	check_safe(30, 12);
	assert_null(strstr(mrg_plan_reason(plan), "cap"));
}

static void under_the_cap_the_device_s_largest_mr_still_cuts(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){ .iova = 0x700000000000,
				     .max_mr_size = 8 * GiB,
				     .flags = MRG_PLAN_CAPPED | MRG_PLAN_IOVA_FREE });
	check_pieces(MRG_STRATEGY_SPLIT, 2, 8 * GiB);
	check_reason("MRs of at most 0x200000000 bytes");
}

/* It hangs on an entry of nearly 4 GiB, in small pages too. */
static void the_cap_does_not_free_the_narrow_walk_from_its_windows(void **state)
{
	struct mrg_sg long_entry = { 0x100000000, 0xfffff000 };
	struct mrg_plan_opts opts = { .iova = 0x700000000000,
				      .walk = MRG_WALK_PER_ENTRY_NARROW,
				      .flags = MRG_PLAN_CAPPED };

	(void)state;
	make(&long_entry, 1, opts);
	assert_int_equal(mrg_plan_single(plan)->verdict, MRG_HANGS);
	check_pieces(MRG_STRATEGY_SPLIT, 2, 2 * GiB);
	opts.length = 12 * GiB;
	make(NULL, 0, opts);
	check_single(MRG_VERDICT_UNKNOWN, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_pieces(MRG_STRATEGY_SPLIT, 6, 2 * GiB);
}

static void an_iova_that_cannot_move_up_is_split(void **state)
{
	/* The range ends where addresses do; bit 31 can only be set. */
	struct mrg_sg run = { 0x100000000, 2 * GiB + 4096 };
	uint64_t iova = 0 - run.len - 0x7fffe000;

	(void)state;
	run.addr += iova & 0xffffffff;
	make(&run, 1, (struct mrg_plan_opts){ .iova = iova, .strategy = MRG_STRATEGY_REBASE });
	check_pieces(MRG_STRATEGY_SPLIT, 2, 2 * GiB + 4096);
	check_reason("too close to 2^64");
}

/* ---- older walks ------------------------------------------------------------ */

static void narrow_walk_hangs_and_is_split_even_in_small_pages(void **state)
{
	struct mrg_sg sg = { 0x100000000, 0xfffff000 };

	(void)state;
	make(&sg, 1,
	     (struct mrg_plan_opts){ .iova = 0x700080000000,
				     .max_page_shift = 31,
				     .walk = MRG_WALK_PER_ENTRY_NARROW });
	assert_int_equal(mrg_plan_single(plan)->verdict, MRG_HANGS);
	assert_int_equal(mrg_plan_single(plan)->period, 0);
	check_pieces(MRG_STRATEGY_SPLIT, 2, 2 * GiB);
}

static void unbounded_walk_hangs_where_the_bounded_one_is_right(void **state)
{
	struct mrg_sg run = { 0x1000000000, 4 * GiB };
	struct mrg_plan_opts opts = { .iova = 0x7f0000000000,
				      .max_page_shift = 63,
				      .walk = MRG_WALK_TRUNCATING_UNBOUNDED };

	(void)state;
	make(&run, 1, opts);
	assert_int_equal(mrg_plan_single(plan)->verdict, MRG_HANGS);
	check_reason("would hang the kernel");
	check_pieces(MRG_STRATEGY_SPLIT, 2, 2 * GiB);
}

/* ---- the caller's units, alignment, limits ---------------------------------- */

static void cuts_keep_the_callers_units_whole(void **state)
{
	const struct mrg_piece *pieces;
	size_t count, i;

	(void)state;
	/* 60 KV blocks of 192 MiB on a device that takes 1 GiB. */
	make(NULL, 0,
	     (struct mrg_plan_opts){ .iova = 0x7f0000000000,
				     .length = 60 * 192 * MiB,
				     .walk = MRG_WALK_EXACT,
				     .max_mr_size = GiB,
				     .unit = 192 * MiB });
	check_pieces(MRG_STRATEGY_SPLIT, 12, GiB);
	pieces = mrg_plan_pieces(plan, &count);
	for (i = 0; i < count; i++)
		assert_int_equal(pieces[i].offset % (192 * MiB), 0);
}

static void cuts_inside_units_that_no_plan_avoids_are_counted(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x700000000000, .unit = 3 * GiB });
	check_pieces(MRG_STRATEGY_SPLIT, 6, 2 * GiB);
	check_reason("Of its cuts 4 fall inside a unit of 0xc0000000 bytes");
}

static void rebased_pieces_respect_the_size_limit_and_units(void **state)
{
	struct mrg_sg run = { 0x100000000, 12 * GiB };
	const struct mrg_piece *pieces;
	size_t count, i;

	(void)state;
	make(&run, 1,
	     (struct mrg_plan_opts){ .iova = 0x700000000000,
				     .unit = 3 * GiB,
				     .max_mr_size = 5 * GiB,
				     .flags = MRG_PLAN_IOVA_FREE });
	check_pieces(MRG_STRATEGY_REBASE, 4, 3 * GiB);
	pieces = mrg_plan_pieces(plan, &count);
	for (i = 0; i < count; i++)
		assert_int_equal(pieces[i].iova, (0x700000000000 + i * 3 * GiB) ^ 2 * GiB);
}

static void a_size_limit_cuts_a_rebased_range_only_where_it_must(void **state)
{
	/* The second run bounds the page of what holds it: only the rest moves. */
	struct mrg_sg sg[] = { { 0x1000000000, 8 * GiB }, { 0x2000200000, 8 * GiB } };
	const struct mrg_piece *pieces;
	size_t count;

	(void)state;
	make(sg, 2,
	     (struct mrg_plan_opts){
		     .iova = 0x7f0000000000, .max_mr_size = 8 * GiB, .flags = MRG_PLAN_IOVA_FREE });
	check_pieces(MRG_STRATEGY_REBASE, 2, 8 * GiB);
	pieces = mrg_plan_pieces(plan, &count);
	assert_int_equal(pieces[0].iova, 0x7f0080000000);
	assert_int_equal(pieces[1].iova, 0x7f0200000000);
}

static void huge_cut_alignment_above_windows_leaves_no_plan(void **state)
{
	struct mrg_sg run = { 0x100000000, 64 * GiB };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x700000000000, .cut_align = 16 * GiB });
	check_pieces(MRG_STRATEGY_NONE, 0, 0);
	check_reason("No plan: cuts must fall on multiples of 0x400000000");
}

static void more_mrs_than_anyone_could_use_are_refused(void **state)
{
	(void)state;
	make(NULL, 0, (struct mrg_plan_opts){ .iova = 0, .length = 1ULL << 62 });
	check_pieces(MRG_STRATEGY_NONE, 0, 0);
	check_reason("more than 1048576 MRs");
}

/* ---- refusals: what the kernel would say, with numbers ----------------------- */

static void check_refused(const char *a, const char *b)
{
	check_single(MRG_REFUSED, 0, 0, 0, MRG_NO_OFFSET, 0);
	check_pieces(MRG_STRATEGY_NONE, 0, 0);
	check_reason(a);
	check_reason(b);
}

static void refusals_name_value_limit_and_remedy(void **state)
{
	struct mrg_sg run = { 0x100000000, 0x10000 }, odd = { 0x100000800, 0x10000 };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x7000, .length = 0x20000 });
	check_refused("list holds 0x10000 bytes", "0x20000 bytes from offset 0x0");
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x7000, .offset = 0x10000 });
	check_refused("list holds 0x10000 bytes", "shorten the range");
	make(NULL, 0, (struct mrg_plan_opts){ .iova = 0x7000 });
	check_refused("length 0", "name its length");
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0xfffffffffffff000 });
	check_refused("0xfffffffffffff000", "passes the end of the address space");
	make(NULL, 0, (struct mrg_plan_opts){ .offset = ~0xfffULL, .length = 0x2000 });
	check_refused("0xfffffffffffff000", "2^64");
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0x7123, .offset = 0x1456, .length = 1 });
	check_refused("iova 0x7123 and offset 0x1456 differ within a page of 0x1000", "0x456");
	make(&odd, 1, (struct mrg_plan_opts){ .iova = 0x700000000000 });
	check_refused("No page fits", "only up to bit 11");
}

static void an_mr_that_ends_at_the_end_of_addresses_is_not_refused(void **state)
{
	struct mrg_sg run = { 0x100000000, 0x10000 };

	(void)state;
	make(&run, 1, (struct mrg_plan_opts){ .iova = 0 - 0x10000ULL });
	check_safe(16, 1);
}

/* ---- the interface ------------------------------------------------------------ */

static const struct mrg_sg good = { 0x100000000, 0x10000 };

static int try(const struct mrg_sg *sg, size_t count, struct mrg_plan_opts opts)
{
	struct mrg_plan *out = (struct mrg_plan *)&good;
	int err;

	opts.size = opts.size ? opts.size : sizeof(opts);
	err = mrg_plan_make(sg, count, &opts, &out);
	if (err)
		assert_ptr_equal(out, &good);
	else
		mrg_plan_free(out);
	return err;
}

static void malformed_requests_are_einval_and_write_nothing(void **state)
{
	struct mrg_sg empty[] = { good, { 0x200000000, 0 }, good };
	struct mrg_sg endless[] = { { 0, 1ULL << 63 }, { 0, 4096 } };
	struct mrg_sg huge = { 0, (1ULL << 63) + 1 }, wide = { 0, 1ULL << 32 };
	struct mrg_sg past[] = { { 0 - 8192ULL, 4096 }, { 0 - 4096ULL, 8192 } };

	(void)state;
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ 0 }), 0);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .cut_align = 16 }), 0);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .flags = 16 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .walk = 6 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .strategy = MRG_STRATEGY_NONE }),
			 -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .max_page_shift = 11 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .max_page_shift = 64 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .page_size = 5000 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .page_size = 2048 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .cut_align = 5000 }), -EINVAL);
	assert_int_equal(try(&good, 1, (struct mrg_plan_opts){ .size = 4 }), -EINVAL);
	assert_int_equal(try(NULL, 1, (struct mrg_plan_opts){ .length = 4096 }), -EINVAL);
	assert_int_equal(try(empty, 3, (struct mrg_plan_opts){ 0 }), -EINVAL);
	assert_int_equal(try(empty, 3, (struct mrg_plan_opts){ .length = 4096 }), -EINVAL);
	assert_int_equal(try(endless, 2, (struct mrg_plan_opts){ 0 }), -EINVAL);
	assert_int_equal(try(&huge, 1, (struct mrg_plan_opts){ .length = 4096 }), -EINVAL);
	assert_int_equal(try(past, 2, (struct mrg_plan_opts){ 0 }), -EINVAL);
	assert_int_equal(try(past, 2, (struct mrg_plan_opts){ .length = 4096 }), -EINVAL);
	assert_int_equal(try(past, 1, (struct mrg_plan_opts){ 0 }), 0);
	assert_int_equal(try(&wide, 1, (struct mrg_plan_opts){ .walk = MRG_WALK_PER_ENTRY }),
			 -EINVAL);
	assert_int_equal(try(&wide, 1, (struct mrg_plan_opts){ .walk = MRG_WALK_EXACT }), 0);
}

static void options_may_be_null_older_or_newer(void **state)
{
	struct {
		struct mrg_plan_opts opts;
		uint64_t newer;
	} grown = { .opts = { .size = sizeof(grown) } };
	struct mrg_plan_opts older = { .size = offsetof(struct mrg_plan_opts, cut_align),
				       .cut_align = 5000 };

	(void)state;
	assert_int_equal(mrg_plan_make(&good, 1, NULL, &plan), 0);
	drop_plan(NULL);
	assert_int_equal(mrg_plan_make(&good, 1, &grown.opts, &plan), 0);
	drop_plan(NULL);
	grown.newer = 1;
	assert_int_equal(mrg_plan_make(&good, 1, &grown.opts, &plan), -EINVAL);
	assert_int_equal(mrg_plan_make(&good, 1, &older, &plan), 0);
}

static void names_are_words_for_every_value_and_for_none(void **state)
{
	(void)state;
	assert_string_equal(mrg_verdict_name(MRG_VERDICT_UNKNOWN), "unknown");
	assert_string_equal(mrg_strategy_name(MRG_STRATEGY_NONE), "none");
	assert_string_equal(mrg_walk_name(MRG_WALK_UNKNOWN), "unknown");
	assert_string_equal(mrg_walk_name(MRG_WALK_PER_ENTRY_NARROW), "per-entry-narrow");
	assert_string_equal(mrg_walk_name((enum mrg_walk)17), "invalid");
}

#define TEST(name) cmocka_unit_test_teardown(name, drop_plan)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(six_measured_rows_are_judged_and_split_on_an_affected_kernel),
		TEST(six_measured_rows_are_one_safe_mr_on_a_fixed_kernel),
		TEST(rebasing_moves_the_iova_by_bit_31),
		TEST(a_run_that_differs_in_bit_31_is_never_rebased),
		TEST(a1_wraps_at_limit_32),
		TEST(a1_and_a8_are_safe_on_a_device_whose_pages_end_at_31),
		TEST(a8_verdict_is_per_device_and_names_the_worst_limit),
		TEST(a4a_is_safe_but_its_plan_rests_on_no_4_gib_page),
		TEST(a4b_and_a4c_and_a4d_are_safe),
		TEST(a4e_scattered_chunks_of_2_mib_are_safe),
		TEST(a7_one_page_covers_a_mapping_that_crosses_a_page_line),
		TEST(a10_seven_gib_on_a_fixed_kernel_are_not_the_kernels_fault),
		TEST(b1_five_gib_under_a_cap_of_2_gib_are_three_mrs),
		TEST(b5_sixty_three_gib_and_5_mib_in_mrs_of_1_gib_are_64),
		TEST(c7_cuts_are_rounded_down_to_huge_pages),
		TEST(c7_a_limit_below_the_huge_page_is_refused_with_both_numbers),
		TEST(c7_a_range_within_one_512_mib_page_needs_no_cut),
		TEST(unknown_limit_judges_by_the_one_with_most_wrong_bytes),
		TEST(of_limits_that_are_equally_good_the_lowest_is_told),
		TEST(unknown_walk_is_taken_for_truncating_and_says_so),
		TEST(unknown_addresses_are_split_by_windows_of_the_iova),
		TEST(addresses_behind_a_translating_iommu_are_not_believed),
		TEST(addresses_that_the_exporter_can_change_are_not_blamed_on_the_iommu),
		TEST(rebasing_without_addresses_falls_back_to_split_and_says_so),
		TEST(under_the_cap_one_mr_is_enough_for_any_addresses),
		TEST(the_cap_is_not_named_where_the_device_has_no_larger_page),
		TEST(under_the_cap_the_device_s_largest_mr_still_cuts),
		TEST(the_cap_does_not_free_the_narrow_walk_from_its_windows),
		TEST(an_iova_that_cannot_move_up_is_split),
		TEST(narrow_walk_hangs_and_is_split_even_in_small_pages),
		TEST(unbounded_walk_hangs_where_the_bounded_one_is_right),
		TEST(cuts_keep_the_callers_units_whole),
		TEST(cuts_inside_units_that_no_plan_avoids_are_counted),
		TEST(rebased_pieces_respect_the_size_limit_and_units),
		TEST(a_size_limit_cuts_a_rebased_range_only_where_it_must),
		TEST(huge_cut_alignment_above_windows_leaves_no_plan),
		TEST(more_mrs_than_anyone_could_use_are_refused),
		TEST(refusals_name_value_limit_and_remedy),
		TEST(an_mr_that_ends_at_the_end_of_addresses_is_not_refused),
		TEST(malformed_requests_are_einval_and_write_nothing),
		TEST(options_may_be_null_older_or_newer),
		TEST(names_are_words_for_every_value_and_for_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
