/* SPDX-License-Identifier: MIT */
#include "host/tree.h"
#include "private/private.h"
#include "share/handle.h"

_Static_assert(MRG_PRIVATE_TREE_MAX_FILE == HOST_TREE_MAX_FILE, "one limit of a file's size");

int mrg_private_tree_open(struct mrg_tree **tree, const char *root)
{
	return host_tree_open(tree, root, NULL);
}

void mrg_private_tree_close(struct mrg_tree *tree)
{
	host_tree_close(tree);
}

ssize_t mrg_private_tree_read(struct mrg_tree *tree, const char *path, char *buf, size_t cap)
{
	return host_tree_read(tree, path, buf, cap);
}

int mrg_private_tree_real(struct mrg_tree *tree, const char *path, char *buf, size_t cap)
{
	return host_tree_real(tree, path, buf, cap);
}

bool mrg_private_tree_exists(struct mrg_tree *tree, const char *path)
{
	return host_tree_exists(tree, path);
}

ssize_t mrg_private_tree_list(struct mrg_tree *tree, const char *path, char ***names)
{
	return host_tree_list(tree, path, names);
}

void mrg_private_tree_free_names(char **names, ssize_t count)
{
	host_tree_free_names(names, count);
}

void mrg_private_boot_id(uint8_t id[16])
{
	share_boot_id(id);
}

enum mrg_protocol mrg_private_range_protocol(const struct mrg_range *range)
{
	switch (range->kind) {
	case SHARE_HOST:
		return MRG_PROTO_HOST_SHM;
	case SHARE_CUDA_VMM:
		return MRG_PROTO_CUDA_VMM;
	case SHARE_HIP_VMM:
		return MRG_PROTO_HIP_VMM;
	case SHARE_CUDA_IPC:
		return MRG_PROTO_CUDA_IPC;
	case SHARE_HIP_IPC:
		return MRG_PROTO_HIP_IPC;
	}
	return MRG_PROTO_NONE;
}
