/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include <mrguard/gpu.h>

#include "region/request.h"

void region_ctx_put(struct mrg_ctx *ctx)
{
	struct region_device *device, *next;

	if (atomic_fetch_sub(&ctx->users, 1) > 1)
		return;
	for (device = ctx->devices; device; device = next) {
		next = device->next;
		free(device);
	}
	region_layout_cache_drop(ctx);
	mrg_gpu_close(ctx->gpu);
	region_vma_guard_close(ctx->guard);
	if (ctx->dev && !ctx->keeps_dev)
		ctx->env->dev_close(ctx->dev);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}
