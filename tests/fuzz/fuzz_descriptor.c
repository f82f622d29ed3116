/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a descriptor from a peer, as it is and with its checksum made
 * right.  What is read is written again in as many bytes, from then on alike, and
 * its keys fill each range that is asked for.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <mrguard/path.h>

#include "registry/descriptor_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check_keys(const struct mrg_descriptor *desc, size_t device, uint64_t addr,
		       uint64_t length)
{
	ssize_t count = mrg_descriptor_keys(desc, device, addr, length, NULL, 0);
	struct mrg_seg *segs;
	uint64_t sum = 0;

	must(count > 0, "a range of the buffer has no keys");
	segs = calloc((size_t)count, sizeof(*segs));
	must(segs && mrg_descriptor_keys(desc, device, addr, length, segs, (size_t)count) == count,
	     "another number of keys");
	for (ssize_t i = 0; i < count; i++) {
		must(segs[i].length != 0, "an empty segment");
		sum += segs[i].length;
	}
	must(sum == length, "segments do not fill the range");
	free(segs);
}

/* The reader takes parts in any order, and the writer has one. */
static void check_copy(const struct mrg_descriptor *desc, size_t length)
{
	struct mrg_descriptor copy;
	void *first = NULL, *second = NULL;

	must(mrg_descriptor_encode(desc, &first) == (ssize_t)length &&
		     !mrg_descriptor_decode(first, length, &copy, NULL) &&
		     mrg_descriptor_encode(&copy, &second) == (ssize_t)length &&
		     !memcmp(first, second, length),
	     "a descriptor changed on its way");
	mrg_descriptor_release(&copy);
	free(first);
	free(second);
}

static void check_descriptor(const struct mrg_descriptor *desc, size_t length)
{
	struct mrg_path_reason reasons[MRG_PROTO_COUNT];

	check_copy(desc, length);
	for (size_t i = 0; i < desc->device_count; i++) {
		check_keys(desc, i, desc->addr, desc->length);
		check_keys(desc, i, desc->addr + desc->length / 3, desc->length - desc->length / 3);
		check_keys(desc, i, desc->addr + desc->length - 1, 1);
	}
	must(mrg_explain_path(desc, desc, NULL, reasons, NULL) == MRG_PROTO_COUNT - 1,
	     "reasons are missing");
}

static void read_one(const uint8_t *bytes, size_t length)
{
	struct mrg_descriptor desc;
	struct mrg_error error;

	if (mrg_descriptor_decode(bytes, length, &desc, &error)) {
		must(error.code && error.cause[0], "a failure without its cause");
		return;
	}
	check_descriptor(&desc, length);
	mrg_descriptor_release(&desc);
}

static void seal(uint8_t *bytes, size_t length)
{
	uint32_t check;

	if (length < DESC_CHECK_AT + sizeof(check))
		return;
	check = (uint32_t)length;
	memcpy(bytes + DESC_TOTAL_AT, &check, sizeof(check));
	memset(bytes + DESC_CHECK_AT, 0, sizeof(check));
	check = (uint32_t)crc32_z(0, bytes, length);
	memcpy(bytes + DESC_CHECK_AT, &check, sizeof(check));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	must(copy != NULL, "no memory");
	read_one(data, size);
	memcpy(copy, data, size);
	seal(copy, size);
	read_one(copy, size);
	free(copy);
	return 0;
}
