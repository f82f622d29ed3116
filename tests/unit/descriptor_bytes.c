/* SPDX-License-Identifier: MIT */
/* Descriptors: what is written can be read, and nothing else can. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

#include <mrguard/descriptor.h>

#include "registry/descriptor_wire.h"

#define ADDR 0x7f0000001000ull
#define LENGTH 0x300000000ull

static struct mrg_error error;

/* Two devices, one of which has three MRs, and two shares. */
static struct mrg_desc_piece whole[] = {
	{ .length = LENGTH, .wire = ADDR, .rkey = 0x101 },
};
static struct mrg_desc_piece parts[] = {
	{ .length = 0x80000000, .wire = 0, .rkey = 0x201 },
	{ .start = 0x80000000, .length = 0x80000000, .wire = 0x1000, .rkey = 0x202 },
	{ .start = 0x100000000,
	  .length = 0x200000000,
	  .wire = UINT64_MAX - 0x1ffffffff,
	  .rkey = 0x203 },
};
static struct mrg_desc_device devices[] = {
	{ .name = "mlx5_0",
	  .guid = 1,
	  .gid = { [10] = 0xff, [11] = 0xff, 10, 1, 2, 3 },
	  .gid_type = MRG_GID_ROCE_V2,
	  .port = 1,
	  .link_layer = 2,
	  .access = 7,
	  .pieces = whole,
	  .count = 1 },
	{ .name = "mlx5_1",
	  .guid = 2,
	  .lid = 17,
	  .port = 2,
	  .link_layer = 1,
	  .access = 7,
	  .pieces = parts,
	  .count = 3 },
};
static struct mrg_desc_share shares[] = {
	{ .protocol = MRG_PROTO_CUDA_VMM, .bytes = (uint8_t *)"token", .length = 5 },
	{ .protocol = MRG_PROTO_HOST_SHM, .bytes = (uint8_t *)"other", .length = 5 },
};

static struct mrg_descriptor sample(void)
{
	return (struct mrg_descriptor){
		.addr = ADDR,
		.length = LENGTH,
		.boot = { 1, 2, 3 },
		.host = "gpu1",
		.instance = 77,
		.generation = 5,
		.devices = devices,
		.device_count = 2,
		.shares = shares,
		.share_count = 2,
	};
}

static size_t write_sample(uint8_t **bytes)
{
	struct mrg_descriptor desc = sample();
	void *out;
	ssize_t length = mrg_descriptor_encode(&desc, &out);

	assert_true(length > 0);
	*bytes = out;
	return (size_t)length;
}

static int decode(const void *bytes, size_t length)
{
	struct mrg_descriptor desc;
	int ret;

	memset(&error, 0, sizeof(error));
	ret = mrg_descriptor_decode(bytes, length, &desc, &error);
	assert_int_equal(error.code, ret);
	if (ret)
		assert_true(error.cause[0]);
	else
		mrg_descriptor_release(&desc);
	return ret;
}

/* As a writer of the same bytes would have put it. */
static void seal(uint8_t *bytes, size_t length)
{
	uint32_t check;

	memset(bytes + DESC_CHECK_AT, 0, 4);
	check = (uint32_t)crc32_z(0, bytes, length);
	memcpy(bytes + DESC_CHECK_AT, &check, 4);
}

static void what_is_written_is_read(void **state)
{
	struct mrg_descriptor desc;
	uint8_t *bytes;
	size_t length = write_sample(&bytes);

	(void)state;
	assert_int_equal(mrg_descriptor_decode(bytes, length, &desc, NULL), 0);
	assert_int_equal(desc.addr, ADDR);
	assert_int_equal(desc.length, LENGTH);
	assert_string_equal(desc.host, "gpu1");
	assert_int_equal(desc.instance, 77);
	assert_int_equal(desc.generation, 5);
	assert_int_equal(desc.device_count, 2);
	assert_string_equal(desc.devices[1].name, "mlx5_1");
	assert_int_equal(desc.devices[1].lid, 17);
	assert_int_equal(desc.devices[1].count, 3);
	assert_memory_equal(desc.devices[1].pieces, parts, sizeof(parts));
	assert_memory_equal(desc.devices[0].gid, devices[0].gid, 16);
	assert_int_equal(desc.share_count, 2);
	assert_memory_equal(desc.shares[1].bytes, "other", 5);
	assert_int_equal(mrg_descriptor_protocols(&desc),
			 MRG_PROTO_BIT(MRG_PROTO_VERBS) | MRG_PROTO_BIT(MRG_PROTO_CUDA_VMM) |
				 MRG_PROTO_BIT(MRG_PROTO_HOST_SHM));
	assert_null(mrg_descriptor_share(&desc, MRG_PROTO_HIP_IPC));
	mrg_descriptor_release(&desc);
	free(bytes);
}

