/* SPDX-License-Identifier: MIT */
/*
 * The layouts of DMA-BUFs that were registered before, as decisions about them.
 * Asking for a layout maps the buffer once more, which costs a good part of a
 * registration; an engine that registers one buffer again and again pays that
 * once.
 *
 * Each DMA-BUF has an identity, and its addresses stay the same if neither an IOMMU
 * nor the exporter gives new ones.  Only then is a layout kept.
 */
#include <stdlib.h>
#include <string.h>

#include "region/request.h"

#define ENTRIES 16

struct entry {
	struct region_dmabuf_id id;
	const struct region_device *device;
	uint64_t offset;
	struct mrg_plan_opts opts;
	struct region_decision *decision;
};

struct region_layout_cache {
	struct entry entries[ENTRIES];
	size_t next;
};

static bool same(const struct entry *e, const struct region_dmabuf_id *id,
		 const struct region_request *req, const struct mrg_plan_opts *opts)
{
	return e->decision && !memcmp(&e->id, id, sizeof(*id)) && e->device == req->device &&
	       e->offset == req->offset && !memcmp(&e->opts, opts, sizeof(*opts));
}

struct region_decision *region_layout_cache_find(const struct region_request *req,
						 const struct mrg_plan_opts *opts)
{
	struct mrg_ctx *ctx = req->ctx;
	struct region_decision *found = NULL;
	struct region_dmabuf_id id;

	if (!ctx->layout_cache || !ctx->env->dmabuf_id(req->fd, &id))
		return NULL;
	pthread_mutex_lock(&ctx->lock);
	for (size_t i = 0; i < ENTRIES && !found; i++)
		if (same(&ctx->layout_cache->entries[i], &id, req, opts))
			found = ctx->layout_cache->entries[i].decision;
	if (found)
		atomic_fetch_add(&found->refs, 1);
	pthread_mutex_unlock(&ctx->lock);
	return found;
}

void region_layout_cache_add(const struct region_request *req, const struct mrg_plan_opts *opts,
			     struct region_decision *decision)
{
	struct mrg_ctx *ctx = req->ctx;
	struct region_decision *old = NULL;
	struct region_dmabuf_id id;
	struct entry *e;

	if (decision->translated || decision->moves || !ctx->env->dmabuf_id(req->fd, &id))
		return;
	pthread_mutex_lock(&ctx->lock);
	if (!ctx->layout_cache)
		ctx->layout_cache = calloc(1, sizeof(*ctx->layout_cache));
	if (ctx->layout_cache) {
		e = &ctx->layout_cache->entries[ctx->layout_cache->next++ % ENTRIES];
		old = e->decision;
		*e = (struct entry){ .id = id,
				     .device = req->device,
				     .offset = req->offset,
				     .opts = *opts,
				     .decision = decision };
		atomic_fetch_add(&decision->refs, 1);
	}
	pthread_mutex_unlock(&ctx->lock);
	region_decision_put(old);
}

void region_layout_cache_drop(struct mrg_ctx *ctx)
{
	for (size_t i = 0; ctx->layout_cache && i < ENTRIES; i++)
		region_decision_put(ctx->layout_cache->entries[i].decision);
	free(ctx->layout_cache);
	ctx->layout_cache = NULL;
}
