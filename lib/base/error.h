/* SPDX-License-Identifier: MIT */
/* Inside lib/engine: failures as structures. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <mrguard/common.h>

/** base_error_set() - fill in @error; NULL is allowed.  Return: @code, a -errno. */
int base_error_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
