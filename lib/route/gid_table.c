/* SPDX-License-Identifier: MIT */
/* A port's GID table. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/gid_facts.h"

int mrg_gid_open(struct mrg_gid_facts **out, const char *root)
{
	struct mrg_gid_facts *facts = calloc(1, sizeof(*facts));
	int ret;

	if (!facts)
		return -ENOMEM;
	ret = mrg_private_tree_open(&facts->tree, root);
	if (!ret && root)
		ret = route_gid_recorded_open(facts->tree, &facts->recorded);
	else if (!ret)
		ret = route_gid_netlink_open(&facts->socket);
	if (ret)
		mrg_gid_close(facts);
	else
		*out = facts;
	return ret;
}

void mrg_gid_close(struct mrg_gid_facts *facts)
{
	if (!facts)
		return;
	if (facts->socket)
		route_gid_netlink_close(facts->socket);
	if (facts->recorded)
		route_gid_recorded_close(facts->recorded);
	if (facts->tree)
		mrg_private_tree_close(facts->tree);
	free(facts);
}

int route_gid_route(struct mrg_gid_facts *facts, const uint8_t *from, const uint8_t to[16],
		    const char *netdev, struct route_gid_route *route)
{
	memset(route, 0, sizeof(*route));
	if (facts->recorded)
		return route_gid_recorded_route(facts->recorded, from, to, netdev, route);
	return route_gid_netlink_route(facts->socket, from, to, netdev, route);
}

/* ---- reading a table ---- */

struct port {
	struct mrg_gid_facts *facts;
	char dir[128];
	bool infiniband;
};

static ssize_t read_of(const struct port *port, const char *file, int index, char *text, size_t cap)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s/%d", port->dir, file, index);
	return mrg_private_tree_read(port->facts->tree, path, text, cap);
}

/* "IB/RoCE v1" and "RoCE v2" (ib_core's gid_type_str). */
static int parse_type(const struct port *port, const char *text, enum mrg_gid_type *type)
{
	if (port->infiniband)
		*type = MRG_GID_IB;
	else if (!strcmp(text, "RoCE v2"))
		*type = MRG_GID_ROCE_V2;
	else if (!strcmp(text, "IB/RoCE v1"))
		*type = MRG_GID_ROCE_V1;
	else
		return -EINVAL;
	return 0;
}

/* Neither a card (which has a device) nor a bond: a bridge, VXLAN, VLAN. */
static bool is_overlay(const struct port *port, const char *netdev)
{
	char path[64];

	if (!netdev[0] || strchr(netdev, '/'))
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	if (!mrg_private_tree_exists(port->facts->tree, path))
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", netdev);
	if (mrg_private_tree_exists(port->facts->tree, path))
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s/bonding", netdev);
	return !mrg_private_tree_exists(port->facts->tree, path);
}

/* The table is the device's: it shows the GIDs of all network namespaces. */
static bool is_elsewhere(const struct port *port, const char *netdev)
{
	char path[64];

	if (port->infiniband)
		return false;
	if (!netdev[0] || strchr(netdev, '/'))
		return true;
	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	return mrg_private_tree_exists(port->facts->tree, "/sys/class/net") &&
	       !mrg_private_tree_exists(port->facts->tree, path);
}

/*
 * Tables are sparse: entries that are zero, or whose type the kernel does not
 * tell (EINVAL, ENODATA), come before valid ones.
 */
static bool read_entry(const struct port *port, int index, struct mrg_gid_entry *entry)
{
	static const uint8_t none[16];
	char text[64];

	memset(entry, 0, sizeof(*entry));
	entry->index = index;
	if (read_of(port, "gids", index, text, sizeof(text)) <= 0 ||
	    mrg_gid_parse(text, entry->gid) || !memcmp(entry->gid, none, sizeof(none)))
		return false;
	if (read_of(port, "gid_attrs/types", index, text, sizeof(text)) <= 0)
		text[0] = '\0';
	if (parse_type(port, text, &entry->type))
		return false;
	if (read_of(port, "gid_attrs/ndevs", index, text, sizeof(text)) > 0 &&
	    strlen(text) < sizeof(entry->netdev))
		strcpy(entry->netdev, text);
	entry->overlay = is_overlay(port, entry->netdev);
	entry->elsewhere = is_elsewhere(port, entry->netdev);
	return true;
}

