/* SPDX-License-Identifier: MIT */
/* Descriptors that come from anywhere. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "share/wire.h"

#define VERSION_AT 8 /* offsets in the encoded form */
#define CHECK_AT 16
#define KIND_AT 20

static struct share_run runs[] = { { 2 << 20, 3 }, { 20 << 20, 1 } };
static uint8_t *bytes;
static size_t length;
static struct mrg_error error;

static struct share_descriptor example(void)
{
	struct share_descriptor desc = {
		.kind = SHARE_CUDA_VMM,
		.generation = 0x1122334455667788,
		.token = "sixteen bytes..",
		.boot = "boot",
		.device = "device",
		.netns = 4026531840,
		.addr = 0x700000000000,
		.skip = 4096,
		.length = 25ull << 20,
		.name = "\0mrguard-x",
		.name_length = 10,
		.runs = runs,
		.run_count = 2,
	};

	return desc;
}

static void encode(const struct share_descriptor *desc)
{
	void *out;
	ssize_t n = share_encode(desc, &out);

	assert_true(n > 0);
	free(bytes);
	bytes = out;
	length = (size_t)n;
}

/* The sum is made right again, so that what follows it is looked at. */
static void seal(void)
{
	uint32_t crc = ~0u;

	memset(bytes + CHECK_AT, 0, 4);
	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	crc = ~crc;
	memcpy(bytes + CHECK_AT, &crc, 4);
}

static int decode(void)
{
	struct share_descriptor out;
	/* An allocation of the exact size: reading past it is seen. */
	uint8_t *exact = malloc(length ? length : 1);
	int ret;

	memcpy(exact, bytes, length);
	memset(&out, 0x5a, sizeof(out));
	ret = share_decode(exact, length, &out, &error);
	free(exact);
	if (!ret)
		free(out.runs);
	else
		assert_int_equal(out.length, 0x5a5a5a5a5a5a5a5a);
	return ret;
}

static void a_descriptor_comes_back_as_it_was(void **state)
{
	struct share_descriptor desc = example(), out;

	(void)state;
	encode(&desc);
	assert_int_equal(share_decode(bytes, length, &out, &error), 0);
	assert_int_equal(out.kind, desc.kind);
	assert_int_equal(out.generation, desc.generation);
	assert_memory_equal(out.token, desc.token, sizeof(out.token));
	assert_memory_equal(out.boot, desc.boot, sizeof(out.boot));
	assert_memory_equal(out.device, desc.device, sizeof(out.device));
	assert_int_equal(out.netns, desc.netns);
	assert_int_equal(out.addr, desc.addr);
	assert_int_equal(out.skip, desc.skip);
	assert_int_equal(out.length, desc.length);
	assert_int_equal(out.name_length, 10);
	assert_memory_equal(out.name, desc.name, 10);
	assert_int_equal(out.chunks, 4);
	assert_int_equal(out.bytes, 26ull << 20);
	free(out.runs);
}

static void each_shorter_piece_is_refused(void **state)
{
	struct share_descriptor desc = example();
	size_t whole;

	(void)state;
	desc.skip = 0;
	encode(&desc);
	whole = length;
	for (length = 0; length < whole; length++)
		assert_int_equal(decode(), -EBADMSG);
	assert_int_equal(decode(), 0);
}

static void a_longer_one_is_refused(void **state)
{
	struct share_descriptor desc = example();

	(void)state;
	desc.skip = 0;
	encode(&desc);
	bytes = realloc(bytes, length + 16);
	memset(bytes + length, 0, 16);
	length += 16;
	assert_int_equal(decode(), -EBADMSG);
}

static void any_flipped_bit_is_seen(void **state)
{
	struct share_descriptor desc = example();
	int ret;

	(void)state;
	desc.skip = 0;
	encode(&desc);
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
	struct share_descriptor desc = example();

	(void)state;
	encode(&desc);
	bytes[VERSION_AT] = 2;
	assert_int_equal(decode(), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "version 2"));
	/* Also where nothing else fits what we know. */
	length = 40;
	assert_int_equal(decode(), -EPROTONOSUPPORT);
}

static void an_unknown_kind_is_named(void **state)
{
	struct share_descriptor desc = example();

	(void)state;
	encode(&desc);
	bytes[KIND_AT] = 77;
	seal();
	assert_int_equal(decode(), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "kind 77"));
}

static void foreign_bytes_are_no_descriptor(void **state)
{
	uint8_t zeros[256] = { 0 };
	char text[] = "{\"shm_name\": \"/nccl-0\", \"size\": 0}";
	struct share_descriptor out;

	(void)state;
	assert_int_equal(share_decode(zeros, sizeof(zeros), &out, &error), -EBADMSG);
	assert_int_equal(share_decode(text, sizeof(text), &out, &error), -EBADMSG);
	assert_int_equal(share_decode(text, 0, &out, &error), -EBADMSG);
	assert_non_null(strstr(error.cause, "0 bytes are no descriptor"));
}

