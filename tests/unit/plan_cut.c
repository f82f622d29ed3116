/* SPDX-License-Identifier: MIT */
/* Cuts, against all that are possible, on ranges small enough to try them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "model/cut.h"
#include "unit/model_lists.h"

#define LONGEST 64
#define MOST_WITNESSES 8

struct sample_rule {
	struct model_cut_rule rule;
	struct model_witness witness[MOST_WITNESSES];
};

static bool cut_allowed(const struct model_cut_rule *rule, uint64_t pos)
{
	return pos == rule->length || (rule->iova + pos) % rule->align == 0;
}

static bool cut_inside(const struct model_cut_rule *rule, uint64_t pos)
{
	return pos != rule->length && rule->unit && pos % rule->unit;
}

static bool piece_safe(const struct model_cut_rule *rule, uint64_t start, uint64_t end)
{
	size_t i;

	if (rule->max && end - start > rule->max)
		return false;
	for (i = 0; i < rule->count; i++)
		if (start < rule->witness[i].hi && rule->witness[i].lo < end)
			return true;
	return (rule->iova + start) / rule->window == (rule->iova + end - 1) / rule->window;
}

/* The best that any plan has: cuts inside units, then pieces. */
static bool best(const struct model_cut_rule *rule, size_t *inside, long *pieces)
{
	unsigned int cost[LONGEST + 1], none = ~0u, with;
	uint64_t start, end;

	cost[0] = 0;
	for (end = 1; end <= rule->length; end++) {
		cost[end] = none;
		for (start = 0; start < end && cut_allowed(rule, end); start++) {
			if (cost[start] == none || !piece_safe(rule, start, end))
				continue;
			with = cost[start] + 1 + (cut_inside(rule, end) ? 1000 : 0);
			if (with < cost[end])
				cost[end] = with;
		}
	}
	*inside = cost[rule->length] / 1000;
	*pieces = cost[rule->length] % 1000;
	return cost[rule->length] != none;
}

static void draw(struct sample_rule *s, struct random *r)
{
	uint64_t pos = 0, len;

	memset(s, 0, sizeof(*s));
	s->rule = (struct model_cut_rule){
		.iova = random_below(r, 40),
		.length = random_between(r, 1, LONGEST),
		.window = 1ULL << random_between(r, 2, 4),
		.align = 1ULL << random_below(r, one_in(r, 8) ? 6 : 3),
		.unit = one_in(r, 2) ? 0 : random_between(r, 1, 14),
		.max = one_in(r, 3) ? 0 : random_between(r, 1, 40),
		.witness = s->witness,
	};
	while (s->rule.count < random_below(r, MOST_WITNESSES + 1)) {
		pos += random_below(r, 24);
		len = one_in(r, 2) ? 0 : random_below(r, 12);
		if (pos + len > s->rule.length)
			break;
		s->witness[s->rule.count++] = (struct model_witness){ pos, pos + len };
		pos += len + 1;
	}
}

static void print_rule(const struct model_cut_rule *rule)
{
	size_t i;

	printf("# iova %" PRIu64 " length %" PRIu64 " window %" PRIu64 " align %" PRIu64
	       " unit %" PRIu64 " max %" PRIu64 ", witnesses",
	       rule->iova, rule->length, rule->window, rule->align, rule->unit, rule->max);
	for (i = 0; i < rule->count; i++)
		printf(" [%" PRIu64 ", %" PRIu64 ")", rule->witness[i].lo, rule->witness[i].hi);
	printf("\n");
}

static const char *check_ends(const struct model_cut_rule *rule, const uint64_t *ends, long count,
			      size_t inside)
{
	uint64_t start = 0;
	long i;

	for (i = 0; i < count; start = ends[i++]) {
		if (ends[i] <= start || ends[i] > rule->length)
			return "pieces are out of order";
		if (!cut_allowed(rule, ends[i]))
			return "a cut is not aligned";
		if (!piece_safe(rule, start, ends[i]))
			return "a piece is not safe";
		inside -= cut_inside(rule, ends[i]);
	}
	if (start != rule->length)
		return "the pieces do not fill the range";
	return inside ? "the cuts inside units are miscounted" : NULL;
}

static const char *check_rule(const struct model_cut_rule *rule)
{
	size_t inside = 0, least_inside;
	uint64_t *ends = NULL;
	const char *wrong = NULL;
	long count = model_cut(rule, &ends, &inside), fewest;

	if (!best(rule, &least_inside, &fewest))
		wrong = count == -ERANGE ? NULL : "cuts found where there are none";
	else if (count <= 0)
		wrong = "no cuts found where there are some";
	else if (inside != least_inside)
		wrong = "avoidable cuts inside units";
	else if (count != fewest)
		wrong = "more pieces than needed";
	else
		wrong = check_ends(rule, ends, count, inside);
	if (wrong)
		printf("# inside %zu of %zu, pieces %ld of %ld\n", inside, least_inside, count,
		       fewest);
	free(ends);
	return wrong;
}

static void cuts_are_the_best_of_all_possible_ones(void **state)
{
	struct random r = { random_seed() };
	struct sample_rule s;
	const char *wrong;
	unsigned long n = getenv("MRG_SAMPLES") ? strtoul(getenv("MRG_SAMPLES"), NULL, 0) : 100000;

	(void)state;
	while (n--) {
		draw(&s, &r);
		wrong = check_rule(&s.rule);
		if (wrong) {
			print_rule(&s.rule);
			fail_msg("%s", wrong);
		}
	}
}

static void a_first_piece_leaves_the_witness_that_the_next_one_needs(void **state)
{
	/* Longest pieces first would end at 64 and need 32 windows after that. */
	static const struct model_witness witness[] = { { 2, 2 }, { 127, 127 } };
	struct model_cut_rule rule = {
		.length = 256,
		.window = 4,
		.align = 1,
		.max = 128,
		.witness = witness,
		.count = 2,
	};
	uint64_t *ends;
	size_t inside;

	(void)state;
	assert_int_equal(model_cut(&rule, &ends, &inside), 3);
	assert_int_equal(ends[0], 126);
	assert_int_equal(ends[1], 254);
	free(ends);
}

static void units_that_are_no_multiple_of_a_page_are_kept_whole(void **state)
{
	struct model_cut_rule rule = {
		.iova = 0x700000000000,
		.length = 1ULL << 40,
		.window = 1ULL << 31,
		.align = 4096,
		.unit = 1000,
		.max = 1ULL << 30,
		.witness = &(struct model_witness){ 0, 1ULL << 40 },
		.count = 1,
	};
	uint64_t *ends;
	size_t inside;
	long count, i;

	(void)state;
	count = model_cut(&rule, &ends, &inside);
	assert_true(count >= 1024);
	assert_int_equal(inside, 0);
	for (i = 0; i + 1 < count; i++) {
		assert_int_equal(ends[i] % 1000, 0);
		assert_int_equal(ends[i] % 4096, 0);
	}
	free(ends);
}

static void more_pieces_than_anyone_could_use_are_refused(void **state)
{
	struct model_cut_rule rule = {
		.length = 1ULL << 62,
		.window = 1ULL << 31,
		.align = 4096,
		.max = 4096,
	};
	uint64_t *ends;
	size_t inside;

	(void)state;
	assert_int_equal(model_cut(&rule, &ends, &inside), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_are_the_best_of_all_possible_ones),
		cmocka_unit_test(a_first_piece_leaves_the_witness_that_the_next_one_needs),
		cmocka_unit_test(units_that_are_no_multiple_of_a_page_are_kept_whole),
		cmocka_unit_test(more_pieces_than_anyone_could_use_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
