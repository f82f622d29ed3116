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

void check_fork(struct check_ctx *ctx)
{
	bool old = ctx->host.kernel[0] && !check_kernel_at_least(&ctx->host, 5, 13, 0);
	char buf[32];

	if (!ctx->host.rdma_count)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no RDMA device");
	else if (host_tree_fact(ctx->tree, "fork", buf, sizeof(buf), ask_fork, NULL) <= 0)
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "The fork mode is not known.", "",
			  "not recorded");
	else if (atoi(buf) == IBV_FORK_UNNEEDED)
		check_add(
			ctx, MRG_CHECK_OK, "",
			"The kernel copies pinned pages on fork: no range is marked and no VMA is split, unless "
			"RDMAV_FORK_SAFE is set and rdma-core is older than 51.",
			"", "ibv_is_fork_initialized: IBV_FORK_UNNEEDED");
	else
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"The kernel does not report over netlink that it copies on fork: fork protection will split VMAs.",
			old ? "Update the kernel to 5.13 or later." :
			      "Allow NETLINK_RDMA sockets here: seccomp or a container "
			      "filter stands before the kernel's answer.",
			"ibv_is_fork_initialized: %s", buf);
}
