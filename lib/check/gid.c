/* SPDX-License-Identifier: MIT */
/* Is there a GID on each RoCE port that a router would carry? */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define MAX_GIDS 1024

struct port {
	size_t used, routable, foreign, elsewhere, holes;
	char netdev[32]; /* its own, as far as this namespace shows it */
	long best; /* index of the first routable RoCE v2 GID, -1: none */
	char best_gid[48], foreign_dev[32];
};

static bool zero(const char *gid)
{
	return gid[strspn(gid, "0:")] == 0;
}

static int by_number(const void *a, const void *b)
{
	return atoi(*(char *const *)a) - atoi(*(char *const *)b);
}

/* A leaf of fib_trie: the address, and below it a line for each prefix. */
static bool is_local_ipv4(const char *trie, const char *leaf)
{
	const char *at = trie, *end, *local;

	while ((at = strstr(at, leaf))) {
		at += strlen(leaf);
		end = strstr(at, "-- ");
		local = strstr(at, "host LOCAL");
		if (local && (!end || local < end))
			return true;
	}
	return false;
}

/*
 * Whether the address is one of this network namespace's, by the kernel's own
 * lists.  Return: 1, 0, or -1 where the list was not readable.
 */
static int is_local(const struct check_host *h, const char *gid)
{
	unsigned int w[8];
	char want[48];

	if (sscanf(gid, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &w[0], &w[1], &w[2], &w[3], &w[4], &w[5],
		   &w[6], &w[7]) != 8)
		return -1;
	if (w[5] == 0xffff && !(w[0] | w[1] | w[2] | w[3] | w[4])) {
		snprintf(want, sizeof(want), "-- %u.%u.%u.%u\n", w[6] >> 8, w[6] & 255, w[7] >> 8,
			 w[7] & 255);
		return h->local_ipv4 && *h->local_ipv4 ? is_local_ipv4(h->local_ipv4, want) : -1;
	}
	snprintf(want, sizeof(want), "%04x%04x%04x%04x%04x%04x%04x%04x", w[0], w[1], w[2], w[3],
		 w[4], w[5], w[6], w[7]);
	return h->local_ipv6 && *h->local_ipv6 ? !!strstr(h->local_ipv6, want) : -1;
}

/*
 * A GID of this network namespace: its netdev is in sight, and its address is a
 * local one, since another namespace's netdev may have the same name.  Where
 * neither list is readable, a name has to do.
 */
static bool is_here(struct check_ctx *ctx, const char *netdev, const char *gid)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/net/%.31s", netdev);
	if (!netdev[0] ||
	    (host_tree_exists(ctx->tree, "/sys/class/net") && !host_tree_exists(ctx->tree, path)))
		return false;
	return is_local(&ctx->host, gid) != 0;
}

/*
 * Tables are sparse: an index without a GID answers EINVAL for its type, and
 * the good one may come after it.  And a table is the device's: it shows the GIDs
 * of other network namespaces too, which are of no use in this one.
 */
static void take_gid(struct check_ctx *ctx, const char *dir, const char *index, struct port *p)
{
	char path[256], gid[64], type[64], dev[32] = "";
	bool here;

	snprintf(path, sizeof(path), "%s/gids/%.20s", dir, index);
	if (host_tree_read(ctx->tree, path, gid, sizeof(gid)) <= 0 || zero(gid)) {
		p->holes++;
		return;
	}
	p->used++;
	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs/%.20s", dir, index);
	host_tree_read(ctx->tree, path, dev, sizeof(dev));
	here = is_here(ctx, dev, gid);
	if (here && !p->netdev[0])
		strcpy(p->netdev, dev);
	snprintf(path, sizeof(path), "%s/gid_attrs/types/%.20s", dir, index);
	if (host_tree_read(ctx->tree, path, type, sizeof(type)) <= 0 || strcmp(type, "RoCE v2") ||
	    !strncmp(gid, "fe80", 4))
		return;
	if (!here) {
		p->elsewhere++;
		return;
	}
	if (strcmp(dev, p->netdev)) {
		p->foreign++;
		snprintf(p->foreign_dev, sizeof(p->foreign_dev), "%s", dev);
		return;
	}
	p->routable++;
	if (p->best < 0) {
		p->best = atoi(index);
		snprintf(p->best_gid, sizeof(p->best_gid), "%.47s", gid);
	}
}

