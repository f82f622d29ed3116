/* SPDX-License-Identifier: MIT */
/* Pick and walk: against a step-by-step reference, and measured cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "unit/model_naive.h"

#define GiB (1ULL << 30)
#define BLOCKS 4096
#define ALL_PAGES model_pages_up_to(63)

/* ---- against the reference ----------------------------------------------- */

struct tally {
	enum mrg_walk walk;
	bool capped;
	unsigned long uncapped; /* lists whose device takes larger pages only */
	unsigned long small_hangs; /* in pages that the cap leaves */
	unsigned long wide, wraps, hangs, refused, several_runs;
};

static bool outcome_differs(const struct naive_result *naive, const struct mrg_outcome *out)
{
	if (!naive->page)
		return out->verdict != MRG_REFUSED || out->page_shift;
	if (out->verdict == MRG_REFUSED || 1ULL << out->page_shift != naive->page)
		return true;
	return (out->verdict == MRG_HANGS) != naive->endless ||
	       (out->verdict == MRG_WRAPS) != (naive->wrong && !naive->endless) ||
	       out->blocks != naive->blocks || out->wrong_blocks != naive->wrong ||
	       naive->given != naive->blocks || out->first_bad_offset != naive->first_wrong ||
	       (out->period != 0) != (out->verdict == MRG_WRAPS);
}

/* All block addresses in one go, and once more from the middle. */
static bool blocks_differ(const struct model_mr *mr, enum mrg_walk walk,
			  const struct mrg_outcome *out, const uint64_t *naive)
{
	static uint64_t addrs[BLOCKS];
	uint64_t from = out->blocks / 2;

	if (model_mr_blocks(mr, walk, out->page_shift, 0, addrs, BLOCKS) != out->blocks ||
	    memcmp(addrs, naive, out->blocks * sizeof(*addrs)))
		return true;
	if (model_mr_blocks(mr, walk, out->page_shift, from, addrs, 3) !=
	    (out->blocks - from < 3 ? out->blocks - from : 3))
		return true;
	return memcmp(addrs, naive + from,
		      (out->blocks - from < 3 ? out->blocks - from : 3) * sizeof(*addrs)) ||
	       model_mr_blocks(mr, walk, out->page_shift, out->blocks, addrs, 1);
}

static void judge_and_run(const struct sample *s, const struct tally *tally,
			  struct mrg_outcome *out, uint64_t *addrs, struct naive_result *naive)
{
	struct model_mr mr = sample_mr(s);
	struct sample offered = *s;

	model_mr_judge(&mr, tally->capped ? model_cap(s->bitmap) : s->bitmap, tally->walk, out);
	if (tally->capped)
		offered.bitmap = naive_cap(s->bitmap);
	if (out->blocks <= BLOCKS)
		naive_run(&offered, tally->walk, addrs, BLOCKS, naive);
}

static bool model_differs(const struct sample *s, void *arg)
{
	static uint64_t naive_addrs[BLOCKS];
	struct tally *tally = arg;
	struct model_mr mr = sample_mr(s);
	struct naive_result naive;
	struct mrg_outcome out;

	judge_and_run(s, tally, &out, naive_addrs, &naive);
	if (out.blocks > BLOCKS)
		return false;
	tally->uncapped += tally->capped && model_cap(s->bitmap) >> 32;
	tally->wide += out.page_shift >= 32;
	tally->wraps += out.verdict == MRG_WRAPS;
	tally->small_hangs += out.verdict == MRG_HANGS && out.page_shift < 32;
	tally->hangs += out.verdict == MRG_HANGS;
	tally->refused += out.verdict == MRG_REFUSED;
	tally->several_runs += s->count > 1 && s->sg[0].addr + s->sg[0].len != s->sg[1].addr;
	return outcome_differs(&naive, &out) ||
	       (naive.page && blocks_differ(&mr, tally->walk, &out, naive_addrs));
}

