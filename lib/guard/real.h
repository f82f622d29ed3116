/* SPDX-License-Identifier: MIT */
/*
 * The functions that the guard replaces, as their libraries have them.
 *
 * A process can hold several libraries with these functions.  Library 0 is the
 * one that the loader would have bound the program to.  The audit library meets
 * the others when the program looks a symbol up by name; each has entries of its
 * own, so that a call reaches the library it was meant for.
 */
#ifndef GUARD_REAL_H
#define GUARD_REAL_H

#include <stdbool.h>

#include "guard/request.h"

#define GUARD_LIBRARIES 4

/* rdma-core has it since 1.15, and the headers of this build may be older.  The
 * guard reads a field only where the mask has its bit. */
struct guard_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
};
#define GUARD_MASK_IOVA (1u << 0)
#define GUARD_MASK_ADDR (1u << 1)
#define GUARD_MASK_FD (1u << 2)
#define GUARD_MASK_FD_OFFSET (1u << 3)

typedef int guard_rereg_mr_fn(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);
typedef int guard_dereg_mr_fn(struct ibv_mr *);
typedef int guard_fork_init_fn(void);

/** guard_real() - the function of library @lib; NULL where it has none (yet).
 *  Keeps the library from being unloaded. */
void *guard_real(unsigned int lib, enum guard_call call);

/**
 * guard_real_note() - remember a function that the audit library met
 * @base: where its library is loaded
 * @call: OUT
 *
 * Calls nothing: the loader's lock is held.
 *
 * Return: the library, from 1; 0 where the guard does not replace @name, or all
 * are taken.
 */
unsigned int guard_real_note(const char *name, uintptr_t address, uintptr_t base,
			     enum guard_call *call);
/** guard_real_unguarded() - how many functions found all libraries taken */
unsigned long guard_real_unguarded(void);

/** guard_real_register() - the call as the program made it */
struct ibv_mr *guard_real_register(const struct guard_request *req);
/** guard_real_reg_dmabuf(), guard_real_dereg() - calls of library 0 for the guard itself */
struct ibv_mr *guard_real_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access);
int guard_real_dereg(struct ibv_mr *mr);

#endif
