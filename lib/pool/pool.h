/* SPDX-License-Identifier: MIT */
/*
 * A pool's parts.  Internal to lib/pool.
 *
 * classes.c: which sizes there are.  arena.c: host memory for slabs.  slab.c:
 * memory that is registered as one and cut into buffers of one class.
 * central.c: free buffers that belong to no thread.  cache.c: those that do.
 * pool.c: the public calls.
 *
 * Locks: @grow (one thread makes or frees slabs at a time), then @threads (the
 * list of caches), then one cache's own, then @central.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <mrguard/pool.h>

#define POOL_UNIT (2ull << 20) /* memory comes in these: a huge page */
#define POOL_CLASSES 64
#define POOL_CACHED 64 /* buffers of a class in a cache, at most */

struct pool_slab;

struct pool_buffer {
	struct mrg_buf buf; /* first: what callers hold */
	struct pool_slab *slab;
	struct pool_buffer *next; /* in the central list */
	atomic_bool out;
};

struct pool_slab {
	struct mrg_pool *pool;
	struct pool_slab *next;
	struct mrg_pool_memory memory;
	void *handle; /* of its registration */
	unsigned int class;
	unsigned int count; /* buffers that can be handed out */
	unsigned int free; /* of these, in the central list */
	struct pool_buffer buffers[];
};

/* A class's share of a cache. */
struct pool_bin {
	unsigned int count;
	struct pool_buffer *buffers[POOL_CACHED];
};

struct pool_cache {
	pthread_mutex_t lock;
	struct mrg_pool *pool;
	struct pool_cache *next, **link;
	struct pool_bin bins[POOL_CLASSES];
};

/* What registers slabs; tests put their own in its place. */
struct pool_backend {
	int (*reg)(void *arg, const struct mrg_pool_memory *memory, size_t unit, void **handle);
	/* 0 where one MR covers the range: address and keys of @buf are set. */
	int (*keys)(void *handle, struct mrg_buf *buf);
	int (*dereg)(void *handle);
	void *arg;
};

struct pool_arena {
	char *start;
	size_t units;
	size_t mapped;
	void *map;
	unsigned char *used; /* one for each unit */
};

struct mrg_pool {
	struct pool_backend backend;
	struct mrg_pool_source source;
	struct pool_arena arena; /* of the pool's own source */
	uint64_t limit;
	uint64_t max_size;
	unsigned int min_shift;
	unsigned int classes;
	uint64_t sizes[POOL_CLASSES];
	unsigned int caps[POOL_CLASSES]; /* of a cache's bin */
	pthread_key_t key;

	pthread_mutex_t grow;
	struct pool_slab *slabs;
	uint64_t registered;
	uint64_t registrations;
	uint64_t steals;

	pthread_mutex_t threads;
	struct pool_cache *caches;

	pthread_mutex_t central;
	struct pool_buffer *free[POOL_CLASSES];
};

/* classes.c */
int pool_classes_init(struct mrg_pool *pool, uint64_t min_size, uint64_t max_size,
		      uint64_t thread_cache);
unsigned int pool_class_of(const struct mrg_pool *pool, size_t length);
uint64_t pool_slab_length(const struct mrg_pool *pool, unsigned int class);

/* arena.c: a source of host memory */
int pool_arena_init(struct pool_arena *arena, uint64_t length);
void pool_arena_release(struct pool_arena *arena);
extern const struct mrg_pool_source pool_arena_source;

/* slab.c, under @grow */
int pool_slab_add(struct mrg_pool *pool, unsigned int class);
ssize_t pool_slabs_free(struct mrg_pool *pool, uint64_t keep);

/* central.c */
void pool_central_put(struct mrg_pool *pool, unsigned int class, struct pool_buffer **buffers,
		      unsigned int count);
unsigned int pool_central_take(struct mrg_pool *pool, unsigned int class,
			       struct pool_buffer **buffers, unsigned int count);
/* Takes a slab's buffers out of the list, if all of them are in it. */
bool pool_central_withdraw(struct mrg_pool *pool, struct pool_slab *slab);

/* cache.c */
int pool_caches_init(struct mrg_pool *pool);
void pool_caches_release(struct mrg_pool *pool);
struct pool_cache *pool_cache_mine(struct mrg_pool *pool);
struct pool_buffer *pool_cache_take(struct pool_cache *cache, unsigned int class);
void pool_cache_put(struct pool_cache *cache, unsigned int class, struct pool_buffer *buffer);
/* Takes from the central list; NULL where that is empty. */
struct pool_buffer *pool_cache_refill(struct pool_cache *cache, unsigned int class);
/* Moves what all threads keep of a class, or of all, to the central list. */
void pool_caches_drain(struct mrg_pool *pool, unsigned int class);
#define POOL_ALL_CLASSES POOL_CLASSES

/* pool.c */
int pool_open_with(struct mrg_pool **out, const struct pool_backend *backend,
		   const struct mrg_pool_opts *opts);

/* backend.c: mrg_reg() and its like */
int pool_backend_open(struct pool_backend *backend, struct mrg_ctx *ctx, struct ibv_pd *pd,
		      int access);
void pool_backend_close(struct pool_backend *backend);

#endif
