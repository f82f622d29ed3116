/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "base/opts.h"
#include "pool/pool.h"

#define DEFAULT_LIMIT (1ull << 30)
#define DEFAULT_MIN 4096
#define DEFAULT_MAX (64ull << 20)
#define DEFAULT_THREAD_CACHE (1ull << 20)
#define DEFAULT_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static int take_opts(const struct mrg_pool_opts *from, struct mrg_pool_opts *to)
{
	int ret = base_opts_copy(to, sizeof(*to), from);

	if (ret)
		return ret;
	if (to->flags || to->reserved || to->limit > 1ull << 60)
		return -EINVAL;
	to->limit = to->limit ? (to->limit + POOL_UNIT - 1) & ~(POOL_UNIT - 1) : DEFAULT_LIMIT;
	if (!to->min_size)
		to->min_size = DEFAULT_MIN;
	if (!to->max_size)
		to->max_size = to->limit < DEFAULT_MAX ? to->limit : DEFAULT_MAX;
	if (!to->thread_cache)
		to->thread_cache = DEFAULT_THREAD_CACHE;
	if (!to->access)
		to->access = DEFAULT_ACCESS;
	return to->max_size > to->limit ? -EINVAL : 0;
}

static int open_source(struct mrg_pool *pool, const struct mrg_pool_source *given)
{
	if (given) {
		pool->source = *given;
		return given->get && given->put && !given->reserved[0] && !given->reserved[1] ?
			       0 :
			       -EINVAL;
	}
	pool->source = pool_arena_source;
	pool->source.arg = &pool->arena;
	return pool_arena_init(&pool->arena, pool->limit);
}

/* @backend is the pool's from here on, if this succeeds. */
int pool_open_with(struct mrg_pool **out, const struct pool_backend *backend,
		   const struct mrg_pool_opts *given)
{
	struct mrg_pool_opts opts;
	struct mrg_pool *pool;
	int ret = take_opts(given, &opts);

	if (ret)
		return ret;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->backend = *backend;
	pool->limit = opts.limit;
	ret = pool_classes_init(pool, opts.min_size, opts.max_size, opts.thread_cache);
	if (!ret)
		ret = open_source(pool, opts.source);
	if (ret)
		goto free_pool;
	ret = pool_caches_init(pool);
	if (ret)
		goto release_arena;
	pthread_mutex_init(&pool->grow, NULL);
	pthread_mutex_init(&pool->threads, NULL);
	pthread_mutex_init(&pool->central, NULL);
	*out = pool;
	return 0;

release_arena:
	pool_arena_release(&pool->arena);
free_pool:
	free(pool);
	return ret;
}

int mrg_pool_open(struct mrg_pool **pool, struct mrg_ctx *ctx, struct ibv_pd *pd,
		  const struct mrg_pool_opts *given)
{
	struct pool_backend backend;
	struct mrg_pool_opts opts;
	int ret = take_opts(given, &opts);

	if (!ret)
		ret = pool_backend_open(&backend, ctx, pd, opts.access);
	if (ret)
		return ret;
	ret = pool_open_with(pool, &backend, given);
	if (ret)
		pool_backend_close(&backend);
	return ret;
}

int mrg_pool_close(struct mrg_pool *pool)
{
	struct mrg_pool_stats stats;
	ssize_t freed;

	if (!pool)
		return 0;
	mrg_pool_get_stats(pool, &stats);
	if (stats.in_use)
		return -EBUSY;
	freed = mrg_pool_trim(pool, 0);
	if (freed < 0)
		return (int)freed;
	pool_caches_release(pool);
	pool_arena_release(&pool->arena);
	pool_backend_close(&pool->backend);
	pthread_mutex_destroy(&pool->grow);
	pthread_mutex_destroy(&pool->threads);
	pthread_mutex_destroy(&pool->central);
	free(pool);
	return 0;
}

/* At the limit: what other threads keep, then what other sizes do not use; of
 * that first as little as could do. */
