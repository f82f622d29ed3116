/* SPDX-License-Identifier: MIT */
/* Whether the loader adds a preloaded library to a program. */
#ifndef TOOLS_RUN_PROGRAM_H
#define TOOLS_RUN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/** run_find() - the file that execvp() would run.  Return: false where there is none */
bool run_find(const char *command, char *path, size_t size);

/** run_unguarded() - why the loader will not add the guard to @command
 *
 * Return: a predicate ("is a 32-bit program"); NULL where the guard is added, or
 * the file cannot be read.
 */
const char *run_unguarded(const char *command);

#endif
