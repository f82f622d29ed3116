/* SPDX-License-Identifier: MIT */
/*
 * Coherent hosts (GH200, GB200) give GPU memory bus addresses that run on for
 * tens of GiB: just the lists that make the kernel pick pages of 4 GiB.
 */
#include "check/check.h"

void check_platform(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	bool exact = h->walk == CHECK_WALK_EXACT || h->walk == CHECK_WALK_CAPPED;

	if (h->coherent)
		check_add(
			ctx, exact ? MRG_CHECK_OK : MRG_CHECK_WARN, "",
			"The platform is coherent: GPU memory is one long run of DMA addresses, the layout that "
			"makes the kernel pick pages of 4 GiB.",
			exact ? "" : "See the lines 'walk' and 'device-pages'.",
			"Grace (/sys/devices/soc0/soc_id) with NVIDIA GPUs");
	else if (h->gpu_count)
		check_add(ctx, MRG_CHECK_OK, "", "GPU memory lies behind PCI BARs.", "",
			  "not a Grace host");
	else
		check_add(ctx, MRG_CHECK_SKIP, "", "", "",
			  "no NVIDIA or AMD GPU (/sys/bus/pci/devices)");
}
