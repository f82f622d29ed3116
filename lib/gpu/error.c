/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver.h"

/* One failure a thread, so that no other thread's can come in between. */
static __thread struct {
	const void *owner;
	struct mrg_error error;
} last;

static int keep(const void *owner, int code, int piece, const char *stage, const char *remedy,
		const char *format, va_list args)
{
	int saved = errno;

	last.owner = owner;
	memset(&last.error, 0, sizeof(last.error));
	last.error.code = code;
	last.error.piece = piece;
	snprintf(last.error.stage, sizeof(last.error.stage), "%s", stage);
	snprintf(last.error.remedy, sizeof(last.error.remedy), "%s", remedy);
	vsnprintf(last.error.cause, sizeof(last.error.cause), format, args);
	errno = saved;
	return code;
}

int gpu_fail(const void *owner, int code, const char *stage, const char *remedy, const char *format,
	     ...)
{
	va_list args;

	va_start(args, format);
	keep(owner, code, -1, stage, remedy, format, args);
	va_end(args);
	return code;
}

int gpu_fail_piece(const void *owner, int code, int piece, const char *stage, const char *remedy,
		   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	keep(owner, code, piece, stage, remedy, format, args);
	va_end(args);
	return code;
}

void gpu_fail_owner(const void *from, const void *owner)
{
	if (last.owner == from)
		last.owner = owner;
}

int gpu_fail_read(const void *owner, struct mrg_error *error)
{
	if (!owner || last.owner != owner || !last.error.code)
		return -ENODATA;
	*error = last.error;
	return 0;
}
