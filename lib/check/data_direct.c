/* SPDX-License-Identifier: MIT */
/* ConnectX-8 class NICs reach GPUs through a second PCI function. */
#include <string.h>

#include "check/check.h"

void check_data_direct(struct check_ctx *ctx)
{
	char **names, path[PATH_MAX];
	unsigned long long vendor, device;
	ssize_t n = host_tree_list(ctx->tree, "/sys/bus/pci/drivers/mlx5_data_direct", &names);
	size_t found = 0;

	for (ssize_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", names[i]);
		if (host_tree_read_u64(ctx->tree, path, &vendor) || vendor != VENDOR_MELLANOX)
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", names[i]);
		found += !host_tree_read_u64(ctx->tree, path, &device);
	}
	if (n > 0)
		host_tree_free_names(names, n);
	if (!found)
		check_add(ctx, MRG_CHECK_SKIP, "", "", "", "no function bound to mlx5_data_direct");
	else
		check_add(
			ctx, MRG_CHECK_OK, "",
			"MRs over data-direct are mapped for that function, not for the NIC's own: plan for it.",
			"", "%zu function%s bound to mlx5_data_direct", found,
			found == 1 ? "" : "s");
}
