/* SPDX-License-Identifier: MIT */
/* What holds of plans for random and adversarial lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "unit/model_lists.h"
#include "unit/plan_rules.h"

#define GiB (1ULL << 30)

static unsigned long samples_wanted(unsigned long usual)
{
	const char *given = getenv("MRG_SAMPLES");

	return given ? strtoul(given, NULL, 0) : usual;
}

static void draw_opts(struct plan_input *in, struct random *r, const struct sample *s)
{
	*in = (struct plan_input){
		.sg = one_in(r, 12) ? NULL : s->sg,
		.opts = {
			.size = sizeof(in->opts),
			.flags = random_below(r, one_in(r, 8) ? 4 : 2) |
				 (one_in(r, 4) ? MRG_PLAN_CAPPED : 0),
			.walk = random_below(r, MRG_WALK_PER_ENTRY_NARROW + 1),
			.iova = s->iova,
			.offset = s->offset,
			.length = s->length,
			.page_size = s->page_size,
			.max_page_shift = one_in(r, 2) ? 0 : random_between(r, 12, 63),
			.strategy = random_below(r, MRG_STRATEGY_REBASE + 1),
			.max_mr_size = one_in(r, 2) ? 0 : 1ULL << random_between(r, 20, 36),
			.unit = one_in(r, 2) ? 0 : 1 + random_below(r, 2ULL << random_below(r, 33)),
			.cut_align = one_in(r, 4) ? 1ULL << random_between(r, 12, 31) : 0,
		},
	};
	in->count = in->sg ? s->count : 0;
	if (in->opts.max_mr_size && one_in(r, 2))
		in->opts.max_mr_size -= random_below(r, in->opts.max_mr_size / 2);
	/* Pieces by the thousand show nothing that a hundred do not. */
	if (in->opts.max_mr_size && in->opts.max_mr_size < s->length / 200)
		in->opts.max_mr_size = s->length / 200;
}

static void print_input(const struct sample *s, const struct plan_input *in,
			const struct mrg_plan *plan)
{
	const struct mrg_piece *pieces;
	size_t count, i;

	sample_print(s);
	printf("# %s flags %x walk %s limit %u strategy %s max 0x%" PRIx64 " unit 0x%" PRIx64
	       " align 0x%" PRIx64 "\n",
	       in->sg ? "known" : "no list", in->opts.flags, mrg_walk_name(in->opts.walk),
	       in->opts.max_page_shift, mrg_strategy_name(in->opts.strategy), in->opts.max_mr_size,
	       in->opts.unit, in->opts.cut_align);
	pieces = mrg_plan_pieces(plan, &count);
	printf("# %s, %s\n", mrg_verdict_name(mrg_plan_single(plan)->verdict),
	       mrg_plan_reason(plan));
	for (i = 0; i < count; i++)
		printf("#   0x%" PRIx64 " + 0x%" PRIx64 " iova 0x%" PRIx64 "\n", pieces[i].offset,
		       pieces[i].length, pieces[i].iova);
}

struct attempt {
	struct plan_input in;
	const char *wrong;
	struct mrg_plan *plan;
};

static bool plan_breaks_rules(const struct sample *s, void *arg)
{
	struct attempt *a = arg;

	a->in.sg = a->in.sg ? s->sg : NULL;
	a->in.count = a->in.sg ? s->count : 0;
	a->in.opts.iova = s->iova;
	a->in.opts.offset = s->offset;
	a->in.opts.length = s->length;
	mrg_plan_free(a->plan);
	a->plan = NULL;
	if (mrg_plan_make(a->in.sg, a->in.count, &a->in.opts, &a->plan))
		a->wrong = "no plan at all";
	else
		a->wrong = plan_violation(&a->in, a->plan);
	return a->wrong;
}

/* A host's: 4, 16 or 64 KiB. */
static uint64_t any_page(struct random *r)
{
	return 4096ULL << 2 * random_below(r, 3);
}

