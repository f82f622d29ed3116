/* SPDX-License-Identifier: MIT */
/* Size classes: two a doubling (1, 1.5, 2, 3, 4, ...), so that at most a third
 * of a buffer is wasted. */
#include <errno.h>

#include "pool/pool.h"

/* A slab's rest that no buffer fits in: at most one part in this. */
#define WASTE_SHARE 8
#define SLAB_UNITS_MAX 8

static uint64_t class_size(const struct mrg_pool *pool, unsigned int class)
{
	uint64_t even = 1ull << (pool->min_shift + class / 2);

	return class % 2 ? even + even / 2 : even;
}

unsigned int pool_class_of(const struct mrg_pool *pool, size_t length)
{
	uint64_t above = ((uint64_t)length - 1) >> pool->min_shift;
	unsigned int octave;

	if (!above)
		return 0;
	octave = 63 - (unsigned int)__builtin_clzll(above);
	/* Between 2^octave and twice that of the smallest size. */
	return length <= class_size(pool, 2 * octave + 1) ? 2 * octave + 1 : 2 * octave + 2;
}

static unsigned int cap_of(uint64_t size, uint64_t thread_cache)
{
	uint64_t fit = thread_cache / size;

	if (fit < 2)
		return 2;
	return fit > POOL_CACHED ? POOL_CACHED : (unsigned int)fit;
}

int pool_classes_init(struct mrg_pool *pool, uint64_t min_size, uint64_t max_size,
		      uint64_t thread_cache)
{
	if (min_size < 64 || (min_size & (min_size - 1)) || max_size < min_size)
		return -EINVAL;
	pool->min_shift = (unsigned int)__builtin_ctzll(min_size);
	pool->max_size = max_size;
	if (max_size > 1ull << 48)
		return -EINVAL;
	pool->classes = pool_class_of(pool, max_size) + 1;
	if (pool->classes > POOL_CLASSES)
		return -EINVAL;
	for (unsigned int i = 0; i < pool->classes; i++) {
		pool->sizes[i] = class_size(pool, i);
		pool->caps[i] = cap_of(pool->sizes[i], thread_cache);
	}
	return 0;
}

/* The shortest whole number of units whose rest is small. */
uint64_t pool_slab_length(const struct mrg_pool *pool, unsigned int class)
{
	uint64_t size = pool->sizes[class], first = (size + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;

	for (uint64_t length = first; length <= SLAB_UNITS_MAX * POOL_UNIT; length += POOL_UNIT)
		if (length % size <= length / WASTE_SHARE)
			return length;
	return first;
}