static void report_difference(struct sample *s, struct tally *tally)
{
	static uint64_t addrs[BLOCKS];
	struct naive_result naive;
	struct mrg_outcome out;

	sample_shrink(s, model_differs, tally);
	sample_print(s);
	judge_and_run(s, tally, &out, addrs, &naive);
	printf("# %s: model %s page 2^%u blocks %" PRIu64 " wrong %" PRIu64 " first 0x%" PRIx64
	       "\n",
	       mrg_walk_name(tally->walk), mrg_verdict_name(out.verdict), out.page_shift,
	       out.blocks, out.wrong_blocks, out.first_bad_offset);
	printf("# reference page 0x%" PRIx64 " blocks %" PRIu64 " given %" PRIu64 " wrong %" PRIu64
	       " first 0x%" PRIx64 "%s\n",
	       naive.page, naive.blocks, naive.given, naive.wrong, naive.first_wrong,
	       naive.endless ? ", endless" : "");
}

static unsigned long samples_wanted(void)
{
	const char *given = getenv("MRG_SAMPLES");

	return given ? strtoul(given, NULL, 0) : 20000;
}

static void agree(enum mrg_walk walk, uint64_t page_size, struct tally *tally)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted();
	struct sample s;

	*tally = (struct tally){ .walk = walk, .capped = tally->capped };
	while (n--) {
		sample_draw(&s, &r, page_size, walk, BLOCKS);
		/* A device that takes large pages only. */
		if (tally->capped && one_in(&r, 20) && s.bitmap >> 32)
			s.bitmap &= ~MODEL_LOW32;
		if (model_differs(&s, tally)) {
			report_difference(&s, tally);
			fail();
		}
	}
	printf("# of %lu lists: %lu wide pages, %lu wrap, %lu hang, %lu refused, %lu with breaks\n",
	       samples_wanted(), tally->wide, tally->wraps, tally->hangs, tally->refused,
	       tally->several_runs);
	assert_true(tally->capped || tally->wide > samples_wanted() / 50);
	assert_true(page_size > 4096 || tally->refused > 0);
	assert_true(tally->several_runs > samples_wanted() / 10);
}

static void exact_walk_agrees_with_reference_and_is_never_wrong(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_EXACT, 4096, &tally);
	assert_int_equal(tally.wraps + tally.hangs, 0);
}

static void truncating_walk_agrees_with_reference(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_TRUNCATING, 4096, &tally);
	assert_true(tally.wraps > samples_wanted() / 100);
	assert_int_equal(tally.hangs, 0);
}

static void unbounded_truncating_walk_agrees_with_reference(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_TRUNCATING_UNBOUNDED, 4096, &tally);
	assert_true(tally.hangs > samples_wanted() / 100);
}

static void per_entry_walk_agrees_with_reference(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_PER_ENTRY, 4096, &tally);
	assert_true(tally.hangs > 0);
	assert_int_equal(tally.wraps, 0);
}

static void narrow_walk_agrees_with_reference(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_PER_ENTRY_NARROW, 4096, &tally);
	assert_true(tally.hangs > 0);
	assert_int_equal(tally.wraps, 0);
}

static void walks_agree_with_reference_where_host_pages_exceed_device_pages(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	agree(MRG_WALK_TRUNCATING, 65536, &tally);
	agree(MRG_WALK_EXACT, 65536, &tally);
	agree(MRG_WALK_TRUNCATING_UNBOUNDED, 65536, &tally);
	agree(MRG_WALK_PER_ENTRY_NARROW, 65536, &tally);
}

/* What wraps under the cap is what the cap had to let through. */
static void the_capped_kernel_agrees_with_reference_and_wraps_only_uncapped_devices(void **state)
{
	static const enum mrg_walk walks[] = { MRG_WALK_EXACT, MRG_WALK_TRUNCATING,
					       MRG_WALK_TRUNCATING_UNBOUNDED };
	struct tally tally = { .capped = true };

	(void)state;
	for (size_t i = 0; i < sizeof(walks) / sizeof(*walks); i++) {
		agree(walks[i], 4096, &tally);
		printf("# %lu could not be capped\n", tally.uncapped);
		assert_true(tally.uncapped && tally.uncapped < samples_wanted() / 10);
		assert_true(tally.wide <= tally.uncapped);
		assert_true(tally.wraps + tally.hangs <= tally.wide);
	}
	agree(MRG_WALK_PER_ENTRY_NARROW, 4096, &tally);
	assert_true(tally.small_hangs);
}

/* The reference truncates and the model does not: this must come to light. */
static bool control_differs(const struct sample *s, void *arg)
{
	static uint64_t addrs[BLOCKS];
	struct model_mr mr = sample_mr(s);
	struct naive_result naive;
	struct mrg_outcome out;

	(void)arg;
	model_mr_judge(&mr, s->bitmap, MRG_WALK_EXACT, &out);
	if (out.blocks > BLOCKS)
		return false;
	naive_run(s, MRG_WALK_TRUNCATING, addrs, BLOCKS, &naive);
	return outcome_differs(&naive, &out);
}