static void plans_for_any_list_are_safe_and_tile_the_range(void **state)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted(60000), strategies[4] = { 0 }, none = 0;
	struct sample s;

	(void)state;
	while (n--) {
		struct attempt a = { 0 };
		size_t count;

		sample_draw(&s, &r, any_page(&r), MRG_WALK_EXACT, 1ULL << 40);
		draw_opts(&a.in, &r, &s);
		if (plan_breaks_rules(&s, &a)) {
			sample_shrink(&s, plan_breaks_rules, &a);
			plan_breaks_rules(&s, &a);
			print_input(&s, &a.in, a.plan);
			fail_msg("%s", a.wrong);
		}
		mrg_plan_pieces(a.plan, &count);
		strategies[mrg_plan_strategy(a.plan)]++;
		none += !count;
		mrg_plan_free(a.plan);
	}
	printf("# split %lu, rebased %lu, as asked %lu, without pieces %lu\n",
	       strategies[MRG_STRATEGY_SPLIT], strategies[MRG_STRATEGY_REBASE],
	       strategies[MRG_STRATEGY_NONE] - none, none);
	assert_true(strategies[MRG_STRATEGY_SPLIT] && strategies[MRG_STRATEGY_REBASE]);
}

/* Of two plans of one range made from different lists. */
static bool plans_equal(const struct mrg_plan *a, const struct mrg_plan *b)
{
	const struct mrg_piece *pa, *pb;
	size_t na, nb;

	pa = mrg_plan_pieces(a, &na);
	pb = mrg_plan_pieces(b, &nb);
	return na == nb && (!na || !memcmp(pa, pb, na * sizeof(*pa))) &&
	       !memcmp(mrg_plan_single(a), mrg_plan_single(b), sizeof(struct mrg_outcome)) &&
	       mrg_plan_strategy(a) == mrg_plan_strategy(b) &&
	       !strcmp(mrg_plan_reason(a), mrg_plan_reason(b));
}

/* No two parts of the list share a DMA address, as in any real buffer. */
static bool overlaps(const struct sample *s)
{
	size_t i, j;

	for (i = 0; i < s->count; i++)
		for (j = 0; j < i; j++)
			if (s->sg[i].addr < s->sg[j].addr + s->sg[j].len &&
			    s->sg[j].addr < s->sg[i].addr + s->sg[i].len)
				return true;
	return false;
}

/*
 * Of each run only the lowest bit in which DMA address and iova differ; bits
 * below from the iova, and high ones that keep runs apart.
 */
static void make_equivalent(const struct sample *s, struct sample *e)
{
	uint64_t va = s->iova - s->offset, diff, keep = 0, next = 0;
	size_t i, runs = 0;

	*e = *s;
	for (i = 0; i < s->count; i++) {
		if (!i || s->sg[i].addr != next) {
			diff = s->sg[i].addr ^ va;
			keep = diff & -diff;
			/* All bits above the lowest differing one are free. */
			keep |= keep ? (uint64_t)++runs << 58 & ~(keep - 1) & ~keep : 0;
			keep ^= va;
		}
		e->sg[i].addr = keep;
		keep += s->sg[i].len;
		next = s->sg[i].addr + s->sg[i].len;
		va += s->sg[i].len;
	}
}

static void a_plan_from_equivalent_addresses_equals_one_from_raw_ones(void **state)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted(60000);
	struct sample s, e;

	(void)state;
	while (n--) {
		struct mrg_plan *raw, *equivalent;
		struct plan_input in;

		do {
			sample_draw(&s, &r, any_page(&r), MRG_WALK_EXACT, 1ULL << 40);
		} while (overlaps(&s));
		make_equivalent(&s, &e);
		draw_opts(&in, &r, &s);
		in.sg = s.sg;
		in.count = s.count;
		assert_int_equal(mrg_plan_make(in.sg, in.count, &in.opts, &raw), 0);
		in.sg = e.sg;
		assert_int_equal(mrg_plan_make(in.sg, in.count, &in.opts, &equivalent), 0);
		if (!plans_equal(raw, equivalent)) {
			print_input(&s, &in, raw);
			print_input(&e, &in, equivalent);
			fail();
		}
		mrg_plan_free(raw);
		mrg_plan_free(equivalent);
	}
}

