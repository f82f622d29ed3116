/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

int base_error_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
		   const char *format, ...)
{
	struct mrg_error whole = { .code = code, .piece = -1 };
	va_list args;

	if (!error)
		return code;
	snprintf(whole.stage, sizeof(whole.stage), "%s", stage);
	snprintf(whole.remedy, sizeof(whole.remedy), "%s", remedy);
	va_start(args, format);
	vsnprintf(whole.cause, sizeof(whole.cause), format, args);
	va_end(args);
	/* An argument may lie in what is overwritten. */
	*error = whole;
	return code;
}
