/* SPDX-License-Identifier: MIT */
/*
 * Text that a signal handler may write (signal-safety(7)): without stdio,
 * allocation and locale, through a buffer of fixed size.  The guarded process
 * and the command write the report with it.
 */
#ifndef GUARD_SIGSAFE_H
#define GUARD_SIGSAFE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guard_sigsafe {
	int fd; /* takes a full buffer; -1: the text is cut */
	int wait_ms; /* for a reader of @fd; -1: for ever */
	bool failed;
	bool comma; /* JSON: one is due before the next value */
	size_t used;
	char buf[4096];
};

/** guard_sigsafe_begin() - a text for @fd, whose reader it waits for: see @wait_ms */
void guard_sigsafe_begin(struct guard_sigsafe *t, int fd);
/** guard_sigsafe_end() - write what is left.  Return: 0; -EIO where a write failed */
int guard_sigsafe_end(struct guard_sigsafe *t);

/** guard_sigsafe_print() - printf() with %s, %-Ns, %d, %u, %lu and %#lx, no others;
 *  of strings only printable ASCII is shown as it is */
void guard_sigsafe_print(struct guard_sigsafe *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void guard_sigsafe_vprint(struct guard_sigsafe *t, const char *format, va_list args);

/* "12 GiB", "28 KiB", "4.1 GiB"; cut, not rounded. */
struct guard_size {
	char text[16];
};
struct guard_size guard_size(uint64_t bytes);

/* JSON; these put the commas.  A NULL key is for elements of arrays. */
void guard_sigsafe_open(struct guard_sigsafe *t, const char *key, char bracket);
void guard_sigsafe_close(struct guard_sigsafe *t, char bracket);
void guard_sigsafe_json_str(struct guard_sigsafe *t, const char *key, const char *s);
void guard_sigsafe_json_u64(struct guard_sigsafe *t, const char *key, uint64_t n);
void guard_sigsafe_json_int(struct guard_sigsafe *t, const char *key, int64_t n);
/** guard_sigsafe_json_hex() - a string, "0x1000": JSON's readers keep 53 bits of a number */
void guard_sigsafe_json_hex(struct guard_sigsafe *t, const char *key, uint64_t n);

#endif
