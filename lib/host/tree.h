/* SPDX-License-Identifier: MIT */
/*
 * A host's files, read below one root, so that a recorded host can stand in
 * for the running one.  Whatever lies there is taken for hostile: every read
 * is bounded, links cannot lead out of the root, and only regular files and
 * directories are opened.
 */
#ifndef HOST_TREE_H
#define HOST_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mrg_tree;

#define HOST_TREE_MAX_FILE (1u << 20)
#define HOST_TREE_MAX_NAMES 65536

/* @root NULL is "/".  @dump, if not NULL, is an existing empty directory that
 * gets a copy of everything that is read.  -errno of open(2); -ENOTEMPTY. */
int host_tree_open(struct mrg_tree **tree, const char *root, const char *dump);
void host_tree_close(struct mrg_tree *tree);
/* The root is the running host's, so the kernel may be asked for what is in no file. */
bool host_tree_is_live(const struct mrg_tree *tree);

/* Reads at most @cap - 1 bytes, ends them with NUL, strips trailing white
 * space, and turns embedded NULs into spaces.  Returns the length, or -errno:
 * -EACCES is "needs root", -ENOENT "not there", -EBADF "no regular file". */
ssize_t host_tree_read(struct mrg_tree *tree, const char *path, char *buf, size_t cap);
/* The same without any change to the bytes, for PCI configuration space. */
ssize_t host_tree_read_raw(struct mrg_tree *tree, const char *path, void *buf, size_t cap);
/* A number in C notation; -EINVAL where the file holds none. */
int host_tree_read_u64(struct mrg_tree *tree, const char *path, unsigned long long *value);
/* Where @path really is, below the root, such as /sys/devices/pci0000:00/... */
int host_tree_real(struct mrg_tree *tree, const char *path, char *buf, size_t cap);
bool host_tree_exists(struct mrg_tree *tree, const char *path);
/* Sorted names in @path; the caller frees with host_tree_free_names(). */
ssize_t host_tree_list(struct mrg_tree *tree, const char *path, char ***names);
void host_tree_free_names(char **names, ssize_t count);

/* Whether a file or a listing was lost for want of memory since the last call of
 * this: what failed is "not there" to callers that do not ask why. */
bool host_tree_lost(struct mrg_tree *tree);

/* Facts that no file holds, kept under /.mrguard in a recorded tree.  @ask is
 * called on a live host and writes the text; its errno is recorded too. */
ssize_t host_tree_fact(struct mrg_tree *tree, const char *name, char *buf, size_t cap,
		       int (*ask)(void *arg, char *buf, size_t cap), void *arg);

#endif
