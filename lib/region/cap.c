/* SPDX-License-Identifier: MIT */
/*
 * Whether MRs can count on mrguard_cap.ko.  The answer is asked anew each time,
 * of the kernel's own pick: a switch in debugfs ends the effect at any moment.
 * The open file that was told keeps the cap from being unloaded, and so lives as
 * long as the MRs: kernels pick an MR's page again when its memory moves.
 */
#include "region/request.h"

int region_cap_holds(const struct mrg_ctx *ctx, const struct region_device *device)
{
	struct mrg_dev_info info;
	int ret;

	if (device->pick != MRG_PICK_KERNEL || !ctx->dev)
		return 0;
	ret = ctx->env->dev_info(ctx->dev, &info);
	if (ret)
		return ret;
	/* Which driver it was that could not be capped is not known. */
	return info.cap == MRG_CAP_EFFECTIVE && !info.cap_uncapped;
}
