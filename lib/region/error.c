/* SPDX-License-Identifier: MIT */
/* Each thread's last failure. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "region/context.h"

/*
 * One a thread, not one a context and thread: no allocation on the way of a
 * failure, no lock, and nothing to free when a thread or a context ends.  The
 * serial keeps a closed context's failure from another's.
 */
static __thread struct {
	uint64_t serial;
	struct mrg_error error;
} last;

int region_fail(const struct mrg_ctx *ctx, int code, int piece, const char *stage,
		const char *remedy, const char *cause, ...)
{
	va_list args;

	last.serial = ctx ? ctx->serial : 0;
	last.error.code = code;
	last.error.piece = piece;
	snprintf(last.error.stage, sizeof(last.error.stage), "%s", stage);
	snprintf(last.error.remedy, sizeof(last.error.remedy), "%s", remedy);
	va_start(args, cause);
	vsnprintf(last.error.cause, sizeof(last.error.cause), cause, args);
	va_end(args);
	return code;
}

int region_fail_with(const struct mrg_ctx *ctx, const struct mrg_error *error, int piece)
{
	last.serial = ctx->serial;
	last.error = *error;
	last.error.piece = piece;
	return error->code;
}

int mrg_last_error(const struct mrg_ctx *ctx, struct mrg_error *error)
{
	if (!last.error.code || last.serial != (ctx ? ctx->serial : 0))
		return -ENODATA;
	*error = last.error;
	return 0;
}
