/* SPDX-License-Identifier: MIT */
/* Is there a GID on each RoCE port that a router would carry? */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define MAX_GIDS 1024

struct port {
	size_t used, routable, foreign, holes;
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

/* Tables are sparse: an index without a GID answers EINVAL for its type, and
 * the good one may come after it. */
static void take_gid(struct check_ctx *ctx, const char *dir, const char *index, const char *netdev,
		     struct port *p)
{
	char path[256], gid[64], type[64], dev[32] = "";
	bool own;

	snprintf(path, sizeof(path), "%s/gids/%.20s", dir, index);
	if (host_tree_read(ctx->tree, path, gid, sizeof(gid)) <= 0 || zero(gid)) {
		p->holes++;
		return;
	}
	p->used++;
	snprintf(path, sizeof(path), "%s/gid_attrs/types/%.20s", dir, index);
	if (host_tree_read(ctx->tree, path, type, sizeof(type)) <= 0 || strcmp(type, "RoCE v2"))
		return;
	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs/%.20s", dir, index);
	host_tree_read(ctx->tree, path, dev, sizeof(dev));
	if (!strncmp(gid, "fe80", 4))
		return;
	own = !dev[0] || !netdev[0] || !strcmp(dev, netdev);
	if (!own) {
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

static void add_table(struct check_ctx *ctx, const char *subject, const struct check_rdma *r,
		      const struct port *p)
{
	if (p->routable)
		check_add(ctx, MRG_CHECK_OK, subject, "The port has a routable RoCE v2 GID.", "",
			  "index %ld: %s, RoCE v2 (%zu GIDs, %zu empty, %zu of other devices)",
			  p->best, p->best_gid, p->used, p->holes, p->foreign);
	else if (p->foreign)
		check_add(
			ctx, MRG_CHECK_WARN, subject,
			"The GIDs belong to an overlay or bond above the port: a peer may not reach them.",
			"Give the port's own network device an address: 'ip address add ADDRESS/BITS dev NETDEV'.",
			"routable RoCE v2 GIDs are all of %s, not of %s", p->foreign_dev,
			r->netdev);
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
		take_gid(ctx, dir, names[i], r->netdev, &p);
	if (n)
		host_tree_free_names(names, n);
	add_table(ctx, subject, r, &p);
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
