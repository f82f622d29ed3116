/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: numbers and lists as people write them.  What was read must be
 * read again alike when written in the plainest form.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/parse.h"

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check_size(const char *text)
{
	uint64_t value = 0xa5a5, again;
	char plain[32];

	if (parse_size(text, &value)) {
		must(value == 0xa5a5, "a failed read wrote a value");
		return;
	}
	snprintf(plain, sizeof(plain), "0x%" PRIx64, value);
	must(!parse_size(plain, &again) && again == value, "a number changed");
}

static char *write_list(const struct mrg_sg *sg, size_t count, size_t *size)
{
	char *text;
	FILE *out = open_memstream(&text, size);
	size_t i;

	for (i = 0; i < count; i++)
		fprintf(out, "%" PRIu64 " 0x%" PRIx64 "\n", sg[i].addr, sg[i].len);
	fclose(out);
	return text;
}

static int read_list(const char *text, size_t size, struct mrg_sg **sg, size_t *count)
{
	struct mrg_error error = { 0 };
	FILE *in = fmemopen((void *)text, size, "r");
	int err = parse_list(in, "input", sg, count, &error);

	fclose(in);
	must(!err || (error.code == err && error.cause[0]), "a failure without its cause");
	must(memchr(error.cause, 0, sizeof(error.cause)), "a cause without an end");
	return err;
}

static void check_list(const char *text, size_t size)
{
	struct mrg_sg *sg, *again;
	size_t count, count_again, plain_size, i;
	uint64_t sum = 0;
	char *plain;

	if (read_list(text, size, &sg, &count))
		return;
	must(count, "an empty list");
	for (i = 0; i < count; i++) {
		must(sg[i].len && sg[i].len <= (1ULL << 63) - sum, "a list that no plan takes");
		sum += sg[i].len;
	}
	plain = write_list(sg, count, &plain_size);
	must(!read_list(plain, plain_size, &again, &count_again), "a written list is refused");
	must(count == count_again && !memcmp(sg, again, count * sizeof(*sg)), "a list changed");
	free(plain);
	free(again);
	free(sg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = '\0';
	check_size(text);
	check_list(text, size);
	free(text);
	return 0;
}