static void a_wrong_model_is_found_out_and_its_list_shrunk(void **state)
{
	struct random r = { random_seed() };
	struct sample s;
	int n = 1000;

	(void)state;
	do {
		assert_true(n--);
		sample_draw(&s, &r, 4096, MRG_WALK_EXACT, BLOCKS);
	} while (!control_differs(&s, NULL));
	sample_shrink(&s, control_differs, NULL);
	sample_print(&s);
	assert_true(control_differs(&s, NULL));
	/* An entry holds less than 4 GiB, and two more for breaks are many. */
	assert_true(s.count <= sample_bytes(&s) / 0xfffff000 + 3);
}

/* ---- measured and published cases ---------------------------------------- */

static struct mrg_outcome judge(const struct mrg_sg *sg, size_t count, uint64_t iova,
				uint64_t length, uint64_t bitmap, enum mrg_walk walk)
{
	struct model_mr mr = { sg, count, 0, length, iova, 4096 };
	struct mrg_outcome out;

	model_mr_judge(&mr, bitmap, walk, &out);
	return out;
}

struct row {
	uint64_t iova;
	uint64_t addr;
	uint32_t shift;
	uint64_t blocks[12];
	uint64_t count;
	uint64_t wrong;
	uint64_t first_bad;
};

/* 12 GiB in one run, as Linux 6.1.170 answered */
static const struct row rows[] = {
	{ 0x700000000000,
	  0x100000000,
	  32,
	  { 0x100000000, 0x100000000, 0x100000000 },
	  3,
	  2,
	  4 * GiB },
	{ 0x700200000000, 0x400000000, 33, { 0x400000000, 0x400000000 }, 2, 1, 8 * GiB },
	{ 0x700000001000,
	  0x100001000,
	  32,
	  { 0x100000000, 0x200000000, 0x200000000, 0x200000000 },
	  4,
	  2,
	  8 * GiB - 0x1000 },
	{ 0x700100000000, 0x100000000, 34, { 0 }, 1, 0, MRG_NO_OFFSET },
	{ 0x700080000000,
	  0x100000000,
	  31,
	  { 0x100000000, 0x180000000, 0x200000000, 0x280000000, 0x300000000, 0x380000000 },
	  6,
	  0,
	  MRG_NO_OFFSET },
	{ 0x700300000000,
	  0x340000000,
	  30,
	  { 0x340000000, 0x380000000, 0x3c0000000, 0x400000000, 0x440000000, 0x480000000,
	    0x4c0000000, 0x500000000, 0x540000000, 0x580000000, 0x5c0000000, 0x600000000 },
	  12,
	  0,
	  MRG_NO_OFFSET },
};

static void check_row(const struct row *row, const struct mrg_sg *sg, size_t count)
{
	struct model_mr mr = { sg, count, 0, 12 * GiB, row->iova, 4096 };
	uint64_t addrs[12];
	struct mrg_outcome out;

	model_mr_judge(&mr, ALL_PAGES, MRG_WALK_TRUNCATING, &out);
	assert_int_equal(out.verdict, row->wrong ? MRG_WRAPS : MRG_SAFE);
	assert_int_equal(out.page_shift, row->shift);
	assert_int_equal(out.blocks, row->count);
	assert_int_equal(out.wrong_blocks, row->wrong);
	assert_int_equal(out.first_bad_offset, row->first_bad);
	assert_int_equal(out.period, row->wrong ? 1ULL << row->shift : 0);
	assert_int_equal(model_mr_blocks(&mr, MRG_WALK_TRUNCATING, row->shift, 0, addrs, 12),
			 row->count);
	assert_memory_equal(addrs, row->blocks, row->count * sizeof(*addrs));

	model_mr_judge(&mr, ALL_PAGES, MRG_WALK_EXACT, &out);
	assert_int_equal(out.verdict, MRG_SAFE);
	assert_int_equal(out.page_shift, row->shift);
}

