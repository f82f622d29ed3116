/* SPDX-License-Identifier: MIT */
/*
 * Each thread's own free buffers.  A cache has a lock all the same: at the limit
 * other threads take from it.  Nobody waits for it otherwise.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"

static void drain_bin(struct pool_cache *cache, unsigned int class)
{
	struct pool_buffer *buffers[POOL_CACHED];
	struct pool_bin *bin = &cache->bins[class];
	unsigned int count;

	pthread_mutex_lock(&cache->lock);
	count = bin->count;
	memcpy(buffers, bin->buffers, count * sizeof(*buffers));
	bin->count = 0;
	pthread_mutex_unlock(&cache->lock);
	if (count)
		pool_central_put(cache->pool, class, buffers, count);
}

void pool_caches_drain(struct mrg_pool *pool, unsigned int class)
{
	pthread_mutex_lock(&pool->threads);
	for (struct pool_cache *cache = pool->caches; cache; cache = cache->next)
		for (unsigned int i = 0; i < pool->classes; i++)
			if (class == POOL_ALL_CLASSES || class == i)
				drain_bin(cache, i);
	pthread_mutex_unlock(&pool->threads);
}

static void cache_free(struct pool_cache *cache)
{
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

/* A thread ends: what it kept goes to all. */
static void thread_ends(void *arg)
{
	struct pool_cache *cache = arg;
	struct mrg_pool *pool = cache->pool;

	pthread_mutex_lock(&pool->threads);
	*cache->link = cache->next;
	if (cache->next)
		cache->next->link = cache->link;
	pthread_mutex_unlock(&pool->threads);
	for (unsigned int i = 0; i < pool->classes; i++)
		drain_bin(cache, i);
	cache_free(cache);
}

int pool_caches_init(struct mrg_pool *pool)
{
	return -pthread_key_create(&pool->key, thread_ends);
}

void pool_caches_release(struct mrg_pool *pool)
{
	struct pool_cache *cache;

	pthread_key_delete(pool->key);
	while ((cache = pool->caches)) {
		pool->caches = cache->next;
		cache_free(cache);
	}
}

static struct pool_cache *cache_new(struct mrg_pool *pool)
{
	struct pool_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->pool = pool;
	pthread_mutex_init(&cache->lock, NULL);
	if (pthread_setspecific(pool->key, cache)) {
		cache_free(cache);
		return NULL;
	}
	pthread_mutex_lock(&pool->threads);
	cache->next = pool->caches;
	cache->link = &pool->caches;
	if (cache->next)
		cache->next->link = &cache->next;
	pool->caches = cache;
	pthread_mutex_unlock(&pool->threads);
	return cache;
}

struct pool_cache *pool_cache_mine(struct mrg_pool *pool)
{
	struct pool_cache *cache = pthread_getspecific(pool->key);

	return cache ? cache : cache_new(pool);
}

struct pool_buffer *pool_cache_take(struct pool_cache *cache, unsigned int class)
{
	struct pool_bin *bin = &cache->bins[class];
	struct pool_buffer *buffer = NULL;

	pthread_mutex_lock(&cache->lock);
	if (bin->count)
		buffer = bin->buffers[--bin->count];
	pthread_mutex_unlock(&cache->lock);
	return buffer;
}

/* A full bin passes half on, so that the next calls find room and buffers. */
void pool_cache_put(struct pool_cache *cache, unsigned int class, struct pool_buffer *buffer)
{
	struct pool_bin *bin = &cache->bins[class];
	unsigned int cap = cache->pool->caps[class], passed = 0;
	struct pool_buffer *buffers[POOL_CACHED];

	pthread_mutex_lock(&cache->lock);
	if (bin->count == cap) {
		passed = (cap + 1) / 2;
		bin->count -= passed;
		memcpy(buffers, bin->buffers + bin->count, passed * sizeof(*buffers));
	}
	bin->buffers[bin->count++] = buffer;
	pthread_mutex_unlock(&cache->lock);
	if (passed)
		pool_central_put(cache->pool, class, buffers, passed);
}

struct pool_buffer *pool_cache_refill(struct pool_cache *cache, unsigned int class)
{
	struct pool_buffer *buffers[POOL_CACHED];
	struct mrg_pool *pool = cache->pool;
	struct pool_bin *bin = &cache->bins[class];
	unsigned int count, kept = 0;

	count = pool_central_take(pool, class, buffers, (pool->caps[class] + 1) / 2);
	if (!count)
		return NULL;
	pthread_mutex_lock(&cache->lock);
	while (kept < count - 1 && bin->count < pool->caps[class])
		bin->buffers[bin->count++] = buffers[1 + kept++];
	pthread_mutex_unlock(&cache->lock);
	/* Only where another call of this thread filled the bin meanwhile. */
	if (kept < count - 1)
		pool_central_put(pool, class, buffers + 1 + kept, count - 1 - kept);
	return buffers[0];
}