static void refused_layout(struct share_descriptor *desc)
{
	encode(desc);
	assert_int_equal(decode(), -EBADMSG);
}

static void layouts_that_do_not_hold_the_range_are_refused(void **state)
{
	struct share_descriptor desc = example();
	struct share_run wild[2];

	(void)state;
	desc.runs = wild;
#define WITH(r0, r1)                            \
	do {                                    \
		wild[0] = (struct share_run)r0; \
		wild[1] = (struct share_run)r1; \
	} while (0)
#define R(size, count) { size, count }
	WITH(R(4096, 1), R(4096, 1));
	desc.length = 8192;
	desc.skip = 0;
	encode(&desc);
	assert_int_equal(decode(), 0);
	desc.length = 8193;
	refused_layout(&desc);
	desc.length = 0;
	refused_layout(&desc);
	desc.length = 1;
	desc.skip = 4096;
	refused_layout(&desc);
	desc.skip = UINT64_MAX;
	refused_layout(&desc);
	desc.skip = 0;
	WITH(R(0, 1), R(4096, 1));
	refused_layout(&desc);
	WITH(R(4096, 0), R(4096, 1));
	refused_layout(&desc);
	WITH(R(4097, 1), R(4096, 1));
	refused_layout(&desc);
	WITH(R(1ull << 63, 2), R(4096, 1));
	refused_layout(&desc);
	WITH(R(1ull << 45, 1), R(1ull << 45, 2));
	refused_layout(&desc);
	WITH(R(4096, 1u << 20), R(4096, 1));
	refused_layout(&desc);
	WITH(R(4096, UINT64_MAX), R(4096, 1));
	refused_layout(&desc);
	desc.run_count = 0;
	refused_layout(&desc);
}

static void an_ipc_handle_has_one_allocation(void **state)
{
	struct share_descriptor desc = example();
	struct share_run one = { 5000, 1 };

	(void)state;
	desc.kind = SHARE_CUDA_IPC;
	desc.skip = 0;
	desc.length = 5000;
	desc.runs = &one;
	desc.run_count = 1;
	encode(&desc);
	assert_int_equal(decode(), 0);
	one.count = 2;
	refused_layout(&desc);
}

static void refused_name(const char *name, size_t name_length)
{
	struct share_descriptor desc = example();

	desc.skip = 0;
	memset(desc.name, 0, sizeof(desc.name));
	memcpy(desc.name, name, name_length);
	desc.name_length = name_length;
	encode(&desc);
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
	assert_int_equal(share_check_message(&m, 4, true), -EPROTO);
	assert_int_equal(share_check_message(&m, sizeof(m), true), -EPROTO);
	share_head(&m.head, SHARE_REQUEST);
	m.request.batch = 1;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true), SHARE_REQUEST);
	assert_int_equal(share_check_message(&m, sizeof(m.request) - 1, true), -EPROTO);
	assert_int_equal(share_check_message(&m, sizeof(m.request), false), -EPROTO);
	m.request.batch = SHARE_MAX_FDS + 1;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true), -EPROTO);
	m.head.version++;
	assert_int_equal(share_check_message(&m, sizeof(m.request), true), -EPROTONOSUPPORT);
	share_head(&m.head, SHARE_CHUNKS);
	m.chunks.count = SHARE_MAX_FDS + 1;
	assert_int_equal(share_check_message(&m, sizeof(m.chunks), false), -EPROTO);
	m.chunks.count = 0;
	assert_int_equal(share_check_message(&m, 16, false), -EPROTO);
	share_head(&m.head, SHARE_ERROR);
	memset(m.failure.cause, 'x', sizeof(m.failure.cause));
	m.failure.code = 1;
	assert_int_equal(share_check_message(&m, sizeof(m.failure), false), -EPROTO);
	m.failure.code = -ESTALE;
	assert_int_equal(share_check_message(&m, sizeof(m.failure), false), SHARE_ERROR);
	assert_int_equal(strlen(m.failure.cause), SHARE_TEXT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_comes_back_as_it_was),
		cmocka_unit_test(each_shorter_piece_is_refused),
		cmocka_unit_test(a_longer_one_is_refused),
		cmocka_unit_test(any_flipped_bit_is_seen),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(an_unknown_kind_is_named),
		cmocka_unit_test(foreign_bytes_are_no_descriptor),
		cmocka_unit_test(layouts_that_do_not_hold_the_range_are_refused),
		cmocka_unit_test(an_ipc_handle_has_one_allocation),
		cmocka_unit_test(addresses_that_are_none_are_refused),
		cmocka_unit_test(message_sizes_and_directions_are_checked),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests_name("share descriptor", tests, NULL, NULL);
	free(bytes);
	return failed;
}