static int open_port(struct mrg_gid_facts *facts, const char *device, unsigned int number,
		     struct port *port)
{
	char path[192], text[32];

	if (!device[0] || strchr(device, '/') || strlen(device) > 63)
		return -ENODEV;
	port->facts = facts;
	snprintf(port->dir, sizeof(port->dir), "/sys/class/infiniband/%s/ports/%u", device, number);
	snprintf(path, sizeof(path), "%s/link_layer", port->dir);
	if (mrg_private_tree_read(facts->tree, path, text, sizeof(text)) < 0)
		return -ENODEV;
	port->infiniband = !strcmp(text, "InfiniBand");
	return 0;
}

static int by_preference(const void *a, const void *b)
{
	const struct mrg_gid_entry *x = a, *y = b;

	if (x->elsewhere != y->elsewhere)
		return x->elsewhere ? 1 : -1;
	if (x->type != y->type)
		return x->type > y->type ? -1 : 1;
	if (route_gid_is_link_local(x->gid) != route_gid_is_link_local(y->gid))
		return route_gid_is_link_local(x->gid) ? 1 : -1;
	if (x->overlay != y->overlay)
		return x->overlay ? 1 : -1;
	return (x->index > y->index) - (x->index < y->index);
}

static bool is_wanted(const struct mrg_gid_facts *facts, long index)
{
	for (size_t i = 0; i < facts->only_count; i++)
		if (facts->only[i] == index)
			return true;
	return !facts->only;
}

static ssize_t read_table(const struct port *port, char **names, ssize_t count,
			  struct mrg_gid_entry **out)
{
	struct mrg_gid_entry *entries = calloc((size_t)count + 1, sizeof(*entries));
	ssize_t found = 0;

	if (!entries)
		return -ENOMEM;
	for (ssize_t i = 0; i < count; i++) {
		char *end;
		long index = strtol(names[i], &end, 10);

		if (!*end && end != names[i] && index >= 0 && index < INT_MAX &&
		    is_wanted(port->facts, index) && read_entry(port, (int)index, &entries[found]))
			found++;
	}
	/* InfiniBand's are of one kind, and the subnet's own comes first. */
	if (!port->infiniband)
		qsort(entries, (size_t)found, sizeof(*entries), by_preference);
	*out = entries;
	return found;
}

ssize_t mrg_gid_list(struct mrg_gid_facts *facts, const char *device, unsigned int number,
		     struct mrg_gid_entry **entries)
{
	char path[192], **names;
	struct port port;
	ssize_t count;
	int ret = open_port(facts, device, number, &port);

	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/gids", port.dir);
	count = mrg_private_tree_list(facts->tree, path, &names);
	if (count < 0)
		return count == -ENOMEM ? -ENOMEM : -ENODEV;
	ret = (int)read_table(&port, names, count, entries);
	mrg_private_tree_free_names(names, count);
	return ret;
}

int mrg_gid_find(struct mrg_gid_facts *facts, const char *device, unsigned int port,
		 const uint8_t gid[16], enum mrg_gid_type type, struct mrg_gid_entry *entry)
{
	struct mrg_gid_entry *entries;
	ssize_t count = mrg_gid_list(facts, device, port, &entries);
	int ret = -ENOENT;

	if (count < 0)
		return (int)count;
	for (ssize_t i = 0; i < count && ret; i++) {
		if (entries[i].type != type || memcmp(entries[i].gid, gid, 16))
			continue;
		*entry = entries[i];
		ret = 0;
	}
	free(entries);
	return ret;
}