static void six_measured_rows_come_out_as_6_1_170_answered(void **state)
{
	struct mrg_sg entries[6];
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mrg_sg run = { rows[i].addr, 12 * GiB };

		check_row(&rows[i], &run, 1);
		for (j = 0; j < 6; j++)
			entries[j] = (struct mrg_sg){ rows[i].addr + j * 2 * GiB, 2 * GiB };
		check_row(&rows[i], entries, 6);
	}
}

/* Offsets from the base: what the exact and the truncating walk give. */
struct shape {
	const char *name;
	struct mrg_sg sg[2];
	uint64_t length;
	uint64_t iova;
	uint32_t shift;
	uint64_t blocks;
	uint64_t exact[4];
	uint64_t truncated[4];
};

#define BASE (1ULL << 44)

static const struct shape shapes[] = {
	{ "16 GiB, bit 32",
	  { { BASE, 16 * GiB } },
	  16 * GiB,
	  1 * (4 * GiB),
	  32,
	  4,
	  { 0, 4 * GiB, 8 * GiB, 12 * GiB },
	  { 0, 0, 0, 0 } },
	{ "15 GiB from +1 GiB",
	  { { BASE + GiB, 15 * GiB } },
	  15 * GiB,
	  5 * GiB,
	  32,
	  4,
	  { 0, 4 * GiB, 8 * GiB, 12 * GiB },
	  { 0, 4 * GiB, 4 * GiB, 4 * GiB } },
	{ "31 GiB from +1 GiB, bit 33",
	  { { BASE + GiB, 31 * GiB } },
	  31 * GiB,
	  9 * GiB,
	  33,
	  4,
	  { 0, 8 * GiB, 16 * GiB, 24 * GiB },
	  { 0, 0, 0, 0 } },
	{ "27 GiB from +5 GiB, bit 33",
	  { { BASE + 5 * GiB, 27 * GiB } },
	  27 * GiB,
	  13 * GiB,
	  33,
	  4,
	  { 0, 8 * GiB, 16 * GiB, 24 * GiB },
	  { 0, 8 * GiB, 8 * GiB, 8 * GiB } },
	{ "40 GiB from +9 GiB, bit 34",
	  { { BASE + 9 * GiB, 40 * GiB } },
	  40 * GiB,
	  25 * GiB,
	  34,
	  4,
	  { 0, 16 * GiB, 32 * GiB, 48 * GiB },
	  { 0, 0, 0, 0 } },
	{ "two runs of 8 GiB",
	  { { BASE, 8 * GiB }, { BASE + 100 * GiB, 8 * GiB } },
	  16 * GiB,
	  4 * GiB,
	  32,
	  4,
	  { 0, 4 * GiB, 100 * GiB, 104 * GiB },
	  { 0, 0, 0, 0 } },
	{ "1 GiB to a line, then 8 GiB",
	  { { BASE + 3 * GiB, GiB }, { BASE + 100 * GiB, 8 * GiB } },
	  9 * GiB,
	  7 * GiB,
	  32,
	  3,
	  { 0, 100 * GiB, 104 * GiB },
	  { 0, 100 * GiB, 100 * GiB } },
	{ "16 GiB on its own size",
	  { { BASE, 16 * GiB } },
	  16 * GiB,
	  16 * GiB,
	  34,
	  1,
	  { 0 },
	  { 0 } },
};

static void check_shape(const struct shape *shape, enum mrg_walk walk, const uint64_t *wanted)
{
	struct model_mr mr = { shape->sg, shape->sg[1].len ? 2 : 1, 0, shape->length, shape->iova,
			       4096 };
	uint64_t addrs[4], i;
	struct mrg_outcome out;

	model_mr_judge(&mr, ALL_PAGES, walk, &out);
	if (out.page_shift != shape->shift || out.blocks != shape->blocks)
		fail_msg("%s: page 2^%u, %" PRIu64 " blocks", shape->name, out.page_shift,
			 out.blocks);
	model_mr_blocks(&mr, walk, out.page_shift, 0, addrs, 4);
	for (i = 0; i < out.blocks; i++)
		if (addrs[i] != BASE + wanted[i])
			fail_msg("%s: block %" PRIu64 " at 0x%" PRIx64, shape->name, i, addrs[i]);
}

static void published_shapes_wrap_as_computed(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		check_shape(&shapes[i], MRG_WALK_EXACT, shapes[i].exact);
		check_shape(&shapes[i], MRG_WALK_TRUNCATING, shapes[i].truncated);
	}
}

