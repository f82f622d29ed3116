/* SPDX-License-Identifier: MIT */
/* Tokens and messages that come from anywhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "share/message.h"

#define VERSION_AT 8 /* offsets in the encoded form */
#define BYTES_AT 12
#define CHECK_AT 16
#define KIND_AT 32
#define RANGE_AT 24 /* the first part */

static struct share_run runs[] = { { 2 << 20, 3 }, { 20 << 20, 1 } };
static uint8_t *bytes;
static size_t length;
static struct mrg_error error;

static struct share_token example(void)
{
	struct share_token token = {
		.kind = SHARE_CUDA_VMM,
		.generation = 0x1122334455667788,
		.secret = "sixteen bytes..",
		.boot = "boot",
		.device = "device",
		.netns = 4026531840,
		.owner = { .uid = 1000, .userns = 4026531837, .timens = 4026531834, .start = 77 },
		.addr = 0x700000000000,
		.skip = 4096,
		.length = 25ull << 20,
		.name = "\0mrguard-x",
		.name_length = 10,
		.runs = runs,
		.run_count = 2,
	};

	return token;
}

static void encode(const struct share_token *token)
{
	void *out;
	ssize_t n = share_token_encode(token, &out);

	assert_true(n > 0);
	free(bytes);
	bytes = out;
	length = (size_t)n;
}

/* The sum is made right again, so that what follows it is looked at. */
static void seal(void)
{
	uint32_t crc;

	memset(bytes + CHECK_AT, 0, 4);
	crc = (uint32_t)crc32_z(0, bytes, length);
	memcpy(bytes + CHECK_AT, &crc, 4);
}

static int decode(void)
{
	struct share_token out;
	/* An allocation of the exact size: reading past it is seen. */
	uint8_t *exact = malloc(length ? length : 1);
	int ret;

	memcpy(exact, bytes, length);
	memset(&out, 0x5a, sizeof(out));
	ret = share_token_decode(exact, length, &out, &error);
	free(exact);
	if (!ret)
		free(out.runs);
	else
		assert_int_equal(out.length, 0x5a5a5a5a5a5a5a5a);
	return ret;
}

static void a_token_comes_back_as_it_was(void **state)
{
	struct share_token token = example(), out;

	(void)state;
	encode(&token);
	assert_int_equal(share_token_decode(bytes, length, &out, &error), 0);
	assert_int_equal(out.kind, token.kind);
	assert_int_equal(out.generation, token.generation);
	assert_memory_equal(out.secret, token.secret, sizeof(out.secret));
	assert_memory_equal(out.boot, token.boot, sizeof(out.boot));
	assert_memory_equal(out.device, token.device, sizeof(out.device));
	assert_int_equal(out.netns, token.netns);
	assert_memory_equal(&out.owner, &token.owner, sizeof(out.owner));
	assert_int_equal(out.addr, token.addr);
	assert_int_equal(out.skip, token.skip);
	assert_int_equal(out.length, token.length);
	assert_int_equal(out.name_length, 10);
	assert_memory_equal(out.name, token.name, 10);
	assert_int_equal(out.chunks, 4);
	assert_int_equal(out.bytes, 26ull << 20);
	free(out.runs);
}

static void each_shorter_piece_is_refused(void **state)
{
	struct share_token token = example();
	size_t whole;

	(void)state;
	token.skip = 0;
	encode(&token);
	whole = length;
	for (length = 0; length < whole; length++)
		assert_int_equal(decode(), -EBADMSG);
	assert_int_equal(decode(), 0);
}

static void a_longer_one_is_refused(void **state)
{
	struct share_token token = example();

	(void)state;
	token.skip = 0;
	encode(&token);
	bytes = realloc(bytes, length + 16);
	memset(bytes + length, 0, 16);
	length += 16;
	assert_int_equal(decode(), -EBADMSG);
}

static void any_flipped_bit_is_seen(void **state)
{
	struct share_token token = example();
	int ret;

	(void)state;
	token.skip = 0;
	encode(&token);
	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ret = decode();
		assert_true(ret == -EBADMSG || ret == -EPROTONOSUPPORT);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(decode(), 0);
}

static void another_version_is_named(void **state)
{
	struct share_token token = example();

	(void)state;
	encode(&token);
	bytes[VERSION_AT] = 1;
	assert_int_equal(decode(), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "version 1"));
	/* Also where nothing else fits what we know. */
	length = 40;
	assert_int_equal(decode(), -EPROTONOSUPPORT);
}

