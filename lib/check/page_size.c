/* SPDX-License-Identifier: MIT */
/* Exports and MRs are cut to host pages, and those are not 4 KiB everywhere. */
#include "check/check.h"

static void run(struct check_ctx *ctx)
{
	unsigned long size = ctx->host.page_size;
	char evidence[96];

	if (!size) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "page size not recorded", "", "");
		return;
	}
	snprintf(evidence, sizeof(evidence), "%lu KiB pages on %s", size / 1024, ctx->host.arch);
	if (size == 4096) {
		check_add(ctx, MRG_CHECK_OK, "", evidence,
			  "Every engine was written for this size.", "");
		return;
	}
	check_add(
		ctx, MRG_CHECK_WARN, "", evidence,
		"GPU exports must start and end on these pages; engines that round to 4 KiB get EINVAL, "
		"and drivers without the January 2026 fixes fault near 4 GiB borders.",
		"Take offset, length and iova from libmrguard, and keep GPU and RDMA drivers current.");
}

const struct check_item check_page_size = { "page-size", run };
