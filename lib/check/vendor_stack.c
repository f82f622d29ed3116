/* SPDX-License-Identifier: MIT */
/* An ib_core or driver that the kernel did not bring may hold a walk of its own. */
#include <string.h>

#include "check/check.h"

static void run(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	char version[96] = "", evidence[384];

	if (!h->rdma_count && !h->vendor_core) {
		check_add(ctx, MRG_CHECK_SKIP, "", "no RDMA device", "", "");
		return;
	}
	if (!h->vendor_core && !h->modules_seen) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "",
			  "/lib/modules of this kernel is not in sight (a container?)",
			  "Whether the RDMA stack is the kernel's own was not seen.",
			  "Run the check on the host.");
		return;
	}
	if (!h->vendor_core) {
		check_add(ctx, MRG_CHECK_OK, "",
			  "no ib_core below updates/ or extra/, no mlx_compat",
			  "The RDMA stack is the kernel's own.", "");
		return;
	}
	mrg_tree_read(ctx->tree, "/sys/module/mlx_compat/version", version, sizeof(version));
	snprintf(evidence, sizeof(evidence), "%s%s%s",
		 h->vendor_path[0] ? h->vendor_path : "mlx_compat is loaded",
		 version[0] ? ", version " : "", version);
	if (h->walk_seen)
		check_add(ctx, MRG_CHECK_OK, "", evidence,
			  "A vendor's RDMA stack; the module asked it directly.", "");
	else
		check_add(
			ctx, MRG_CHECK_WARN, "", evidence,
			"A vendor's RDMA stack is in force: the kernel's version says nothing about its walk.",
			"Load the module, which asks the running ib_core: modprobe mrguard_walk");
}

const struct check_item check_vendor_stack = { "vendor-stack", run };
