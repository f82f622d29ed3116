/* SPDX-License-Identifier: MIT */
/* A pool's registrations, counted; nothing is registered. */
#ifndef POOL_FAKE_H
#define POOL_FAKE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/pool.h"

struct fake {
	atomic_int live;
	atomic_int made;
	int fail_reg; /* -errno of registrations, 0: none */
	int fail_dereg;
	uint64_t max_mr; /* MRs end at multiples of this; 0: one */
	int last_fd;
	uint64_t last_unit;
};

struct fake_mr {
	struct fake *fake;
	uint64_t start;
	uint32_t key;
};

static inline int fake_reg(void *arg, const struct mrg_pool_memory *memory, size_t unit,
			   void **handle)
{
	struct fake *fake = *(struct fake **)arg;
	struct fake_mr *mr;

	if (fake->fail_reg)
		return fake->fail_reg;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->fake = fake;
	mr->start = (uintptr_t)memory->addr;
	mr->key = (uint32_t)atomic_fetch_add(&fake->made, 1) << 8;
	atomic_fetch_add(&fake->live, 1);
	fake->last_fd = memory->dmabuf_fd;
	fake->last_unit = unit;
	*handle = mr;
	return 0;
}

static inline int fake_keys(void *handle, struct mrg_buf *buf)
{
	const struct fake_mr *mr = handle;
	uint64_t at = (uintptr_t)buf->addr - mr->start, max = mr->fake->max_mr;

	if (max && at / max != (at + buf->size - 1) / max)
		return -EMSGSIZE;
	buf->wire = (uintptr_t)buf->addr;
	buf->lkey = buf->rkey = mr->key;
	return 0;
}

static inline int fake_dereg(void *handle)
{
	struct fake_mr *mr = handle;

	if (mr->fake->fail_dereg)
		return mr->fake->fail_dereg;
	atomic_fetch_sub(&mr->fake->live, 1);
	free(mr);
	return 0;
}

static inline int fake_open(struct mrg_pool **pool, struct fake *fake, struct mrg_pool_opts opts)
{
	/* The pool frees what its backend holds. */
	struct fake **arg = malloc(sizeof(*arg));
	struct pool_backend backend = {
		.reg = fake_reg, .keys = fake_keys, .dereg = fake_dereg, .arg = arg
	};
	int ret;

	if (!arg)
		return -ENOMEM;
	*arg = fake;
	opts.size = sizeof(opts);
	ret = pool_open_with(pool, &backend, &opts);
	if (ret)
		free(arg);
	return ret;
}

#endif
