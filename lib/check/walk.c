/* SPDX-License-Identifier: MIT */
#include "check/check.h"

static void read_evidence(const struct check_host *h, char *text, size_t room)
{
	if (h->walk_asked)
		snprintf(text, room, "%s (asked of ib_core %s)",
			 h->walk == CHECK_WALK_EXACT ? "exact" : "truncating", h->walk_asked);
	else
		snprintf(text, room, "kernel %u.%u.%u (%s)%s%s%s", h->kernel[0], h->kernel[1],
			 h->kernel[2], h->kernel_from,
			 !h->modules_visible ? ", its modules are not visible" :
			 h->vendor_core	     ? ", vendor's ib_core" :
			 !h->kernel_follows  ? ", whose number does not tell which fixes it has" :
					       "",
			 h->walk_why[0] ? "; " : "", h->walk_why);
}

void check_walk(struct check_ctx *ctx)
{
	const struct check_host *h = &ctx->host;
	const char *core = h->walk_asked ? "This ib_core" : "By its version, this ib_core likely";
	char evidence[320], meaning[256];

	read_evidence(h, evidence, sizeof(evidence));
	ctx->basis = h->walk_asked ? MRG_BASIS_ASKED : MRG_BASIS_INFERRED;
	switch (h->walk) {
	case CHECK_WALK_EXACT:
		snprintf(meaning, sizeof(meaning),
			 "%s walks pages of 4 GiB and more correctly, or never picks them.", core);
		check_add(
			ctx, MRG_CHECK_OK, "", meaning,
			h->walk_asked ?
				"" :
				"To be sure, load the module, as the line 'module' says, and check again.",
			"%s", evidence);
		break;
	case CHECK_WALK_AFFECTED:
		snprintf(meaning, sizeof(meaning),
			 "%s walks pages of 4 GiB and more in 32 bits: a large MR can wrap, and "
			 "transfers then move wrong bytes with status 0.",
			 core);
		check_add(
			ctx, MRG_CHECK_WARN, "", meaning,
			"Update to a kernel with commit 15fe76e23615, run 'mrguard cap on', or register through libmrguard.",
			"%s", evidence);
		break;
	default:
		check_add(
			ctx, MRG_CHECK_UNKNOWN, "",
			"The version of the kernel does not tell how its ib_core walks large pages.",
			"Load the module, as the line 'module' says, and check again.", "%s",
			evidence);
	}
	check_cap(ctx);
}
