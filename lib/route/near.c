/* SPDX-License-Identifier: MIT */
/* How far NICs are from a buffer, as sysfs tells. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/path.h>

#include "private/private.h"

static const char *const names[] = {
	[MRG_DISTANCE_SWITCH] = "same switch",	[MRG_DISTANCE_ROOT] = "same root port",
	[MRG_DISTANCE_NODE] = "same NUMA node", [MRG_DISTANCE_FAR] = "other NUMA node",
	[MRG_DISTANCE_UNKNOWN] = "not known",
};

const char *mrg_distance_name(enum mrg_distance distance)
{
	return (unsigned int)distance <= MRG_DISTANCE_UNKNOWN ? names[distance] :
								names[MRG_DISTANCE_UNKNOWN];
}

/* "0000:1b:00.0": a PCI function's directory. */
static bool is_function(const char *name, size_t length)
{
	size_t hex = 0;

	while (hex < length && isxdigit((unsigned char)name[hex]))
		hex++;
	return hex >= 4 && length == hex + 8 && name[hex] == ':' && name[hex + 3] == ':' &&
	       name[hex + 6] == '.';
}

/* Where a function is: the directories above it, and its node. */
struct place {
	char path[PATH_MAX]; /* of the last function in it; "" = not known */
	int node; /* -1 = not known */
};

/* Cuts what lies below the function: an RDMA device hangs below an auxiliary
 * device, mostly. */
static void cut_at_function(char *path)
{
	char *end = path, *part = path;

	while (*part) {
		size_t length;

		part += *part == '/';
		length = strcspn(part, "/");
		if (is_function(part, length))
			end = part + length;
		part += length;
	}
	*end = '\0';
}

static void find_place(struct mrg_tree *tree, const char *link, struct place *place)
{
	char file[PATH_MAX + 16], text[16];

	place->node = -1;
	if (mrg_private_tree_real(tree, link, place->path, sizeof(place->path)))
		place->path[0] = '\0';
	cut_at_function(place->path);
	if (!place->path[0])
		return;
	snprintf(file, sizeof(file), "%s/numa_node", place->path);
	if (mrg_private_tree_read(tree, file, text, sizeof(text)) > 0)
		place->node = atoi(text);
}

/* How many functions of the two paths are the same, from the root complex on. */
static unsigned int common_functions(const char *a, const char *b)
{
	unsigned int count = 0;

	while (*a && *b) {
		size_t length;

		a += *a == '/';
		b += *b == '/';
		length = strcspn(a, "/");
		if (length != strcspn(b, "/") || strncmp(a, b, length))
			break;
		count += is_function(a, length);
		a += length;
		b += length;
	}
	return count;
}

/*
 * One function in common is the root port; each one more is a port of a switch.
 * A function alone on its bus has nothing in common with others but the host.
 */
static enum mrg_distance distance(const struct place *a, const struct place *b)
{
	unsigned int common = a->path[0] && b->path[0] ? common_functions(a->path, b->path) : 0;

	if (common >= 2)
		return MRG_DISTANCE_SWITCH;
	if (common)
		return MRG_DISTANCE_ROOT;
	if (a->node < 0 || b->node < 0)
		return MRG_DISTANCE_UNKNOWN;
	return a->node == b->node ? MRG_DISTANCE_NODE : MRG_DISTANCE_FAR;
}

static void place_buffer(struct mrg_tree *tree, const struct mrg_near_place *at,
			 struct place *place)
{
	char link[64];

	place->path[0] = '\0';
	if (at->pci[0]) {
		snprintf(link, sizeof(link), "/sys/bus/pci/devices/%.15s", at->pci);
		for (char *p = link; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		find_place(tree, link, place);
	}
	if (!place->path[0])
		place->node = at->node;
}

static int nearer(const void *a, const void *b)
{
	const struct mrg_near_nic *x = a, *y = b;

	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

int mrg_near(const char *root, const struct mrg_near_place *at, const char *const *devices,
	     size_t count, struct mrg_near_nic *nics)
{
	struct place buffer, nic;
	struct mrg_tree *tree;
	char link[128];
	int ret;

	if (at->reserved[0] || at->reserved[1] || at->reserved[2])
		return -EINVAL;
	ret = mrg_private_tree_open(&tree, root);
	if (ret)
		return ret;
	place_buffer(tree, at, &buffer);
	for (size_t i = 0; i < count; i++) {
		snprintf(link, sizeof(link), "/sys/class/infiniband/%.63s/device", devices[i]);
		find_place(tree, link, &nic);
		nics[i] = (struct mrg_near_nic){ .index = (uint32_t)i,
						 .distance = distance(&buffer, &nic) };
	}
	mrg_private_tree_close(tree);
	qsort(nics, count, sizeof(*nics), nearer);
	return 0;
}
