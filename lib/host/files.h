/* SPDX-License-Identifier: MIT */
/* Short files and links of /proc and /sys, at a path that a format makes. */
#ifndef HOST_FILES_H
#define HOST_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** host_first_line() - the first line, without its end.  False: it cannot be read;
 *  @line is then "" */
bool host_first_line(char *line, size_t size, const char *path, ...) BASE_PRINTF(3, 4);
/** host_link_name() - the last part of what a link leads to, cut to @size; "": none */
void host_link_name(char *name, size_t size, const char *path, ...) BASE_PRINTF(3, 4);

#endif