static void a_rebased_mr_never_gets_a_page_above_2_gib(void **state)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted(60000), moved = 0;
	struct sample s;
	unsigned int limit;

	(void)state;
	while (n--) {
		struct plan_input in = { .sg = s.sg,
					 .opts = { .size = sizeof(in.opts),
						   .strategy = MRG_STRATEGY_REBASE } };
		const struct mrg_piece *piece;
		struct mrg_plan *plan;
		size_t count;

		sample_draw(&s, &r, any_page(&r), MRG_WALK_EXACT, 1ULL << 40);
		in.count = s.count;
		in.opts.iova = s.iova;
		in.opts.offset = s.offset;
		in.opts.length = s.length;
		in.opts.page_size = s.page_size;
		assert_int_equal(mrg_plan_make(s.sg, s.count, &in.opts, &plan), 0);
		piece = mrg_plan_pieces(plan, &count);
		assert_true(count <= 1);
		assert_true(!count || !((piece->iova ^ s.offset) & (s.page_size - 1)));
		moved += count && piece->iova != s.iova;
		for (limit = 31; count && limit < 64; limit++)
			assert_true(rule_page_shift(&in, 0, s.length, piece->iova, limit) <= 31);
		mrg_plan_free(plan);
	}
	printf("# %lu rebased\n", moved);
	assert_true(moved > samples_wanted(60000) / 10);
}

static void pieces_cut_at_2_gib_windows_are_right_for_any_addresses(void **state)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted(20000), wide = 0;
	struct sample s;
	size_t i, count;

	(void)state;
	while (n--) {
		struct plan_input in = { 0 };
		const struct mrg_piece *pieces;
		struct mrg_plan *plan;
		const char *wrong = NULL;

		sample_draw(&s, &r, any_page(&r), MRG_WALK_EXACT, 1ULL << 40);
		in.opts = (struct mrg_plan_opts){
			.size = sizeof(in.opts),
			.iova = s.iova,
			.offset = s.offset,
			.length = s.length,
			.page_size = s.page_size,
		};
		/* The plan does not see the list that it is then held against. */
		assert_int_equal(mrg_plan_make(NULL, 0, &in.opts, &plan), 0);
		in.sg = s.sg;
		in.count = s.count;
		pieces = mrg_plan_pieces(plan, &count);
		wide += rule_page_shift(&in, 0, s.length, s.iova, 63) > 31;
		if (rule_page_shift(&in, 0, s.length, s.iova, 63))
			for (i = 0; i < count && !wrong; i++)
				wrong = rule_piece_safe(&in, &pieces[i]);
		if (wrong) {
			print_input(&s, &in, plan);
			fail_msg("%s", wrong);
		}
		mrg_plan_free(plan);
	}
	assert_true(wide > samples_wanted(20000) / 10);
}

/* ---- against all plans that cut on a coarse grid -------------------------- */

#define GRID (512ULL << 20)
#define MOST_CELLS 48

/* The same units and pieces, found by trying all cuts. */
static bool best_on_grid(const struct plan_input *in, unsigned long *cost)
{
	unsigned long costs[MOST_CELLS + 1], none = ~0ul, with;
	size_t cells = in->opts.length / GRID, start, end;

	costs[0] = 0;
	for (end = 1; end <= cells; end++) {
		costs[end] = none;
		for (start = 0; start < end; start++) {
			uint64_t from = start * GRID, length = (end - start) * GRID;

			if (costs[start] == none ||
			    (in->opts.max_mr_size && length > in->opts.max_mr_size) ||
			    rule_page_shift(in, from, length, in->opts.iova + from, 63) > 31)
				continue;
			with = costs[start] + 1;
			if (end < cells && in->opts.unit && (end * GRID) % in->opts.unit)
				with += 1000;
			if (with < costs[end])
				costs[end] = with;
		}
	}
	*cost = costs[cells];
	return *cost != none;
}

static unsigned long plan_cost(const struct plan_input *in, const struct mrg_plan *plan)
{
	const struct mrg_piece *pieces;
	unsigned long cost;
	size_t count, i;

	pieces = mrg_plan_pieces(plan, &count);
	cost = count;
	for (i = 1; i < count; i++)
		if (in->opts.unit && pieces[i].offset % in->opts.unit)
			cost += 1000;
	return cost;
}

