/* SPDX-License-Identifier: MIT */
/* Look-up: held against a naive one, on pieces that no arithmetic guesses. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "region/mr.h"

#define ADDR 0x700012345000ULL
#define MAX_PIECES 256

static uint64_t random_state = 88172645463325252ULL;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

/* A handle as registration leaves it, without MRs behind. */
static struct mrg_mr *make(const uint64_t *lengths, size_t count)
{
	struct mrg_mr *mr = calloc(1, sizeof(*mr));
	uint64_t at = 0;

	mr->addr = ADDR;
	mr->count = count;
	mr->pieces = calloc(count, sizeof(*mr->pieces));
	for (size_t i = 0; i < count; i++) {
		mr->pieces[i] = (struct region_piece){ .start = at,
						       .length = lengths[i],
						       .delta = ((i + 1) << 48) - at,
						       .lkey = (uint32_t)i + 1,
						       .rkey = (uint32_t)i + 0x1000 };
		at += lengths[i];
	}
	mr->length = at;
	region_mr_index(mr);
	return mr;
}

static void release(struct mrg_mr *mr)
{
	free(mr->pieces);
	free(mr);
}

static size_t piece_of(const struct mrg_mr *mr, uint64_t offset)
{
	size_t i = 0;

	while (mr->pieces[i].start + mr->pieces[i].length <= offset)
		i++;
	return i;
}

static void check_range(const struct mrg_mr *mr, uint64_t offset, uint64_t length)
{
	struct mrg_seg segs[MAX_PIECES];
	ssize_t n = mrg_keys(mr, ADDR + offset, length, segs, MAX_PIECES);
	size_t i = piece_of(mr, offset);

	assert_int_equal(n, piece_of(mr, offset + length - 1) - i + 1);
	assert_int_equal(mrg_keys(mr, ADDR + offset, length, NULL, 0), n);
	for (ssize_t s = 0; s < n; s++, i++) {
		uint64_t end = mr->pieces[i].start + mr->pieces[i].length;
		uint64_t part = end - offset < length ? end - offset : length;

		assert_int_equal(segs[s].length, part);
		assert_int_equal(segs[s].lkey, i + 1);
		assert_int_equal(segs[s].rkey, i + 0x1000);
		assert_int_equal(segs[s].wire, ((i + 1) << 48) + offset - mr->pieces[i].start);
		offset += part;
		length -= part;
	}
	assert_int_equal(length, 0);
}

static void check_handle(const struct mrg_mr *mr)
{
	for (size_t i = 0; i < mr->count; i++) {
		uint64_t start = mr->pieces[i].start, end = start + mr->pieces[i].length;

		check_range(mr, start, 1);
		check_range(mr, end - 1, 1);
		if (end < mr->length)
			check_range(mr, end - 1, 2);
	}
	check_range(mr, 0, mr->length);
	for (int i = 0; i < 200; i++) {
		uint64_t offset = random_below(mr->length);

		check_range(mr, offset, 1 + random_below(mr->length - offset));
	}
}

static void windows_and_irregular_pieces_agree_with_a_naive_look_up(void **state)
{
	uint64_t lengths[MAX_PIECES];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		size_t count = 1 + (size_t)random_below(100);
		uint64_t step = (1 + random_below(1 << 20)) << 12;
		struct mrg_mr *mr;

		for (size_t i = 0; i < count; i++)
			lengths[i] = round % 2 ? step :
						 (1 + random_below(1 << 20)) << random_below(14);
		if (round % 4 == 1) {
			lengths[0] = 1 + random_below(step);
			lengths[count - 1] = 1 + random_below(step);
		}
		mr = make(lengths, count);
		check_handle(mr);
		release(mr);
	}
}

static void no_key_for_a_byte_outside(void **state)
{
	const uint64_t lengths[] = { 4096, 8192, 8192, 100 };
	struct mrg_mr *mr = make(lengths, 4);
	const uint64_t end = 4096 + 2 * 8192 + 100;
	struct mrg_seg segs[8] = { { .wire = 1 } };

	(void)state;
	assert_int_equal(mrg_keys(mr, ADDR, 0, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR - 1, 1, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR - 1, 2, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR + end, 1, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR + end - 1, 2, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR, end + 1, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR + 5, UINT64_MAX, segs, 8), -ERANGE);
	assert_int_equal(mrg_keys(mr, ADDR + 5, UINT64_MAX - 4, segs, 8), -ERANGE);
	assert_int_equal(segs[0].wire, 1);
	release(mr);
}

