/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "check/check.h"

bool check_iommu(struct check_ctx *ctx, const struct check_rdma *r)
{
	char path[PATH_MAX], type[32];
	ssize_t n;

	if (!r->has_pci)
		return false;
	snprintf(path, sizeof(path), "%s/iommu_group/type", r->pci.real);
	n = host_tree_read(ctx->tree, path, type, sizeof(type));
	if (n == -ENOENT)
		check_add(ctx, MRG_CHECK_OK, r->name,
			  "DMA addresses are bus addresses, and the module shows the MR's own.", "",
			  "no IOMMU group");
	else if (n < 0)
		check_add(ctx, MRG_CHECK_UNKNOWN, r->name, "The IOMMU's mode is not known.",
			  "Run as root.", "iommu_group/type: %s", check_why((int)n));
	else if (!strcmp(type, "identity"))
		check_add(ctx, MRG_CHECK_OK, r->name,
			  "The IOMMU passes addresses through: DMA addresses are bus addresses.",
			  "", "iommu_group/type: %s", type);
	else
		check_add(
			ctx, MRG_CHECK_WARN, r->name,
			"Every mapping gets new addresses, so layouts cannot be foreseen and plans use more MRs "
			"than may be needed; large registrations can fail with ENOMEM.",
			"Boot with iommu=pt (arm64: iommu.passthrough=1) where policy allows it.",
			"iommu_group/type: %s", type);
	return true;
}