static void one_block_is_right_even_in_a_page_of_4_gib_or_more(void **state)
{
	struct mrg_sg run = { BASE, 16 * GiB };
	struct mrg_outcome out = judge(&run, 1, BASE, 16 * GiB, ALL_PAGES, MRG_WALK_TRUNCATING);

	(void)state;
	assert_int_equal(out.verdict, MRG_SAFE);
	assert_int_equal(out.blocks, 1);
	assert_true(out.page_shift >= 34);
}

static void narrow_walk_hangs_on_an_entry_of_nearly_4_gib(void **state)
{
	struct mrg_sg sg = { BASE, 0xfffff000 };
	uint64_t iova = 0x80000000, upto31 = model_pages_up_to(31);

	(void)state;
	assert_int_equal(judge(&sg, 1, iova, sg.len, upto31, MRG_WALK_PER_ENTRY_NARROW).verdict,
			 MRG_HANGS);
	assert_int_equal(judge(&sg, 1, iova, sg.len, upto31, MRG_WALK_PER_ENTRY).verdict, MRG_SAFE);
	assert_int_equal(judge(&sg, 1, iova, 0x80000000, upto31, MRG_WALK_PER_ENTRY_NARROW).verdict,
			 MRG_SAFE);
}

static void older_walks_hang_on_one_entry_in_a_wide_page(void **state)
{
	struct mrg_sg sg = { BASE, 0xc0000000 };

	(void)state;
	assert_int_equal(judge(&sg, 1, BASE, sg.len, ALL_PAGES, MRG_WALK_PER_ENTRY).verdict,
			 MRG_HANGS);
	assert_int_equal(judge(&sg, 1, BASE, sg.len, ALL_PAGES, MRG_WALK_PER_ENTRY_NARROW).verdict,
			 MRG_HANGS);
	assert_int_equal(
		judge(&sg, 1, BASE, sg.len, ALL_PAGES, MRG_WALK_TRUNCATING_UNBOUNDED).verdict,
		MRG_HANGS);
	assert_int_equal(judge(&sg, 1, BASE, sg.len, ALL_PAGES, MRG_WALK_TRUNCATING).verdict,
			 MRG_SAFE);
}

static void a_wrong_block_that_aliases_the_right_address_is_not_counted(void **state)
{
	/* 4 GiB, then 4 GiB elsewhere, then the first 4 GiB again. */
	struct mrg_sg sg[] = { { BASE, 4 * GiB }, { BASE + 64 * GiB, 4 * GiB }, { BASE, 4 * GiB } };
	struct mrg_outcome out =
		judge(sg, 3, 0x700000000000, 12 * GiB, ALL_PAGES, MRG_WALK_TRUNCATING);

	(void)state;
	assert_int_equal(out.page_shift, 32);
	assert_int_equal(out.blocks, 3);
	assert_int_equal(out.wrong_blocks, 1);
	assert_int_equal(out.first_bad_offset, 4 * GiB);
}

static void a_range_past_bit_63_is_picked_as_since_09ea6837a043(void **state)
{
	struct mrg_sg sg = { BASE, 8 * GiB };
	struct mrg_outcome out =
		judge(&sg, 1, (1ULL << 63) - 4 * GiB, 8 * GiB, ALL_PAGES, MRG_WALK_EXACT);

	(void)state;
	assert_int_equal(out.page_shift, 32);
	assert_int_equal(out.blocks, 2);
}

/* One byte over 4 GiB: a page of 8 GiB covers it, and none of 4 GiB does. */
static void a_byte_too_many_takes_the_next_page(void **state)
{
	struct mrg_sg sg = { BASE, 8 * GiB };
	struct mrg_outcome whole = judge(&sg, 1, 8 * GiB, 4 * GiB, ALL_PAGES, MRG_WALK_EXACT);
	struct mrg_outcome more = judge(&sg, 1, 8 * GiB, 4 * GiB + 1, ALL_PAGES, MRG_WALK_EXACT);

	(void)state;
	assert_int_equal(whole.page_shift, 32);
	assert_int_equal(more.page_shift, 33);
	assert_int_equal(more.blocks, 1);
}

