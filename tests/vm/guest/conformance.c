/* SPDX-License-Identifier: MIT */
/*
 * The model against the running kernel's own functions: on every list the page,
 * the number of blocks, the address of each, how many are wrong and where the
 * first is must be the same.  A list that differs is shrunk before it is shown.
 */
#include "kernel_lists.h"

#define FULL_LISTS 100000
#define CI_LISTS 4000
#define LONG_ENTRIES 20000

static void the_probe_finds_the_walk_that_is_known_of_this_kernel(void **state)
{
	const char *expected = getenv("MRG_WALK");

	(void)state;
	assert_true(info.has_walk);
	assert_non_null(expected);
	assert_string_equal(mrg_walk_name(info.walk), expected);
}

static void model_and_kernel_agree_on_random_and_adversarial_lists(void **state)
{
	unsigned long n = full_run() ? FULL_LISTS : CI_LISTS, lists = n;
	struct comparison c = { .walk = info.walk };
	struct random r = { random_seed() };
	struct sample s;

	(void)state;
	while (n--) {
		sample_draw(&s, &r, page, info.walk, most_blocks(&r));
		if (sample_differs(&s, &c)) {
			sample_shrink(&s, sample_differs, &c);
			show_difference(&s, &c);
			fail();
		}
	}
	printf("# %lu lists, %lu blocks, 0 mismatches; %lu lists in wide pages, %lu with wrong blocks, %lu refused\n",
	       lists, c.blocks, c.wide, c.wrong, c.refused);
	assert_true(c.wide > lists / 20);
	assert_true(c.refused > 0);
	if (info.walk == MRG_WALK_TRUNCATING)
		assert_true(c.wrong > lists / 50);
	else
		assert_int_equal(c.wrong, 0);
}

/* A list of many entries: contiguous stretches, breaks, or none of either. */
static void draw_long(struct mrg_sg *sg, struct model_mr *mr, struct random *r)
{
	uint64_t len = page << random_below(r, 12), addr = 0, va;
	uint64_t breaks = random_between(r, 1, 1000);
	unsigned int k = random_between(r, 12, 36);
	size_t i;

	*mr = (struct model_mr){
		.sg = sg,
		.count = random_between(r, 1000, LONG_ENTRIES),
		.iova = (random_next(r) >> 17) & ~(page - 1),
		.page_size = page,
	};
	for (i = 0, va = mr->iova; i < mr->count; i++, va += len) {
		if (!i || one_in(r, breaks))
			addr = random_addr(r, va, k) & ((1ULL << 62) - page);
		sg[i] = (struct mrg_sg){ addr, len };
		addr += len;
		mr->length += len;
	}
}

static void model_and_kernel_agree_on_lists_of_thousands_of_entries(void **state)
{
	unsigned int n = full_run() ? 400 : 12;
	struct mrg_sg *sg = calloc(LONG_ENTRIES, sizeof(*sg));
	struct comparison c = { .walk = info.walk };
	struct random r = { random_seed() };
	struct mrg_outcome out;
	uint64_t bitmap;
	struct model_mr mr;

	(void)state;
	while (n--) {
		draw_long(sg, &mr, &r);
		bitmap = model_pages_up_to(random_between(&r, 12, 63));
		model_mr_judge(&mr, bitmap, info.walk, &out);
		if (out.blocks > MOST_BLOCKS)
			mr.length = (MOST_BLOCKS - 1ULL) << out.page_shift;
		if (mr_differs(&mr, bitmap, &c))
			fail_msg("a list of %zu entries at iova 0x%" PRIx64 " differs", mr.count,
				 mr.iova);
	}
	free(sg);
	printf("# %lu blocks\n", c.blocks);
	assert_true(c.blocks > MOST_BLOCKS);
}

/* Where a plan for a kernel not known calls one MR wrapping, this one agrees. */
static bool single_is_told_apart(const struct sample *s, const struct mrg_outcome *single)
{
	struct mrg_kernel_blocks k;

	if (info.walk != MRG_WALK_TRUNCATING || single->verdict != MRG_WRAPS)
		return true;
	return !mrg_dev_blocks(dev, s->sg, s->count, s->iova, s->offset, s->length,
			       model_pages_up_to(single->page_shift), 0, NULL, 0, &k) &&
	       k.page_size == 1ULL << single->page_shift && k.wrong == single->wrong_blocks &&
	       k.first_wrong == single->first_bad_offset;
}

