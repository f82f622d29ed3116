/* SPDX-License-Identifier: MIT */
/*
 * What a caller without privilege sees in place of DMA addresses: plans made
 * from it equal those from the truth, and it says nothing more than they do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <mrguard/plan.h>

#include "../../kmod/equiv.h"

#define MAX_RUNS 12
#define PAGE 4096ULL

static uint64_t seed = 20261129;

/* Knuth's 64-bit linear generator; its high bits are the good ones. */
static uint64_t below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 20) % limit;
}

static uint64_t bits64(void)
{
	return below(1ULL << 32) << 32 | below(1ULL << 32);
}

struct list {
	struct mrg_sg raw[MAX_RUNS];
	struct mrg_sg seen[MAX_RUNS];
	size_t n;
	uint64_t iova;
	uint64_t length;
};

static int overflows(uint64_t addr, uint64_t len)
{
	return addr + len < addr;
}

static int contiguous(const struct mrg_sg *a, const struct mrg_sg *b)
{
	return !overflows(a->addr, a->len) && a->addr + a->len == b->addr;
}

/* An address that agrees with @iova below bit @k and differs there. */
static uint64_t agreeing(uint64_t iova, unsigned int k)
{
	uint64_t above = bits64() >> below(40);

	return iova ^ (1ULL << k) ^ (k < 63 ? above << (k + 1) : 0);
}

static uint64_t random_iova(uint64_t length)
{
	switch (below(4)) {
	case 0:
		return below(1ULL << 35) * PAGE;
	case 1:
		return (1 + below(63)) << (12 + below(36));
	case 2: /* the range crosses a high power of two */
		return (1ULL << (32 + below(31))) - below(length / PAGE) * PAGE;
	default:
		return -length - (1 + below(1ULL << below(30))) * PAGE;
	}
}

static uint64_t random_length(void)
{
	return (1 + below(1ULL << below(12))) << (12 + below(12));
}

/* No two neighbours are contiguous: the module joins them before all else. */
static void random_list(struct list *list)
{
	uint64_t pos = 0;
	size_t i;

	list->n = 1 + below(MAX_RUNS);
	list->length = 0;
	for (i = 0; i < list->n; i++)
		list->length += list->raw[i].len = random_length();
	do
		list->iova = random_iova(list->length);
	while (overflows(list->iova, list->length));
	for (i = 0; i < list->n; pos += list->raw[i++].len) {
		struct mrg_sg *run = &list->raw[i];

		do
			run->addr = below(8) ? agreeing(list->iova + pos,
							12 + (unsigned int)below(52)) :
					       bits64() & ~(PAGE - 1);
		while (overflows(run->addr, run->len) || (i && contiguous(run - 1, run)));
	}
}

static void make_equivalent(struct list *list)
{
	uint64_t pos = 0, distance = 0;
	size_t i;

	for (i = 0; i < list->n; pos += list->raw[i++].len) {
		distance = mrg_equiv_distance(list->iova + pos, list->raw[i].addr, list->raw[i].len,
					      distance);
		list->seen[i].addr = list->iova + pos + distance;
		list->seen[i].len = list->raw[i].len;
	}
}

/* ---- the addresses --------------------------------------------------------- */

static void neither_joins_nor_overflows(void **state)
{
	int round;
	size_t i;

	(void)state;
	for (round = 0; round < 200000; round++) {
		struct list list;

		random_list(&list);
		make_equivalent(&list);
		for (i = 0; i < list.n; i++) {
			assert_false(overflows(list.seen[i].addr, list.seen[i].len));
			assert_false(i && contiguous(&list.seen[i - 1], &list.seen[i]));
		}
	}
}

/* Another truth with the same lowest difference looks just the same. */
static void shows_the_lowest_difference_and_no_other_bit(void **state)
{
	int round;

	(void)state;
	for (round = 0; round < 200000; round++) {
		uint64_t iova = below(1ULL << 35) * PAGE, length = random_length();
		unsigned int k = 12 + (unsigned int)below(49),
			     counts = mrg_equiv_counts(iova, length);
		uint64_t a = mrg_equiv_distance(iova, agreeing(iova, k), length, 0);
		uint64_t b = mrg_equiv_distance(iova, agreeing(iova, k), length, 0);

		assert_int_equal(a, b);
		if (k <= counts)
			assert_int_equal(__builtin_ctzll(a), k);
		else
			assert_true(__builtin_ctzll(a) >= (int)counts);
	}
}

/*
 * Who asks for ever, with any iova, cannot tell pages whose addresses begin to
 * differ in bit 22 or above, and differ from all zeroes or ones below it.
 */
static void asking_again_with_other_iovas_does_not_help(void **state)
{
	int round;

	(void)state;
	for (round = 0; round < 1000000; round++) {
		uint64_t low = (below(1ULL << 8) << 2 | 1) << 12;
		uint64_t a = low | below(1ULL << 24) << 22, b = low | below(1ULL << 24) << 22;
		uint64_t iova = random_iova(PAGE) & ~(PAGE - 1);

		if (!below(4))
			iova = a ^ 1ULL << (12 + below(36));
		if (overflows(iova, PAGE))
			continue;
		assert_int_equal(mrg_equiv_distance(iova, a, PAGE, 0),
				 mrg_equiv_distance(iova, b, PAGE, 0));
	}
}

