/* SPDX-License-Identifier: MIT */
/*
 * What a key look-up costs, in a region of 64 pieces: counted, at most twice
 * the instructions of an index into an array that does the same work; timed, at
 * most twice that index, and 50 ns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "bench/counted.h"
#include "region/mr.h"

#define PIECES 64
#define WINDOW (1ULL << 31)
#define ADDR 0x7000c0000000ULL /* the first piece is short */
#define LENGTH 65536
#define PLACES 4096
#define ROUNDS 2000
#define BAR_NS 50.0
#define BAR_RATIO 2.0

static struct mrg_mr *mr;
static uint64_t places[PLACES];

/* What an engine without mrguard has: MRs of one length, by index. */
struct indexed {
	uint64_t addr;
	uint64_t length;
	struct region_piece pieces[PIECES];
};
static struct indexed indexed;

__attribute__((noinline)) static ssize_t by_index(const struct indexed *in, uint64_t addr,
						  uint64_t length, struct mrg_seg *segs, size_t cap)
{
	uint64_t offset = addr - in->addr;
	const struct region_piece *piece;

	if (offset >= in->length || length > in->length - offset || !cap)
		return -1;
	piece = &in->pieces[offset / WINDOW];
	segs->wire = piece->delta + offset;
	segs->length = length;
	segs->lkey = piece->lkey;
	segs->rkey = piece->rkey;
	return 1;
}

static void set_up(void)
{
	uint64_t at = 0, x = 1;

	mr = calloc(1, sizeof(*mr));
	mr->addr = ADDR;
	mr->count = PIECES;
	mr->pieces = calloc(PIECES, sizeof(*mr->pieces));
	indexed.addr = ADDR;
	for (size_t i = 0; i < PIECES; i++) {
		uint64_t length = i ? WINDOW : WINDOW / 2;

		mr->pieces[i] = (struct region_piece){
			.start = at, .length = length, .delta = ADDR, .lkey = (uint32_t)i
		};
		indexed.pieces[i] = (struct region_piece){ .delta = ADDR };
		at += length;
	}
	mr->length = at;
	indexed.length = PIECES * WINDOW;
	region_mr_index(mr);
	for (size_t i = 0; i < PLACES; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		places[i] = ADDR + (x >> 16) % (at - LENGTH);
	}
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t sink;

static double time_keys(void)
{
	struct mrg_seg segs[2];
	double start = now_ns();

	for (size_t i = 0; i < PLACES; i++) {
		mrg_keys(mr, places[i], LENGTH, segs, 2);
		sink += segs[0].wire;
	}
	return (now_ns() - start) / PLACES;
}

static double time_index(void)
{
	struct mrg_seg segs[2];
	double start = now_ns();

	for (size_t i = 0; i < PLACES; i++) {
		by_index(&indexed, places[i], LENGTH, segs, 2);
		sink += segs[0].wire;
	}
	return (now_ns() - start) / PLACES;
}

/* Side by side, and the best of each: others use this machine too. */
static void look_up_costs_no_more_than_the_bar(void **state)
{
	double keys = 1e9, index = 1e9;

	(void)state;
	set_up();
	for (int i = 0; i < (times_are_judged() ? ROUNDS : ROUNDS / 10); i++) {
		double a = time_keys(), b = time_index();

		keys = a < keys ? a : keys;
		index = b < index ? b : index;
	}
	print_message("# look-up in %d pieces: %.1f ns, index into an array: %.1f ns, %.2f times\n",
		      PIECES, keys, index, keys / index);
	assert_true(!times_are_judged() || keys <= BAR_NS);
	assert_true(!times_are_judged() || keys <= BAR_RATIO * index);
	free(mr->pieces);
	free(mr);
}

static int count_parts(void)
{
	set_up();
	counted_begin();
	time_keys();
	counted_end();
	counted_begin();
	time_index();
	counted_end();
	return 0;
}

static void look_up_takes_few_instructions(void **state)
{
	struct counted sums[2];
	double keys, index;

	(void)state;
	if (!can_count()) {
		print_message("# valgrind is not installed\n");
		skip();
	}
	counted("count", sums, 2);
	keys = sums[0].instructions / PLACES;
	index = sums[1].instructions / PLACES;
	print_message("# look-up in %d pieces: %.1f instructions, index: %.1f, %.2f times\n",
		      PIECES, keys, index, keys / index);
	assert_true(keys <= BAR_RATIO * index);
}

int main(int argc, char **argv)
{
	(void)argv;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look_up_takes_few_instructions),
		cmocka_unit_test(look_up_costs_no_more_than_the_bar),
	};

	if (argc == 2)
		return count_parts();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cost of key look-up", tests, NULL, NULL);
}