static void add_table(struct check_ctx *ctx, const char *subject, const struct port *p)
{
	if (p->routable)
		check_add(ctx, MRG_CHECK_OK, subject, "The port has a routable RoCE v2 GID.", "",
			  "index %ld: %s, RoCE v2, %s (%zu GIDs, %zu empty, %zu of other devices, "
			  "%zu of other namespaces)",
			  p->best, p->best_gid, p->netdev, p->used, p->holes, p->foreign,
			  p->elsewhere);
	else if (p->foreign)
		check_add(
			ctx, MRG_CHECK_WARN, subject,
			"The GIDs belong to an overlay or bond above the port: a peer may not reach them.",
			"Give the port's own network device an address: 'ip address add ADDRESS/BITS dev NETDEV'.",
			"routable RoCE v2 GIDs are all of %s, not of %s", p->foreign_dev,
			p->netdev);
	else if (p->elsewhere)
		check_add(
			ctx, MRG_CHECK_WARN, subject,
			"The routable GIDs belong to network devices of other namespaces (the host's, another pod's): "
			"a peer's answer to them does not come here.",
			"Move the port's network device or a VF's into this namespace ('ip link set NETDEV netns PID', "
			"in Kubernetes by the NIC's CNI plugin), or run in the host's network.",
			"%zu routable RoCE v2 GIDs, none on a network device in sight (/sys/class/net)",
			p->elsewhere);
	else
		check_add(
			ctx, MRG_CHECK_WARN, subject,
			"Only peers on the same link can be reached; through a router the QP times out at RTR.",
			"Run 'ip address add ADDRESS/BITS dev NETDEV && ip link set NETDEV up'.",
			"%zu GIDs, none of them RoCE v2 and routable", p->used);
}

static void judge(struct check_ctx *ctx, const struct check_rdma *r, const char *port)
{
	char dir[160], layer[32] = "", subject[80], path[256], **names;
	struct port p = { .best = -1 };
	ssize_t n;

	snprintf(dir, sizeof(dir), "/sys/class/infiniband/%s/ports/%.8s", r->name, port);
	snprintf(subject, sizeof(subject), "%.60s/%.8s", r->name, port);
	snprintf(path, sizeof(path), "%s/link_layer", dir);
	host_tree_read(ctx->tree, path, layer, sizeof(layer));
	if (strcmp(layer, "Ethernet")) {
		check_add(ctx, MRG_CHECK_SKIP, subject, "GIDs are chosen for RoCE ports only.", "",
			  "%s", layer[0] ? layer : "link layer not there");
		return;
	}
	snprintf(path, sizeof(path), "%s/gids", dir);
	n = host_tree_list(ctx->tree, path, &names);
	if (n < 0) {
		check_add(ctx, MRG_CHECK_UNKNOWN, subject, "The GID table is not known.", "",
			  "gids: %s", check_why((int)n));
		return;
	}
	if (n)
		qsort(names, (size_t)n, sizeof(*names), by_number);
	for (ssize_t i = 0; i < n && i < MAX_GIDS; i++)
		take_gid(ctx, dir, names[i], &p);
	if (n)
		host_tree_free_names(names, n);
	add_table(ctx, subject, &p);
}

bool check_gid(struct check_ctx *ctx, const struct check_rdma *r)
{
	char path[128], **ports;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports", r->name);
	n = host_tree_list(ctx->tree, path, &ports);
	for (ssize_t k = 0; k < n; k++)
		judge(ctx, r, ports[k]);
	if (n > 0)
		host_tree_free_names(ports, n);
	else
		check_add(ctx, MRG_CHECK_UNKNOWN, r->name, "The device's ports are not known.", "",
			  "ports: none found");
	return true;
}
