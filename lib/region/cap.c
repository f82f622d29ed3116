/* SPDX-License-Identifier: MIT */
/*
 * Whether MRs can rely on mrguard_cap.ko.  Each time, the kernel's own pick is run
 * again, because a switch in debugfs can end the effect at any moment.  An open
 * /dev/mrguard through which the answer came keeps the cap loaded.  It stays open as
 * long as the MRs live, because kernels pick an MR's page again when its memory moves.
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
