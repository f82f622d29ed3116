/* SPDX-License-Identifier: MIT */
/* What the loader makes of a program, asked of the loader itself. */
#ifndef TOOLS_RUN_LOADER_H
#define TOOLS_RUN_LOADER_H

#include <stdbool.h>
#include <stddef.h>

struct run_loader {
	bool guarded; /* it takes the preloaded guard */
	bool asan; /* the program needs libasan.so */
	size_t tls; /* bytes of thread-local storage of all its libraries */
};

/**
 * run_loader_ask() - list the libraries of a program, as ld.so(8) --list does
 * @path: of the program, or of a script: then its interpreter is meant
 * @guard: a word of the guard's file name
 *
 * The environment is that of the program: LD_PRELOAD is set already.
 *
 * Return: 0; -ENOEXEC: the program has no loader, or its loader does not answer.
 */
int run_loader_ask(const char *path, const char *guard, struct run_loader *out);

#endif
