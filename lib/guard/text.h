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

struct guard_text {
	int fd; /* where a full buffer goes; -1: it is cut */
	bool failed;
	bool comma; /* JSON: one is due before the next value */
	size_t used;
	char buf[4096];
};

void guard_text_start(struct guard_text *t, int fd);
/** guard_text_end() - write what is left.  Return: 0; -EIO where a write failed */
int guard_text_end(struct guard_text *t);

void guard_text_str(struct guard_text *t, const char *s);
void guard_text_u64(struct guard_text *t, uint64_t n);
void guard_text_int(struct guard_text *t, int64_t n);
void guard_text_hex(struct guard_text *t, uint64_t n);
/** guard_text_size() - "12 GiB", "28 KiB", "4.1 GiB"; cut, not rounded */
void guard_text_size(struct guard_text *t, uint64_t bytes);
/** guard_text_pad() - @s, and blanks up to @width */
void guard_text_pad(struct guard_text *t, const char *s, size_t width);

/* JSON; commas come by themselves.  A key of NULL is for elements of arrays. */
void guard_text_open(struct guard_text *t, const char *key, char bracket);
void guard_text_close(struct guard_text *t, char bracket);
void guard_text_json_str(struct guard_text *t, const char *key, const char *s);
void guard_text_json_u64(struct guard_text *t, const char *key, uint64_t n);
void guard_text_json_int(struct guard_text *t, const char *key, int64_t n);
void guard_text_json_hex(struct guard_text *t, const char *key, uint64_t n);
void guard_text_json_null(struct guard_text *t, const char *key);

#endif
