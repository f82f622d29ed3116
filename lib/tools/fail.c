/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/fail.h"

int fail_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
	     const char *format, ...)
{
	va_list args;

	memset(error, 0, sizeof(*error));
	error->code = code;
	error->piece = -1;
	snprintf(error->stage, sizeof(error->stage), "%s", stage);
	snprintf(error->remedy, sizeof(error->remedy), "%s", remedy);
	va_start(args, format);
	vsnprintf(error->cause, sizeof(error->cause), format, args);
	va_end(args);
	return code;
}

void fail_print(const char *command, const struct mrg_error *error)
{
	fprintf(stderr, "%s: %s\n", command, error->cause);
	if (error->remedy[0])
		fprintf(stderr, "  %s\n", error->remedy);
}
