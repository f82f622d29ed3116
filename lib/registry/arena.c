/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <sys/mman.h>

#include "registry/arena.h"

#define CHUNK_MIN (64u << 10)
#define CHUNK_MAX (8u << 20)
#define HUGE (2u << 20)
#define LINE 64u

struct arena_chunk {
	struct arena_chunk *next;
	void *mapping;
	size_t mapped;
};

void registry_arena_init(struct registry_arena *arena, size_t block)
{
	*arena = (struct registry_arena){ .block = (block + LINE - 1) / LINE * LINE,
					  .next_chunk = CHUNK_MIN };
}

/* Large ones start at a huge page's border; small ones are for few buffers. */
static int add_chunk(struct registry_arena *arena)
{
	size_t bytes = arena->next_chunk, slack = bytes >= HUGE ? HUGE : 0;
	struct arena_chunk *chunk;
	char *mapping, *start;

	mapping = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (mapping == MAP_FAILED)
		return -1;
	start = mapping;
	if (slack) {
		start += (HUGE - (uintptr_t)mapping % HUGE) % HUGE;
		/* Advice: what cannot be followed costs time alone. */
		madvise(start, bytes, MADV_HUGEPAGE);
	}
	chunk = (struct arena_chunk *)start;
	*chunk = (struct arena_chunk){ arena->chunks, mapping, bytes + slack };
	arena->chunks = chunk;
	arena->fresh = start + LINE;
	arena->end = start + bytes;
	if (arena->next_chunk < CHUNK_MAX)
		arena->next_chunk *= 2;
	return 0;
}

void *registry_arena_take(struct registry_arena *arena)
{
	char *block = arena->free;

	if (block) {
		arena->free = *(void **)block;
		return block;
	}
	if ((size_t)(arena->end - arena->fresh) < arena->block && add_chunk(arena))
		return NULL;
	block = arena->fresh;
	arena->fresh += arena->block;
	return block;
}

void registry_arena_give(struct registry_arena *arena, void *block)
{
	*(void **)block = arena->free;
	arena->free = block;
}

void registry_arena_destroy(struct registry_arena *arena)
{
	struct arena_chunk *next;

	for (struct arena_chunk *at = arena->chunks; at; at = next) {
		next = at->next;
		munmap(at->mapping, at->mapped);
	}
	arena->chunks = NULL;
}
