/* SPDX-License-Identifier: MIT */
/* Each thread's last failure; part of libmrguard alone. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

/*
 * One a thread, not one a handle and thread: a failure takes no lock, and a
 * handle that ends has nothing to free.  The owner keeps a closed handle's
 * failure from being taken for another's.
 *
 * The words lie in memory of their own, from a thread's first failure until it
 * ends: thread-local storage of a preloaded library is small, and shared with
 * all other libraries of the program.
 */
static __thread struct {
	uint64_t owner;
	int code; /* 0: nothing failed yet */
	int piece;
	struct mrg_error *whole; /* NULL: no memory was left for it */
} last;

static pthread_key_t key; /* its destructor frees a thread's @whole */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static atomic_bool has_key;

static void end_thread(void *whole)
{
	last.whole = NULL;
	last.code = 0;
	free(whole);
}

static void make_key(void)
{
	atomic_store(&has_key, !pthread_key_create(&key, end_thread));
}

/* Where the library is unloaded, no thread may come back to end_thread(). */
__attribute__((destructor)) static void drop_key(void)
{
	if (atomic_exchange(&has_key, false))
		pthread_key_delete(key);
	free(last.whole);
	last.whole = NULL;
}

static struct mrg_error *make_whole(void)
{
	struct mrg_error *whole;

	pthread_once(&key_once, make_key);
	whole = atomic_load(&has_key) ? malloc(sizeof(*whole)) : NULL;
	if (whole && !pthread_setspecific(key, whole))
		return whole;
	free(whole);
	return NULL;
}

uint64_t mrg_private_error_owner(void)
{
	static _Atomic uint64_t owners;

	return atomic_fetch_add(&owners, 1) + 1;
}

int mrg_private_error_keep(uint64_t owner, const struct mrg_error *error)
{
	int saved = errno;

	if (!last.whole)
		last.whole = make_whole();
	if (last.whole)
		*last.whole = *error;
	last.owner = owner;
	last.code = error->code;
	last.piece = error->piece;
	errno = saved;
	return error->code;
}

void mrg_private_error_move(uint64_t from, uint64_t owner)
{
	if (last.owner == from)
		last.owner = owner;
}

int mrg_private_error_read(uint64_t owner, struct mrg_error *error)
{
	if (!last.code || last.owner != owner)
		return -ENODATA;
	if (last.whole)
		*error = *last.whole;
	else
		base_error_set_piece(
			error, last.code, last.piece, "keep error",
			"Free memory and repeat the call.",
			"The call failed with error %d, and no memory was left to keep its cause.",
			-last.code);
	return 0;
}
