/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "check/check.h"

static long numa_of(struct check_ctx *ctx, const struct check_pci *pci)
{
	char path[PATH_MAX], text[32];
	long node = -1;

	snprintf(path, sizeof(path), "%s/numa_node", pci->real);
	if (host_tree_read(ctx->tree, path, text, sizeof(text)) > 0)
		sscanf(text, "%ld", &node);
	return node;
}

bool check_pci_path(struct check_ctx *ctx, const struct check_rdma *r)
{
	static const char *const names[] = { "below one switch", "under one host bridge",
					     "under different host bridges" };
	const struct check_pci *gpu = check_nearest_gpu(&ctx->host, r);
	enum check_distance distance;
	long a, b;
	bool far;

	if (!gpu)
		return false;
	distance = check_pair_distance(check_dma_function(r), gpu);
	a = numa_of(ctx, check_dma_function(r));
	b = numa_of(ctx, gpu);
	far = distance == CHECK_DISTANCE_NUMA && a >= 0 && b >= 0 && a != b;
	check_add(ctx, far ? MRG_CHECK_WARN : MRG_CHECK_OK, r->name,
		  far ? "Their traffic crosses the link between the processors." :
			"NIC and GPU are near enough.",
		  far ? "Pair the GPU with a NIC on its own NUMA node." : "",
		  "nearest GPU%s %s: %s, NUMA nodes %ld and %ld",
		  r->data_direct ? " of the data-direct function" : "", gpu->addr, names[distance],
		  a, b);
	return true;
}