/* Runs of whole cells, most on 4 GiB lines relative to the iova. */
static void draw_cells(struct sample *s, struct plan_input *in, struct random *r)
{
	uint64_t cells = random_between(r, 2, MOST_CELLS), va, addr;

	memset(s, 0, sizeof(*s));
	s->page_size = 4096;
	s->iova = 0x700000000000 + random_below(r, 16) * GRID;
	s->length = cells * GRID;
	for (va = s->iova; cells && s->count < LIST_MAX_ENTRIES - 1; va += s->sg[s->count++].len) {
		uint64_t len = random_between(r, 1, 16) * GRID;

		if (len > cells * GRID || s->count == LIST_MAX_ENTRIES - 2)
			len = cells * GRID;
		addr = va + (random_between(r, 1, 4096) << 38);
		if (one_in(r, 4))
			addr ^= GRID << random_below(r, 3);
		s->sg[s->count] = (struct mrg_sg){ addr, len };
		cells -= len / GRID;
	}
	*in = (struct plan_input){
		.sg = s->sg,
		.count = s->count,
		.opts = {
			.size = sizeof(in->opts),
			.iova = s->iova,
			.length = s->length,
			.page_size = 4096,
			.strategy = MRG_STRATEGY_SPLIT,
			.max_mr_size = one_in(r, 4) ? 0 : random_between(r, 1, 24) * GRID,
			.unit = one_in(r, 3) ? 0 : random_between(r, 1, 10) * GRID,
			.cut_align = GRID,
		},
	};
}

static void no_plan_has_fewer_cuts_inside_units_or_fewer_mrs(void **state)
{
	struct random r = { random_seed() };
	unsigned long n = samples_wanted(10000), cost = 0, several = 0;
	struct sample s;

	(void)state;
	while (n--) {
		struct plan_input in;
		struct mrg_plan *plan;

		draw_cells(&s, &in, &r);
		assert_int_equal(mrg_plan_make(in.sg, in.count, &in.opts, &plan), 0);
		if (!best_on_grid(&in, &cost) || cost != plan_cost(&in, plan) ||
		    plan_violation(&in, plan)) {
			print_input(&s, &in, plan);
			fail_msg("cost %lu, best %lu (1000 a cut inside a unit, 1 an MR)",
				 plan_cost(&in, plan), cost);
		}
		several += cost % 1000 > 1;
		mrg_plan_free(plan);
	}
	assert_true(several > samples_wanted(10000) / 4);
}

/* The rules themselves must catch a plan that ignores the fault. */
static void the_rules_catch_an_unsafe_plan(void **state)
{
	struct mrg_sg sg = { 0x100000000, 12 * GiB };
	struct plan_input in = { &sg,
				 1,
				 { .size = sizeof(in.opts),
				   .iova = 0x700000000000,
				   .length = 12 * GiB,
				   .page_size = 4096,
				   .walk = MRG_WALK_EXACT } };
	struct mrg_plan *plan;

	(void)state;
	assert_int_equal(mrg_plan_make(&sg, 1, &in.opts, &plan), 0);
	assert_null(plan_violation(&in, plan));
	in.opts.walk = MRG_WALK_TRUNCATING;
	assert_string_equal(plan_violation(&in, plan), "a piece may get a page above 2 GiB");
	in.opts.walk = MRG_WALK_EXACT;
	in.opts.max_mr_size = 4 * GiB;
	assert_string_equal(plan_violation(&in, plan), "a piece exceeds max_mr_size");
	in.opts.max_mr_size = 0;
	in.opts.length = 11 * GiB;
	assert_string_equal(plan_violation(&in, plan), "pieces do not tile the range");
	mrg_plan_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_for_any_list_are_safe_and_tile_the_range),
		cmocka_unit_test(a_plan_from_equivalent_addresses_equals_one_from_raw_ones),
		cmocka_unit_test(a_rebased_mr_never_gets_a_page_above_2_gib),
		cmocka_unit_test(pieces_cut_at_2_gib_windows_are_right_for_any_addresses),
		cmocka_unit_test(no_plan_has_fewer_cuts_inside_units_or_fewer_mrs),
		cmocka_unit_test(the_rules_catch_an_unsafe_plan),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("plan_properties", tests, NULL, NULL);
}
