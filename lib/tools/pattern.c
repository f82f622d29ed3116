/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tools/pattern.h"

/* An odd factor, and its inverse modulo 2^64. */
#define FACTOR 0x9e3779b97f4a7c15ULL
#define INVERSE 0xf1de83e19937733dULL

_Static_assert(FACTOR *INVERSE == 1, "what is mixed can be turned back");

static uint64_t word_at(uint64_t offset, unsigned int round)
{
	uint64_t x = (offset | (uint64_t)round << 60) * FACTOR;

	x = (x ^ x >> 32) * FACTOR;
	return x ^ x >> 32;
}

static uint64_t turn_back(uint64_t word)
{
	word = (word ^ word >> 32) * INVERSE;
	return (word ^ word >> 32) * INVERSE;
}

/* The word's bytes from memory offset @offset & 7 on. */
static size_t part_of_word(unsigned char *to, uint64_t offset, uint64_t length, unsigned int round)
{
	uint64_t word = word_at(offset & ~7ULL, round);
	size_t skip = offset & 7, n = 8 - skip;

	if (n > length)
		n = (size_t)length;
	memcpy(to, (unsigned char *)&word + skip, n);
	return n;
}

void pattern_fill(void *buf, uint64_t offset, uint64_t length, unsigned int round)
{
	unsigned char *to = buf;
	size_t n;

	for (; length; to += n, offset += n, length -= n) {
		uint64_t word = word_at(offset, round);

		/* Nearly all are whole words, and gigabytes pass here. */
		n = sizeof(word);
		if (offset & 7 || length < n)
			n = part_of_word(to, offset, length, round);
		else
			memcpy(to, &word, sizeof(word));
	}
}

/* Bytes up to the first word that is not as it should be. */
static uint64_t right_words(const unsigned char *found, uint64_t offset, uint64_t length,
			    unsigned int round)
{
	uint64_t done = 0, word;

	if (offset & 7)
		return 0;
	for (; length - done >= sizeof(word); done += sizeof(word)) {
		memcpy(&word, found + done, sizeof(word));
		if (word != word_at(offset + done, round))
			break;
	}
	return done;
}

bool pattern_origin(uint64_t word, uint64_t size, uint64_t *offset, unsigned int *round)
{
	uint64_t x = turn_back(word);

	*offset = x & (PATTERN_MAX - 1);
	*round = (unsigned int)(x >> 60);
	return !(*offset & 7) && *offset < size;
}

/* What is wrong with one whole word, or part of one. */
static void judge(const unsigned char *found, uint64_t offset, size_t n, uint64_t size,
		  struct pattern_fault *f)
{
	uint64_t word;

	*f = (struct pattern_fault){ .offset = offset, .length = n };
	if (n != 8)
		return;
	memcpy(&word, found, 8);
	f->placed = pattern_origin(word, size, &f->origin, &f->round);
}

/* Ends of a span are parts of words, which tell nothing by themselves: they
 * belong to the word beside them. */
static bool join(struct pattern_fault *run, const struct pattern_fault *next)
{
	bool first_part = run->length < 8, last_part = next->length < 8;

	if (!run->length || run->offset + run->length != next->offset)
		return false;
	if (first_part && next->placed) {
		run->placed = true;
		run->round = next->round;
		run->origin = next->origin - run->length;
	} else if (!last_part && (run->placed != next->placed || run->round != next->round ||
				  (run->placed && run->origin + run->length != next->origin))) {
		return false;
	}
	run->length += next->length;
	return true;
}

uint64_t pattern_check(const void *buf, uint64_t offset, uint64_t length, unsigned int round,
		       uint64_t size, void (*fault)(void *arg, const struct pattern_fault *f),
		       void *arg)
{
	const unsigned char *found = buf;
	struct pattern_fault run = { 0 }, f;
	uint64_t wrong = 0;
	uint64_t n;

	for (; length; found += n, offset += n, length -= n) {
		unsigned char right[8];

		n = right_words(found, offset, length, round);
		if (n)
			continue;
		n = part_of_word(right, offset, length, round);
		if (!memcmp(found, right, n))
			continue;
		for (size_t i = 0; i < n; i++)
			wrong += found[i] != right[i];
		judge(found, offset, (size_t)n, size, &f);
		if (join(&run, &f))
			continue;
		if (run.length)
			fault(arg, &run);
		run = f;
	}
	if (run.length)
		fault(arg, &run);
	return wrong;
}
