/* SPDX-License-Identifier: MIT */
#include "check/check.h"

static void run(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	const char *likely = h->walk_seen ? "" : "likely: ";
	char evidence[320], meaning[256];

	if (h->walk_seen)
		snprintf(evidence, sizeof(evidence), "%s (asked of ib_core by the mrguard module)",
			 h->walk == CHECK_WALK_EXACT ? "exact" : "truncating");
	else
		snprintf(evidence, sizeof(evidence), "kernel %u.%u.%u (/proc/version)%s",
			 h->kernel[0], h->kernel[1], h->kernel[2],
			 !h->modules_seen ? ", its modules not in sight" :
			 h->vendor_core	  ? ", vendor's ib_core" :
					    "");
	switch (h->walk) {
	case CHECK_WALK_EXACT:
		snprintf(meaning, sizeof(meaning),
			 "%spages of 4 GiB and more are walked right, or never picked.", likely);
		check_add(ctx, MRG_CHECK_OK, "", evidence, meaning, "");
		break;
	case CHECK_WALK_AFFECTED:
		snprintf(meaning, sizeof(meaning),
			 "%sthis ib_core walks pages of 4 GiB and more in 32 bits: "
			 "a large MR can wrap, and transfers move wrong bytes with status 0.",
			 likely);
		check_add(
			ctx, MRG_CHECK_WARN, "", evidence, meaning,
			"Update to a kernel with commit 15fe76e23615, or register through libmrguard.");
		break;
	default:
		check_add(
			ctx, MRG_CHECK_UNKNOWN, "", evidence,
			"The version of the kernel does not tell how its ib_core walks large pages.",
			"Load the module, as the line \"module\" says, and check again.");
	}
}

const struct check_item check_walk = { "walk", run };
