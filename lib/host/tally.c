/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/tally.h"

int host_tally_init(struct host_tally *tally, size_t slots)
{
	*tally = (struct host_tally){ .slots = slots };
	tally->entries = calloc(slots, sizeof(*tally->entries));
	tally->spare = calloc(slots, sizeof(*tally->spare));
	if (tally->entries && tally->spare)
		return 0;
	host_tally_release(tally);
	return -ENOMEM;
}

void host_tally_release(struct host_tally *tally)
{
	free(tally->entries);
	free(tally->spare);
	tally->entries = tally->spare = NULL;
}

static uint64_t key_hash(const struct host_tally_key *key)
{
	uint64_t words[sizeof(*key) / sizeof(uint64_t)], hash = 0;

	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 32;
	}
	return hash;
}

static struct host_tally_entry *find_slot(const struct host_tally *tally,
					  const struct host_tally_key *key)
{
	size_t at = (size_t)key_hash(key) & (tally->slots - 1);

	while (tally->entries[at].count && memcmp(&tally->entries[at].key, key, sizeof(*key)))
		at = (at + 1) & (tally->slots - 1);
	return &tally->entries[at];
}

static size_t count_above(const struct host_tally *tally, uint64_t floor)
{
	size_t count = 0;

	for (size_t i = 0; i < tally->slots; i++)
		count += tally->entries[i].count > floor;
	return count;
}

/* Drops the rarest, until at most half of the slots are taken. */
static void prune(struct host_tally *tally)
{
	struct host_tally_entry *old = tally->entries;
	uint64_t floor = 1;

	while ((tally->used = count_above(tally, floor)) > tally->slots / 2)
		floor *= 2;
	memset(tally->spare, 0, tally->slots * sizeof(*old));
	tally->entries = tally->spare;
	tally->spare = old;
	for (size_t i = 0; i < tally->slots; i++)
		if (old[i].count > floor)
			*find_slot(tally, &old[i].key) = old[i];
}

void host_tally_add(struct host_tally *tally, const struct host_tally_key *key, uint64_t bytes,
		    int dontcopy)
{
	struct host_tally_entry *entry = find_slot(tally, key);

	if (!entry->count) {
		if (tally->used >= tally->slots / 4 * 3) {
			prune(tally);
			entry = find_slot(tally, key);
		}
		entry->key = *key;
		tally->used++;
	}
	entry->count++;
	entry->bytes += bytes;
	entry->dontcopy += dontcopy ? 1 : 0;
}

static int by_count(const void *a, const void *b)
{
	const struct host_tally_entry *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	/* A fixed order among equals, so that reports can be compared. */
	if (x->key.length != y->key.length)
		return x->key.length < y->key.length ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

size_t host_tally_sort(struct host_tally *tally)
{
	size_t kept = 0;

	for (size_t i = 0; i < tally->slots; i++)
		if (tally->entries[i].count)
			tally->entries[kept++] = tally->entries[i];
	qsort(tally->entries, kept, sizeof(*tally->entries), by_count);
	return kept;
}
