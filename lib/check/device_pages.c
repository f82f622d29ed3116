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
	if (h->vendor_core || !h->modules_visible)
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

/* Neither versions nor files decide it. */
static void add_undecided(struct check_ctx *ctx, const struct check_rdma *r, const char *evidence)
{
	check_add(
		ctx, ctx->host.walk == CHECK_WALK_AFFECTED ? MRG_CHECK_WARN : MRG_CHECK_UNKNOWN,
		r->name, "Neither versions nor files tell whether the wrap affects this device.",
		has_cuda(&ctx->host) ?
			"Register through libmrguard, or test with bytes: 'mrguard selftest --device DEVICE "
			"--buffer cuda:8G --raw'." :
			"Register through libmrguard, or test with bytes: 'mrguard selftest --device DEVICE "
			"--buffer udmabuf:8G --raw'.",
		"%s", evidence);
}

static void add_affected(struct check_ctx *ctx, const struct check_rdma *r, enum reach reach,
			 const char *evidence)
{
	bool plain_only = reach == PLAIN_ONLY;
	char meaning[256];

	snprintf(meaning, sizeof(meaning), "The wrap %saffects this device: %s.",
		 ctx->host.walk_asked ? "" : "likely ",
		 plain_only ? "plain MRs can wrap where an IOMMU joins their pages" :
			      "MRs over 4 GiB can wrap and move wrong bytes with status 0");
	check_add(ctx, plain_only ? MRG_CHECK_WARN : MRG_CHECK_FAIL, r->name, meaning,
		  "Update the kernel (commit 15fe76e23615), or register through libmrguard.", "%s",
		  evidence);
}

bool check_device_pages(struct check_ctx *ctx, const struct check_rdma *r)
{
	static const char *const names[] = {
		"pages end below 4 GiB",
		"plain MRs can have pages of 4 GiB and more",
		"DMA-BUF and plain MRs can have pages of 4 GiB and more",
		"largest page not known",
	};
	const struct check_host *h = &ctx->host;
	enum reach reach = reach_of(h, r);
	char evidence[320];

	snprintf(evidence, sizeof(evidence), "driver %s, kernel %u.%u.%u%s: %s",
		 r->has_pci ? r->pci.driver : "without a PCI function", h->kernel[0], h->kernel[1],
		 h->kernel[2], h->vendor_core ? ", vendor stack" : "", names[reach]);
	if (reach == NEVER || h->walk == CHECK_WALK_EXACT)
		check_add(ctx, MRG_CHECK_OK, r->name,
			  reach == NEVER || h->walk_asked ?
				  "The wrap does not affect this device." :
				  "The wrap likely does not affect this device.",
			  "", "%s", evidence);
	else if (h->walk == CHECK_WALK_UNKNOWN || reach == NOT_KNOWN)
		add_undecided(ctx, r, evidence);
	else
		add_affected(ctx, r, reach, evidence);
	return true;
}
