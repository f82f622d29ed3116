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
			"The RDMA stack is a vendor's; it was asked itself." :
			"The RDMA stack is a vendor's: the kernel's version says nothing about its walk.",
		h->walk_asked ?
			"" :
			"Load the module, which asks the running ib_core: 'modprobe mrguard_walk'.",
		"%s%s%s", h->vendor_path[0] ? h->vendor_path : "mlx_compat is loaded",
		version[0] ? ", version " : "", version);
}

/* The RDMA core is the kernel's, drivers below it are not.  Return: how many. */
static size_t judge_drivers(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	size_t found = 0;

	for (size_t i = 0; i < h->rdma_count; i++) {
		const struct check_rdma *r = &h->rdma[i];
		char path[96], version[64] = "";

		if (!r->foreign[0])
			continue;
		snprintf(path, sizeof(path), "/sys/module/%s/version", r->pci.driver);
		host_tree_read(ctx->tree, path, version, sizeof(version));
		check_add(
			ctx, MRG_CHECK_WARN, r->name,
			"The driver is not the kernel's own: what it does with large pages is not known, whatever ib_core answers.",
			"See the line 'device-pages' of the device.", "%.200s%s%s", r->foreign,
			version[0] ? ", version " : "", version);
		found++;
	}
	return found;
}

static void add_own_stack(struct check_ctx *ctx)
{
	static const char meaning[] = "The RDMA stack is the kernel's own.";

	if (ctx->host.modules_dep && ctx->host.modules_dep[0]) {
		check_add(ctx, MRG_CHECK_OK, "", meaning, "",
			  "RDMA core and drivers come from kernel/ (modules.dep)");
		return;
	}
	ctx->basis = MRG_BASIS_INFERRED;
	check_add(ctx, MRG_CHECK_OK, "", meaning,
		  "To be sure, check where /lib/modules/$(uname -r)/modules.dep can be read.",
		  "no RDMA module below updates/ or extra/; modules.dep was not readable");
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
	else if (!judge_drivers(ctx))
		add_own_stack(ctx);
}
