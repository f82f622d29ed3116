/* SPDX-License-Identifier: MIT */
/*
 * How two endpoints meet.  The side that connects says HELLO with its queue
 * pairs and its GIDs; the side that listens takes the GID that its routes lead
 * to, connects its queue pairs and says WELCOME; the side that connects connects
 * its own and says READY.  Each side tells the other in words why it gives up.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/listener.h"

#define UNACCEPTED_MAX 1024 /* peers of a listener */
#define CQ_PER_WR 2 /* flushed ones of the queue pair before, and this one's */
/* Each look costs a walk over all endpoints: thousands of handshakes share it. */
#define GREET_STEP_MS 100

void transfer_handshake_greet(struct mrg_ep *ep)
{
	const uint64_t step = GREET_STEP_MS * MS;

	ep->greet_by = transfer_now() + ep->transfer->opts.handshake_ms * MS;
	transfer_ep_look(ep, (ep->greet_by / step + 1) * step);
}

static int make_cq(struct mrg_ep *ep, uint32_t lanes)
{
	const struct transfer_limits *limits = &ep->transfer->limits;
	uint64_t cqe = (uint64_t)lanes * limits->depth * CQ_PER_WR;

	if (cqe > limits->max_cqe)
		cqe = limits->max_cqe;
	ep->cq = ep->ops->create_cq(ep->transfer->verbs, (int)cqe, ep->channel);
	return ep->cq ? 0 : -(errno ? errno : ENOMEM);
}

static int make_lanes(struct mrg_ep *ep, uint32_t count, struct transfer_message_hello *hello)
{
	int ret = make_cq(ep, count);

	if (!ret)
		ret = transfer_lanes_create(ep, count, hello);
	if (ret)
		transfer_port_fail(
			ep, ret,
			"See ibv_devinfo -v for the device's limits, and lower depth or lanes.",
			strerror(-ret));
	return ret;
}

/* Takes in what the peer says of itself. */
static int meet_peer(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	size_t length = strlen(ep->peer);

	if (hello->unknown)
		return base_error_set(
			&ep->error, -EPROTONOSUPPORT, "handshake",
			"Run the same version of libmrguard on both sides.",
			"Peer %.50s requires part 0x%x of the handshake, which this side does not know.",
			ep->peer, hello->unknown);
	snprintf(ep->peer + length, sizeof(ep->peer) - length, " (%s)", hello->name);
	ep->peer_abilities = hello->abilities;
	return 0;
}

static void introduce(struct mrg_ep *ep, struct transfer_message_hello *hello)
{
	hello->port = ep->port;
	hello->abilities = MESSAGE_ABLE_REVOKE;
	memcpy(hello->name, ep->transfer->name, sizeof(hello->name));
}

int transfer_handshake_begin(struct mrg_ep *ep)
{
	struct transfer_message message = { .type = MESSAGE_HELLO };
	int ret = transfer_ep_equip(ep);

	if (!ret)
		ret = transfer_port_offer(ep, &message.hello);
	if (!ret)
		ret = make_lanes(ep, ep->transfer->limits.lanes, &message.hello);
	if (ret)
		return transfer_fail_with(ep->transfer, &ep->error);
	introduce(ep, &message.hello);
	if (transfer_socket_keep(&ep->socket, &message))
		return transfer_fail(ep->transfer, -ENOMEM, "handshake",
				     "Free memory on this host.", "No memory is left for a HELLO.");
	return 0;
}

/* ---- the side that listens ---- */

static int connect_lanes(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	int ret;

	if (hello->port.ethernet != ep->port.ethernet)
		return transfer_port_fail(ep, -EPROTONOSUPPORT, "Use devices of one kind.",
					  "one side is InfiniBand and the other is Ethernet");
	if (ep->port.ethernet && hello->port.gid_type != ep->port.gid_type)
		return transfer_port_fail(ep, -EPROTONOSUPPORT,
					  "Name GIDs of one type on both sides.",
					  "one side's GID is RoCEv1 and the other's RoCEv2");
	ret = transfer_lanes_connect(ep, hello);
	if (ret)
		transfer_port_fail(ep, ret, "Check that the GIDs of both sides reach each other.",
				   "a queue pair cannot be connected to the peer's");
	return ret;
}