/* A part more, at the end, and the sums right again. */
static void append(uint32_t type, size_t value, size_t present)
{
	struct share_part part = { type, (uint32_t)value };
	uint32_t whole;

	bytes = realloc(bytes, length + sizeof(part) + present);
	memcpy(bytes + length, &part, sizeof(part));
	memset(bytes + length + sizeof(part), 0x77, present);
	length += sizeof(part) + present;
	whole = (uint32_t)length;
	memcpy(bytes + BYTES_AT, &whole, sizeof(whole));
	seal();
}

static void a_part_that_may_be_skipped_is_skipped(void **state)
{
	struct share_token token = example();

	(void)state;
	encode(&token);
	append(1233, 0, 0);
	append(1234, 13, 16);
	assert_int_equal(decode(), 0);
}

static void an_unknown_part_that_must_be_understood_is_named(void **state)
{
	struct share_token token = example();

	(void)state;
	encode(&token);
	append(SHARE_PART_MUST | 1234, 8, 8);
	assert_int_equal(decode(), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "part of type 1234"));
}

static void parts_that_are_cut_or_twice_or_missing_are_refused(void **state)
{
	struct share_token token = example();
	uint32_t skip_it = 77;

	(void)state;
	encode(&token);
	append(1234, 17, 16);
	assert_int_equal(decode(), -EBADMSG);
	encode(&token);
	append(1234, UINT32_MAX, 16);
	assert_int_equal(decode(), -EBADMSG);
	encode(&token);
	append(4, 24, 24);
	assert_int_equal(decode(), -EBADMSG);
	assert_non_null(strstr(error.cause, "twice"));
	encode(&token);
	memcpy(bytes + RANGE_AT, &skip_it, sizeof(skip_it));
	seal();
	assert_int_equal(decode(), -EBADMSG);
	assert_non_null(strstr(error.cause, "lacks a part"));
}

static void an_unknown_kind_is_named(void **state)
{
	struct share_token token = example();

	(void)state;
	encode(&token);
	bytes[KIND_AT] = 77;
	seal();
	assert_int_equal(decode(), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "kind 77"));
}

static void foreign_bytes_are_no_token(void **state)
{
	uint8_t zeros[256] = { 0 };
	char text[] = "{\"shm_name\": \"/nccl-0\", \"size\": 0}";
	struct share_token out;

	(void)state;
	assert_int_equal(share_token_decode(zeros, sizeof(zeros), &out, &error), -EBADMSG);
	assert_int_equal(share_token_decode(text, sizeof(text), &out, &error), -EBADMSG);
	assert_int_equal(share_token_decode(text, 0, &out, &error), -EBADMSG);
	assert_non_null(strstr(error.cause, "0 bytes are not a token"));
}

static void refused_layout(struct share_token *token)
{
	encode(token);
	assert_int_equal(decode(), -EBADMSG);
}

static void layouts_that_do_not_hold_the_range_are_refused(void **state)
{
	struct share_token token = example();
	struct share_run wild[2];

	(void)state;
	token.runs = wild;
#define WITH(r0, r1)                            \
	do {                                    \
		wild[0] = (struct share_run)r0; \
		wild[1] = (struct share_run)r1; \
	} while (0)
#define R(size, count) { size, count }
	WITH(R(4096, 1), R(4096, 1));
	token.length = 8192;
	token.skip = 0;
	encode(&token);
	assert_int_equal(decode(), 0);
	token.length = 8193;
	refused_layout(&token);
	token.length = 0;
	refused_layout(&token);
	token.length = 1;
	token.skip = 4096;
	refused_layout(&token);
	token.skip = UINT64_MAX;
	refused_layout(&token);
	token.skip = 0;
	WITH(R(0, 1), R(4096, 1));
	refused_layout(&token);
	WITH(R(4096, 0), R(4096, 1));
	refused_layout(&token);
	WITH(R(4097, 1), R(4096, 1));
	refused_layout(&token);
	WITH(R(1ull << 63, 2), R(4096, 1));
	refused_layout(&token);
	WITH(R(1ull << 45, 1), R(1ull << 45, 2));
	refused_layout(&token);
	WITH(R(4096, 1u << 20), R(4096, 1));
	refused_layout(&token);
	WITH(R(4096, UINT64_MAX), R(4096, 1));
	refused_layout(&token);
	token.run_count = 0;
	refused_layout(&token);
}

