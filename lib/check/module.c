/* SPDX-License-Identifier: MIT */
/* mrguard's own module: built for this kernel, let in, and in step? */
#include <errno.h>
#include <string.h>

#include "check/check.h"
#include "uapi/mrguard.h"

bool check_module_is_installed(struct check_ctx *ctx, const char *name)
{
	static const char *const ends[] = { "ko", "ko.xz", "ko.zst", "ko.gz" };
	static const char *const dirs[] = { "updates/dkms", "updates", "extra" };
	char path[256];

	for (size_t d = 0; d < sizeof(dirs) / sizeof(*dirs); d++)
		for (size_t e = 0; e < sizeof(ends) / sizeof(*ends); e++) {
			snprintf(path, sizeof(path), "/lib/modules/%.120s/%s/%s.%s",
				 ctx->host.release, dirs[d], name, ends[e]);
			if (host_tree_exists(ctx->tree, path))
				return true;
		}
	return false;
}

/* The EFI variable holds four bytes of attributes and then 0 or 1. */
static bool wants_signature(struct check_ctx *ctx)
{
	unsigned char v[8];
	char lockdown[64];

	if (host_tree_read_raw(
		    ctx->tree,
		    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", v,
		    sizeof(v)) >= 5 &&
	    v[4] == 1)
		return true;
	/* Lockdown can be asked for without Secure Boot, on the command line. */
	return host_tree_read(ctx->tree, "/sys/kernel/security/lockdown", lockdown,
			      sizeof(lockdown)) > 0 &&
	       !strstr(lockdown, "[none]");
}

static const char *without(const struct check_ctx *ctx)
{
	return ctx->host.walk_asked ?
		       "Without the module, DMA addresses are unknown, so plans use more MRs than may be needed." :
		       "Without the module, DMA addresses and the kernel's walk are unknown, so plans use more MRs than may be needed.";
}

static void not_built(struct check_ctx *ctx)
{
	const char *release = ctx->host.release;
	bool headers, known = host_tree_exists(ctx->tree, "/var/lib/dkms/mrguard");
	char path[192], remedy[256];

	snprintf(path, sizeof(path), "/lib/modules/%.120s/build", release);
	headers = host_tree_exists(ctx->tree, path);
	if (known)
		snprintf(remedy, sizeof(remedy),
			 "Run '%sdkms autoinstall && modprobe -a mrguard mrguard_walk'.",
			 headers ? "" : "apt install linux-headers-$(uname -r) && ");
	else
		snprintf(remedy, sizeof(remedy),
			 "%sInstall the package mrguard-dkms, or from mrguard's source: "
			 "make dkms-install && dkms install mrguard/" MRG_VERSION_STRING
			 "; then 'modprobe -a mrguard mrguard_walk'.",
			 headers ? "" : "Run 'apt install linux-headers-$(uname -r)'.  ");
	check_add(ctx, MRG_CHECK_WARN, "", without(ctx), remedy,
		  "not built for %.120s; its headers are %s%s", release,
		  headers ? "installed" : "missing", known ? "" : "; dkms does not know mrguard");
}

static void not_loaded(struct check_ctx *ctx)
{
	bool locked = wants_signature(ctx);

	check_add(
		ctx, MRG_CHECK_WARN, "",
		locked ? "The kernel lets in only modules signed with an enrolled key." :
			 "The module is built and installed, but not loaded.",
		locked ?
			"Run 'modprobe -a mrguard mrguard_walk'; if the key is rejected, enrol DKMS's once "
			"('mokutil --import /var/lib/dkms/mok.pub') and reboot." :
			"Run 'modprobe -a mrguard mrguard_walk'.",
		"built for %.120s, not loaded%s", ctx->host.release,
		locked ? "; Secure Boot or lockdown is on" : "");
}

static void judge(struct check_ctx *ctx, const char *version, unsigned int abi, const char *walk)
{
	char evidence[160];

	snprintf(evidence, sizeof(evidence), "version %s, ABI %u, walk %s (/dev/mrguard)", version,
		 abi, walk);
	if (abi != MRG_ABI_VERSION)
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"Module and library are of different generations; they use what both know.",
			"Install both from one release.", "%s", evidence);
	else if (!strcmp(walk, "none"))
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"mrguard_walk is not loaded, so the running ib_core was not asked.",
			"Run 'modprobe mrguard_walk'; it is built against the running RDMA stack.",
			"%s", evidence);
	else
		check_add(ctx, MRG_CHECK_OK, "", "The module is loaded and in step.", "", "%s",
			  evidence);
}

void check_module(struct check_ctx *ctx)
{
	char buf[128], version[32] = "", walk[32] = "";
	unsigned int abi = 0;
	ssize_t n = check_module_fact(ctx, buf, sizeof(buf));

	if (n == -EACCES)
		check_add(ctx, MRG_CHECK_UNKNOWN, "",
			  "The module is loaded, but this user may not open it.",
			  "Run 'usermod -aG rdma USER'.", "/dev/mrguard: needs root or group rdma");
	else if (n > 0 && sscanf(buf, "version %31s abi %u walk %31s", version, &abi, walk) == 3)
		judge(ctx, version, abi, walk);
	else if (check_module_is_installed(ctx, "mrguard"))
		not_loaded(ctx);
	else if (ctx->host.modules_visible)
		not_built(ctx);
	else
		check_add(
			ctx, MRG_CHECK_WARN, "", without(ctx),
			"Load it on the host ('modprobe -a mrguard mrguard_walk'), and give a container /dev/mrguard.",
			"no /dev/mrguard, and /lib/modules of this kernel is not visible (a container?)");
}
