/* SPDX-License-Identifier: MIT */
#include "check/check.h"

static void read_evidence(const struct check_host *h, char *text, size_t room)
{
	if (h->walk == CHECK_WALK_CAPPED)
		snprintf(text, room,
			 "truncating, capped (both asked of the kernel by the mrguard module)");
	else if (h->walk_asked && h->cap != MRG_CAP_OFF)
		snprintf(text, room, "%s; cap %s (asked of ib_core %s)",
			 h->walk == CHECK_WALK_EXACT ? "exact" : "truncating", mrg_cap_name(h->cap),
			 h->walk_asked);
	else if (h->walk_asked)
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

static void add_capped(struct check_ctx *ctx, const char *evidence)
{
	if (ctx->host.uncapped)
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"The cap keeps this ib_core from picking pages that it walks wrong, but some driver takes larger pages only.",
			"Register through libmrguard on the devices of the line 'device-pages'.",
			"%s; %llu picks could not be capped", evidence, ctx->host.uncapped);
	else
		check_add(
			ctx, MRG_CHECK_OK, "",
			"The cap keeps this ib_core from picking pages of 4 GiB and more, which it walks wrong.",
			"", "%s", evidence);
}

/* Somebody has set the cap, and relies on it. */
static void add_without_effect(struct check_ctx *ctx, const char *evidence)
{
	bool lost = ctx->host.cap == MRG_CAP_LOST;

	check_add(
		ctx, MRG_CHECK_FAIL, "",
		"The cap has no effect: a large MR can wrap, and transfers then move wrong bytes with status 0.",
		lost ? "See the kernel log, then run 'mrguard cap off' and 'mrguard cap on'." :
		       "Run 'echo 1 > /sys/kernel/debug/kprobes/enabled'.",
		"%s", evidence);
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
	case CHECK_WALK_CAPPED:
		add_capped(ctx, evidence);
		break;
	case CHECK_WALK_AFFECTED:
		if (h->cap == MRG_CAP_LOST || h->cap == MRG_CAP_NOT_EFFECTIVE) {
			add_without_effect(ctx, evidence);
			break;
		}
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
