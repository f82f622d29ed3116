/* SPDX-License-Identifier: MIT */
/*
 * Affected is the device, not the host: the walk goes wrong only where the
 * driver lets an MR have pages of 4 GiB or more.
 */
#include <string.h>

#include "check/check.h"
#include "host/pick.h"

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
	if (h->vendor_core || r->foreign[0] || !h->modules_visible)
		return NOT_KNOWN;
	for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
		if (!strcmp(r->pci.driver, small[i]))
			return NEVER;
	if (strcmp(r->pci.driver, "mlx5_core") || !h->kernel_follows)
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

/*
 * A driver that comes from elsewhere while the RDMA core is the kernel's: EFA's
 * and irdma's bring copies of the pick and of the walk, which no answer of ib_core
 * covers.
 */
static bool has_own_walk(const struct check_host *h, const struct check_rdma *r)
{
	return r->foreign[0] && !h->vendor_core;
}

static void add_own_walk(struct check_ctx *ctx, const struct check_rdma *r, const char *evidence)
{
	check_add(
		ctx, MRG_CHECK_UNKNOWN, r->name,
		"The driver is not the kernel's, and may pick and walk pages by code of its own.",
		"Use the kernel's own driver, register in MRs of at most 2 GiB, or ask the driver's vendor for commit 15fe76e23615.",
		"%s", evidence);
}

static const char *how_to_be_sure(const struct check_host *h)
{
	return has_cuda(h) ?
		       "Register through libmrguard, or test with bytes: 'mrguard selftest --device DEVICE "
		       "--buffer cuda:8G --raw'." :
		       "Register through libmrguard, or test with bytes: 'mrguard selftest --device DEVICE "
		       "--buffer udmabuf:8G --raw'.";
}

/* Neither versions nor files decide it. */
static void add_undecided(struct check_ctx *ctx, const struct check_rdma *r, const char *evidence)
{
	check_add(ctx, ctx->host.walk == CHECK_WALK_AFFECTED ? MRG_CHECK_WARN : MRG_CHECK_UNKNOWN,
		  r->name, "Neither versions nor files tell whether the wrap affects this device.",
		  how_to_be_sure(&ctx->host), "%s", evidence);
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

static int ask_pick(void *device, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", mrg_pick_name(host_pick_read("/sys", device)));
	return 0;
}

/* Whose function picks the pages; UNKNOWN where a record does not tell. */
static enum mrg_pick read_pick(struct check_ctx *ctx, const struct check_rdma *r)
{
	char fact[80], text[32];

	snprintf(fact, sizeof(fact), "pick-%s", r->name);
	if (host_tree_fact(ctx->tree, fact, text, sizeof(text), ask_pick, (void *)r->name) <= 0)
		return MRG_PICK_UNKNOWN;
	if (!strcmp(text, mrg_pick_name(MRG_PICK_KERNEL)))
		return MRG_PICK_KERNEL;
	return strcmp(text, mrg_pick_name(MRG_PICK_OWN)) ? MRG_PICK_UNKNOWN : MRG_PICK_OWN;
}

/* On a capped kernel: what the driver makes of it. */
static void add_by_cap(struct check_ctx *ctx, const struct check_rdma *r, const char *evidence)
{
	static const char remedy[] =
		"Register through libmrguard, or use the kernel's own driver, or update the kernel (commit 15fe76e23615).";
	enum mrg_pick pick = read_pick(ctx, r);

	ctx->basis = pick == MRG_PICK_UNKNOWN ? MRG_BASIS_NONE : MRG_BASIS_ASKED;
	if (pick == MRG_PICK_OWN)
		check_add(
			ctx, MRG_CHECK_FAIL, r->name,
			"The cap has no effect on this device: its driver picks pages by code of its own.",
			remedy, "%s, capped, but not this driver", evidence);
	else if (pick == MRG_PICK_UNKNOWN)
		check_add(ctx, MRG_CHECK_WARN, r->name,
			  "Whether the cap holds for this device is not known.", remedy,
			  "%s, capped; no file shows that the driver uses the kernel's pick",
			  evidence);
	else if (ctx->host.uncapped)
		check_add(
			ctx, MRG_CHECK_WARN, r->name,
			"A driver takes pages above 2 GiB only, which the cap lets through; whether it is this one is not known.",
			remedy, "%s, capped; %llu picks could not be capped", evidence,
			ctx->host.uncapped);
	else
		check_add(ctx, MRG_CHECK_OK, r->name, "The cap keeps this device's pages at 2 GiB.",
			  "", "%s, capped", evidence);
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

	snprintf(evidence, sizeof(evidence), "driver %s%s%.160s%s, kernel %u.%u.%u%s: %s",
		 r->has_pci ? r->pci.driver : "without a PCI function", r->foreign[0] ? " (" : "",
		 r->foreign, r->foreign[0] ? ")" : "", h->kernel[0], h->kernel[1], h->kernel[2],
		 h->vendor_core ? ", vendor stack" : "", names[reach]);
	if (!r->has_pci)
		ctx->basis = MRG_BASIS_READ;
	else if (h->walk == CHECK_WALK_EXACT && h->walk_asked)
		ctx->basis = MRG_BASIS_ASKED;
	if (h->walk == CHECK_WALK_CAPPED && (reach != NEVER || has_own_walk(h, r)))
		add_by_cap(ctx, r, evidence);
	else if (has_own_walk(h, r))
		add_own_walk(ctx, r, evidence);
	else if (reach == NEVER || h->walk == CHECK_WALK_EXACT)
		check_add(ctx, MRG_CHECK_OK, r->name,
			  ctx->basis != MRG_BASIS_NONE ?
				  "The wrap does not affect this device." :
				  "The wrap likely does not affect this device.",
			  ctx->basis != MRG_BASIS_NONE ? "" : how_to_be_sure(&ctx->host), "%s",
			  evidence);
	else if (h->walk == CHECK_WALK_UNKNOWN || reach == NOT_KNOWN)
		add_undecided(ctx, r, evidence);
	else
		add_affected(ctx, r, reach, evidence);
	return true;
}
