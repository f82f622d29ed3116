/* SPDX-License-Identifier: MIT */
/*
 * The self-test's eyes, held against memory that loses, moves and overwrites
 * bytes in known ways.  Verbs is a stand-in that copies.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tools/fail.c"
#include "tools/json.c"
#include "tools/pattern.c"
#include "tools/selftest_report.c"
#include "tools/term.c"
#include "tools/verify.c"
#include "tools/verify_spans.c"

#define GIB (1ULL << 30)
#define IOVA 0x700000000000ULL

static unsigned char *memory; /* sparse: only touched pages exist */
static uint64_t size;
static uint64_t (*place)(uint64_t offset); /* where the "NIC" goes */

static uint64_t rightly(uint64_t offset)
{
	return offset;
}

/* A program that keeps offsets in 32 bits. */
static uint64_t low_32_bits(uint64_t offset)
{
	return offset & 0xffffffff;
}

static uint64_t wraps_at_8_gib(uint64_t offset)
{
	return offset & (8 * GIB - 1);
}

static uint64_t frozen_after_4_gib(uint64_t offset)
{
	return offset < 8 * GIB ? offset : 4 * GIB + (offset & 0xffffffff);
}

static unsigned char bounce[1 << 16];

int rc_transfer(struct rc_end *end, enum ibv_wr_opcode opcode, const struct mrg_seg_pair *pairs,
		size_t count)
{
	(void)end;
	for (size_t i = 0; i < count; i++) {
		bool remote_tested = pairs[i].remote.rkey == 7;
		const struct mrg_seg *tested = remote_tested ? &pairs[i].remote : &pairs[i].local;
		const struct mrg_seg *other = remote_tested ? &pairs[i].local : &pairs[i].remote;
		bool into = (opcode == IBV_WR_RDMA_WRITE) == remote_tested;

		for (uint64_t b = 0; b < tested->length; b++) {
			unsigned char *here = memory + place(tested->wire + b - IOVA);
			unsigned char *there = (unsigned char *)(uintptr_t)other->wire + b;

			*(into ? here : there) = *(into ? there : here);
		}
	}
	return 0;
}

/* Two MRs: segments end at 6 GiB + 1000. */
static ssize_t keys(void *arg, uint64_t offset, uint64_t length, struct mrg_seg *segs, size_t cap)
{
	const uint64_t line = 6 * GIB + 1000;
	size_t n = 0;

	(void)arg;
	assert_true(offset + length <= size);
	if (offset < line && offset + length > line) {
		segs[n++] = (struct mrg_seg){ .wire = IOVA + offset,
					      .rkey = 7,
					      .length = line - offset };
		length -= line - offset;
		offset = line;
	}
	segs[n++] = (struct mrg_seg){ .wire = IOVA + offset, .length = length, .rkey = 7 };
	assert_true(n <= cap);
	return (ssize_t)n;
}

static int truth_read(void *arg, uint64_t offset, void *buf, uint64_t length)
{
	(void)arg;
	memcpy(buf, memory + offset, length);
	return 0;
}

static int truth_write(void *arg, uint64_t offset, const void *buf, uint64_t length)
{
	(void)arg;
	memcpy(memory + offset, buf, length);
	return 0;
}

static const struct verify_truth truth = { .read = truth_read, .write = truth_write };

static void set_up(struct verify *v, uint64_t bytes, uint64_t (*where)(uint64_t))
{
	size = bytes;
	place = where;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	*v = (struct verify){
		.keys = keys,
		.truth = &truth,
		.size = size,
		.bounce_mem = bounce,
		.bounce = { .wire = (uintptr_t)bounce, .rkey = 1, .length = sizeof(bounce) }
	};
}

static void tear_down(struct verify *v)
{
	verify_release(v);
	munmap(memory, size);
}

static void run(struct verify *v, size_t blocks)
{
	struct verify_spans spans;

	assert_int_equal(verify_spans_make(&spans, size, IOVA, blocks, 4096), 0);
	assert_int_equal(verify_spans_run(v, VERIFY_INTO, &spans), 0);
	assert_int_equal(verify_spans_run(v, VERIFY_OUT_OF, &spans), 0);
	verify_spans_free(&spans);
}

static void a_right_buffer_is_clean(void **state)
{
	const uint64_t sizes[] = { 4096, 65536 + 3, GIB + 5, 12 * GIB };
	struct verify v;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		set_up(&v, sizes[i], rightly);
		run(&v, 96);
		assert_true(v.compared >= 4096);
		assert_int_equal(v.bad + v.overwritten, 0);
		assert_int_equal(v.fault_count, 0);
		v.tested_is_local = true;
		tear_down(&v);
	}
}