static void an_ipc_handle_has_one_allocation(void **state)
{
	struct share_token token = example();
	struct share_run one = { 5000, 1 };

	(void)state;
	token.kind = SHARE_CUDA_IPC;
	token.skip = 0;
	token.length = 5000;
	token.runs = &one;
	token.run_count = 1;
	encode(&token);
	assert_int_equal(decode(), 0);
	one.count = 2;
	refused_layout(&token);
}

static void refused_name(const char *name, size_t name_length)
{
	struct share_token token = example();

	token.skip = 0;
	memset(token.name, 0, sizeof(token.name));
	memcpy(token.name, name, name_length);
	token.name_length = name_length;
	encode(&token);
	assert_int_equal(decode(), -EBADMSG);
}

static void addresses_that_are_none_are_refused(void **state)
{
	(void)state;
	refused_name("", 0);
	refused_name("", 1);
	refused_name("relative", 9);
	refused_name("/a\0b", 5);
	refused_name("/no-end", 7);
}

static void message_sizes_and_directions_are_checked(void **state)
{
	union share_message m;

	(void)state;
	memset(&m, 0, sizeof(m));
	assert_int_equal(share_check_message(&m, 4, true, &error), -EPROTO);
	assert_int_equal(share_check_message(&m, sizeof(m), true, &error), -EPROTO);
	share_head(&m.head, SHARE_REQUEST);
	m.request.batch = 1;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true, &error), SHARE_REQUEST);
	assert_int_equal(share_check_message(&m, sizeof(m.request) - 1, true, &error), -EPROTO);
	assert_int_equal(share_check_message(&m, sizeof(m.request), false, &error), -EPROTO);
	m.request.batch = SHARE_MAX_FDS + 1;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true, &error), -EPROTO);
	m.head.version++;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true, &error),
			 -EPROTONOSUPPORT);
	share_head(&m.head, SHARE_CHUNKS);
	m.chunks.count = SHARE_MAX_FDS + 1;
	assert_int_equal(share_check_message(&m, sizeof(m.chunks), false, &error), -EPROTO);
	m.chunks.count = 0;
	assert_int_equal(share_check_message(&m, 16, false, &error), -EPROTO);
	share_head(&m.head, SHARE_ERROR);
	memset(m.failure.cause, 'x', sizeof(m.failure.cause));
	m.failure.code = 1;
	assert_int_equal(share_check_message(&m, sizeof(m.failure), false, &error), -EPROTO);
	m.failure.code = -ESTALE;
	assert_int_equal(share_check_message(&m, sizeof(m.failure), false, &error), SHARE_ERROR);
	assert_int_equal(strlen(m.failure.cause), SHARE_TEXT - 1);
}

static void a_message_may_end_with_parts(void **state)
{
	union share_message m = { .request = { .batch = 1 } };
	struct share_part part = { 9, 3 };
	char *end = m.room + sizeof(m.request);

	(void)state;
	share_head(&m.head, SHARE_REQUEST);
	memcpy(end, &part, sizeof(part));
	assert_int_equal(share_check_message(&m, sizeof(m.request) + 16, true, &error),
			 SHARE_REQUEST);
	assert_int_equal(share_check_message(&m, sizeof(m.request) + 15, true, &error), -EPROTO);
	assert_int_equal(share_check_message(&m, sizeof(m.request) + 4, true, &error), -EPROTO);
	part.type |= SHARE_PART_MUST;
	memcpy(end, &part, sizeof(part));
	assert_int_equal(share_check_message(&m, sizeof(m.request) + 16, true, &error),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "part of type 9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_comes_back_as_it_was),
		cmocka_unit_test(each_shorter_piece_is_refused),
		cmocka_unit_test(a_longer_one_is_refused),
		cmocka_unit_test(any_flipped_bit_is_seen),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(a_part_that_may_be_skipped_is_skipped),
		cmocka_unit_test(an_unknown_part_that_must_be_understood_is_named),
		cmocka_unit_test(parts_that_are_cut_or_twice_or_missing_are_refused),
		cmocka_unit_test(an_unknown_kind_is_named),
		cmocka_unit_test(foreign_bytes_are_no_token),
		cmocka_unit_test(layouts_that_do_not_hold_the_range_are_refused),
		cmocka_unit_test(an_ipc_handle_has_one_allocation),
		cmocka_unit_test(addresses_that_are_none_are_refused),
		cmocka_unit_test(message_sizes_and_directions_are_checked),
		cmocka_unit_test(a_message_may_end_with_parts),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests_name("share token", tests, NULL, NULL);
	free(bytes);
	return failed;
}
