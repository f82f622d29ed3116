/* SPDX-License-Identifier: MIT */
/* Inside the GID choice: the facts, from the kernel or from a record. */
#ifndef ROUTE_GID_FACTS_H
#define ROUTE_GID_FACTS_H

#include <mrguard/gid.h>

#include "private/private.h"

#define GID_TABLES 256

/**
 * struct route_gid_route - where the kernel sends what goes to an address
 * @local:	the address is this host's own
 * @table:	route table, as in /etc/iproute2/rt_tables; 0 = not told
 * @netdev:	it leaves by
 * @source:	address that it is sent from, where none is demanded; zeros = not
 *		told
 */
struct route_gid_route {
	bool local;
	uint32_t table;
	char netdev[16];
	uint8_t source[16];
};

struct gid_recorded;
struct nl_sock;

struct mrg_gid_facts {
	struct mrg_tree *tree;
	struct nl_sock *socket; /* live */
	struct gid_recorded *recorded; /* otherwise */
	const long *only; /* places of tables to read; NULL: all */
	size_t only_count;
};

/**
 * route_gid_route() - the route to @to
 * @from: source address; NULL: the kernel's choice
 * @netdev: the sender's, for addresses that mean something only there: those of
 *	its VRF, and link-local ones
 *
 * Return: 0; -ENETUNREACH and whatever else the kernel says.
 */
int route_gid_route(struct mrg_gid_facts *facts, const uint8_t *from, const uint8_t to[16],
		    const char *netdev, struct route_gid_route *route);

/* gid_netlink.c */
int route_gid_netlink_open(struct nl_sock **socket);
void route_gid_netlink_close(struct nl_sock *socket);
int route_gid_netlink_route(struct nl_sock *socket, const uint8_t *from, const uint8_t to[16],
			    const char *netdev, struct route_gid_route *route);

/* gid_recorded.c: the text of /.mrguard/routes */
int route_gid_recorded_open(struct mrg_tree *tree, struct gid_recorded **recorded);
void route_gid_recorded_close(struct gid_recorded *recorded);
int route_gid_recorded_route(const struct gid_recorded *recorded, const uint8_t *from,
			     const uint8_t to[16], const char *netdev,
			     struct route_gid_route *route);

/* gid_text.c */
bool route_gid_is_ipv4(const uint8_t gid[16]);
/** route_gid_is_link_local() - fe80::/10, or IPv4's 169.254/16 */
bool route_gid_is_link_local(const uint8_t gid[16]);

#endif