/* All faults of one way are at one distance and cover what lies at @from on. */
static void check_distance(const struct verify *v, uint64_t from, int64_t distance)
{
	size_t moved[VERIFY_WAYS] = { 0 };

	for (size_t i = 0; i < v->fault_count; i++) {
		const struct verify_fault *f = &v->faults[i];

		/* Less than a word does not tell where it belongs. */
		if (f->kind == VERIFY_OVERWRITTEN || f->length < 8) {
			assert_true(f->offset < from || f->length < 8);
			continue;
		}
		assert_int_equal(f->kind, VERIFY_MOVED);
		assert_true(f->offset >= from);
		assert_true(f->distance == distance || f->distance == 2 * distance);
		moved[f->way]++;
	}
	assert_true(moved[VERIFY_INTO] && moved[VERIFY_OUT_OF]);
}

static void offsets_kept_in_32_bits_are_named_by_their_distance(void **state)
{
	struct verify v;

	(void)state;
	set_up(&v, 7 * GIB + 512, low_32_bits);
	run(&v, 70);
	check_distance(&v, 4 * GIB, -(int64_t)(4 * GIB));
	assert_true(v.overwritten > 0);
	tear_down(&v);
}

static void wraps_of_8_gib_and_after_a_right_block_are_told_apart(void **state)
{
	struct verify v;

	(void)state;
	set_up(&v, 12 * GIB, wraps_at_8_gib);
	run(&v, 96);
	check_distance(&v, 8 * GIB, -(int64_t)(8 * GIB));
	tear_down(&v);
	set_up(&v, 12 * GIB, frozen_after_4_gib);
	run(&v, 96);
	check_distance(&v, 8 * GIB, -(int64_t)(4 * GIB));
	tear_down(&v);
}

static void every_wrong_byte_of_a_block_is_counted(void **state)
{
	const struct verify_span span = { 5 * GIB, 4096 };
	struct verify v;

	(void)state;
	set_up(&v, 8 * GIB, low_32_bits);
	assert_int_equal(verify_run(&v, VERIFY_INTO, &span, 1), 0);
	assert_in_range(v.bad, 4000, 4096); /* some bytes agree by chance */
	assert_int_equal(v.fault_count, 1);
	assert_int_equal(v.faults[0].length, 4096);
	assert_int_equal(v.faults[0].distance, -(int64_t)(4 * GIB));
	tear_down(&v);
}

/* A block across the line: its first half is right. */
static void only_the_wrong_part_of_a_block_is_named(void **state)
{
	const struct verify_span span = { 4 * GIB - 1001, 2000 };
	struct verify v;

	(void)state;
	set_up(&v, 8 * GIB, low_32_bits);
	for (int way = VERIFY_INTO; way < VERIFY_WAYS; way++) {
		assert_int_equal(verify_run(&v, (enum verify_way)way, &span, 1), 0);
		assert_int_equal(v.fault_count, 1);
		assert_int_equal(v.faults[0].offset, 4 * GIB);
		assert_int_equal(v.faults[0].length, 999);
		assert_int_equal(v.faults[0].kind, VERIFY_MOVED);
		assert_int_equal(v.faults[0].distance, -(int64_t)(4 * GIB));
		verify_release(&v);
	}
	tear_down(&v);
}

static uint64_t one_page_nowhere(uint64_t offset)
{
	return offset >= 8192 && offset < 12288 ? 3 * GIB + 12345 + offset : offset;
}

static void bytes_found_nowhere_are_lost_and_not_guessed(void **state)
{
	const struct verify_span span = { 8192, 4096 };
	struct verify v;

	(void)state;
	set_up(&v, 4 * GIB, one_page_nowhere);
	assert_int_equal(verify_run(&v, VERIFY_INTO, &span, 1), 0);
	assert_int_equal(v.fault_count, 1);
	assert_int_equal(v.faults[0].kind, VERIFY_LOST);
	verify_release(&v);
	assert_int_equal(verify_run(&v, VERIFY_OUT_OF, &span, 1), 0);
	assert_true(v.fault_count >= 1);
	assert_int_not_equal(v.faults[0].kind, VERIFY_MOVED);
	tear_down(&v);
}

static void spans_reach_the_last_byte_and_meet_at_2_gib(void **state)
{
	struct verify_spans spans;

	(void)state;
	assert_int_equal(verify_spans_make(&spans, 12 * GIB, IOVA, 1152, 65536), 0);
	assert_int_equal(spans.count, 1152);
	assert_int_equal(spans.tail_count, 6);
	for (size_t i = 0; i < spans.tail_count; i++)
		assert_int_equal(spans.tails[i].offset + spans.tails[i].length, 12 * GIB);
	assert_int_equal(spans.line_count, 5);
	for (size_t i = 1; i < spans.count; i++) {
		const struct verify_span *a = &spans.blocks[i - 1], *b = &spans.blocks[i];

		assert_true(i % 6 == 0 || b->offset == a->offset + 2 * GIB);
		assert_true(b->offset + b->length <= 12 * GIB);
	}
	verify_spans_free(&spans);
	assert_int_equal(verify_spans_make(&spans, 100, IOVA, 1152, 65536), 0);
	assert_int_equal(spans.count, 0);
	assert_int_equal(spans.tail_count, 2);
	verify_spans_free(&spans);
}

