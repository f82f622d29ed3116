/* SPDX-License-Identifier: MIT */
/* libmlx5 before v61 keeps the size of an indirect key's list in an int. */
#include <string.h>

#include "check/check.h"

/* The soname link leads to a file whose name ends in the version:
 * libibverbs.so.1.14.44.0 is rdma-core 44. */
static unsigned int version_in(struct check_ctx *ctx, const char *dir, char *file, size_t cap)
{
	unsigned int major = 0;
	char path[128], *name;

	snprintf(path, sizeof(path), "%s/libibverbs.so.1", dir);
	if (host_tree_real(ctx->tree, path, file, cap))
		return 0;
	name = strrchr(file, '/');
	if (!name || sscanf(name, "/libibverbs.so.1.%*u.%u", &major) != 1)
		return 0;
	return major;
}

void check_rdma_core(struct check_ctx *ctx)
{
	char dir[96], file[256] = "";
	unsigned int major;

	snprintf(dir, sizeof(dir), "/usr/lib/%s-linux-gnu", ctx->host.arch);
	major = version_in(ctx, dir, file, sizeof(file));
	if (!major)
		major = version_in(ctx, "/usr/lib64", file, sizeof(file));
	if (!major)
		check_add(ctx, ctx->host.rdma_count ? MRG_CHECK_UNKNOWN : MRG_CHECK_SKIP, "",
			  "The version of rdma-core is not known.", "",
			  "no libibverbs in /usr/lib or /usr/lib64");
	else if (major >= 61)
		check_add(
			ctx, MRG_CHECK_OK, "", "Indirect keys over 2 GiB are counted correctly.",
			"To be sure, see the package's change log: a version does not tell a distribution's patches.",
			"rdma-core %u (%.250s)", major, file);
	else
		check_add(
			ctx, MRG_CHECK_WARN, "",
			"Before version 61 indirect mlx5 keys over more than 2 GiB overflow an int; ordinary MRs do not.",
			"Where an engine builds indirect keys (mlx5dv_wr_mr_list), update rdma-core to 61 or later.",
			"rdma-core %u (%.250s)", major, file);
}
