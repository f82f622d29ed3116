/* SPDX-License-Identifier: MIT */
/* An ib_core or driver that the kernel did not bring may hold a walk of its own. */
#include <string.h>

#include "check/check.h"

static void judge_vendor(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	char version[96] = "";

	host_tree_read(ctx->tree, "/sys/module/mlx_compat/version", version, sizeof(version));
	check_add(
		ctx, h->walk_asked ? MRG_CHECK_OK : MRG_CHECK_WARN, "",
		h->walk_asked ?
			"The RDMA stack is a vendor's; the module asked it directly." :
			"The RDMA stack is a vendor's: the kernel's version says nothing about its walk.",
		h->walk_asked ?
			"" :
			"Load the module, which asks the running ib_core: 'modprobe mrguard_walk'.",
		"%s%s%s", h->vendor_path[0] ? h->vendor_path : "mlx_compat is loaded",
		version[0] ? ", version " : "", version);
}

void check_vendor_stack(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;

	if (h->vendor_core)
		judge_vendor(ctx);
	else if (!h->rdma_count)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no RDMA device");
	else if (!h->modules_visible)
		check_add(ctx, MRG_CHECK_UNKNOWN, "",
			  "Whether the RDMA stack is the kernel's own is not known.",
			  "Run the check on the host.",
			  "/lib/modules of this kernel is not visible (a container?)");
	else
		check_add(ctx, MRG_CHECK_OK, "", "The RDMA stack is the kernel's own.", "",
			  "no ib_core below updates/ or extra/, no mlx_compat");
}
