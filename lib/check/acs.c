/* SPDX-License-Identifier: MIT */
/*
 * ACS redirection on a bridge between NIC and GPU sends their traffic up to
 * the root complex: slow, or stopped by an IOMMU.  Bits elsewhere do not
 * matter, and the register is for root's eyes.
 */
#include <errno.h>
#include <string.h>

#include "check/pairs.h"

#define CONFIG_HEAD 0x100
#define CAP_PCIE 0x10
#define CAP_ACS 0x000d
#define CAP_ATS 0x000f
#define ACS_REDIRECT ((1u << 2) | (1u << 3) | (1u << 4)) /* request, completion, upstream */

struct found {
	struct check_ctx *ctx;
	char bridge[64];
	unsigned int control;
	int unseen; /* -errno of a bridge that was not to be read */
};

static unsigned int le32(const unsigned char *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (unsigned int)p[3] << 24;
}

/* The extended space of a PCIe function can be out of reach (no ECAM, some
 * hypervisors); one of conventional PCI has none. */
static bool is_pcie(const unsigned char config[256])
{
	unsigned int at = config[0x34] & ~3u;

	for (int steps = 0; steps < 48 && at >= 0x40; steps++) {
		if (config[at] == CAP_PCIE)
			return true;
		at = config[at + 1] & ~3u;
	}
	return false;
}

/* Offset of an extended capability; 0: it has none; -EACCES, -ENODATA: not to be seen. */
static int find_cap(struct check_ctx *ctx, const char *dir, unsigned int id, unsigned char *config,
		    ssize_t *len)
{
	char path[PATH_MAX];
	int at = CONFIG_HEAD;

	snprintf(path, sizeof(path), "%s/config", dir);
	*len = mrg_tree_read_raw(ctx->tree, path, config, 4096);
	if (*len < 0)
		return (int)*len;
	if (*len <= 64)
		return -EACCES; /* what others than root get */
	if (*len < CONFIG_HEAD + 4)
		return is_pcie(config) ? -ENODATA : 0;
	/* The chain has at most one capability every 4 bytes, so it ends. */
	for (int steps = 0; steps < 960 && at >= CONFIG_HEAD && at + 8 <= *len; steps++) {
		unsigned int head = le32(config + at);

		if ((head & 0xffff) == id)
			return at;
		at = (int)(head >> 20) & ~3;
	}
	return 0;
}

static int look(void *arg, const char *bridge)
{
	struct found *f = arg;
	unsigned char config[4096];
	const char *name = strrchr(bridge, '/') + 1;
	ssize_t len;
	int at = find_cap(f->ctx, bridge, CAP_ACS, config, &len);

	/* One behind it may redirect, and be readable. */
	if (at < 0)
		f->unseen = at;
	if (at <= 0)
		return 0;
	f->control = config[at + 6] | config[at + 7] << 8;
	if (!(f->control & ACS_REDIRECT))
		return 0;
	snprintf(f->bridge, sizeof(f->bridge), "%.63s", name);
	return 1;
}

static const char *ats_of(struct check_ctx *ctx, const struct check_pci *pci)
{
	unsigned char config[4096];
	ssize_t len;
	int at = find_cap(ctx, pci->real, CAP_ATS, config, &len);

	if (at < 0)
		return "ATS unknown";
	if (!at || at + 8 > len)
		return "no ATS";
	return config[at + 7] & 0x80 ? "ATS on" : "ATS off";
}

static void judge(struct check_ctx *ctx, const struct check_rdma *r, const struct check_pci *gpu)
{
	struct found f = { .ctx = ctx };
	char subject[96], evidence[256];
	bool redirects = check_pair_for_each_bridge(&r->pci, gpu, look, &f);

	snprintf(subject, sizeof(subject), "%.40s-%s", r->name, gpu->addr);
	if (redirects) {
		snprintf(evidence, sizeof(evidence), "bridge %s has ACS control 0x%x; NIC: %s",
			 f.bridge, f.control, ats_of(ctx, &r->pci));
		check_add(
			ctx, MRG_CHECK_WARN, subject, evidence,
			"ACS sends NIC-GPU traffic through the root complex: slow, or it hangs.",
			"Clear the redirect bits (setpci -s BRIDGE ECAP_ACS+6.w=0), or turn ACS off in the firmware.");
		return;
	}
	if (f.unseen) {
		snprintf(evidence, sizeof(evidence), "PCI configuration space: %s",
			 f.unseen == -ENODATA ? "only its first 256 bytes are visible" :
						check_why(f.unseen));
		check_add(
			ctx, MRG_CHECK_UNKNOWN, subject, evidence,
			"Whether ACS redirects their traffic was not seen.",
			f.unseen == -ENODATA ?
				"Look where the whole space is visible: on the hypervisor, or with ECAM enabled." :
				"Run as root.");
		return;
	}
	snprintf(evidence, sizeof(evidence), "no bridge between them redirects; NIC: %s",
		 ats_of(ctx, &r->pci));
	check_add(ctx, MRG_CHECK_OK, subject, evidence, "ACS does not stand between NIC and GPU.",
		  "");
}

static void run(struct check_ctx *ctx)
{
	size_t said = 0;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		const struct check_rdma *r = &ctx->host.rdma[i];
		const struct check_pci *gpu = r->has_pci ? pair_nearest_gpu(&ctx->host, &r->pci) :
							   NULL;

		if (!gpu || (ctx->opts->device && strcmp(ctx->opts->device, r->name)))
			continue;
		judge(ctx, r, gpu);
		said++;
	}
	if (!said)
		check_add(ctx, MRG_CHECK_SKIP, "", "no pair of RDMA device and GPU on PCI", "", "");
}

const struct check_item mrg_check_acs = { "acs", run };
