/* SPDX-License-Identifier: MIT */
/* Slabs are registered as any buffer is, by mrg_reg() and mrg_reg_dmabuf(). */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "pool/pool.h"

struct registrar {
	struct mrg_ctx *ctx;
	struct ibv_pd *pd;
	int access;
};

static int reg(void *arg, const struct mrg_pool_memory *memory, size_t unit, void **handle)
{
	const struct registrar *with = arg;
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .unit = unit };
	const struct mrg_dmabuf dmabuf = {
		.fd = memory->dmabuf_fd,
		.base = (uintptr_t)memory->addr,
		.offset = memory->dmabuf_offset,
	};
	struct mrg_mr *mr;
	int ret;

	if (memory->dmabuf_fd < 0)
		ret = mrg_reg(with->ctx, with->pd, memory->addr, memory->length, with->access,
			      &opts, &mr);
	else
		ret = mrg_reg_dmabuf(with->ctx, with->pd, &dmabuf, dmabuf.base, memory->length,
				     with->access, &opts, &mr);
	if (!ret)
		*handle = mr;
	return ret;
}

static int keys(void *handle, struct mrg_buf *buf)
{
	struct mrg_seg seg;

	if (mrg_keys(handle, (uintptr_t)buf->addr, buf->size, &seg, 1) != 1)
		return -EMSGSIZE;
	buf->wire = seg.wire;
	buf->lkey = seg.lkey;
	buf->rkey = seg.rkey;
	buf->mr = handle;
	return 0;
}

static int dereg(void *handle)
{
	return mrg_dereg(handle);
}

int pool_backend_open(struct pool_backend *backend, struct mrg_ctx *ctx, struct ibv_pd *pd,
		      int access)
{
	struct registrar *with = malloc(sizeof(*with));

	if (!with)
		return -ENOMEM;
	*with = (struct registrar){ .ctx = ctx, .pd = pd, .access = access };
	*backend = (struct pool_backend){ .reg = reg, .keys = keys, .dereg = dereg, .arg = with };
	return 0;
}

void pool_backend_close(struct pool_backend *backend)
{
	free(backend->arg);
}