static int on_hello(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	struct transfer_message message = { .type = MESSAGE_WELCOME };
	struct transfer_message_hello theirs = *hello;
	uint32_t lanes = ep->transfer->limits.lanes;
	int taken, ret;

	if (hello->port.ethernet && !hello->gids)
		return -EPROTO;
	ret = meet_peer(ep, hello);
	if (!ret && ep->listener && ep->listener->unaccepted >= UNACCEPTED_MAX)
		ret = transfer_port_fail(ep, -EBUSY, "Connect again later.",
					 "too many peers wait to be accepted");
	if (!ret)
		ret = transfer_ep_equip(ep);
	if (!ret)
		ret = transfer_port_find(ep, hello->gid, (int)hello->gids, &taken);
	if (ret)
		return ret;
	if (theirs.port.ethernet) {
		memcpy(theirs.port.gid, hello->gid[taken].gid, sizeof(theirs.port.gid));
		theirs.port.gid_type = hello->gid[taken].type;
	}
	ret = make_lanes(ep, hello->lanes < lanes ? hello->lanes : lanes, &message.hello);
	if (!ret)
		ret = connect_lanes(ep, &theirs);
	if (ret)
		return ret;
	ep->peer_port = theirs.port;
	message.hello.taken = (uint32_t)taken;
	introduce(ep, &message.hello);
	ep->state = EP_CONFIRMING;
	return transfer_socket_send(&ep->socket, &message);
}

/* ---- the side that connects ---- */

static void opened(struct mrg_ep *ep)
{
	ep->state = EP_OPEN;
	ep->greet_by = NEVER;
	ep->stats.lanes = ep->lane_count;
	ep->stats.depth = ep->transfer->limits.depth;
	transfer_ep_wake(ep);
}

/* The one that the peer sends to; there must be a way to the peer's as well. */
static int take_gid(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	struct route_gid_peer peer = { .type = hello->port.gid_type };
	int theirs, ret;

	if (!ep->port.ethernet || !hello->port.ethernet)
		return 0;
	if (hello->taken >= ep->offered_count)
		return -EPROTO;
	memcpy(peer.gid, hello->port.gid, sizeof(peer.gid));
	ret = transfer_port_find(ep, &peer, 1, &theirs);
	if (!ret)
		transfer_port_take(ep, hello->taken);
	return ret;
}

static int on_welcome(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	const struct transfer_message ready = { .type = MESSAGE_READY };
	int ret;

	if (hello->lanes > ep->lane_count)
		return -EPROTO;
	ret = meet_peer(ep, hello);
	if (ret)
		return ret;
	while (ep->lane_count > hello->lanes)
		transfer_lane_destroy(ep, &ep->lanes[--ep->lane_count]);
	ret = take_gid(ep, hello);
	if (!ret)
		ret = connect_lanes(ep, hello);
	if (ret)
		return ret;
	ep->peer_port = hello->port;
	ret = transfer_socket_send(&ep->socket, &ready);
	if (!ret)
		opened(ep);
	return ret;
}

int transfer_handshake_message(struct mrg_ep *ep, const struct transfer_message *message)
{
	if (ep->state == EP_GREETING && !ep->dialed && message->type == MESSAGE_HELLO)
		return on_hello(ep, &message->hello);
	if (ep->state == EP_GREETING && ep->dialed && message->type == MESSAGE_WELCOME)
		return on_welcome(ep, &message->hello);
	if (ep->state != EP_CONFIRMING || message->type != MESSAGE_READY)
		return -EPROTO;
	opened(ep);
	return 0;
}

void transfer_handshake_tick(struct mrg_ep *ep, uint64_t now)
{
	if (ep->state == EP_OPEN || ep->state == EP_FAILED)
		return;
	if (now >= ep->greet_by)
		transfer_ep_fail(ep, -ETIMEDOUT, "handshake",
				 "Check the peer's process and the network.",
				 "Peer %s did not finish the handshake within %u ms.", ep->peer,
				 ep->transfer->opts.handshake_ms);
	else
		transfer_ep_look(ep, ep->greet_by + MS);
}
