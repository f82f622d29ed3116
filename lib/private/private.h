/* SPDX-License-Identifier: MIT */
/*
 * What libmrguard-transfer needs of libmrguard beyond the public API.  The
 * symbols stand in a version node of their own, MRGUARD_PRIVATE_0.2, which promises
 * nothing: both libraries must be of exactly one version.
 */
#ifndef PRIVATE_PRIVATE_H
#define PRIVATE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <mrguard/descriptor.h>
#include <mrguard/share.h>

/* The last failure of each thread: mrg_private_error_*(), in base/error.h. */

/* A host's files, as in host/tree.h. */
struct mrg_tree;

#define MRG_PRIVATE_TREE_MAX_FILE (1u << 20)

MRG_API int mrg_private_tree_open(struct mrg_tree **tree, const char *root);
MRG_API void mrg_private_tree_close(struct mrg_tree *tree);
MRG_API ssize_t mrg_private_tree_read(struct mrg_tree *tree, const char *path, char *buf,
				      size_t cap);
MRG_API int mrg_private_tree_real(struct mrg_tree *tree, const char *path, char *buf, size_t cap);
MRG_API bool mrg_private_tree_exists(struct mrg_tree *tree, const char *path);
MRG_API ssize_t mrg_private_tree_list(struct mrg_tree *tree, const char *path, char ***names);
MRG_API void mrg_private_tree_free_names(char **names, ssize_t count);

/** mrg_private_boot_id() - this machine's boot id; zeros where it is not known */
MRG_API void mrg_private_boot_id(uint8_t id[16]);

/** mrg_private_range_protocol() - the protocol that a published range is shared by */
MRG_API enum mrg_protocol mrg_private_range_protocol(const struct mrg_range *range);

#endif
