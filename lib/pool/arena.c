/* SPDX-License-Identifier: MIT */
/* One range of address space; slabs take units of it, and give their pages back. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/pool.h"

int pool_arena_init(struct pool_arena *arena, uint64_t length)
{
	/* Slabs of different lengths leave gaps: address space is no object. */
	*arena = (struct pool_arena){ .units = 2 * length / POOL_UNIT,
				      .mapped = 2 * length + POOL_UNIT };
	arena->used = calloc(arena->units, 1);
	arena->map = mmap(NULL, arena->mapped, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!arena->used || arena->map == MAP_FAILED) {
		if (arena->map != MAP_FAILED)
			munmap(arena->map, arena->mapped);
		free(arena->used);
		return -ENOMEM;
	}
	arena->start =
		(char *)(((uintptr_t)arena->map + POOL_UNIT - 1) & ~(uintptr_t)(POOL_UNIT - 1));
	/* All of the map, so that it stays one VMA.  Where the kernel has no huge
	 * pages this fails, and ordinary ones do. */
	madvise(arena->map, arena->mapped, MADV_HUGEPAGE);
	return 0;
}

void pool_arena_release(struct pool_arena *arena)
{
	if (!arena->used)
		return;
	munmap(arena->map, arena->mapped);
	free(arena->used);
}

/* First fit, so that what is in use stays together. */
static size_t find_units(const struct pool_arena *arena, size_t count)
{
	size_t run = 0;

	for (size_t i = 0; i < arena->units; i++) {
		run = arena->used[i] ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return arena->units;
}

static int arena_get(void *arg, size_t align, struct mrg_pool_memory *memory)
{
	struct pool_arena *arena = arg;
	size_t count = memory->length / POOL_UNIT, at = find_units(arena, count);

	(void)align; /* units are as large as any alignment asked for */
	if (at == arena->units)
		return -ENOBUFS;
	memset(arena->used + at, 1, count);
	memory->addr = arena->start + at * POOL_UNIT;
	memory->dmabuf_fd = -1;
	return 0;
}

static void arena_put(void *arg, struct mrg_pool_memory *memory)
{
	struct pool_arena *arena = arg;
	size_t at = (size_t)((char *)memory->addr - arena->start) / POOL_UNIT;

	madvise(memory->addr, memory->length, MADV_DONTNEED);
	memset(arena->used + at, 0, memory->length / POOL_UNIT);
}

const struct mrg_pool_source pool_arena_source = {
	.get = arena_get,
	.put = arena_put,
};