static bool piece_is_right(const struct sample *s, const struct mrg_piece *piece)
{
	static const unsigned int limits[] = { 31, 32, 33, 34, 36, 40, 63 };
	struct mrg_kernel_blocks k;
	size_t i;

	if (piece->outcome.blocks > MOST_BLOCKS)
		return true;
	for (i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		if (mrg_dev_blocks(dev, s->sg, s->count, piece->iova, s->offset + piece->offset,
				   piece->length, model_pages_up_to(limits[i]), 0, NULL, 0, &k) ||
		    k.wrong || k.endless || k.walked != k.total_blocks ||
		    k.page_size != 1ULL << piece->outcome.page_shift || k.page_size > MODEL_WINDOW)
			return false;
	return true;
}

static unsigned long check_plan(const struct sample *s, enum mrg_strategy strategy)
{
	struct mrg_plan_opts opts = {
		.size = sizeof(opts),
		.strategy = strategy,
		.iova = s->iova,
		.offset = s->offset,
		.length = s->length,
		.page_size = s->page_size,
	};
	const struct mrg_piece *pieces;
	struct mrg_plan *plan;
	size_t count, i;

	assert_int_equal(mrg_plan_make(s->sg, s->count, &opts, &plan), 0);
	pieces = mrg_plan_pieces(plan, &count);
	for (i = 0; i < count && piece_is_right(s, &pieces[i]); i++)
		;
	if (i < count || !single_is_told_apart(s, mrg_plan_single(plan))) {
		sample_print(s);
		fail_msg("piece %zu of %zu: %s", i, count, mrg_plan_reason(plan));
	}
	mrg_plan_free(plan);
	return count;
}

static void kernel_gets_every_piece_of_every_plan_right_under_any_limit(void **state)
{
	unsigned long n = full_run() ? 10000 : 300, pieces = 0;
	struct random r = { random_seed() };
	struct sample s;

	(void)state;
	while (n--) {
		sample_draw(&s, &r, page, MRG_WALK_TRUNCATING, MOST_BLOCKS);
		pieces += check_plan(&s, one_in(&r, 2) ? MRG_STRATEGY_SPLIT : MRG_STRATEGY_REBASE);
	}
	printf("# %lu pieces\n", pieces);
	assert_true(pieces > 300);
}

/* Before 09ea6837a043 such a pick is undefined, and UBSAN reports it. */
static void no_kernel_is_asked_about_an_mr_across_bit_63(void **state)
{
	struct mrg_sg sg = { 1ULL << 44, 0xfffff000 };
	struct mrg_kernel_blocks k;
	uint64_t line = 1ULL << 63;

	(void)state;
	assert_int_equal(mrg_dev_blocks(dev, &sg, 1, line - page, 0, 2 * page,
					model_pages_up_to(63), 0, NULL, 0, &k),
			 -EINVAL);
	assert_int_equal(mrg_dev_blocks(dev, &sg, 1, line - page, 0, page, model_pages_up_to(63), 0,
					NULL, 0, &k),
			 0);
	assert_int_equal(mrg_dev_blocks(dev, &sg, 1, line, 0, page, model_pages_up_to(63), 0, NULL,
					0, &k),
			 0);
}

/* The comparison itself: a model of the other walk must not pass. */
static void a_model_of_another_walk_is_found_out(void **state)
{
	struct comparison c = { .walk = info.walk == MRG_WALK_EXACT ? MRG_WALK_TRUNCATING :
								      MRG_WALK_EXACT };
	struct random r = { random_seed() };
	struct sample s;
	unsigned int n = 500;

	(void)state;
	do {
		assert_true(n--);
		sample_draw(&s, &r, page, c.walk, 64);
	} while (!sample_differs(&s, &c));
	sample_shrink(&s, sample_differs, &c);
	show_difference(&s, &c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_probe_finds_the_walk_that_is_known_of_this_kernel),
		cmocka_unit_test(model_and_kernel_agree_on_random_and_adversarial_lists),
		cmocka_unit_test(model_and_kernel_agree_on_lists_of_thousands_of_entries),
		cmocka_unit_test(kernel_gets_every_piece_of_every_plan_right_under_any_limit),
		cmocka_unit_test(no_kernel_is_asked_about_an_mr_across_bit_63),
		cmocka_unit_test(a_model_of_another_walk_is_found_out),
	};

	if (system("modprobe mrguard_walk"))
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("conformance", tests, open_device, close_device);
}
