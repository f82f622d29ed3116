/* SPDX-License-Identifier: MIT */
/* A RoCE packet of 4096 bytes needs an Ethernet MTU of 4200 or so. */
#include <string.h>

#include "check/check.h"

#define ROCE_4096 4200

static void run(struct check_ctx *ctx)
{
	size_t said = 0;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		const struct check_rdma *r = &ctx->host.rdma[i];
		char path[128], evidence[128];
		unsigned long long mtu;

		if (!r->netdev[0] || (ctx->opts->device && strcmp(ctx->opts->device, r->name)))
			continue;
		snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", r->netdev);
		said++;
		if (mrg_tree_read_u64(ctx->tree, path, &mtu)) {
			check_add(ctx, MRG_CHECK_UNKNOWN, r->name, "MTU not readable", "", "");
			continue;
		}
		snprintf(evidence, sizeof(evidence), "%s has MTU %llu", r->netdev, mtu);
		if (mtu >= ROCE_4096)
			check_add(ctx, MRG_CHECK_OK, r->name, evidence,
				  "Carries RoCE packets of 4096 bytes.", "");
		else
			check_add(
				ctx, MRG_CHECK_WARN, r->name, evidence,
				"RoCE packets are cut to 1024 bytes: bandwidth is lost; both ends must agree.",
				"ip link set NETDEV mtu 9000, on the switch too");
	}
	if (!said)
		check_add(ctx, MRG_CHECK_SKIP, "", "no RDMA device with a network device", "", "");
}

const struct check_item check_mtu = { "mtu", run };
