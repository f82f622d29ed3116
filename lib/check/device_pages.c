/* SPDX-License-Identifier: MIT */
/*
 * Affected is the device, not the host: the walk goes wrong only where the
 * driver lets an MR have pages of 4 GiB or more.
 */
#include <string.h>

#include "check/check.h"

enum reach { NEVER, PLAIN_ONLY, DMABUF_AND_PLAIN, NOT_KNOWN };

/* Drivers whose page-size bitmaps end below 4 GiB, read in 6.1 to 7.3. */
static const char *const small[] = {
	"irdma", "i40e", "ice",	     "bnxt_en",	  "bnxt_re", "efa",  "mana",	   "gdma",
	"erdma", "hns3", "hns_roce", "mlx4_core", "ocrdma",  "qedr", "vmw_pvrdma",
};

static enum reach reach_of(const struct check_host *h, const struct check_rdma *r)
{
	if (!r->has_pci)
		return NEVER; /* rxe and siw: no DMA addresses, no pages */
	if (h->vendor_core || !h->modules_seen)
		return NOT_KNOWN;
	for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
		if (!strcmp(r->pci.driver, small[i]))
			return NEVER;
	if (strcmp(r->pci.driver, "mlx5_core"))
		return NOT_KNOWN;
	/* e73242aa14d2 (6.17) for DMA-BUFs, cef7dde8836a (6.12) for plain MRs;
	 * both only if the firmware allows it, which no file tells. */
	if (check_kernel_at_least(h, 6, 17, 0))
		return DMABUF_AND_PLAIN;
	return check_kernel_at_least(h, 6, 12, 0) ? PLAIN_ONLY : NEVER;
}

static bool has_cuda(const struct check_host *h)
{
	for (size_t i = 0; i < h->gpu_count; i++)
		if (h->gpus[i].vendor == VENDOR_NVIDIA)
			return true;
	return false;
}

static void say(struct check_ctx *ctx, const struct check_rdma *r, enum reach reach)
{
	const struct check_host *h = &ctx->host;
	const char *likely = h->walk_seen ? "" : "likely ";
	static const char *const names[] = {
		"pages end below 4 GiB",
		"plain MRs can have pages of 4 GiB and more",
		"DMA-BUF and plain MRs can have pages of 4 GiB and more",
		"largest page not known",
	};
	char evidence[320], meaning[256];

	snprintf(evidence, sizeof(evidence), "driver %s, kernel %u.%u.%u%s: %s",
		 r->has_pci ? r->pci.driver : "without a PCI function", h->kernel[0], h->kernel[1],
		 h->kernel[2], h->vendor_core ? ", vendor stack" : "", names[reach]);
	if (reach == NEVER || h->walk == CHECK_WALK_EXACT) {
		snprintf(meaning, sizeof(meaning), "%sNot affected by the wrap.",
			 reach == NEVER || h->walk_seen ? "" : "likely: ");
		check_add(ctx, MRG_CHECK_OK, r->name, evidence, meaning, "");
		return;
	}
	if (h->walk == CHECK_WALK_UNKNOWN || reach == NOT_KNOWN) {
		check_add(
			ctx, h->walk == CHECK_WALK_AFFECTED ? MRG_CHECK_WARN : MRG_CHECK_UNKNOWN,
			r->name, evidence, "Affected or not: neither versions nor files decide it.",
			has_cuda(h) ?
				"Ask bytes: mrguard selftest --device DEVICE --buffer cuda:8G --raw; register through "
				"libmrguard until then." :
				"Ask bytes: mrguard selftest --device DEVICE --buffer udmabuf:8G --raw; register through "
				"libmrguard until then.");
		return;
	}
	snprintf(meaning, sizeof(meaning),
		 reach == PLAIN_ONLY ?
			 "%saffected for plain MRs only, where an IOMMU joins their pages." :
			 "%saffected: MRs over 4 GiB can wrap and move wrong bytes with status 0.",
		 likely);
	check_add(ctx, reach == PLAIN_ONLY ? MRG_CHECK_WARN : MRG_CHECK_FAIL, r->name, evidence,
		  meaning,
		  "Update the kernel (commit 15fe76e23615), or register through libmrguard.");
}

static void run(struct check_ctx *ctx)
{
	const char *only = ctx->opts->device;
	size_t said = 0;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		const struct check_rdma *r = &ctx->host.rdma[i];

		if (only && strcmp(only, r->name))
			continue;
		say(ctx, r, reach_of(&ctx->host, r));
		said++;
	}
	if (!said)
		check_add(ctx, MRG_CHECK_SKIP, "", "/sys/class/infiniband: no device",
			  "No RDMA device on this host.", "");
}

const struct check_item check_device_pages = { "device-pages", run };
