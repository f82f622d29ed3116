/* SPDX-License-Identifier: MIT */
/* How commands tell failures: what was wrong, then what to do. */
#ifndef TOOLS_FAIL_H
#define TOOLS_FAIL_H

#include <mrguard/common.h>

/** fail_set() - fill in @error.  Return: @code, a -errno. */
int fail_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
	     const char *format, ...) __attribute__((format(printf, 5, 6)));

/** fail_print() - "mrguard NAME: cause", and the remedy on a line of its own */
void fail_print(const char *command, const struct mrg_error *error);

#endif
