/* SPDX-License-Identifier: MIT */
/* The kernel's walk, asked of ib_core's file: see lib/kernelcode/kernelcode.h. */
#ifndef WALKFILE_WALKFILE_H
#define WALKFILE_WALKFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <mrguard/walk.h>

#define WALKFILE_TEXT 65536 /* of the program's answer */

/* Where the running host is looked at; tests make one up. */
struct walkfile_host {
	const char *root; /* "" is the host's own */
	const char *release; /* uname -r */
};

/**
 * walkfile_ask_host() - as mrg_walk_ask_host(), of a host of one's own
 * @text: OUT room for WALKFILE_TEXT bytes, or NULL: what the program said of ib_core,
 *	"" where it was not asked
 */
void walkfile_ask_host(const struct walkfile_host *host, struct mrg_walk_answer *answer,
		       char *text);

/* ---- start.c ---- */

/**
 * walkfile_start() - run the program, and wait for it
 * @file: descriptor of the module's file
 * @btf: of the kernel's BTF, or -1
 * @text: OUT WALKFILE_TEXT bytes, what it said
 *
 * The caller's process gets no SIGCHLD, and no child that its wait(2) sees.
 *
 * Return: 0; -errno: it did not run.
 */
int walkfile_start(int file, int btf, char *text);

/* ---- find.c ---- */

/* The @n-th place where @module's file may lie, the likeliest first; false: no more. */
bool walkfile_place(const struct walkfile_host *host, const char *module, size_t n, char *path,
		    size_t room);

/* ---- identity.c ---- */

/* What proves that a file is a loaded module's; "" where it is not known. */
struct walkfile_identity {
	bool loaded;
	char build_id[80];
	char srcversion[40];
};
void walkfile_loaded(const struct walkfile_host *host, const char *module,
		     struct walkfile_identity *identity);
/* What has changed a function since it was loaded; NULL: nothing. */
const char *walkfile_patched(const struct walkfile_host *host, const char *module,
			     const char *function);

/* ---- answer.c ---- */

/* The value of a line "@word VALUE"; false: there is none. */
bool walkfile_value(const char *text, const char *word, char *value, size_t room);
/* Reads the program's answer into @answer.  false: it is no whole answer of this version. */
bool walkfile_read(const char *text, struct mrg_walk_answer *answer);

/* ---- cache.c ---- */

/* An answer that somebody trusted has kept for this build id; false: there is none. */
bool walkfile_recall(const struct walkfile_host *host, const char *build_id, char *text);
void walkfile_keep(const struct walkfile_host *host, const char *build_id, const char *text);

#endif