static void too_little_room_writes_nothing_and_tells_the_need(void **state)
{
	const uint64_t lengths[] = { 4096, 4096, 4096 };
	struct mrg_mr *mr = make(lengths, 3);
	struct mrg_seg segs[3] = { { .wire = 1 } };

	(void)state;
	assert_int_equal(mrg_keys(mr, ADDR, 3 * 4096, segs, 2), 3);
	assert_int_equal(segs[0].wire, 1);
	assert_int_equal(mrg_keys(mr, ADDR, 3 * 4096, segs, 3), 3);
	assert_int_not_equal(segs[0].wire, 1);
	release(mr);
}

struct reader {
	const struct mrg_mr *mr;
	uint64_t seed;
	uint64_t wrong;
};

static void *read_keys(void *arg)
{
	struct reader *r = arg;
	uint64_t x = r->seed;

	for (int i = 0; i < 100000; i++) {
		struct mrg_seg segs[4];
		uint64_t offset;
		ssize_t n;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		offset = (x >> 20) % (r->mr->length - 65536);
		n = mrg_keys(r->mr, ADDR + offset, 65536, segs, 4);
		if (n < 1 || segs[0].lkey != piece_of(r->mr, offset) + 1)
			r->wrong++;
	}
	return NULL;
}

/* Run under ThreadSanitizer too: a lock-free reader must not write. */
static void many_threads_may_look_up_at_once(void **state)
{
	uint64_t lengths[64];
	struct reader readers[8];
	pthread_t threads[8];
	struct mrg_mr *mr;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		lengths[i] = 1ULL << 31;
	mr = make(lengths, 64);
	for (size_t i = 0; i < 8; i++) {
		readers[i] = (struct reader){ .mr = mr, .seed = i };
		pthread_create(&threads[i], NULL, read_keys, &readers[i]);
	}
	for (size_t i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(readers[i].wrong, 0);
	}
	release(mr);
}

static size_t random_segs(struct mrg_seg *segs, uint64_t length)
{
	size_t n = 0;

	for (uint64_t at = 0; at < length; at += segs[n++].length) {
		uint64_t left = length - at;

		segs[n] = (struct mrg_seg){ .wire = at * 3,
					    .lkey = (uint32_t)n,
					    .rkey = (uint32_t)n,
					    .length = n == 30 ? left : 1 + random_below(left) };
	}
	return n;
}

static void pairs_cover_the_transfer_and_cross_no_line(void **state)
{
	(void)state;
	for (int round = 0; round < 5000; round++) {
		struct mrg_seg a[32], b[32];
		struct mrg_seg_pair pairs[64];
		uint64_t length = 1 + random_below(1ULL << 34), done = 0;
		size_t na = random_segs(a, length), nb = random_segs(b, length);
		ssize_t n = mrg_seg_pairs(a, na, b, nb, pairs, 64);

		assert_in_range(n, na > nb ? na : nb, na + nb - 1);
		for (ssize_t i = 0; i < n; i++) {
			const struct mrg_seg *l = &pairs[i].local, *r = &pairs[i].remote;

			assert_int_equal(l->length, r->length);
			assert_true(l->length > 0);
			assert_true(l->wire - a[l->lkey].wire + l->length <= a[l->lkey].length);
			assert_true(r->wire - b[r->rkey].wire + r->length <= b[r->rkey].length);
			assert_int_equal(a[l->lkey].wire / 3 + (l->wire - a[l->lkey].wire), done);
			assert_int_equal(b[r->rkey].wire / 3 + (r->wire - b[r->rkey].wire), done);
			done += l->length;
		}
		assert_int_equal(done, length);
		assert_int_equal(mrg_seg_pairs(a, na, b, nb, NULL, 0), n);
	}
}

static void pairs_of_unequal_sides_are_refused(void **state)
{
	struct mrg_seg a = { .length = 4096 }, b = { .length = 4095 }, zero = { 0 };
	struct mrg_seg_pair pair;

	(void)state;
	assert_int_equal(mrg_seg_pairs(&a, 1, &b, 1, &pair, 1), -EINVAL);
	assert_int_equal(mrg_seg_pairs(&a, 1, &zero, 1, &pair, 1), -EINVAL);
	assert_int_equal(mrg_seg_pairs(&zero, 1, &zero, 1, &pair, 1), -EINVAL);
	assert_int_equal(mrg_seg_pairs(&a, 1, &a, 1, &pair, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_and_irregular_pieces_agree_with_a_naive_look_up),
		cmocka_unit_test(no_key_for_a_byte_outside),
		cmocka_unit_test(too_little_room_writes_nothing_and_tells_the_need),
		cmocka_unit_test(many_threads_may_look_up_at_once),
		cmocka_unit_test(pairs_cover_the_transfer_and_cross_no_line),
		cmocka_unit_test(pairs_of_unequal_sides_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("key look-up", tests, NULL, NULL);
}
