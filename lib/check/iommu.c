/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "check/check.h"

static void judge(struct check_ctx *ctx, const struct check_rdma *r)
{
	char path[PATH_MAX], type[32], evidence[320];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/iommu_group/type", r->pci.real);
	n = mrg_tree_read(ctx->tree, path, type, sizeof(type));
	if (n == -ENOENT) {
		check_add(ctx, MRG_CHECK_OK, r->name, "no IOMMU group",
			  "DMA addresses are bus addresses, and the module shows the MR's own.",
			  "");
		return;
	}
	if (n < 0) {
		snprintf(evidence, sizeof(evidence), "iommu_group/type: %s", check_why((int)n));
		check_add(ctx, MRG_CHECK_UNKNOWN, r->name, evidence,
			  "The IOMMU's mode is not known.", "Run as root.");
		return;
	}
	snprintf(evidence, sizeof(evidence), "iommu_group/type: %s", type);
	if (!strcmp(type, "identity"))
		check_add(ctx, MRG_CHECK_OK, r->name, evidence,
			  "Passthrough: DMA addresses are bus addresses.", "");
	else
		check_add(
			ctx, MRG_CHECK_WARN, r->name, evidence,
			"Every mapping gets new addresses, so layouts cannot be foreseen and plans are the "
			"careful kind; large registrations can fail with ENOMEM.",
			"Boot with iommu=pt (arm64: iommu.passthrough=1) where policy allows it.");
}

static void run(struct check_ctx *ctx)
{
	size_t said = 0;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		const struct check_rdma *r = &ctx->host.rdma[i];

		if (!r->has_pci || (ctx->opts->device && strcmp(ctx->opts->device, r->name)))
			continue;
		judge(ctx, r);
		said++;
	}
	if (!said)
		check_add(ctx, MRG_CHECK_SKIP, "", "no RDMA device on PCI", "", "");
}

const struct check_item mrg_check_iommu = { "iommu", run };
