/* SPDX-License-Identifier: MIT */
/*
 * ACS redirection on a port between NIC and GPU, below the switch that they
 * share, sends their traffic up to the root complex: slow, or stopped by an IOMMU.
 * Where they share no switch it goes there anyway.  A port with direct translated
 * P2P lets requests pass that the NIC had translated before (ATS).  Bits elsewhere
 * do not matter, and only root can read the register.
 */
#include <errno.h>
#include <string.h>

#include "check/check.h"

#define CONFIG_HEAD 0x100
#define CAP_PCIE 0x10
#define CAP_ACS 0x000d
#define CAP_ATS 0x000f
#define ACS_REDIRECT ((1u << 2) | (1u << 3) | (1u << 4)) /* request, completion, upstream */
#define ACS_DIRECT_TRANSLATED (1u << 6)

enum ats { ATS_UNKNOWN, ATS_NONE, ATS_OFF, ATS_ON };

static const char *const ats_names[] = { "ATS unknown", "no ATS", "ATS off", "ATS on" };

/* Of the ports between the two, the one that decides. */
struct found {
	struct check_ctx *ctx;
	enum ats ats; /* of the function that does the DMA */
	char bridge[64];
	unsigned int control;
	int unreadable; /* -errno of a bridge that could not be read */
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

/* Offset of an extended capability; 0: it has none; -EACCES, -ENODATA: not readable. */
static int find_cap(struct check_ctx *ctx, const char *dir, unsigned int id, unsigned char *config,
		    ssize_t *len)
{
	char path[PATH_MAX];
	int at = CONFIG_HEAD;

	snprintf(path, sizeof(path), "%s/config", dir);
	*len = host_tree_read_raw(ctx->tree, path, config, 4096);
	if (*len < 0)
		return (int)*len;
	if (*len <= 64)
		return -EACCES; /* others than root get 64 bytes */
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
	unsigned int control;
	ssize_t len;
	int at = find_cap(f->ctx, bridge, CAP_ACS, config, &len);

	/* One behind it may redirect, and be readable. */
	if (at < 0)
		f->unreadable = at;
	if (at <= 0)
		return 0;
	control = config[at + 6] | config[at + 7] << 8u;
	if (!(control & ACS_REDIRECT))
		return 0;
	f->control = control;
	snprintf(f->bridge, sizeof(f->bridge), "%.63s", name);
	return !(control & ACS_DIRECT_TRANSLATED) || f->ats != ATS_ON;
}

static enum ats ats_of(struct check_ctx *ctx, const struct check_pci *pci)
{
	unsigned char config[4096];
	ssize_t len;
	int at = find_cap(ctx, pci->real, CAP_ATS, config, &len);

	if (at < 0)
		return ATS_UNKNOWN;
	if (!at || at + 8 > len)
		return ATS_NONE;
	return config[at + 7] & 0x80 ? ATS_ON : ATS_OFF;
}

static void add_unreadable(struct check_ctx *ctx, const char *subject, int why)
{
	bool short_space = why == -ENODATA;

	check_add(
		ctx, MRG_CHECK_UNKNOWN, subject,
		"Whether ACS redirects their traffic is not known.",
		short_space ?
			"Look where the whole space is visible: on the hypervisor, or with ECAM enabled." :
			"Run as root.",
		"PCI configuration space: %s",
		short_space ? "only its first 256 bytes are visible" : check_why(why));
}

static void add_redirected(struct check_ctx *ctx, const char *subject, const struct found *f)
{
	bool direct = f->control & ACS_DIRECT_TRANSLATED;
	bool topo = host_tree_exists(ctx->tree, "/usr/sbin/rdma_topo") ||
		    host_tree_exists(ctx->tree, "/usr/bin/rdma_topo");
	char remedy[256];

	snprintf(
		remedy, sizeof(remedy), "%s%s",
		direct ?
			"Turn ATS on for the NIC (mlxconfig ATS_ENABLED=1): the ports let translated requests pass." :
			"On a host without VMs, clear the redirect bits (setpci -s BRIDGE ECAP_ACS+6.w=0), or turn ACS off in the firmware.",
		topo ? "  'rdma_topo check' shows what the ports should have." : "");
	check_add(ctx, MRG_CHECK_WARN, subject,
		  "ACS sends NIC-GPU traffic through the root complex: it is slow, or it hangs.",
		  remedy, "bridge %s has ACS control 0x%x; NIC: %s", f->bridge, f->control,
		  ats_names[f->ats]);
}

static void add_untold(struct check_ctx *ctx, const char *subject, const struct found *f)
{
	check_add(
		ctx, MRG_CHECK_UNKNOWN, subject,
		"The ports let requests pass that the NIC translated; whether it translates them is not known.",
		"Run as root.", "bridge %s has ACS control 0x%x; the NIC's ATS is not readable",
		f->bridge, f->control);
}

static void add_direct(struct check_ctx *ctx, const char *subject, const struct found *f)
{
	if (f->control)
		check_add(
			ctx, MRG_CHECK_OK, subject,
			"Requests that the NIC translated pass the ports between NIC and GPU directly.",
			"", "bridge %s has ACS control 0x%x (direct translated P2P); NIC: %s",
			f->bridge, f->control, ats_names[f->ats]);
	else
		check_add(ctx, MRG_CHECK_OK, subject, "ACS does not stand between NIC and GPU.", "",
			  "no bridge between them redirects; NIC: %s", ats_names[f->ats]);
}

bool check_acs(struct check_ctx *ctx, const struct check_rdma *r)
{
	const struct check_pci *gpu = check_nearest_gpu(&ctx->host, r),
			       *nic = check_dma_function(r);
	struct found f = { .ctx = ctx };
	char subject[96];

	if (!gpu)
		return false;
	snprintf(subject, sizeof(subject), "%.40s-%s", r->name, gpu->addr);
	if (r->data_direct_untold) {
		check_add(
			ctx, MRG_CHECK_UNKNOWN, subject,
			"Which data-direct function does this device's DMA is not known, so neither are the ports between it and the GPU.",
			"Run as root, who can read the functions' vital product data.",
			"%zu functions of mlx5_data_direct; vpd of %s not readable",
			ctx->host.data_direct_count, r->pci.addr);
		return true;
	}
	if (check_pair_distance(nic, gpu) != CHECK_DISTANCE_SWITCH) {
		check_add(ctx, MRG_CHECK_OK, subject,
			  "NIC and GPU meet at the root complex, so ACS does not change their way.",
			  "", "no switch above both %s and %s (/sys/devices)", nic->addr,
			  gpu->addr);
		return true;
	}
	f.ats = ats_of(ctx, nic);
	if (check_pair_for_each_bridge(nic, gpu, look, &f)) {
		if (f.control & ACS_DIRECT_TRANSLATED && f.ats == ATS_UNKNOWN)
			add_untold(ctx, subject, &f);
		else
			add_redirected(ctx, subject, &f);
	} else if (f.unreadable) {
		add_unreadable(ctx, subject, f.unreadable);
	} else {
		add_direct(ctx, subject, &f);
	}
	return true;
}
