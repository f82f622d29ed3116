/* SPDX-License-Identifier: MIT */
/* Each thread's last failure; part of libmrguard alone. */
#include <errno.h>
#include <stdatomic.h>

#include "base/error.h"

/*
 * One a thread, not one a handle and thread: a failure needs no memory and no
 * lock, and nothing is left to free when a thread or a handle ends.  The owner
 * keeps a closed handle's failure from being taken for another's.
 */
static __thread struct {
	uint64_t owner;
	struct mrg_error error;
} last;

uint64_t mrg_private_error_owner(void)
{
	static _Atomic uint64_t owners;

	return atomic_fetch_add(&owners, 1) + 1;
}

int mrg_private_error_keep(uint64_t owner, const struct mrg_error *error)
{
	last.owner = owner;
	last.error = *error;
	return error->code;
}

void mrg_private_error_move(uint64_t from, uint64_t owner)
{
	if (last.owner == from)
		last.owner = owner;
}

int mrg_private_error_read(uint64_t owner, struct mrg_error *error)
{
	if (!last.error.code || last.owner != owner)
		return -ENODATA;
	*error = last.error;
	return 0;
}
