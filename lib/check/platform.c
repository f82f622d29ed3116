/* SPDX-License-Identifier: MIT */
/*
 * Coherent hosts (GH200, GB200) give GPU memory bus addresses that run on for
 * tens of GiB: just the lists that make the kernel pick pages of 4 GiB.
 */
#include "check/check.h"

static void run(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	bool exact = h->walk == CHECK_WALK_EXACT;

	if (h->coherent)
		check_add(
			ctx, exact ? MRG_CHECK_OK : MRG_CHECK_WARN, "",
			"Grace (/sys/devices/soc0/soc_id) with NVIDIA GPUs",
			"Coherent platform: GPU memory is one long run of DMA addresses, the layout that makes "
			"the kernel pick pages of 4 GiB.",
			exact ? "" : "See the lines 'walk' and 'device-pages'.");
	else if (h->gpu_count)
		check_add(ctx, MRG_CHECK_OK, "", "not a Grace host",
			  "GPU memory lies behind PCI BARs.", "");
	else
		check_add(ctx, MRG_CHECK_SKIP, "", "no NVIDIA or AMD GPU (/sys/bus/pci/devices)",
			  "", "");
}

const struct check_item check_platform = { "platform", run };
