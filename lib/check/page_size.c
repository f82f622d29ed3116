/* SPDX-License-Identifier: MIT */
/* Exports and MRs are cut to host pages, and those are not 4 KiB everywhere. */
#include <string.h>

#include "check/check.h"

enum known { NOT_KNOWN, GOOD, BAD };

/*
 * On pages of 64 KiB some of NVIDIA's drivers mapped 4 GiB and more wrongly: the
 * 64 KiB below each border of 4 GiB fault (Xid 31).  Of 580, 142 to 173.02 are good.
 */
static enum known driver_with_64k(const char *version)
{
	static const struct {
		unsigned int first[3], last[3];
		enum known is;
	} ranges[] = {
		{ { 580, 142, 0 }, { 580, 173, 2 }, GOOD },
		{ { 590, 44, 1 }, { 610, 43, 3 }, BAD },
	};
	unsigned int v[3] = { 0 };

	if (sscanf(version, "%u.%u.%u", &v[0], &v[1], &v[2]) < 2)
		return NOT_KNOWN;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		int low = 0, high = 0;

		for (int k = 0; k < 3 && !low; k++)
			low = (v[k] > ranges[i].first[k]) - (v[k] < ranges[i].first[k]);
		for (int k = 0; k < 3 && !high; k++)
			high = (v[k] > ranges[i].last[k]) - (v[k] < ranges[i].last[k]);
		if (low >= 0 && high <= 0)
			return ranges[i].is;
	}
	return NOT_KNOWN;
}

static void judge_nvidia(struct check_ctx *ctx)
{
	char text[256] = "", version[32] = "";
	const char *at = text;
	unsigned int major;

	host_tree_read(ctx->tree, "/proc/driver/nvidia/version", text, sizeof(text));
	/* "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  590.44.01  Release" */
	while ((at = strchr(at, ' ')) && !version[0])
		if (sscanf(++at, "%u.%*u", &major) == 1)
			sscanf(at, "%31[0-9.]", version);
	if (!version[0])
		return;
	/* What a version stands for. */
	ctx->basis = MRG_BASIS_INFERRED;
	switch (driver_with_64k(version)) {
	case GOOD:
		check_add(ctx, MRG_CHECK_OK, "nvidia",
			  "This driver is known to map 4 GiB and more correctly on 64 KiB pages.",
			  "To be sure, test with bytes: 'mrguard selftest --buffer cuda:8G'.",
			  "driver %s (/proc/driver/nvidia/version)", version);
		break;
	case BAD:
		check_add(
			ctx, MRG_CHECK_FAIL, "nvidia",
			"On 64 KiB pages this driver's mappings of 4 GiB and more fault 64 KiB below each border of 4 GiB (Xid 31).",
			"Install a driver from 580.142 to 580.173.02, or one after 610.43.03 whose notes name the fix.",
			"driver %s (/proc/driver/nvidia/version)", version);
		break;
	default:
		check_add(
			ctx, MRG_CHECK_UNKNOWN, "nvidia",
			"Whether this driver maps 4 GiB and more correctly on 64 KiB pages is not known.",
			"Test with bytes: 'mrguard selftest --buffer cuda:8G'.",
			"driver %s (/proc/driver/nvidia/version); known good: 580.142 to 580.173.02, bad: 590.44.01 to 610.43.03",
			version);
	}
}

void check_page_size(struct check_ctx *ctx)
{
	unsigned long size = ctx->host.page_size;

	if (!size) {
		check_add(ctx, MRG_CHECK_UNKNOWN, "", "", "", "page size not recorded");
		return;
	}
	check_add(
		ctx, size == 4096 ? MRG_CHECK_OK : MRG_CHECK_WARN, "",
		size == 4096 ?
			"Every engine was written for this size." :
			"GPU exports must start and end on these pages; engines that round to 4 KiB get EINVAL.",
		size == 4096 ? "" : "Take offset, length and iova from libmrguard.",
		"%lu KiB pages on %s", size / 1024, ctx->host.arch);
	if (size == 65536)
		judge_nvidia(ctx);
}
