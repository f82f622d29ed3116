/* SPDX-License-Identifier: MIT */
/*
 * Blocks of one size, in huge pages: a look-up among a million buffers misses
 * the cache, and must not miss the TLB as well (in a virtual machine that costs
 * more than the cache).  Memory is given back at the end alone.
 */
#ifndef REGISTRY_ARENA_H
#define REGISTRY_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct registry_arena {
	size_t block; /* bytes, a multiple of 64 */
	size_t next_chunk; /* bytes of the next one */
	struct arena_chunk *chunks;
	char *fresh, *end; /* never used yet */
	void *free; /* given back, linked by their first word */
};

void registry_arena_init(struct registry_arena *arena, size_t block);
/** registry_arena_take() - a block, aligned to 64 bytes, whose bytes may be anything;
 *  NULL: no memory */
void *registry_arena_take(struct registry_arena *arena);
void registry_arena_give(struct registry_arena *arena, void *block);
void registry_arena_destroy(struct registry_arena *arena);

#endif