static void words_turn_back_into_their_offset(void **state)
{
	uint64_t offset, word;
	unsigned int round;

	(void)state;
	for (uint64_t at = 0; at < 1ULL << 48; at = at * 3 + 8 * 977) {
		pattern_fill(&word, at & ~7ULL, 8, (unsigned int)(at % PATTERN_ROUNDS));
		assert_true(pattern_origin(word, 1ULL << 48, &offset, &round));
		assert_int_equal(offset, at & ~7ULL);
		assert_int_equal(round, at % PATTERN_ROUNDS);
	}
	assert_false(pattern_origin(0x123456789abcdef0, 1ULL << 40, &offset, &round));
}

static bool hints_at(enum mrg_verdict predicted, bool raw, const char *words)
{
	const struct selftest_args args = { .raw = raw };
	const struct selftest_result result = { .wrong = 4096,
						.has_prediction = true,
						.predicted.verdict = predicted };

	return strstr(selftest_hint(&args, &result), words);
}

/* The same bytes are wrong; what one MR does on this kernel tells whose they are. */
static void where_one_mr_is_safe_the_program_is_pointed_at(void **state)
{
	(void)state;
	assert_true(hints_at(MRG_SAFE, true, "block walk is not the cause"));
	assert_true(hints_at(MRG_SAFE, true, "32-bit offsets in the program"));
	assert_true(hints_at(MRG_WRAPS, true, "not safe on this kernel"));
	assert_true(hints_at(MRG_SAFE, false, "Please report it"));
	assert_string_equal(distance_text(-(int64_t)(4 * GIB)).text, "X - 2^32");
	assert_string_equal(distance_text(8 * GIB).text, "X + 2^33");
}

/* Refused foretells nothing of wrong bytes, and here verbs did not refuse it. */
static void without_a_prediction_no_one_is_blamed(void **state)
{
	const struct selftest_args raw = { .raw = true };
	struct selftest_result none = { .wrong = 4096 };

	(void)state;
	assert_true(hints_at(MRG_HANGS, true, "not safe on this kernel"));
	assert_true(hints_at(MRG_VERDICT_UNKNOWN, true, "It is unknown whether"));
	assert_true(hints_at(MRG_REFUSED, true, "It is unknown whether"));
	assert_false(hints_at(MRG_REFUSED, true, "not safe on this kernel"));
	assert_non_null(strstr(selftest_hint(&raw, &none), "It is unknown whether"));
	assert_null(strstr(selftest_hint(&raw, &none), "is not the cause"));
}

static void a_handle_without_a_plan_has_no_prediction(void **state)
{
	const struct mrg_plan_opts opts = { .size = sizeof(opts),
					    .iova = 0x700000000000,
					    .length = GIB };
	struct selftest_result result = { 0 };
	struct mrg_plan *plan;

	(void)state;
	assert_int_equal(mrg_plan_make(NULL, 0, &opts, &plan), 0);
	selftest_note_plan(&result, plan);
	assert_true(result.has_prediction);
	assert_int_equal(result.predicted.verdict, MRG_SAFE);
	mrg_plan_free(plan);
	selftest_note_plan(&result, NULL);
	assert_false(result.has_prediction);
	assert_int_equal(result.strategy, MRG_STRATEGY_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_right_buffer_is_clean),
		cmocka_unit_test(offsets_kept_in_32_bits_are_named_by_their_distance),
		cmocka_unit_test(wraps_of_8_gib_and_after_a_right_block_are_told_apart),
		cmocka_unit_test(every_wrong_byte_of_a_block_is_counted),
		cmocka_unit_test(only_the_wrong_part_of_a_block_is_named),
		cmocka_unit_test(bytes_found_nowhere_are_lost_and_not_guessed),
		cmocka_unit_test(spans_reach_the_last_byte_and_meet_at_2_gib),
		cmocka_unit_test(words_turn_back_into_their_offset),
		cmocka_unit_test(where_one_mr_is_safe_the_program_is_pointed_at),
		cmocka_unit_test(without_a_prediction_no_one_is_blamed),
		cmocka_unit_test(a_handle_without_a_plan_has_no_prediction),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("byte verification", tests, NULL, NULL);
}
