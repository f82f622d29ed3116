/* SPDX-License-Identifier: MIT */
/*
 * Counts how often things occur, in bounded memory: when the table is full, the
 * rarest are dropped (lossy counting).  What is frequent stays, its count short
 * by at most what the table dropped.
 */
#ifndef HOST_TALLY_H
#define HOST_TALLY_H

#include <stddef.h>
#include <stdint.h>

#define HOST_TALLY_KIND 96

struct host_tally_key {
	char kind[HOST_TALLY_KIND];
	char perms[8];
	uint64_t length;
};

struct host_tally_entry {
	struct host_tally_key key;
	uint64_t count;
	uint64_t bytes;
	uint64_t dontcopy;
};

struct host_tally {
	struct host_tally_entry *entries; /* count 0 = free slot */
	struct host_tally_entry *spare; /* where the next prune goes */
	size_t slots; /* a power of two */
	size_t used;
};

/** host_tally_init() - for up to 3/4 of @slots keys; -ENOMEM */
int host_tally_init(struct host_tally *tally, size_t slots);
void host_tally_release(struct host_tally *tally);
/** host_tally_add() - count one of @key; unused bytes of the key must be zero */
void host_tally_add(struct host_tally *tally, const struct host_tally_key *key, uint64_t bytes,
		    int dontcopy);
/** host_tally_sort() - the entries move to the front, highest count first; only
 *  host_tally_release() may follow.  Return: their number. */
size_t host_tally_sort(struct host_tally *tally);

#endif
