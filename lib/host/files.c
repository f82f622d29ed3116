/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/files.h"

bool host_first_line(char *line, size_t size, const char *format, ...)
{
	char path[PATH_MAX];
	bool got = false;
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	file = fopen(path, "re");
	if (file) {
		got = fgets(line, (int)size, file);
		fclose(file);
	}
	line[got ? strcspn(line, "\n") : 0] = '\0';
	return got;
}

void host_link_name(char *name, size_t size, const char *format, ...)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *last;
	va_list args;
	ssize_t length;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	last = strrchr(target, '/');
	snprintf(name, size, "%.*s", (int)size - 1, last ? last + 1 : target);
}
