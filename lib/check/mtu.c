/* SPDX-License-Identifier: MIT */
/* A RoCE packet of 4096 bytes needs an Ethernet MTU of 4200 or so. */
#include <string.h>

#include "check/check.h"

#define ROCE_4096 4200

bool check_mtu(struct check_ctx *ctx, const struct check_rdma *r)
{
	unsigned long long mtu;
	char path[128];
	bool enough;

	if (!r->netdev[0])
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", r->netdev);
	if (host_tree_read_u64(ctx->tree, path, &mtu)) {
		check_add(ctx, MRG_CHECK_UNKNOWN, r->name, "", "", "MTU not readable");
		return true;
	}
	enough = mtu >= ROCE_4096;
	check_add(
		ctx, enough ? MRG_CHECK_OK : MRG_CHECK_WARN, r->name,
		enough ?
			"The link carries RoCE packets of 4096 bytes." :
			"RoCE packets are cut to 1024 bytes, which costs bandwidth; both ends must agree.",
		enough ? "" :
			 "Run 'ip link set NETDEV mtu 9000', and raise the MTU of the switch too.",
		"%s has MTU %llu", r->netdev, mtu);
	return true;
}
