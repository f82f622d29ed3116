/* SPDX-License-Identifier: MIT */
/* The kernel's own answer: RTM_GETROUTE, as `ip route get' asks it. */
#include <errno.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>

#include "route/gid_facts.h"

int route_gid_netlink_open(struct nl_sock **out)
{
	struct nl_sock *socket = nl_socket_alloc();
	int ret;

	if (!socket)
		return -ENOMEM;
	ret = nl_connect(socket, NETLINK_ROUTE);
	if (ret) {
		nl_socket_free(socket);
		return -EIO;
	}
	/* The kernel answers at once; a lost answer must not hang a caller. */
	nl_socket_disable_auto_ack(socket);
	*out = socket;
	return 0;
}

void route_gid_netlink_close(struct nl_sock *socket)
{
	nl_socket_free(socket);
}

struct answer {
	int error;
	bool has_route;
	int oif;
	struct route_gid_route *route;
};

/* From the address of a netlink attribute; IPv4's is widened. */
static void take_address(const struct nlattr *attr, uint8_t gid[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	if (nla_len(attr) == 16) {
		memcpy(gid, nla_data(attr), 16);
	} else if (nla_len(attr) == 4) {
		memcpy(gid, prefix, sizeof(prefix));
		memcpy(gid + 12, nla_data(attr), 4);
	}
}

static int take_route(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *head = nlmsg_hdr(msg);
	struct nlattr *attrs[RTA_MAX + 1];
	struct answer *answer = arg;
	const struct rtmsg *rt;

	if (head->nlmsg_type != RTM_NEWROUTE ||
	    nlmsg_parse(head, sizeof(*rt), attrs, RTA_MAX, NULL) < 0)
		return NL_OK;
	rt = nlmsg_data(head);
	answer->has_route = true;
	answer->route->local = rt->rtm_type == RTN_LOCAL;
	answer->route->table = attrs[RTA_TABLE] ? nla_get_u32(attrs[RTA_TABLE]) : rt->rtm_table;
	if (rt->rtm_type == RTN_UNREACHABLE || rt->rtm_type == RTN_BLACKHOLE)
		answer->error = -ENETUNREACH;
	if (attrs[RTA_OIF])
		answer->oif = (int)nla_get_u32(attrs[RTA_OIF]);
	if (attrs[RTA_PREFSRC])
		take_address(attrs[RTA_PREFSRC], answer->route->source);
	return NL_STOP;
}

static int take_error(struct sockaddr_nl *address, struct nlmsgerr *error, void *arg)
{
	struct answer *answer = arg;

	(void)address;
	answer->error = error->error;
	return NL_STOP;
}

static int put_address(struct nl_msg *msg, int attr, const uint8_t gid[16])
{
	return route_gid_is_ipv4(gid) ? nla_put(msg, attr, 4, gid + 12) :
					nla_put(msg, attr, 16, gid);
}

static struct nl_msg *make_request(const uint8_t *from, const uint8_t to[16], int oif)
{
	bool ipv4 = route_gid_is_ipv4(to);
	const struct rtmsg rt = {
		.rtm_family = ipv4 ? AF_INET : AF_INET6,
		.rtm_dst_len = ipv4 ? 32 : 128,
		.rtm_src_len = !from ? 0 :
			       ipv4  ? 32 :
				       128,
		/* Otherwise the answer says main, wherever the route is. */
		.rtm_flags = RTM_F_LOOKUP_TABLE,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST);

	if (!msg)
		return NULL;
	if (nlmsg_append(msg, (void *)&rt, sizeof(rt), NLMSG_ALIGNTO) < 0 ||
	    put_address(msg, RTA_DST, to) < 0 || (from && put_address(msg, RTA_SRC, from) < 0) ||
	    (oif && nla_put_u32(msg, RTA_OIF, (uint32_t)oif) < 0)) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

static int receive(struct nl_sock *socket, struct answer *answer)
{
	struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
	int ret;

	if (!cb)
		return -ENOMEM;
	nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, take_route, answer);
	nl_cb_err(cb, NL_CB_CUSTOM, take_error, answer);
	ret = nl_recvmsgs(socket, cb);
	nl_cb_put(cb);
	if (answer->error)
		return answer->error;
	return answer->has_route ? 0 : ret < 0 ? -EIO : -ENETUNREACH;
}

static int link_index(struct nl_sock *socket, const char *netdev)
{
	struct rtnl_link *link;
	int index = 0;

	if (netdev[0] && !rtnl_link_get_kernel(socket, 0, netdev, &link)) {
		index = rtnl_link_get_ifindex(link);
		rtnl_link_put(link);
	}
	return index;
}

/* The VRF that the netdev is in; 0: none. */
static int vrf_index(struct nl_sock *socket, const char *netdev)
{
	struct rtnl_link *link, *master;
	int index = 0;

	if (!netdev[0] || rtnl_link_get_kernel(socket, 0, netdev, &link))
		return 0;
	if (rtnl_link_get_master(link) > 0 &&
	    !rtnl_link_get_kernel(socket, rtnl_link_get_master(link), NULL, &master)) {
		const char *type = rtnl_link_get_type(master);

		if (type && !strcmp(type, "vrf"))
			index = rtnl_link_get_ifindex(master);
		rtnl_link_put(master);
	}
	rtnl_link_put(link);
	return index;
}

static void name_of(struct nl_sock *socket, int index, char name[16])
{
	struct rtnl_link *link;

	if (!index || rtnl_link_get_kernel(socket, index, NULL, &link))
		return;
	snprintf(name, 16, "%s", rtnl_link_get_name(link));
	rtnl_link_put(link);
}

/*
 * The interface is demanded only where the address means nothing without it: of
 * IPv4, a demanded interface makes the kernel take any address for on-link, if
 * no route is found (ip_route_output_key_hash_rcu).
 */
int route_gid_netlink_route(struct nl_sock *socket, const uint8_t *from, const uint8_t to[16],
			    const char *netdev, struct route_gid_route *route)
{
	bool scoped = !route_gid_is_ipv4(to) && route_gid_is_link_local(to);
	int oif = scoped ? link_index(socket, netdev) : vrf_index(socket, netdev), ret;
	struct answer answer = { .route = route };
	struct nl_msg *msg = make_request(from, to, oif);

	if (!msg)
		return -ENOMEM;
	ret = nl_send_auto(socket, msg);
	nlmsg_free(msg);
	if (ret < 0)
		return -EIO;
	ret = receive(socket, &answer);
	if (!ret)
		name_of(socket, answer.oif, route->netdev);
	return ret;
}
