/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "model/model.h"
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

static void find_walk(struct mrg_ctx *ctx)
{
	struct mrg_walk_answer answer;

	if (ctx->dev_info.walk == MRG_WALK_UNKNOWN && ctx->env->walk_ask &&
	    !ctx->env->walk_ask(&answer))
		ctx->dev_info.walk = answer.walk;
}

static bool opts_ok(const struct mrg_open_opts *opts)
{
	return !(opts->flags & ~MRG_OPEN_NO_MODULE) && !opts->reserved &&
	       opts->fork <= MRG_FORK_ALWAYS &&
	       (!opts->max_page_shift || model_shift_valid(opts->max_page_shift));
}

static int open_parts(struct mrg_ctx *ctx, struct ibv_context *device,
		      const struct mrg_open_opts *opts)
{
	const struct region_device *facts;
	int ret;

	if (!(opts->flags & MRG_OPEN_NO_MODULE))
		open_module(ctx);
	find_walk(ctx);
	if (ctx->env->guards_vmas) {
		ret = region_vma_guard_open(&ctx->guard, ctx->dev, opts->fork, opts->vma_floor);
		if (ret)
			return base_fail(ctx->error_owner, ret, "fork policy",
					 "Set MRGUARD_FORK to auto, never or always.",
					 "The fork policy cannot be carried out: %s.",
					 strerror(-ret));
	}
	return device ? region_device_get(ctx, device, &facts) : 0;
}

int region_open(struct mrg_ctx **out, struct ibv_context *device, const struct mrg_open_opts *opts,
		const struct region_env *env)
{
	struct mrg_open_opts asked = { .size = sizeof(asked) };
	struct mrg_ctx *ctx;
	int ret;

	if (base_opts_copy(&asked, sizeof(asked), opts) || !opts_ok(&asked))
		return base_fail(
			0, -EINVAL, "check options",
			"Zero the structure, set its size, and use values of this library's header.",
			"The options hold an unknown flag, field or policy, or a page shift of %u, which is not from %d to %d.",
			asked.max_page_shift, MRG_MIN_PAGE_SHIFT, MRG_MAX_PAGE_SHIFT);
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return base_fail(0, -ENOMEM, "open", "Free memory, or raise its limit.",
				 "There is no memory for a context.");
	ctx->env = env;
	ctx->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	ctx->error_owner = mrg_private_error_owner();
	ctx->max_page_shift = asked.max_page_shift;
	atomic_init(&ctx->users, 1);
	pthread_mutex_init(&ctx->lock, NULL);
	ret = open_parts(ctx, device, &asked);
	if (ret) {
		/* The caller gets no context to ask. */
		mrg_private_error_move(ctx->error_owner, 0);
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
	if (!ctx)
		return;
	region_stuck_drop(ctx);
	region_ctx_put(ctx);
}

int mrg_last_error(const struct mrg_ctx *ctx, struct mrg_error *error)
{
	return mrg_private_error_read(ctx ? ctx->error_owner : 0, error);
}

int mrg_ctx_headroom(const struct mrg_ctx *ctx, struct mrg_headroom *headroom)
{
	return region_vma_guard_headroom(ctx->guard, headroom);
}
