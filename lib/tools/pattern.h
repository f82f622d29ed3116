/* SPDX-License-Identifier: MIT */
/*
 * Bytes that tell where they belong.  Each 8-byte word of a buffer is a number
 * made of its own offset and of a round, and can be turned back: a word found in
 * the wrong place says which place it was meant for.  A fault that moves data
 * by 2^32 looks the same whether the kernel's walk or a program's 32-bit offset
 * did it; the distance is what tells.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_ROUNDS 16
#define PATTERN_MAX (1ULL << 60) /* offsets are below this */

/** pattern_fill() - @length bytes as they belong at @offset in @round */
void pattern_fill(void *buf, uint64_t offset, uint64_t length, unsigned int round);

/** pattern_origin() - which offset, a multiple of 8, and round a word is made
 *  of.  True for any word whose decoded offset is below @size. */
bool pattern_origin(uint64_t word, uint64_t size, uint64_t *offset, unsigned int *round);

/** struct pattern_fault - a stretch whose bytes are not those that belong there
 *  @offset, @length: of the buffer
 *  @placed: the bytes belong at @origin, of round @round
 */
struct pattern_fault {
	uint64_t offset;
	uint64_t length;
	uint64_t origin;
	unsigned int round;
	bool placed;
};

/**
 * pattern_check() - compare every byte
 * @buf: what was found at @offset
 * @size: of the whole buffer, to tell origins from noise
 * @fault: called for each stretch that is wrong in one way
 *
 * Return: bytes that are wrong.
 */
uint64_t pattern_check(const void *buf, uint64_t offset, uint64_t length, unsigned int round,
		       uint64_t size, void (*fault)(void *arg, const struct pattern_fault *f),
		       void *arg);

#endif
