/* SPDX-License-Identifier: MIT */
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

static int ask_fork(void *arg, char *buf, size_t cap)
{
	(void)arg;
	snprintf(buf, cap, "%d", ibv_is_fork_initialized());
	return 0;
}

static void run(struct check_ctx *ctx)
{
	bool old = ctx->host.kernel[0] && !check_kernel_at_least(&ctx->host, 5, 13, 0);
	char buf[32], env[128];
	ssize_t n;

	if (!ctx->host.rdma_count) {
		check_add(ctx, MRG_CHECK_SKIP, "", "no RDMA device", "", "");
		return;
	}
	n = mrg_tree_fact(ctx->tree, "fork", buf, sizeof(buf), ask_fork, NULL);
	if (n <= 0) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "not recorded", "The fork mode was not seen.",
			  "");
		return;
	}
	if (atoi(buf) == IBV_FORK_UNNEEDED) {
		check_add(
			ctx, MRG_CHECK_OK, "", "ibv_is_fork_initialized: IBV_FORK_UNNEEDED",
			"The kernel copies pinned pages on fork; no range is marked and no VMA is split, "
			"but where RDMAV_FORK_SAFE is set and rdma-core is older than 51.",
			"");
		return;
	}
	snprintf(env, sizeof(env), "ibv_is_fork_initialized: %s", buf);
	check_add(
		ctx, MRG_CHECK_WARN, "", env,
		"This kernel or netlink does not say that it copies on fork: fork protection will split VMAs.",
		old ? "Update the kernel to 5.13 or later." :
		      "Allow NETLINK_RDMA sockets here: seccomp or a container "
		      "filter stands before the kernel's answer.");
}

const struct check_item check_fork = { "fork", run };
