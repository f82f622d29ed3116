/* SPDX-License-Identifier: MIT */
/*
 * DMA-BUFs seen before.  Asking for a layout maps the buffer once more, which
 * costs a good part of a registration; an engine that registers one buffer
 * again and again pays that once.
 *
 * A DMA-BUF can be told from any other, and the addresses behind it stay the
 * same where neither an IOMMU nor the exporter gives new ones; only then is
 * anything kept.
 */
#include <stdlib.h>
#include <string.h>

#include "region/request.h"

#define SEEN 16

struct seen_entry {
	struct region_dmabuf_id id;
	const struct region_device *device;
	uint64_t offset;
	struct mrg_plan_opts opts;
	struct region_decision *decision;
};

struct region_seen {
	struct seen_entry entries[SEEN];
	size_t next;
};

static bool same(const struct seen_entry *e, const struct region_dmabuf_id *id,
		 const struct region_request *req, const struct mrg_plan_opts *opts)
{
	return e->decision && !memcmp(&e->id, id, sizeof(*id)) && e->device == req->device &&
	       e->offset == req->offset && !memcmp(&e->opts, opts, sizeof(*opts));
}

struct region_decision *region_seen_find(const struct region_request *req,
					 const struct mrg_plan_opts *opts)
{
	struct mrg_ctx *ctx = req->ctx;
	struct region_decision *found = NULL;
	struct region_dmabuf_id id;

	if (!ctx->seen || !ctx->env->dmabuf_id(req->fd, &id))
		return NULL;
	pthread_mutex_lock(&ctx->lock);
	for (size_t i = 0; i < SEEN && !found; i++)
		if (same(&ctx->seen->entries[i], &id, req, opts))
			found = ctx->seen->entries[i].decision;
	if (found)
		atomic_fetch_add(&found->refs, 1);
	pthread_mutex_unlock(&ctx->lock);
	return found;
}

void region_seen_add(const struct region_request *req, const struct mrg_plan_opts *opts,
		     struct region_decision *decision)
{
	struct mrg_ctx *ctx = req->ctx;
	struct region_decision *old = NULL;
	struct region_dmabuf_id id;
	struct seen_entry *e;

	if (decision->translated || decision->moves || !ctx->env->dmabuf_id(req->fd, &id))
		return;
	pthread_mutex_lock(&ctx->lock);
	if (!ctx->seen)
		ctx->seen = calloc(1, sizeof(*ctx->seen));
	if (ctx->seen) {
		e = &ctx->seen->entries[ctx->seen->next++ % SEEN];
		old = e->decision;
		*e = (struct seen_entry){ .id = id,
					  .device = req->device,
					  .offset = req->offset,
					  .opts = *opts,
					  .decision = decision };
		atomic_fetch_add(&decision->refs, 1);
	}
	pthread_mutex_unlock(&ctx->lock);
	region_decision_put(old);
}

void region_seen_drop_all(struct mrg_ctx *ctx)
{
	for (size_t i = 0; ctx->seen && i < SEEN; i++)
		region_decision_put(ctx->seen->entries[i].decision);
	free(ctx->seen);
	ctx->seen = NULL;
}
