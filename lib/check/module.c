/* SPDX-License-Identifier: MIT */
/* mrguard's own module: built for this kernel, let in, and in step? */
#include <errno.h>
#include <string.h>

#include "check/check.h"
#include "uapi/mrguard.h"

static bool installed(struct check_ctx *ctx, const char *release)
{
	static const char *const ends[] = { "ko", "ko.xz", "ko.zst", "ko.gz" };
	static const char *const dirs[] = { "updates/dkms", "updates", "extra" };
	char path[256];

	for (size_t d = 0; d < sizeof(dirs) / sizeof(*dirs); d++)
		for (size_t e = 0; e < sizeof(ends) / sizeof(*ends); e++) {
			snprintf(path, sizeof(path), "/lib/modules/%.120s/%s/mrguard.%s", release,
				 dirs[d], ends[e]);
			if (mrg_tree_exists(ctx->tree, path))
				return true;
		}
	return false;
}

/* The EFI variable holds four bytes of attributes and then 0 or 1. */
static bool wants_signature(struct check_ctx *ctx)
{
	unsigned char v[8];
	char lockdown[64];

	if (mrg_tree_read_raw(
		    ctx->tree,
		    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", v,
		    sizeof(v)) >= 5 &&
	    v[4] == 1)
		return true;
	/* Lockdown can be asked for without Secure Boot, on the command line. */
	return mrg_tree_read(ctx->tree, "/sys/kernel/security/lockdown", lockdown,
			     sizeof(lockdown)) > 0 &&
	       !strstr(lockdown, "[none]");
}

static void not_built(struct check_ctx *ctx)
{
	const char *release = ctx->host.release;
	bool headers, known = mrg_tree_exists(ctx->tree, "/var/lib/dkms/mrguard");
	char path[192], evidence[256], remedy[256];

	snprintf(path, sizeof(path), "/lib/modules/%.120s/build", release);
	headers = mrg_tree_exists(ctx->tree, path);
	snprintf(evidence, sizeof(evidence), "not built for %.120s; its headers are %s%s", release,
		 headers ? "installed" : "missing", known ? "" : "; dkms does not know mrguard");
	if (known)
		snprintf(remedy, sizeof(remedy),
			 "%sdkms autoinstall && modprobe -a mrguard mrguard_walk",
			 headers ? "" : "apt install linux-headers-$(uname -r) && ");
	else
		snprintf(remedy, sizeof(remedy),
			 "%sInstall the package mrguard-dkms, or from mrguard's source: "
			 "make dkms-install && dkms install mrguard/" MRG_VERSION_STRING
			 "; then modprobe -a mrguard mrguard_walk",
			 headers ? "" : "apt install linux-headers-$(uname -r).  ");
	check_add(ctx, MRG_CHECK_WARN, "", evidence,
		  "Without the module addresses and walk are not seen: plans are the careful kind.",
		  remedy);
}

static void why_not_loaded(struct check_ctx *ctx)
{
	const char *release = ctx->host.release;
	bool locked = wants_signature(ctx);
	char evidence[256];

	if (!installed(ctx, release) && ctx->host.modules_seen) {
		not_built(ctx);
		return;
	}
	if (!installed(ctx, release)) {
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"no /dev/mrguard, and /lib/modules of this kernel is not in sight "
			"(a container?)",
			"Without the module addresses and walk are not seen: plans are the careful kind.",
			"Load it on the host (modprobe -a mrguard mrguard_walk), and give a container /dev/mrguard.");
		return;
	}
	snprintf(evidence, sizeof(evidence), "built for %.120s, not loaded%s", release,
		 locked ? "; Secure Boot or lockdown is on" : "");
	check_add(
		ctx, MRG_CHECK_WARN, "", evidence,
		locked ? "The kernel lets in only modules signed with an enrolled key." :
			 "Only the loading is missing.",
		locked ?
			"modprobe -a mrguard mrguard_walk; where the key is rejected, enrol DKMS's once: "
			"mokutil --import /var/lib/dkms/mok.pub, then reboot." :
			"modprobe -a mrguard mrguard_walk");
}

static void run(struct check_ctx *ctx)
{
	char buf[128], version[32] = "", walk[32] = "", evidence[160];
	unsigned int abi = 0;
	ssize_t n = check_module_fact(ctx, buf, sizeof(buf));

	if (n == -EACCES) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "/dev/mrguard: needs root or group rdma",
			  "The module is loaded, but may not be asked.", "usermod -aG rdma USER");
		return;
	}
	if (n <= 0 || sscanf(buf, "version %31s abi %u walk %31s", version, &abi, walk) != 3) {
		why_not_loaded(ctx);
		return;
	}
	snprintf(evidence, sizeof(evidence), "version %s, ABI %u, walk %s (/dev/mrguard)", version,
		 abi, walk);
	if (abi != MRG_ABI_VERSION)
		check_add(
			ctx, MRG_CHECK_WARN, "", evidence,
			"Module and library are of different generations; they work with what both know.",
			"Install both from one release.");
	else if (!strcmp(walk, "none"))
		check_add(ctx, MRG_CHECK_WARN, "", evidence,
			  "mrguard_walk is not loaded, so the running ib_core was not asked.",
			  "modprobe mrguard_walk (it is built against the running RDMA stack)");
	else
		check_add(ctx, MRG_CHECK_OK, "", evidence, "Loaded and in step.", "");
}

const struct check_item check_module = { "module", run };
