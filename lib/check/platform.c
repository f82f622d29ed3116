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
			"%s with NVIDIA GPUs of the coherent kind (/sys/devices/soc0/soc_id, PCI ids)",
			h->soc[0] ? h->soc : h->arch);
	else if (h->coherence_untold)
		check_add(
			ctx, MRG_CHECK_UNKNOWN, "",
			"Whether GPU memory is on the CPU's bus or behind PCI BARs is not known.",
			"Ask the driver: 'mrguard gpu' tells whether the CPU's page tables are used.",
			"%s, SoC %s, GPU %s", h->arch, h->soc[0] ? h->soc : "not told",
			h->gpus[0].addr);
	else if (h->gpu_count)
		check_add(ctx, MRG_CHECK_OK, "", "GPU memory lies behind PCI BARs.", "",
			  "%s, %zu GPUs (/sys/bus/pci/devices)", h->arch, h->gpu_count);
	else
		check_add(ctx, MRG_CHECK_SKIP, "", "", "",
			  "no NVIDIA or AMD GPU (/sys/bus/pci/devices)");
}
