/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "check/pairs.h"

static long numa_of(struct check_ctx *ctx, const struct check_pci *pci)
{
	char path[PATH_MAX], text[32];
	long node = -1;

	snprintf(path, sizeof(path), "%s/numa_node", pci->real);
	if (mrg_tree_read(ctx->tree, path, text, sizeof(text)) > 0)
		sscanf(text, "%ld", &node);
	return node;
}

static void run(struct check_ctx *ctx)
{
	static const char *const names[] = { "below one switch", "under one host bridge",
					     "under different host bridges" };
	size_t said = 0;

	for (size_t i = 0; i < ctx->host.rdma_count; i++) {
		const struct check_rdma *r = &ctx->host.rdma[i];
		const struct check_pci *gpu = r->has_pci ? pair_nearest_gpu(&ctx->host, &r->pci) :
							   NULL;
		char evidence[192];
		enum check_pair_path path;
		long a, b;

		if (!gpu || (ctx->opts->device && strcmp(ctx->opts->device, r->name)))
			continue;
		path = pair_path(&r->pci, gpu);
		a = numa_of(ctx, &r->pci);
		b = numa_of(ctx, gpu);
		snprintf(evidence, sizeof(evidence), "nearest GPU %s: %s, NUMA nodes %ld and %ld",
			 gpu->addr, names[path], a, b);
		if (path == PAIR_NUMA && a >= 0 && b >= 0 && a != b)
			check_add(ctx, MRG_CHECK_WARN, r->name, evidence,
				  "Their traffic crosses the link between the processors.",
				  "Pair the GPU with a NIC on its own NUMA node.");
		else
			check_add(ctx, MRG_CHECK_OK, r->name, evidence, "Near enough.", "");
		said++;
	}
	if (!said)
		check_add(ctx, MRG_CHECK_SKIP, "", "no pair of RDMA device and GPU on PCI", "", "");
}

const struct check_item mrg_check_pci_path = { "pci-path", run };