static void each_flipped_bit_is_found(void **state)
{
	uint8_t *bytes;
	size_t length = write_sample(&bytes);

	(void)state;
	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(decode(bytes, length) < 0);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(decode(bytes, length), 0);
	free(bytes);
}

static void each_cut_is_found(void **state)
{
	uint8_t *bytes, *longer;
	size_t length = write_sample(&bytes);

	(void)state;
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(decode(bytes, cut), -EBADMSG);
	longer = calloc(1, length + 1);
	memcpy(longer, bytes, length);
	assert_int_equal(decode(longer, length + 1), -EBADMSG);
	free(longer);
	free(bytes);
}

static void an_unknown_version_is_refused_by_name(void **state)
{
	uint8_t *bytes;
	size_t length = write_sample(&bytes);

	(void)state;
	bytes[8] = 3;
	assert_int_equal(decode(bytes, length), -EPROTONOSUPPORT);
	assert_non_null(strstr(error.cause, "version 3"));
	free(bytes);
}

/* Where the sample's parts have their content. */
#define BUFFER_AT (DESC_HEAD + DESC_PART)
#define DEVICE_AT (BUFFER_AT + DESC_BUFFER_BYTES + DESC_PART)
#define SHARE_AT (DEVICE_AT + 2 * (DESC_DEVICE_BYTES + DESC_PART) + 4 * DESC_PIECE_BYTES)
#define SECOND_AT (SHARE_AT + DESC_SHARE_BYTES + 5 + DESC_PART)
#define TYPE_END (DESC_PART - 3) /* from a content back to its type's last byte */

/* A peer that seals its lies. */
static void a_contradiction_is_refused_although_the_checksum_is_right(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int code;
	} lies[] = {
		{ 10, 1, -EBADMSG }, /* a reserved field */
		{ BUFFER_AT - 8, 2, -EBADMSG }, /* no buffer first */
		{ BUFFER_AT - 4, 113, -EBADMSG }, /* another length of it */
		{ DEVICE_AT - 8, 1, -EBADMSG }, /* a second buffer */
		{ DEVICE_AT - 1, 1, -EBADMSG }, /* longer than all that is left */
		{ DEVICE_AT - 4, 119, -EBADMSG }, /* a part of a piece */
		{ BUFFER_AT + 15, 0xff, -EBADMSG }, /* a length that overflows */
		{ BUFFER_AT + 8, 1, -EBADMSG }, /* another than the pieces have */
		{ BUFFER_AT + 33, 7, -EBADMSG }, /* a bell in the host's name */
		{ DEVICE_AT + 90, 0, -EBADMSG }, /* port */
		{ DEVICE_AT + 91, 1, -EBADMSG }, /* a reserved field */
		{ SECOND_AT, MRG_PROTO_CUDA_VMM, -EBADMSG }, /* the same share twice */
	};
	uint8_t *bytes;
	size_t length = write_sample(&bytes);

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t truth = bytes[lies[i].at];

		bytes[lies[i].at] = lies[i].value;
		seal(bytes, length);
		assert_int_equal(decode(bytes, length), lies[i].code);
		bytes[lies[i].at] = truth;
	}
	seal(bytes, length);
	assert_int_equal(decode(bytes, length), 0);
	free(bytes);
}

/* Bytes to change in the sample: a kind that came later, of a part at @content. */
static const struct {
	size_t at;
	size_t content;
} later[] = {
	{ DEVICE_AT + 88, DEVICE_AT }, /* GID type */
	{ DEVICE_AT + 89, DEVICE_AT }, /* link layer */
	{ SHARE_AT, SHARE_AT }, /* protocol */
	{ SHARE_AT - DESC_PART, SHARE_AT }, /* type of the part */
};

static void an_unknown_part_is_refused_if_it_must_be_understood(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		uint8_t *bytes;
		size_t length = write_sample(&bytes);

		bytes[later[i].at] = 99;
		bytes[later[i].content - TYPE_END] |= DESC_MUST >> 24;
		seal(bytes, length);
		assert_int_equal(decode(bytes, length), -EPROTONOSUPPORT);
		assert_non_null(strstr(error.cause, "a part of type "));
		assert_non_null(strstr(error.remedy, "same version"));
		free(bytes);
	}
}

