/* SPDX-License-Identifier: MIT */
/*
 * The model against the running kernel's own functions: on every list the page,
 * the number of blocks, the address of each, how many are wrong and where the
 * first is must be the same.  A list that differs is shrunk before it is shown.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include <mrguard/host.h>
#include "unit/model_lists.h"

#define MOST_BLOCKS (1u << 16)
#define FULL_LISTS 100000
#define CI_LISTS 4000
#define LONG_ENTRIES 20000

static struct mrg_dev *dev;
static struct mrg_dev_info info;
static uint64_t page; /* the running kernel's */

static bool full_run(void)
{
	const char *full = getenv("MRG_FULL");

	return full && *full;
}

struct answer {
	uint64_t addrs[MOST_BLOCKS];
	ssize_t count;
	struct mrg_kernel_blocks blocks;
};

static void ask_kernel(const struct model_mr *mr, uint64_t bitmap, struct answer *a)
{
	a->count = mrg_dev_blocks(dev, mr->sg, mr->count, mr->iova, mr->offset, mr->length, bitmap,
				  0, a->addrs, MOST_BLOCKS, &a->blocks);
	if (a->count < 0)
		fail_msg("the kernel was not asked: %s", strerror(-(int)a->count));
}

static bool numbers_differ(const struct mrg_outcome *out, const struct mrg_kernel_blocks *k)
{
	if (out->verdict == MRG_REFUSED)
		return k->page_size;
	/* A walk that never ends gives the MR's blocks and goes on. */
	return k->page_size != 1ULL << out->page_shift || k->total_blocks != out->blocks ||
	       k->walked != out->blocks || k->wrong != out->wrong_blocks ||
	       k->first_wrong != out->first_bad_offset || k->endless != (out->verdict == MRG_HANGS);
}

static bool addresses_differ(const struct model_mr *mr, enum mrg_walk walk,
			     const struct mrg_outcome *out, const struct answer *a)
{
	static uint64_t addrs[MOST_BLOCKS];

	if (out->verdict == MRG_REFUSED)
		return a->count;
	return model_mr_blocks(mr, walk, out->page_shift, 0, addrs, MOST_BLOCKS) !=
		       (size_t)a->count ||
	       memcmp(addrs, a->addrs, (size_t)a->count * sizeof(*addrs));
}

struct comparison {
	enum mrg_walk walk;
	unsigned long blocks, wide, wrong, refused;
};

static bool mr_differs(const struct model_mr *mr, uint64_t bitmap, struct comparison *c)
{
	static struct answer answer;
	struct mrg_outcome out;

	model_mr_judge(mr, bitmap, c->walk, &out);
	if (out.blocks > MOST_BLOCKS)
		return false;
	ask_kernel(mr, bitmap, &answer);
	c->blocks += out.blocks;
	c->wide += out.page_shift >= MODEL_WIDE_SHIFT;
	c->wrong += answer.blocks.wrong != 0;
	c->refused += out.verdict == MRG_REFUSED;
	return numbers_differ(&out, &answer.blocks) || addresses_differ(mr, c->walk, &out, &answer);
}

static bool sample_differs(const struct sample *s, void *arg)
{
	struct model_mr mr = sample_mr(s);

	return mr_differs(&mr, s->bitmap, arg);
}

static void show_difference(const struct sample *s, enum mrg_walk walk)
{
	static struct answer a;
	struct model_mr mr = sample_mr(s);
	struct mrg_outcome out;

	model_mr_judge(&mr, s->bitmap, walk, &out);
	ask_kernel(&mr, s->bitmap, &a);
	sample_print(s);
	printf("# model:  page 2^%u, blocks %" PRIu64 ", wrong %" PRIu64 ", first at 0x%" PRIx64
	       ", %s\n",
	       out.page_shift, out.blocks, out.wrong_blocks, out.first_bad_offset,
	       mrg_verdict_name(out.verdict));
	printf("# kernel: page 0x%" PRIx64 ", blocks %" PRIu64 ", walked %" PRIu64
	       ", wrong %" PRIu64 ", first at 0x%" PRIx64 "%s\n",
	       a.blocks.page_size, a.blocks.total_blocks, a.blocks.walked, a.blocks.wrong,
	       a.blocks.first_wrong, a.blocks.endless ? ", endless" : "");
}

/* Few blocks mostly, so that many lists are tried, and now and then many. */
static uint64_t most_blocks(struct random *r)
{
	return one_in(r, 100) ? MOST_BLOCKS : one_in(r, 10) ? 2048 : 64;
}

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
			show_difference(&s, info.walk);
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
	show_difference(&s, c.walk);
}

static int open_device(void **state)
{
	int err = mrg_dev_open(&dev);

	(void)state;
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!err)
		err = mrg_dev_info(dev, &info);
	if (err)
		printf("# /dev/mrguard: %s\n", strerror(-err));
	return err;
}

static int close_device(void **state)
{
	(void)state;
	mrg_dev_close(dev);
	return system("modprobe -r mrguard_walk mrguard");
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
