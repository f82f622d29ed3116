/* SPDX-License-Identifier: MIT */
/*
 * Of an affected kernel that its operator had capped: whether the cap is there
 * that was chosen for each boot, and which MRs are older than it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "host/cap.h"

#define NAMED 3 /* MRs in the evidence */

static void not_loaded(struct check_ctx *ctx)
{
	bool built = check_module_is_installed(ctx, "mrguard_cap");

	check_add(
		ctx, MRG_CHECK_FAIL, "cap",
		built ? "The cap was chosen for each boot, and is not loaded: MRs over 4 GiB can wrap." :
			"The cap was chosen for each boot, and is not built for this kernel: MRs over 4 GiB can wrap.",
		built ? "See 'systemctl status mrguard-cap', then run 'mrguard cap on'." :
			"Run 'apt install linux-headers-$(uname -r) && dkms autoinstall && mrguard cap on'.",
		"mrguard-cap.service is enabled; mrguard_cap is %s for %.120s",
		built ? "built and not loaded" : "not built", ctx->host.release);
}

static void check_boot(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;

	if (!host_cap_is_loaded(ctx->tree)) {
		not_loaded(ctx);
	} else if (h->cap == MRG_CAP_NOT_EFFECTIVE || h->cap == MRG_CAP_LOST) {
		/* Where the walk is known to be affected, its own line has failed. */
		if (h->walk != CHECK_WALK_AFFECTED)
			check_add(
				ctx, MRG_CHECK_FAIL, "cap",
				"The cap was chosen for each boot, and has no effect: MRs over 4 GiB can wrap.",
				"Run 'mrguard cap', which names the remedy.",
				"mrguard-cap.service is enabled; mrguard_cap is %s",
				mrg_cap_name(h->cap));
	} else if (h->cap == MRG_CAP_OFF || h->cap == MRG_CAP_SET) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "cap",
			  "The cap was chosen for each boot, and nothing shows its effect.",
			  "Run 'modprobe -a mrguard mrguard_walk', and check again as root.",
			  "mrguard-cap.service is enabled; mrguard_cap is loaded");
	}
}

static void name_mrs(const struct mrg_cap_mr *mrs, ssize_t count, char *text, size_t size)
{
	size_t used = 0;

	for (ssize_t i = 0; i < count && i < NAMED && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%d %s on %s", i ? ", " : "",
					 mrs[i].pid, mrs[i].comm, mrs[i].device);
	if (count > NAMED && used < size)
		snprintf(text + used, size - used, ", ...");
}

static void check_before(struct check_ctx *ctx)
{
	struct mrg_cap_mr *mrs = NULL;
	ssize_t n = host_cap_before(ctx->tree, &mrs);
	bool certain = false;
	char names[320];

	ctx->lost |= n == -ENOMEM;
	for (ssize_t i = 0; i < n; i++)
		certain |= mrs[i].certain;
	if (n > 0) {
		name_mrs(mrs, n, names, sizeof(names));
		check_add(
			ctx, MRG_CHECK_WARN, "before",
			certain ?
				"MRs over 4 GiB are older than the cap, which does not mend them." :
				"MRs over 4 GiB may be older than the cap, which would not mend them.",
			"Restart these programs; 'mrguard cap' lists all.", "%zd: %s", n, names);
	} else if (n < 0 && n != -ENOENT) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "before",
			  "Whether MRs over 4 GiB are older than the cap is not known.",
			  "Restart programs that were started before it.", "MRs: %s",
			  n == -ENODATA ? "not recorded" : strerror((int)-n));
	}
	free(mrs);
}

void check_cap(struct check_ctx *ctx)
{
	if (ctx->host.walk == CHECK_WALK_EXACT)
		return;
	if (host_cap_is_for_boot(ctx->tree))
		check_boot(ctx);
	check_before(ctx);
}
