/* SPDX-License-Identifier: MIT */
/*
 * A hash table in sets of places, one cache line of keys a set.  No entry ever
 * moves, so it needs no lock.  Where a set is full the caller counts the MR as
 * unlisted, and registers it all the same.
 */
#include <string.h>

#include "guard/mr_table.h"

/* Low bits of a key; an MR's pointer has them clear. */
#define KEY_REMOVED 1ULL
#define KEY_BUSY 2ULL /* another thread fills the place */

static size_t set_of(const void *mr)
{
	/* Fibonacci hashing; malloc's pointers differ above bit 4. */
	uint64_t mixed = ((uintptr_t)mr >> 4) * 0x9e3779b97f4a7c15ULL;

	return (size_t)(mixed >> 52) % GUARD_SETS * GUARD_WAYS;
}

_Static_assert(GUARD_SETS == 1u << 12, "the hash keeps 12 bits");

static uint64_t load(const struct guard_state *state, size_t place)
{
	return atomic_load_explicit(&state->key[place], memory_order_acquire);
}

static bool swap(struct guard_state *state, size_t place, uint64_t from, uint64_t to)
{
	return atomic_compare_exchange_strong(&state->key[place], &from, to);
}

/* A free place, else the one whose MR was made first of those removed. */
static ssize_t choose(const struct guard_state *state, size_t set, uint64_t mr, uint64_t *key)
{
	ssize_t oldest = -1;

	for (size_t i = set; i < set + GUARD_WAYS; i++) {
		uint64_t k = load(state, i);

		if (!k || k == mr) {
			*key = k;
			return (ssize_t)i;
		}
		if ((k & KEY_REMOVED) &&
		    (oldest < 0 || state->record[i].number < state->record[oldest].number)) {
			oldest = (ssize_t)i;
			*key = k;
		}
	}
	return oldest;
}

bool guard_mr_add(struct guard_state *state, const void *mr, const struct guard_record *record)
{
	size_t set = set_of(mr);
	uint64_t key = 0;
	ssize_t place;

	/* A swap fails where another thread was faster. */
	for (unsigned int tries = 0; tries < 2 * GUARD_WAYS; tries++) {
		place = choose(state, set, (uintptr_t)mr, &key);
		if (place < 0)
			return false;
		if (!swap(state, (size_t)place, key, KEY_BUSY))
			continue;
		state->record[place] = *record;
		atomic_store_explicit(&state->key[place], (uintptr_t)mr, memory_order_release);
		return true;
	}
	return false;
}

static ssize_t find(const struct guard_state *state, const void *mr)
{
	size_t set = set_of(mr);

	for (size_t i = set; i < set + GUARD_WAYS; i++)
		if (load(state, i) == (uintptr_t)mr)
			return (ssize_t)i;
	return -1;
}

ssize_t guard_mr_remove(struct guard_state *state, const void *mr, struct guard_record *record)
{
	ssize_t place = find(state, mr);

	if (place < 0)
		return -1;
	*record = state->record[place];
	if (!swap(state, (size_t)place, (uintptr_t)mr, (uintptr_t)mr | KEY_REMOVED))
		return -1;
	return place;
}

void guard_mr_restore(struct guard_state *state, const void *mr, ssize_t place)
{
	swap(state, (size_t)place, (uintptr_t)mr | KEY_REMOVED, (uintptr_t)mr);
}

struct guard_record *guard_mr_find(struct guard_state *state, const void *mr)
{
	ssize_t place = find(state, mr);

	return place < 0 ? NULL : &state->record[place];
}

bool guard_mr_at(const struct guard_state *state, size_t place, struct guard_record *record)
{
	uint64_t key = load(state, place);

	if (!key || (key & (KEY_REMOVED | KEY_BUSY)))
		return false;
	*record = state->record[place];
	atomic_thread_fence(memory_order_acquire);
	return load(state, place) == key;
}
