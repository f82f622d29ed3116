/* SPDX-License-Identifier: MIT */
/* A function out of an answer of this program, which a record of a host took along. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernelcode/kernelcode.h"

#define MARK "mrguard-kernelcode "

/* The value of the next line "@word VALUE" from @at on; NULL: there is none. */
static const char *line_of(const char *at, const char *word)
{
	size_t length = strlen(word);

	while (at && strncmp(at, word, length)) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	return at ? at + length : NULL;
}

bool kernelcode_is_recorded(const uint8_t *data, size_t size)
{
	/* What a check put before it is short. */
	return memmem(data, size < 1024 ? size : 1024, MARK, sizeof(MARK) - 1) &&
	       !memchr(data, 0, size);
}

static size_t read_hex(const char *text, uint8_t *bytes, size_t room)
{
	unsigned int byte;
	size_t n = 0;

	while (n < room && sscanf(text + 2 * n, "%2x", &byte) == 1 && text[2 * n] != '\n')
		bytes[n++] = (uint8_t)byte;
	return n;
}

bool kernelcode_take_recorded(const char *text, const char *name, struct kernelcode_function *f,
			      struct kernelcode_why *why)
{
	static uint8_t rooms[2][KERNELCODE_MAX_FUNCTION];
	static size_t used;
	char word[80], *end;
	const char *at;

	*f = (struct kernelcode_function){ .name = name };
	why->text[0] = 0;
	at = line_of(text, "machine ");
	if (!at || strtoul(at, NULL, 10) != kernelcode_machine)
		return kernelcode_fails(why, "The record is of another architecture.");
	snprintf(word, sizeof(word), "function %s ", name);
	at = line_of(text, word);
	if (!at || used == sizeof(rooms) / sizeof(rooms[0]))
		return false;
	f->bytes = rooms[used];
	f->size = read_hex(at, rooms[used++], KERNELCODE_MAX_FUNCTION);
	snprintf(word, sizeof(word), "relocation %s ", name);
	for (at = text; f->count < KERNELCODE_RELOCATIONS && (at = line_of(at, word));) {
		struct kernelcode_relocation *r = &f->relocations[f->count++];

		r->offset = (uint32_t)strtoul(at, &end, 10);
		r->type = (uint32_t)strtoul(end, &end, 10);
		r->addend = strtoll(end, &end, 10);
		snprintf(r->symbol, sizeof(r->symbol), "%.*s", (int)strcspn(end + 1, "\n"),
			 *end ? end + 1 : "");
	}
	return true;
}
