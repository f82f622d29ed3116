/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "pool/pool.h"

static struct pool_slab *slab_new(struct mrg_pool *pool, unsigned int class, uint64_t length)
{
	size_t count = length / pool->sizes[class];
	struct pool_slab *slab = calloc(1, sizeof(*slab) + count * sizeof(slab->buffers[0]));

	if (!slab)
		return NULL;
	slab->pool = pool;
	slab->class = class;
	slab->memory.length = length;
	slab->memory.dmabuf_fd = -1;
	return slab;
}

/* Cuts the slab; buffers that would lie in two MRs are left out. */
static void cut(struct mrg_pool *pool, struct pool_slab *slab)
{
	uint64_t size = pool->sizes[slab->class];
	char *start = slab->memory.addr;

	for (uint64_t at = 0; at + size <= slab->memory.length; at += size) {
		struct pool_buffer *buffer = &slab->buffers[slab->count];

		buffer->buf.addr = start + at;
		buffer->buf.size = size;
		buffer->slab = slab;
		if (!pool->backend.keys(slab->handle, &buffer->buf))
			slab->count++;
	}
}

/* @slab keeps its handle where it could not be deregistered. */
static int reg(struct mrg_pool *pool, struct pool_slab *slab)
{
	const struct mrg_pool_memory *memory = &slab->memory;
	int ret;

	if (memory->reserved0 || memory->reserved[0] || memory->reserved[1])
		return -EINVAL;
	ret = pool->backend.reg(pool->backend.arg, memory, pool->sizes[slab->class], &slab->handle);
	if (ret)
		return ret;
	cut(pool, slab);
	if (slab->count)
		return 0;
	if (!pool->backend.dereg(slab->handle))
		slab->handle = NULL;
	return -EMSGSIZE;
}

int pool_slab_add(struct mrg_pool *pool, unsigned int class)
{
	uint64_t length = pool_slab_length(pool, class);
	struct pool_slab *slab;
	int ret;

	if (length > pool->limit - pool->registered)
		return -ENOBUFS;
	slab = slab_new(pool, class, length);
	if (!slab)
		return -ENOMEM;
	ret = pool->source.get(pool->source.arg, POOL_UNIT, &slab->memory);
	if (ret)
		goto free_slab;
	ret = reg(pool, slab);
	if (ret && !slab->handle)
		goto put_memory;
	/* Memory that a device may still write to is not handed back: such a
	 * slab stays, without buffers, until trimming can free it. */
	slab->next = pool->slabs;
	pool->slabs = slab;
	pool->registered += slab->memory.length;
	pool->registrations++;
	/* From the last to the first, so that the first is taken first. */
	for (unsigned int i = slab->count; i-- > 0;)
		pool_central_put(pool, class, &(struct pool_buffer *){ &slab->buffers[i] }, 1);
	return ret;

put_memory:
	pool->source.put(pool->source.arg, &slab->memory);
free_slab:
	free(slab);
	return ret;
}

/* Its buffers are out of every list: nobody can come by one any more. */
static int slab_free(struct mrg_pool *pool, struct pool_slab *slab)
{
	int ret = pool->backend.dereg(slab->handle);

	if (ret)
		return ret;
	pool->registered -= slab->memory.length;
	pool->source.put(pool->source.arg, &slab->memory);
	free(slab);
	return 0;
}

ssize_t pool_slabs_free(struct mrg_pool *pool, uint64_t keep)
{
	struct pool_slab **link = &pool->slabs;
	uint64_t before = pool->registered;

	while (*link && pool->registered > keep) {
		struct pool_slab *slab = *link;
		int ret;

		if (!pool_central_withdraw(pool, slab)) {
			link = &slab->next;
			continue;
		}
		*link = slab->next;
		ret = slab_free(pool, slab);
		if (ret) {
			/* Its keys are gone, its memory is still registered: it
			 * stays, without buffers, until it can be freed. */
			slab->count = 0;
			slab->next = *link;
			*link = slab;
			return ret;
		}
	}
	return (ssize_t)(before - pool->registered);
}
