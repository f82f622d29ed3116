/* SPDX-License-Identifier: MIT */
/*
 * Two NICs in one subnet: Linux answers for either address on either NIC and
 * sends by the first route, so RDMA connections land on the wrong port.
 */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

struct net {
	char dev[32];
	unsigned int dest, mask;
};

static bool is_rdma(const struct check_host *h, const char *dev)
{
	for (size_t i = 0; i < h->rdma_count; i++)
		if (!strcmp(h->rdma[i].netdev, dev))
			return true;
	return false;
}

static size_t read_nets(struct check_ctx *ctx, const char *text, struct net *nets, size_t cap)
{
	size_t n = 0;

	while (n < cap && (text = strchr(text, '\n'))) {
		unsigned int gateway;
		struct net *e = &nets[n];

		text++;
		if (sscanf(text, "%31s %x %x %*x %*d %*d %*d %x", e->dev, &e->dest, &gateway,
			   &e->mask) == 4 &&
		    e->mask && !gateway && is_rdma(&ctx->host, e->dev))
			n++;
	}
	return n;
}

static size_t add_pairs(struct check_ctx *ctx, const struct net *nets, size_t count)
{
	size_t pairs = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++) {
			if (nets[i].dest != nets[k].dest || nets[i].mask != nets[k].mask ||
			    !strcmp(nets[i].dev, nets[k].dev))
				continue;
			pairs++;
			check_add(
				ctx, MRG_CHECK_WARN, nets[i].dev,
				"Traffic for one leaves by the other.",
				"Give each NIC a subnet of its own, or use source routes with 'sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2'.",
				"%s and %s have the same subnet (/proc/net/route)", nets[i].dev,
				nets[k].dev);
		}
	return pairs;
}

void check_subnet(struct check_ctx *ctx)
{
	struct net nets[CHECK_MAX_DEVICES];
	char *text = check_buffer(ctx);
	ssize_t n = text ? host_tree_read(ctx->tree, "/proc/net/route", text, HOST_TREE_MAX_FILE) :
			   -1;
	size_t count = n > 0 ? read_nets(ctx, text, nets, CHECK_MAX_DEVICES) : 0;

	free(text);
	if (add_pairs(ctx, nets, count))
		return;
	if (n < 0 && ctx->host.rdma_count)
		check_add(
			ctx, MRG_CHECK_UNKNOWN, "", "Whether two NICs share a subnet is not known.",
			"Compare the networks that 'ip -4 address show' prints, or run where /proc/net can be read.",
			"/proc/net/route was not readable");
	else
		check_add(ctx, ctx->host.rdma_count > 1 ? MRG_CHECK_OK : MRG_CHECK_SKIP, "", "", "",
			  "%s",
			  count ? "every RDMA network device has a subnet of its own" :
				  "no IPv4 route over an RDMA network device");
}