/* Where one page covers the run whatever lies above, nothing above is shown. */
static void a_run_in_one_page_shows_nothing_above_its_own_size(void **state)
{
	const uint64_t iova = 0x700000200000, length = 2ULL << 20;
	uint64_t first = mrg_equiv_distance(iova, iova ^ 1ULL << 23, length, 0);
	unsigned int k;

	(void)state;
	assert_int_equal(mrg_equiv_counts(iova, length), 22);
	for (k = 23; k < 48; k++)
		assert_int_equal(mrg_equiv_distance(iova, iova ^ 1ULL << k, length, 0), first);
	assert_int_equal(mrg_equiv_distance(iova, iova, length, 0), first);
	assert_int_not_equal(mrg_equiv_distance(iova, iova ^ 1ULL << 22, length, 0), first);
}

/* As far as it counts, where @addr lies for an MR with that iova. */
static unsigned int seen_from(uint64_t iova, uint64_t addr, uint64_t len)
{
	unsigned int k = mrg_equiv_ctz(addr ^ iova), counts = mrg_equiv_counts(iova, len);

	return k < counts ? k : counts;
}

/*
 * A plan may move the iova by 2^31, where address and iova agree in that bit or
 * differ in a lower one.
 */
static void an_iova_moved_by_bit_31_sees_the_same(void **state)
{
	int round;

	(void)state;
	for (round = 0; round < 1000000; round++) {
		uint64_t len = random_length(), iova = (1 + below(63)) << (12 + below(30));
		unsigned int k = 12 + (unsigned int)below(49);
		uint64_t addr = agreeing(iova, k), moved = iova + (1ULL << 31);

		if (k == 31)
			continue;
		addr = iova + mrg_equiv_distance(iova, addr, len, 0);
		assert_int_equal(seen_from(moved, addr, len),
				 seen_from(moved, agreeing(iova, k), len));
	}
}

/* ---- the plans --------------------------------------------------------------- */

static int same_outcome(const struct mrg_outcome *a, const struct mrg_outcome *b)
{
	return a->verdict == b->verdict && a->page_shift == b->page_shift &&
	       a->blocks == b->blocks && a->wrong_blocks == b->wrong_blocks &&
	       a->first_bad_offset == b->first_bad_offset && a->period == b->period;
}

static int same_piece(const struct mrg_piece *a, const struct mrg_piece *b)
{
	return a->offset == b->offset && a->length == b->length && a->iova == b->iova &&
	       same_outcome(&a->outcome, &b->outcome);
}

static int same_plan(const struct mrg_plan *a, const struct mrg_plan *b)
{
	size_t n, m, i;
	const struct mrg_piece *p = mrg_plan_pieces(a, &n), *q = mrg_plan_pieces(b, &m);

	if (n != m || mrg_plan_strategy(a) != mrg_plan_strategy(b) ||
	    !same_outcome(mrg_plan_single(a), mrg_plan_single(b)))
		return 0;
	for (i = 0; i < n; i++)
		if (!same_piece(&p[i], &q[i]))
			return 0;
	return 1;
}

/* Lists as the walks over single entries need them: below 4 GiB, and they are. */
static struct mrg_plan_opts random_opts(const struct list *list)
{
	static const enum mrg_walk walks[] = {
		MRG_WALK_UNKNOWN,    MRG_WALK_EXACT,
		MRG_WALK_TRUNCATING, MRG_WALK_TRUNCATING_UNBOUNDED,
		MRG_WALK_PER_ENTRY,  MRG_WALK_PER_ENTRY_NARROW,
	};

	return (struct mrg_plan_opts){
		.size = sizeof(struct mrg_plan_opts),
		.flags = (uint32_t)below(4),
		.walk = walks[below(6)],
		.iova = list->iova,
		.page_size = PAGE,
		.max_page_shift = below(4) ? 12 + (uint32_t)below(52) : 0,
		.strategy = (enum mrg_strategy)below(3),
		.max_mr_size = below(3) ? 0 : (1 + below(64)) << (20 + below(12)),
		.unit = below(3) ? 0 : PAGE * (1 + below(1000)),
	};
}

static void print_list(const struct list *list, const struct mrg_plan_opts *o)
{
	size_t i;

	print_error(
		"iova %#llx length %#llx walk %d shift %u strategy %d flags %u max %#llx unit %#llx\n",
		(unsigned long long)list->iova, (unsigned long long)list->length, o->walk,
		o->max_page_shift, o->strategy, o->flags, (unsigned long long)o->max_mr_size,
		(unsigned long long)o->unit);
	for (i = 0; i < list->n; i++)
		print_error("  %#llx seen as %#llx, %#llx long\n",
			    (unsigned long long)list->raw[i].addr,
			    (unsigned long long)list->seen[i].addr,
			    (unsigned long long)list->raw[i].len);
}

static void plans_equal_those_from_the_truth(void **state)
{
	int round, made = 0;

	(void)state;
	for (round = 0; round < 100000; round++) {
		struct mrg_plan *truth, *seen;
		struct mrg_plan_opts opts;
		struct list list;
		int ret;

		random_list(&list);
		make_equivalent(&list);
		opts = random_opts(&list);
		ret = mrg_plan_make(list.raw, list.n, &opts, &truth);
		assert_int_equal(mrg_plan_make(list.seen, list.n, &opts, &seen), ret);
		if (ret)
			continue;
		made++;
		if (!same_plan(truth, seen))
			print_list(&list, &opts);
		assert_true(same_plan(truth, seen));
		mrg_plan_free(truth);
		mrg_plan_free(seen);
	}
	assert_true(made > 90000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neither_joins_nor_overflows),
		cmocka_unit_test(shows_the_lowest_difference_and_no_other_bit),
		cmocka_unit_test(asking_again_with_other_iovas_does_not_help),
		cmocka_unit_test(a_run_in_one_page_shows_nothing_above_its_own_size),
		cmocka_unit_test(an_iova_moved_by_bit_31_sees_the_same),
		cmocka_unit_test(plans_equal_those_from_the_truth),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
