/* SPDX-License-Identifier: MIT */
/* Exports and MRs are cut to host pages, and those are not 4 KiB everywhere. */
#include "check/check.h"

void check_page_size(struct check_ctx *ctx)
{
	unsigned long size = ctx->host.page_size;

	if (!size)
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "", "", "page size not recorded");
	else
		check_add(
			ctx, size == 4096 ? MRG_CHECK_OK : MRG_CHECK_WARN, "",
			size == 4096 ?
				"Every engine was written for this size." :
				"GPU exports must start and end on these pages; engines that round to 4 KiB get "
				"EINVAL, and drivers without the January 2026 fixes fault near 4 GiB borders.",
			size == 4096 ?
				"" :
				"Take offset, length and iova from libmrguard, and keep GPU and RDMA drivers "
				"current.",
			"%lu KiB pages on %s", size / 1024, ctx->host.arch);
}
