/* SPDX-License-Identifier: MIT */
/* A NIC reaches GPU memory through the GPU's BAR 1 (on AMD BAR 0). */
#include <inttypes.h>
#include <string.h>

#include "check/check.h"

/* Line @n of "resource": start, end, flags. */
static uint64_t bar_size(const char *text, int n)
{
	uint64_t start, end;

	for (; n > 0; n--) {
		text = strchr(text, '\n');
		if (!text)
			return 0;
		text++;
	}
	if (sscanf(text, "%" SCNx64 " %" SCNx64, &start, &end) != 2 || end <= start)
		return 0;
	return end - start + 1;
}

static void judge(struct check_ctx *ctx, const struct check_pci *gpu)
{
	char path[PATH_MAX], text[2048];
	int bar = gpu->vendor == VENDOR_NVIDIA ? 1 : 0;
	bool small;
	uint64_t size;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/resource", gpu->real);
	n = host_tree_read(ctx->tree, path, text, sizeof(text));
	size = n > 0 ? bar_size(text, bar) : 0;
	if (!size) {
		check_add(ctx, MRG_CHECK_UNKNOWN, gpu->addr, "The window's size is not known.", "",
			  "resource: %s", n < 0 ? check_why((int)n) : "no such BAR");
		return;
	}
	small = size <= 256u << 20;
	check_add(ctx, small ? MRG_CHECK_WARN : MRG_CHECK_OK, gpu->addr,
		  small ? "Only this much GPU memory can be registered at a time." :
			  "The window is a large one.",
		  small ? "Turn on resizable BAR and above-4G decoding in the firmware." : "",
		  "BAR %d is %" PRIu64 " MiB (resource)", bar, size >> 20);
}

void check_bar1(struct check_ctx *ctx)
{
	if (ctx->host.coherent) {
		check_add(ctx, MRG_CHECK_SKIP, "",
			  "A NIC reaches GPU memory by bus addresses, not through a BAR.", "",
			  "coherent platform");
		return;
	}
	for (size_t i = 0; i < ctx->host.gpu_count; i++)
		judge(ctx, &ctx->host.gpus[i]);
	if (!ctx->host.gpu_count)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no NVIDIA or AMD GPU");
}
