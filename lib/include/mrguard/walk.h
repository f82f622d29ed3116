/* SPDX-License-Identifier: MIT */
/*
 * How the kernel walks large pages, asked of the file of its RDMA core: needs
 * neither the module mrguard nor privileges.
 */
#ifndef MRGUARD_WALK_H
#define MRGUARD_WALK_H

#include <stdbool.h>
#include <mrguard/common.h>
#include <mrguard/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct mrg_walk_answer - what the code in a module's file does
 * @walk:	see enum mrg_walk; MRG_WALK_UNKNOWN: @why says why
 * @pick_shift:	log2 of the page that the kernel picks for 8 GiB without a break,
 *		by which it is seen whether pages of 4 GiB can come about; 0: not known
 * @file:	the file that was asked, "" where none was
 * @build_id:	the file's, in hexadecimal; "" where it has none
 * @recorded:	the code came out of a record, not out of a module's file
 * @why:	one sentence where @walk is MRG_WALK_UNKNOWN, else ""
 * @reserved:	0
 */
struct mrg_walk_answer {
	enum mrg_walk walk;
	uint32_t pick_shift;
	char file[256];
	char build_id[80];
	char why[256];
	bool recorded;
	uint8_t reserved0[7]; /* 0 */
	uint64_t reserved[7]; /* 0 */
};

/**
 * mrg_walk_ask_host() - ask the file of the running kernel's ib_core
 * @answer: OUT
 *
 * Starts a program of mrguard's that takes the function out of the file and runs it,
 * and waits for it: some 20 ms, at most 10 s.  The file counts only where its build
 * id, or srcversion, is that of the loaded module, and where no live patch of the
 * function is loaded.  The answer is kept in /run/mrguard where that is writable.
 * The caller gets no SIGCHLD.  Any thread.
 *
 * Return: 0, also where the walk stays unknown; -ENOMEM.
 */
MRG_API int mrg_walk_ask_host(struct mrg_walk_answer *answer);

/**
 * mrg_walk_ask_file() - ask a module's file, of this machine's architecture
 * @path: ib_core.ko, or another that has the functions; may be packed (.xz, .zst, .gz).
 *	Or what a record of a host took along (.mrguard/walk of `mrguard check')
 * @answer: OUT
 *
 * Whether the file is a loaded module's is not looked at.  Any thread.
 *
 * Return: 0, also where the walk stays unknown; -errno of open(2); -ENOMEM.
 */
MRG_API int mrg_walk_ask_file(const char *path, struct mrg_walk_answer *answer);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_WALK_H */
