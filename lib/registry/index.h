/* SPDX-License-Identifier: MIT */
/*
 * Ranges of addresses, to be found by a range that they hold.
 *
 * A B+tree by first address; each inner node also knows how far the ranges
 * below it reach.  Readers take no lock and never wait: they walk inside an RCU
 * read section (liburcu's bp flavour: threads need not announce themselves).  A
 * leaf never changes; the writer, of which there is one at a time, puts a
 * changed copy in its place by one store.  An inner node's children change in
 * place, and it is copied only when it gets another number of them.
 *
 * Leaves are given back when they are empty, not merged when they are half so:
 * with mixed inserts and removals that costs little space (Johnson and Shasha,
 * "B-trees with inserts and deletes: why free-at-empty is better than
 * merge-at-half", 1993), and keeps most removals to one leaf.
 */
#ifndef REGISTRY_INDEX_H
#define REGISTRY_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "registry/arena.h"

struct mrg_buffer;

/**
 * struct registry_index_range - a record's range, and what look-ups must know of it
 * @first, @last: both in it, so a range may end at 2^64 - 1
 * @have:	bit n: the record has entry n, and can be held.  Here, and not in
 *		the record, whose memory a look-up then need not wait for.
 */
struct registry_index_range {
	uint64_t first;
	uint64_t last;
	struct mrg_buffer *buffer;
	_Atomic uint64_t have;
};

#define INDEX_CLOSED (1ull << 63) /* in @have, alone: not to be found */

/* Blocks that readers may still look at, until a grace period has passed. */
#define INDEX_RETIRED 512

struct registry_index {
	_Atomic uintptr_t root;
	struct registry_arena nodes;
	struct registry_arena records;
	size_t retired_count;
	struct {
		void *block;
		struct registry_arena *arena;
	} retired[INDEX_RETIRED];
};

/**
 * struct registry_index_query - what is looked for, and what was found
 * @first, @last: the range
 * @need:	bits of @have, one of which the range must have
 * @best:	OUT inside the read section
 * @other:	OUT a buffer holds the range, without that entry
 */
struct registry_index_query {
	uint64_t first;
	uint64_t last;
	uint64_t need;
	struct registry_index_range best;
	bool other;
};

/* Readers, inside the read section. */

/** registry_index_holding() - the shortest range that holds all of the query's; of
 *  several, the one that starts last, and then the newest */
void registry_index_holding(struct registry_index *index, struct registry_index_query *query);
/** registry_index_reaching() - of the ranges that hold the query's first byte, the one
 *  that reaches furthest; of several, the shortest, and then the newest */
void registry_index_reaching(struct registry_index *index, struct registry_index_query *query);
/** registry_index_exact() - a buffer with exactly this range that @match accepts */
struct mrg_buffer *registry_index_exact(struct registry_index *index, uint64_t first, uint64_t last,
					bool (*match)(const struct mrg_buffer *buffer,
						      const void *arg),
					const void *arg);

/* The writer. */

void registry_index_init(struct registry_index *index, size_t record_bytes);
/** registry_index_insert() - 0; -ENOMEM: nothing changed */
int registry_index_insert(struct registry_index *index, const struct registry_index_range *range);
/** registry_index_set() - change what look-ups see of the record */
void registry_index_set(struct registry_index *index, const struct registry_index_range *range);
/** registry_index_remove() - the same range and buffer; 0; -ENOMEM: nothing changed */
int registry_index_remove(struct registry_index *index, const struct registry_index_range *range);
/** registry_index_retire() - give @block back to @arena when no reader can look at it
 *  any more */
void registry_index_retire(struct registry_index *index, struct registry_arena *arena, void *block);
/** registry_index_each() - call @visit for each range, until it returns non-zero */
int registry_index_each(struct registry_index *index,
			int (*visit)(struct mrg_buffer *buffer, void *arg), void *arg);
/** registry_index_destroy() - free everything, records too.  No reader is left. */
void registry_index_destroy(struct registry_index *index);

#endif
