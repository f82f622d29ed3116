/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "kernelcode/kernelcode.h"

bool kernelcode_fails(struct kernelcode_why *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return false;
}
