/* SPDX-License-Identifier: MIT */
/* Numbers and scatter lists as people write them. */
#ifndef TOOLS_PARSE_H
#define TOOLS_PARSE_H

#include <stdbool.h>
#include <stdio.h>

#include <mrguard/plan.h>

/**
 * parse_size() - read a number: 4096, 0x1000, 4K
 * @text: a whole word.  As in C, 0x starts a hexadecimal and 0 an octal number;
 *	K, M, G or T (either case, also KiB and so on) multiply by a power of 1024
 * @value: OUT
 *
 * Return: 0; -EINVAL (no number, or something after it); -ERANGE (beyond 64
 * bits).
 */
int parse_size(const char *text, uint64_t *value);

/*
 * What a list says about its own addresses.  Those that an unprivileged caller
 * gets hold for one iova only, that of byte 0 of the list.
 */
struct parse_note {
	bool equivalent;
	uint64_t base_iova;
};
#define PARSE_NOTE "# equivalent addresses, for base iova "

#define PARSE_MAX_ENTRIES (1ULL << 28) /* 4 GiB of memory for the list */
#define PARSE_MAX_LINE 65536

/**
 * parse_list() - read a scatter list, one "DMA_ADDRESS LENGTH" a line
 * @file: read to its end
 * @name: how messages call it
 * @sg: OUT the list, to be freed with free(3)
 * @count: OUT its entries, at least one
 * @error: OUT on failure, if not NULL
 *
 * Empty lines and what follows a # are skipped.
 *
 * Return: 0; -EINVAL (a line that is no entry, or no entry at all); -ERANGE (a
 * number beyond 64 bits, or a list beyond 2^63 bytes); -E2BIG (more than
 * PARSE_MAX_ENTRIES, or a line as long as PARSE_MAX_LINE); -ENOMEM; -errno of
 * read(2).
 */
int parse_list(FILE *file, const char *name, struct mrg_sg **sg, size_t *count,
	       struct mrg_error *error);
/** parse_list_note() - the same, and what the list says of itself */
int parse_list_note(FILE *file, const char *name, struct mrg_sg **sg, size_t *count,
		    struct parse_note *note, struct mrg_error *error);

#endif
