/* SPDX-License-Identifier: MIT */
#include "pool/pool.h"

void pool_central_put(struct mrg_pool *pool, unsigned int class, struct pool_buffer **buffers,
		      unsigned int count)
{
	pthread_mutex_lock(&pool->central);
	for (unsigned int i = 0; i < count; i++) {
		buffers[i]->slab->free++;
		buffers[i]->next = pool->free[class];
		pool->free[class] = buffers[i];
	}
	pthread_mutex_unlock(&pool->central);
}

unsigned int pool_central_take(struct mrg_pool *pool, unsigned int class,
			       struct pool_buffer **buffers, unsigned int count)
{
	unsigned int taken = 0;

	pthread_mutex_lock(&pool->central);
	while (taken < count && pool->free[class]) {
		struct pool_buffer *buffer = pool->free[class];

		pool->free[class] = buffer->next;
		buffer->slab->free--;
		buffers[taken++] = buffer;
	}
	pthread_mutex_unlock(&pool->central);
	return taken;
}

static void unlink_slab(struct mrg_pool *pool, const struct pool_slab *slab)
{
	struct pool_buffer **link = &pool->free[slab->class];

	while (*link) {
		if ((*link)->slab == slab)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
}

bool pool_central_withdraw(struct mrg_pool *pool, struct pool_slab *slab)
{
	bool all;

	pthread_mutex_lock(&pool->central);
	all = slab->free == slab->count;
	if (all) {
		unlink_slab(pool, slab);
		slab->free = 0;
	}
	pthread_mutex_unlock(&pool->central);
	return all;
}
