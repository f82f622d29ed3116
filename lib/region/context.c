/* SPDX-License-Identifier: MIT */
/* Contexts, and the devices that each has seen. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "region/request.h"

static void open_module(struct mrg_ctx *ctx)
{
	ctx->dev_error = ctx->env->dev_open(&ctx->dev);
	if (ctx->dev_error)
		return;
	ctx->dev_error = ctx->env->dev_info(ctx->dev, &ctx->dev_info);
	if (!ctx->dev_error)
		return;
	ctx->env->dev_close(ctx->dev);
	ctx->dev = NULL;
	memset(&ctx->dev_info, 0, sizeof(ctx->dev_info));
}

static bool opts_ok(const struct mrg_open_opts *opts)
{
	return !(opts->flags & ~MRG_OPEN_NO_MODULE) && !opts->reserved &&
	       opts->fork <= MRG_FORK_ALWAYS &&
	       (!opts->max_page_shift ||
		(opts->max_page_shift >= 12 && opts->max_page_shift <= 63));
}

static int open_parts(struct mrg_ctx *ctx, struct ibv_context *device,
		      const struct mrg_open_opts *opts)
{
	const struct region_device *facts;
	int ret;

	if (!(opts->flags & MRG_OPEN_NO_MODULE))
		open_module(ctx);
	if (ctx->env->guards_vmas) {
		ret = region_vma_guard_open(&ctx->guard, ctx->dev, opts->fork, opts->vma_floor);
		if (ret)
			return region_fail(NULL, ret, -1, "fork policy",
					   "Set MRGUARD_FORK to auto, never or always.",
					   "The fork policy could not be carried out: %s.",
					   strerror(-ret));
	}
	ret = device ? region_device_get(ctx, device, &facts) : 0;
	if (ret)
		return region_fail(NULL, ret, -1, "query device",
				   "Check that the device is still there (rdma link, dmesg).",
				   "ibv_query_device answered %s.", strerror(-ret));
	return 0;
}

int region_open(struct mrg_ctx **out, struct ibv_context *device, const struct mrg_open_opts *opts,
		const struct region_env *env)
{
	/* Serials start at 1: 0 stands for "no context" in kept failures. */
	static atomic_uint_fast64_t serials;
	struct mrg_open_opts asked = { .size = sizeof(asked) };
	struct mrg_ctx *ctx;
	int ret;

	if (base_opts_copy(&asked, sizeof(asked), opts) || !opts_ok(&asked))
		return region_fail(
			NULL, -EINVAL, -1, "check options",
			"Zero the structure, set its size, and use values of this library's header.",
			"The options hold an unknown flag, field or policy, or a page shift of %u, which is not from 12 to 63.",
			asked.max_page_shift);
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return region_fail(NULL, -ENOMEM, -1, "open", "",
				   "There is no memory for a context.");
	ctx->env = env;
	ctx->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	ctx->serial = atomic_fetch_add(&serials, 1) + 1;
	ctx->max_page_shift = asked.max_page_shift;
	pthread_mutex_init(&ctx->lock, NULL);
	ret = open_parts(ctx, device, &asked);
	if (ret) {
		mrg_close(ctx);
		return ret;
	}
	*out = ctx;
	return 0;
}

int mrg_open(struct mrg_ctx **ctx, struct ibv_context *device, const struct mrg_open_opts *opts)
{
	return region_open(ctx, device, opts, &region_env_host);
}

void mrg_close(struct mrg_ctx *ctx)
{
	struct region_device *device, *next;

	if (!ctx)
		return;
	region_stuck_drop(ctx);
	for (device = ctx->devices; device; device = next) {
		next = device->next;
		free(device);
	}
	region_seen_drop_all(ctx);
	region_vma_guard_close(ctx->guard);
	if (ctx->dev)
		ctx->env->dev_close(ctx->dev);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

static struct region_device *find_device(const struct mrg_ctx *ctx, const struct ibv_context *verbs)
{
	struct region_device *d = atomic_load_explicit(&ctx->devices, memory_order_acquire);

	/* By name too: another device may be opened at a closed one's address. */
	while (d && (d->verbs != verbs || strcmp(d->name, ibv_get_device_name(verbs->device))))
		d = d->next;
	return d;
}

static int add_device(struct mrg_ctx *ctx, struct ibv_context *verbs, struct region_device **out)
{
	struct ibv_device_attr attr;
	struct region_device *device;
	int err = ctx->env->query_device(verbs, &attr);

	if (err)
		return err > 0 ? -err : err;
	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->verbs = verbs;
	snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(verbs->device));
	device->max_mr_size = attr.max_mr_size;
	region_device_read_files(device, ctx->env);
	device->next = atomic_load_explicit(&ctx->devices, memory_order_relaxed);
	atomic_store_explicit(&ctx->devices, device, memory_order_release);
	*out = device;
	return 0;
}

int region_device_get(struct mrg_ctx *ctx, struct ibv_context *verbs,
		      const struct region_device **out)
{
	struct region_device *device = find_device(ctx, verbs);
	int ret = 0;

	if (!device) {
		pthread_mutex_lock(&ctx->lock);
		device = find_device(ctx, verbs);
		if (!device)
			ret = add_device(ctx, verbs, &device);
		pthread_mutex_unlock(&ctx->lock);
	}
	if (!ret)
		*out = device;
	return ret;
}

int mrg_ctx_headroom(const struct mrg_ctx *ctx, struct mrg_headroom *headroom)
{
	return region_vma_guard_headroom(ctx->guard, headroom);
}
