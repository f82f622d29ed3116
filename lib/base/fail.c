/* SPDX-License-Identifier: MIT */
/* Failures that are kept: what error.c writes goes to the store of last_error.c. */
#include "base/error.h"

int base_fail(uint64_t owner, int code, const char *stage, const char *remedy, const char *cause,
	      ...)
{
	struct mrg_error error;
	va_list args;

	va_start(args, cause);
	base_error_vset(&error, code, -1, stage, remedy, cause, args);
	va_end(args);
	return mrg_private_error_keep(owner, &error);
}

int base_fail_piece(uint64_t owner, int code, int piece, const char *stage, const char *remedy,
		    const char *cause, ...)
{
	struct mrg_error error;
	va_list args;

	va_start(args, cause);
	base_error_vset(&error, code, piece, stage, remedy, cause, args);
	va_end(args);
	return mrg_private_error_keep(owner, &error);
}