static int make_room(struct pool_cache *cache, unsigned int class, struct pool_buffer **out)
{
	struct mrg_pool *pool = cache->pool;
	uint64_t length = pool_slab_length(pool, class);
	const uint64_t keeps[] = { pool->limit - length, 0 };
	int ret = -ENOBUFS;

	if (length > pool->limit)
		return ret;
	pool->steals++;
	pool_caches_drain(pool, class);
	*out = pool_cache_refill(cache, class);
	if (*out)
		return 0;
	pool_caches_drain(pool, POOL_ALL_CLASSES);
	for (size_t i = 0; i < 2 && ret == -ENOBUFS; i++) {
		ssize_t freed = pool_slabs_free(pool, keeps[i]);

		ret = freed < 0 ? (int)freed : pool_slab_add(pool, class);
	}
	return ret;
}

static int grow(struct pool_cache *cache, unsigned int class, struct pool_buffer **out)
{
	struct mrg_pool *pool = cache->pool;
	int ret = 0;

	pthread_mutex_lock(&pool->grow);
	/* Others may have been here meanwhile, and may take all of a new slab. */
	do {
		*out = pool_cache_refill(cache, class);
		if (*out)
			break;
		ret = pool_slab_add(pool, class);
		if (ret == -ENOBUFS)
			ret = make_room(cache, class, out);
	} while (!ret && !*out);
	pthread_mutex_unlock(&pool->grow);
	return ret;
}

int mrg_pool_get(struct mrg_pool *pool, size_t length, const struct mrg_buf **buf)
{
	struct pool_cache *cache;
	struct pool_buffer *buffer;
	unsigned int class;
	int ret;

	if (!length)
		return -EINVAL;
	if (length > pool->max_size)
		return -EMSGSIZE;
	cache = pool_cache_mine(pool);
	if (!cache)
		return -ENOMEM;
	class = pool_class_of(pool, length);
	buffer = pool_cache_take(cache, class);
	if (!buffer)
		buffer = pool_cache_refill(cache, class);
	if (!buffer) {
		ret = grow(cache, class, &buffer);
		if (ret)
			return ret;
	}
	atomic_store_explicit(&buffer->out, true, memory_order_relaxed);
	*buf = &buffer->buf;
	return 0;
}

int mrg_pool_put(const struct mrg_buf *buf)
{
	struct pool_buffer *buffer = (struct pool_buffer *)(uintptr_t)buf;
	struct mrg_pool *pool = buffer->slab->pool;
	unsigned int class = buffer->slab->class;
	struct pool_cache *cache;

	if (!atomic_exchange_explicit(&buffer->out, false, memory_order_relaxed))
		return -EALREADY;
	cache = pool_cache_mine(pool);
	if (cache)
		pool_cache_put(cache, class, buffer);
	else
		pool_central_put(pool, class, &buffer, 1);
	return 0;
}

ssize_t mrg_pool_trim(struct mrg_pool *pool, uint64_t keep)
{
	ssize_t freed;

	pthread_mutex_lock(&pool->grow);
	pool_caches_drain(pool, POOL_ALL_CLASSES);
	freed = pool_slabs_free(pool, keep);
	pthread_mutex_unlock(&pool->grow);
	return freed;
}

static uint64_t count_cached(struct mrg_pool *pool)
{
	uint64_t count = 0;

	pthread_mutex_lock(&pool->threads);
	for (struct pool_cache *cache = pool->caches; cache; cache = cache->next) {
		pthread_mutex_lock(&cache->lock);
		for (unsigned int i = 0; i < pool->classes; i++)
			count += cache->bins[i].count;
		pthread_mutex_unlock(&cache->lock);
	}
	pthread_mutex_unlock(&pool->threads);
	return count;
}

void mrg_pool_get_stats(struct mrg_pool *pool, struct mrg_pool_stats *stats)
{
	uint64_t free_count = 0;

	*stats = (struct mrg_pool_stats){ .limit = pool->limit };
	pthread_mutex_lock(&pool->grow);
	stats->registered = pool->registered;
	stats->registrations = pool->registrations;
	stats->steals = pool->steals;
	stats->cached = count_cached(pool);
	pthread_mutex_lock(&pool->central);
	for (struct pool_slab *slab = pool->slabs; slab; slab = slab->next) {
		stats->slabs++;
		stats->buffers += slab->count;
		free_count += slab->free;
	}
	pthread_mutex_unlock(&pool->central);
	pthread_mutex_unlock(&pool->grow);
	/* Buffers move while they are counted: never below zero. */
	if (stats->buffers > free_count + stats->cached)
		stats->in_use = stats->buffers - free_count - stats->cached;
}