static void an_unknown_part_is_skipped_and_written_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		struct mrg_descriptor desc, copy;
		uint8_t *bytes;
		size_t length = write_sample(&bytes);
		void *again, *third;

		bytes[later[i].at] = 99;
		seal(bytes, length);
		assert_int_equal(mrg_descriptor_decode(bytes, length, &desc, NULL), 0);
		assert_int_equal(desc.device_count + desc.share_count, 3);
		assert_memory_equal(desc.unknown, bytes + later[i].content - DESC_PART,
				    desc.unknown_length);
		assert_int_equal(mrg_descriptor_encode(&desc, &again), length);
		assert_memory_equal((uint8_t *)again + length - desc.unknown_length, desc.unknown,
				    desc.unknown_length);
		assert_int_equal(mrg_descriptor_decode(again, length, &copy, NULL), 0);
		assert_int_equal(copy.unknown_length, desc.unknown_length);
		assert_int_equal(mrg_descriptor_encode(&copy, &third), length);
		assert_memory_equal(again, third, length);
		mrg_descriptor_release(&desc);
		mrg_descriptor_release(&copy);
		free(again);
		free(third);
		free(bytes);
	}
}

static void what_could_not_be_read_is_not_written(void **state)
{
	struct mrg_descriptor desc = sample();
	struct mrg_desc_piece gap = { .start = 1, .length = LENGTH, .rkey = 1 };
	void *bytes = NULL;

	(void)state;
	desc.length = 0;
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	desc = sample();
	strcpy(desc.host, "two words");
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	desc = sample();
	desc.share_count = MRG_DESC_MAX_SHARES + 1;
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	desc = sample();
	desc.length--;
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	desc = sample();
	desc.reserved[1] = 1;
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	desc = sample();
	desc.unknown = (uint8_t[DESC_PART]){ 99, 0, 0, 0, 1 };
	desc.unknown_length = DESC_PART;
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	devices[0].pieces = &gap;
	desc = sample();
	assert_int_equal(mrg_descriptor_encode(&desc, &bytes), -EINVAL);
	devices[0].pieces = whole;
	assert_null(bytes);
}

static void keys_are_those_of_the_pieces_that_a_range_touches(void **state)
{
	struct mrg_descriptor desc = sample();
	struct mrg_seg segs[3];

	(void)state;
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR + 0x7fffffff, 0x80000002, segs, 3), 3);
	assert_int_equal(segs[0].wire, 0x7fffffff);
	assert_int_equal(segs[0].length, 1);
	assert_int_equal(segs[0].rkey, 0x201);
	assert_int_equal(segs[1].wire, 0x1000);
	assert_int_equal(segs[1].length, 0x80000000);
	assert_int_equal(segs[2].length, 1);
	assert_int_equal(segs[2].rkey, 0x203);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR + LENGTH - 1, 1, segs, 3), 1);
	assert_int_equal(segs[0].wire, UINT64_MAX);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR, LENGTH, NULL, 0), 3);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR, LENGTH + 1, segs, 3), -ERANGE);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR - 1, 1, segs, 3), -ERANGE);
	assert_int_equal(mrg_descriptor_keys(&desc, 1, ADDR, 0, segs, 3), -ERANGE);
	assert_int_equal(mrg_descriptor_keys(&desc, 2, ADDR, 1, segs, 3), -ENODEV);
}

static void protocols_have_names_that_can_be_read(void **state)
{
	enum mrg_protocol back;

	(void)state;
	for (int i = MRG_PROTO_VERBS; i < MRG_PROTO_COUNT; i++) {
		assert_int_equal(mrg_protocol_parse(mrg_protocol_name((enum mrg_protocol)i), &back),
				 0);
		assert_int_equal(back, i);
	}
	assert_int_equal(mrg_protocol_parse("none", &back), -EINVAL);
	assert_string_equal(mrg_protocol_name(MRG_PROTO_COUNT), "none");
}

static void this_machines_boot_id_is_known(void **state)
{
	uint8_t boot[16], again[16], none[16] = { 0 };

	(void)state;
	assert_int_equal(mrg_boot_id(boot), 0);
	assert_int_equal(mrg_boot_id(again), 0);
	assert_memory_equal(boot, again, sizeof(boot));
	assert_memory_not_equal(boot, none, sizeof(boot));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(each_flipped_bit_is_found),
		cmocka_unit_test(each_cut_is_found),
		cmocka_unit_test(an_unknown_version_is_refused_by_name),
		cmocka_unit_test(a_contradiction_is_refused_although_the_checksum_is_right),
		cmocka_unit_test(an_unknown_part_is_refused_if_it_must_be_understood),
		cmocka_unit_test(an_unknown_part_is_skipped_and_written_again),
		cmocka_unit_test(what_could_not_be_read_is_not_written),
		cmocka_unit_test(keys_are_those_of_the_pieces_that_a_range_touches),
		cmocka_unit_test(protocols_have_names_that_can_be_read),
		cmocka_unit_test(this_machines_boot_id_is_known),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
