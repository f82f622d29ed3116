/* SPDX-License-Identifier: MIT */
/*
 * Coherent hosts (GH200, GB200) give GPU memory bus addresses that run on for
 * tens of GiB: just the lists that make the kernel pick pages of 4 GiB.
 */
#include <string.h>

#include "check.h"

#define GRACE_SOC "jep106:036b:0241"	/* SMCCC SoC id of NVIDIA's T241 */

static void run(struct check_ctx *ctx)
{
	char soc[64] = "";
	size_t nvidia = 0;

	mrg_tree_read(ctx->tree, "/sys/devices/soc0/soc_id", soc, sizeof(soc));
	for (size_t i = 0; i < ctx->host.gpu_count; i++)
		nvidia += ctx->host.gpus[i].vendor == VENDOR_NVIDIA;
	if (!strcmp(soc, GRACE_SOC) && nvidia) {
		char evidence[128];

		snprintf(evidence, sizeof(evidence), "Grace (/sys/devices/soc0/soc_id %s) with %zu NVIDIA GPUs",
			 soc, nvidia);
		check_add(ctx, ctx->host.walk == CHECK_WALK_EXACT ? MRG_CHECK_OK : MRG_CHECK_WARN, "", evidence,
			  "Coherent platform: GPU memory is one long run of DMA addresses, so large MRs are at "
			  "risk wherever the walk is.",
			  ctx->host.walk == CHECK_WALK_EXACT ? "" : "See the lines 'walk' and 'device-pages'.");
		return;
	}
	if (!nvidia && !ctx->host.gpu_count) {
		check_add(ctx, MRG_CHECK_SKIP, "", "no NVIDIA or AMD GPU (/sys/bus/pci/devices)", "", "");
		return;
	}
	check_add(ctx, MRG_CHECK_OK, "", "not a Grace host", "GPU memory lies behind PCI BARs.", "");
}

const struct mrg_check mrg_check_platform = { "platform", run };
