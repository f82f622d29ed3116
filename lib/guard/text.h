/* SPDX-License-Identifier: MIT */
/*
 * Text that a signal handler may write: no stdio, no allocation, no locale.
 * The report is made of it, in the guarded process and in the command alike.
 */
#ifndef GUARD_TEXT_H
#define GUARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	int fd;			/* where a full buffer goes; -1: it is cut */
	bool failed;
	bool comma;		/* JSON: one is due before the next value */
	size_t used;
	char buf[4096];
};

void text_start(struct text *t, int fd);
/** text_end() - write what is left.  Return: 0; -EIO where a write failed */
int text_end(struct text *t);

void text_str(struct text *t, const char *s);
void text_u64(struct text *t, uint64_t n);
void text_int(struct text *t, int64_t n);
void text_hex(struct text *t, uint64_t n);
/** text_size() - "12 GiB", "28 KiB", "4.1 GiB"; cut, not rounded */
void text_size(struct text *t, uint64_t bytes);
/** text_pad() - @s, and blanks up to @width */
void text_pad(struct text *t, const char *s, size_t width);

/* JSON; commas come by themselves.  A key of NULL is for elements of arrays. */
void text_open(struct text *t, const char *key, char bracket);
void text_close(struct text *t, char bracket);
void text_json_str(struct text *t, const char *key, const char *s);
void text_json_u64(struct text *t, const char *key, uint64_t n);
void text_json_int(struct text *t, const char *key, int64_t n);
void text_json_hex(struct text *t, const char *key, uint64_t n);
void text_json_null(struct text *t, const char *key);

#endif
