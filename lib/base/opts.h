/* SPDX-License-Identifier: MIT */
/* Options structures, which callers of other releases made. */
#ifndef BASE_OPTS_H
#define BASE_OPTS_H

#include <stddef.h>

/*
 * The longest that is read, whatever it says of itself: a size that was never
 * set must not send us through all of memory.  As the kernel bounds what comes
 * through copy_struct_from_user(): at a page.
 */
#define BASE_OPTS_MAX 4096

/* What helps where base_opts_copy() fails. */
#define BASE_OPTS_REMEDY "Zero the whole structure, set its size, and then only documented fields."

/**
 * base_opts_copy() - take over a structure that begins with its size_t size
 * @mine: OUT, zero where the caller's is shorter
 * @theirs: NULL: @mine is all zero
 *
 * Return: 0; -EINVAL: shorter than its size field, longer than BASE_OPTS_MAX,
 * or a tail that this release does not know and that is not zero.  Any thread.
 */
int base_opts_copy(void *mine, size_t my_size, const void *theirs);

#endif
