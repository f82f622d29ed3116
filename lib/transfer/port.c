/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"

#define ANSWER_MS 1000 /* routes can change */

static int read_port(struct mrg_ep *ep)
{
	struct mrg_transfer *transfer = ep->transfer;
	struct ibv_port_attr attr;
	int err = ep->ops->query_port(transfer->verbs, (uint8_t)transfer->opts.port, &attr);

	if (err)
		return -err;
	if (attr.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	ep->port.lid = attr.lid;
	ep->port.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	ep->port.mtu = (uint8_t)attr.active_mtu;
	ep->port.reads = (uint8_t)transfer->limits.reads_in;
	return 0;
}

/* The GIDs that may be used: one, if the user has named it. */
static int own_gids(struct mrg_ep *ep, struct route_gid *gids, int cap)
{
	const struct mrg_transfer *transfer = ep->transfer;
	int count = ep->ops->list_gids(transfer->verbs, (uint8_t)transfer->opts.port, gids, cap);

	if (count <= 0 || !(transfer->opts.flags & MRG_TRANSFER_GID_INDEX))
		return count;
	for (int i = 0; i < count; i++) {
		if (gids[i].index != transfer->opts.gid_index)
			continue;
		gids[0] = gids[i];
		return 1;
	}
	return 0;
}

int transfer_port_fail(struct mrg_ep *ep, int code, const char *remedy, const char *cause)
{
	base_error_set(&ep->error, code, "find port", remedy, "Device %s: %s.", ep->transfer->name,
		       cause);
	return code;
}

static void use_gid(struct mrg_ep *ep, const struct route_gid *gid)
{
	ep->gid = *gid;
	memcpy(ep->port.gid, &gid->gid, sizeof(ep->port.gid));
	ep->port.gid_type = (uint8_t)gid->type;
}

static bool answered(const struct transfer_gid_answer *answer, const struct route_gid *gids, int n,
		     const struct route_gid_peer *peers, int count, int *mine)
{
	if (transfer_now() > answer->until || answer->peer_count != count ||
	    memcmp(answer->peers, peers, (size_t)count * sizeof(*peers)))
		return false;
	for (*mine = 0; *mine < n; ++*mine)
		if (!memcmp(&gids[*mine], &answer->own, sizeof(answer->own)))
			return true;
	return false;
}

/*
 * Many endpoints to one peer ask the same within moments.  With transfer->lock
 * held, as the control thread has it.
 */
static int choose(struct mrg_ep *ep, const struct route_gid *gids, int n,
		  const struct route_gid_peer *peers, int count, int *theirs, int *mine)
{
	struct mrg_transfer *transfer = ep->transfer;
	struct transfer_gid_answer *answer = &transfer->answer;
	int ret;

	if (answered(answer, gids, n, peers, count, mine)) {
		*theirs = answer->theirs;
		return 0;
	}
	/* A GID that the user has named is not compared with the routes. */
	ret = (transfer->opts.flags & MRG_TRANSFER_GID_INDEX ?
		       route_gid_match :
		       ep->ops->pair_gids)(transfer->verbs, (uint8_t)transfer->opts.port, gids, n,
					   peers, count, mine, theirs, &ep->error);
	if (ret)
		return ret;
	memcpy(answer->peers, peers, (size_t)count * sizeof(*peers));
	answer->peer_count = count;
	answer->own = gids[*mine];
	answer->theirs = *theirs;
	answer->until = transfer_now() + ANSWER_MS * MS;
	return 0;
}

static int read_failed(struct mrg_ep *ep, int code)
{
	return transfer_port_fail(ep, code, "Bring the port up.",
				  code == -ENETDOWN ? "the port is not active" : strerror(-code));
}

static int no_gid(struct mrg_ep *ep, int code)
{
	return transfer_port_fail(ep, code ? code : -ENODEV,
				  "Give its netdev an address, or name another GID index.",
				  code ? strerror(-code) : "the port has no such GID");
}

int transfer_port_find(struct mrg_ep *ep, const struct route_gid_peer *peers, int count,
		       int *theirs)
{
	struct route_gid gids[ROUTE_GIDS_MAX];
	int mine, n, ret = read_port(ep);

	*theirs = 0;
	if (ret)
		return read_failed(ep, ret);
	if (!ep->port.ethernet)
		return 0;
	n = own_gids(ep, gids, ROUTE_GIDS_MAX);
	if (n <= 0)
		return no_gid(ep, n);
	ret = choose(ep, gids, n, peers, count, theirs, &mine);
	if (!ret)
		use_gid(ep, &gids[mine]);
	return ret;
}

int transfer_port_same(struct mrg_ep *ep)
{
	struct route_gid gids[ROUTE_GIDS_MAX];
	int n, ret = read_port(ep);

	if (ret || !ep->port.ethernet)
		return ret;
	n = own_gids(ep, gids, ROUTE_GIDS_MAX);
	for (int i = 0; i < n; i++) {
		if (gids[i].type != ep->gid.type ||
		    memcmp(&gids[i].gid, &ep->gid.gid, sizeof(gids[i].gid)))
			continue;
		use_gid(ep, &gids[i]);
		return 0;
	}
	return n < 0 ? n : -ENODEV;
}

int transfer_port_offer(struct mrg_ep *ep, struct transfer_message_hello *hello)
{
	struct route_gid gids[ROUTE_GIDS_MAX];
	int n, ret = read_port(ep);

	if (ret)
		return read_failed(ep, ret);
	n = ep->port.ethernet ? own_gids(ep, gids, ROUTE_GIDS_MAX) : 0;
	if (n < 0 || (ep->port.ethernet && !n))
		return no_gid(ep, n);
	for (int i = 0; i < n && i < MESSAGE_GIDS; i++) {
		ep->offered[i] = gids[i];
		hello->gid[i].type = (uint8_t)gids[i].type;
		memcpy(hello->gid[i].gid, &gids[i].gid, sizeof(hello->gid[i].gid));
		hello->gids++;
	}
	ep->offered_count = hello->gids;
	if (hello->gids)
		use_gid(ep, &ep->offered[0]);
	return 0;
}

void transfer_port_take(struct mrg_ep *ep, uint32_t taken)
{
	use_gid(ep, &ep->offered[taken]);
}
