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

#define MRG_TALLY_KIND 96

struct mrg_tally_key {
	char kind[MRG_TALLY_KIND];
	char perms[8];
	uint64_t length;
};

struct mrg_tally_entry {
	struct mrg_tally_key key;
	uint64_t count;
	uint64_t bytes;
	uint64_t dontcopy;
};

struct mrg_tally {
	struct mrg_tally_entry *entries;	/* count 0 = free slot */
	struct mrg_tally_entry *spare;		/* where the next prune goes */
	size_t slots;				/* a power of two */
	size_t used;
};

/** mrg_tally_init() - for up to 3/4 of @slots keys; -ENOMEM */
int mrg_tally_init(struct mrg_tally *tally, size_t slots);
void mrg_tally_release(struct mrg_tally *tally);
/** mrg_tally_add() - count one of @key; unused bytes of the key must be zero */
void mrg_tally_add(struct mrg_tally *tally, const struct mrg_tally_key *key,
		   uint64_t bytes, int dontcopy);
/** mrg_tally_sort() - the entries move to the front, highest count first; only
 *  mrg_tally_release() may follow.  Return: their number. */
size_t mrg_tally_sort(struct mrg_tally *tally);

#endif
