/* SPDX-License-Identifier: MIT */
/* ConnectX-8 class NICs reach GPUs through a second PCI function. */
#include "check/check.h"

void check_data_direct(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	size_t found = h->data_direct_count;

	if (!found)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no function bound to mlx5_data_direct");
	else
		check_add(
			ctx, MRG_CHECK_OK, "",
			"MRs over data-direct are mapped for that function, not for the NIC's own: plan for it.",
			"", "%zu function%s bound to mlx5_data_direct", found,
			found == 1 ? "" : "s");
	for (size_t i = 0; found && i < h->rdma_count; i++)
		if (h->rdma[i].data_direct)
			check_add(ctx, MRG_CHECK_OK, h->rdma[i].name,
				  "This device reaches GPUs through the data-direct function.", "",
				  "%s (V3 of both functions' VPD, or the only pair)",
				  h->rdma[i].data_direct->addr);
}