static void entries_below_the_host_page_are_still_addressed_right(void **state)
{
	/* 64 KiB pages: the MR's pages reach three entries beyond it at each end. */
	struct mrg_sg sg[32];
	struct model_mr mr = { sg, 32, 0x3000, 0x1a000, 0x700000003000, 65536 };
	uint64_t addrs[32];
	struct mrg_outcome out;
	size_t i;

	(void)state;
	for (i = 0; i < 32; i++)
		sg[i] = (struct mrg_sg){ BASE + (31 - i) * 0x3000, 0x1000 };
	model_mr_judge(&mr, ALL_PAGES, MRG_WALK_EXACT, &out);
	assert_int_equal(out.page_shift, 12);
	assert_int_equal(out.blocks, 26);
	assert_int_equal(model_mr_blocks(&mr, MRG_WALK_EXACT, 12, 0, addrs, 32), 26);
	for (i = 0; i < 26; i++)
		assert_int_equal(addrs[i], sg[i + 3].addr);
}

/* Pages of 8 KiB are all that the list allows. */
static void a_page_below_the_hosts_is_none_before_4fbc3a52cd4d(void **state)
{
	static const uint64_t host_pages[] = { 4096, 16384, 65536 };
	const struct mrg_sg sg = { BASE + 0x2000, 1 << 20 };
	struct mrg_outcome out;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (int walk = MRG_WALK_EXACT; walk <= MRG_WALK_PER_ENTRY_NARROW; walk++) {
			struct model_mr mr = { &sg, 1, 0, 1 << 20, 0x700000000000, host_pages[i] };
			bool masks = walk == MRG_WALK_TRUNCATING_UNBOUNDED ||
				     walk == MRG_WALK_PER_ENTRY_NARROW;

			model_mr_judge(&mr, ALL_PAGES, (enum mrg_walk)walk, &out);
			if (masks && host_pages[i] > 8192) {
				assert_int_equal(out.verdict, MRG_REFUSED);
				continue;
			}
			assert_int_equal(out.verdict, MRG_SAFE);
			assert_int_equal(out.page_shift, 13);
		}
}

static void sixteen_tib_in_4_kib_blocks_takes_no_step_per_block(void **state)
{
	struct mrg_sg sg = { BASE + 0x1000, 1ULL << 44 };
	struct model_mr mr = { &sg, 1, 0, sg.len, 0x700000000000, 4096 };
	struct mrg_outcome out;
	uint64_t last;
	clock_t start = clock();

	(void)state;
	model_mr_judge(&mr, ALL_PAGES, MRG_WALK_TRUNCATING, &out);
	assert_int_equal(out.page_shift, 12);
	assert_int_equal(out.blocks, 1ULL << 32);
	assert_int_equal(model_mr_blocks(&mr, MRG_WALK_TRUNCATING, 12, out.blocks - 1, &last, 1),
			 1);
	assert_int_equal(last, sg.addr + sg.len - 4096);
	assert_true(clock() - start < CLOCKS_PER_SEC / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_walk_agrees_with_reference_and_is_never_wrong),
		cmocka_unit_test(truncating_walk_agrees_with_reference),
		cmocka_unit_test(unbounded_truncating_walk_agrees_with_reference),
		cmocka_unit_test(per_entry_walk_agrees_with_reference),
		cmocka_unit_test(narrow_walk_agrees_with_reference),
		cmocka_unit_test(walks_agree_with_reference_where_host_pages_exceed_device_pages),
		cmocka_unit_test(
			the_capped_kernel_agrees_with_reference_and_wraps_only_uncapped_devices),
		cmocka_unit_test(a_wrong_model_is_found_out_and_its_list_shrunk),
		cmocka_unit_test(six_measured_rows_come_out_as_6_1_170_answered),
		cmocka_unit_test(published_shapes_wrap_as_computed),
		cmocka_unit_test(one_block_is_right_even_in_a_page_of_4_gib_or_more),
		cmocka_unit_test(narrow_walk_hangs_on_an_entry_of_nearly_4_gib),
		cmocka_unit_test(older_walks_hang_on_one_entry_in_a_wide_page),
		cmocka_unit_test(a_wrong_block_that_aliases_the_right_address_is_not_counted),
		cmocka_unit_test(a_range_past_bit_63_is_picked_as_since_09ea6837a043),
		cmocka_unit_test(a_byte_too_many_takes_the_next_page),
		cmocka_unit_test(entries_below_the_host_page_are_still_addressed_right),
		cmocka_unit_test(a_page_below_the_hosts_is_none_before_4fbc3a52cd4d),
		cmocka_unit_test(sixteen_tib_in_4_kib_blocks_takes_no_step_per_block),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
