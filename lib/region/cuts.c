/* SPDX-License-Identifier: MIT */
/* Borders of MRs for programs that register by verbs themselves. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "region/request.h"

static int find_device(const struct mrg_ctx *ctx, const char *name, struct region_device *device)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s", ctx->env->sys, name);
	if (!name[0] || access(path, F_OK))
		return base_fail(ctx->error_owner, -ENODEV, "find device",
				 "Give a name that `rdma link' lists.",
				 "There is no RDMA device of the name \"%.64s\".", name);
	region_device_read(ctx->env, name, device);
	return 0;
}

static int check(struct region_request *req, const struct mrg_reg_opts *opts, uint64_t offset)
{
	const struct mrg_dmabuf buf = { .fd = req->fd, .base = req->addr, .offset = offset };
	int ret = region_check_opts(req, opts);

	if (ret)
		return ret;
	if (req->opts.strategy == MRG_STRATEGY_REBASE || (req->fd < 0 && offset))
		return base_fail(req->ctx->error_owner, -EINVAL, "check options",
				 "Use strategy split, and offset 0 for ordinary memory.",
				 "Strategy %s with offset %llu has no borders.",
				 mrg_strategy_name(req->opts.strategy), (unsigned long long)offset);
	/* Borders alone: each MR keeps its place in iova. */
	req->opts.flags |= MRG_REG_IOVA_EQUAL;
	ret = region_check_range(req);
	return ret || req->fd < 0 ? ret : region_check_dmabuf(req, &buf);
}

static ssize_t give(const struct region_request *req, const struct mrg_mr *mr, uint64_t *cuts,
		    size_t cap)
{
	struct mrg_piece room;
	const struct mrg_piece *pieces = region_pieces(req, mr, &room);

	for (size_t i = 1; i < mr->count && mr->count - 1 <= cap; i++)
		cuts[i - 1] = pieces[i].offset;
	return (ssize_t)mr->count - 1;
}

static ssize_t decide(struct region_request *req, const struct mrg_reg_opts *opts, uint64_t offset,
		      uint64_t *cuts, size_t cap)
{
	struct mrg_mr mr = { 0 };
	ssize_t ret = check(req, opts, offset);

	if (ret)
		return ret;
	ret = region_decide(req, 0, &mr);
	if (!ret)
		ret = give(req, &mr, cuts, cap);
	region_decision_put(mr.decision);
	return ret;
}

ssize_t region_cuts(const struct region_env *env, int fd, const char *device, uint64_t iova,
		    uint64_t offset, uint64_t length, const struct mrg_reg_opts *opts,
		    uint64_t *cuts, size_t cap)
{
	struct region_env quiet = *env;
	struct region_device facts;
	struct region_request req = {
		.device = &facts, .fd = fd, .addr = iova, .length = length, .without_cap = true
	};
	ssize_t ret;

	/* Nothing is registered, so no page is marked against fork. */
	quiet.guards_vmas = false;
	ret = region_open(&req.ctx, NULL, NULL, &quiet);
	if (ret)
		return ret;
	ret = find_device(req.ctx, device, &facts);
	if (!ret)
		ret = decide(&req, opts, offset, cuts, cap);
	if (ret < 0)
		mrg_private_error_move(req.ctx->error_owner, 0);
	mrg_close(req.ctx);
	return ret;
}

ssize_t mrg_cuts(int fd, const char *device, uint64_t iova, uint64_t offset, uint64_t length,
		 const struct mrg_reg_opts *opts, uint64_t *cuts, size_t cap)
{
	return region_cuts(&region_env_host, fd, device, iova, offset, length, opts, cuts, cap);
}
