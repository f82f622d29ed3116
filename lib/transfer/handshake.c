/* SPDX-License-Identifier: MIT */
/*
 * How two endpoints meet.  Who connects says HELLO with its queue pairs and its
 * GIDs; who listens takes the GID that its routes lead to, connects its queue
 * pairs and says WELCOME; who connects connects its own and says READY.  Each
 * side tells the other in words why it gives up.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transfer/transfer.h"

#define ANSWER_MS 1000 /* routes can change */
#define UNACCEPTED_MAX 1024 /* peers of a listener */
#define NOTES_MAX (64u << 20)
#define CQ_PER_WR 2 /* flushed ones of the queue pair before, and this one's */

/* ---- the port ---- */

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

/* The GIDs that may be used: one where the user has named it. */
static int own_gids(struct mrg_ep *ep, struct transfer_gid *gids, int cap)
{
	const struct mrg_transfer *transfer = ep->transfer;
	int count = ep->ops->list_gids(transfer->verbs, (uint8_t)transfer->opts.port, gids, cap);

	if (count <= 0 || !transfer->opts.gid_index)
		return count;
	for (int i = 0; i < count; i++) {
		if (gids[i].index + 1 != transfer->opts.gid_index)
			continue;
		gids[0] = gids[i];
		return 1;
	}
	return 0;
}

static int say(struct mrg_ep *ep, int code, const char *remedy, const char *cause)
{
	transfer_error_set(&ep->error, code, "find port", remedy, "%s: %s", ep->transfer->name,
			   cause);
	return code;
}

static void use_gid(struct mrg_ep *ep, const struct transfer_gid *gid)
{
	ep->gid = *gid;
	memcpy(ep->port.gid, &gid->gid, sizeof(ep->port.gid));
	ep->port.gid_type = (uint8_t)gid->type;
}

static bool answered(const struct transfer_gid_answer *answer, const struct transfer_gid *gids,
		     int n, const struct transfer_message_gid *peers, int count, int *mine)
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
static int choose(struct mrg_ep *ep, const struct transfer_gid *gids, int n,
		  const struct transfer_message_gid *peers, int count, int *theirs, int *mine)
{
	struct mrg_transfer *transfer = ep->transfer;
	struct transfer_gid_answer *answer = &transfer->answer;
	int ret;

	if (answered(answer, gids, n, peers, count, mine)) {
		*theirs = answer->theirs;
		return 0;
	}
	/* What the user has named is not held against routes. */
	ret = (transfer->opts.gid_index ? transfer_gid_match : ep->ops->choose_gid)(
		transfer->verbs, (uint8_t)transfer->opts.port, gids, n, peers, count, mine, theirs,
		&ep->error);
	if (ret)
		return ret;
	memcpy(answer->peers, peers, (size_t)count * sizeof(*peers));
	answer->peer_count = count;
	answer->own = gids[*mine];
	answer->theirs = *theirs;
	answer->until = transfer_now() + ANSWER_MS * MS;
	return 0;
}

int transfer_handshake_port(struct mrg_ep *ep, const struct transfer_message_gid *peers, int count,
			    int *theirs)
{
	struct transfer_gid gids[OWN_GIDS];
	int mine, n, ret = read_port(ep);

	*theirs = 0;
	if (ret)
		return say(ep, ret, "Bring the port up.",
			   ret == -ENETDOWN ? "the port is not active" : strerror(-ret));
	if (!ep->port.ethernet)
		return 0;
	n = own_gids(ep, gids, OWN_GIDS);
	if (n < 0)
		return say(ep, n, "", strerror(-n));
	if (!n)
		return say(ep, -ENODEV, "Give its netdev an address, or name another GID index.",
			   "the port has no such GID");
	ret = choose(ep, gids, n, peers, count, theirs, &mine);
	if (!ret)
		use_gid(ep, &gids[mine]);
	return ret;
}

int transfer_handshake_same_port(struct mrg_ep *ep)
{
	struct transfer_gid gids[OWN_GIDS];
	int n, ret = read_port(ep);

	if (ret || !ep->port.ethernet)
		return ret;
	n = own_gids(ep, gids, OWN_GIDS);
	for (int i = 0; i < n; i++) {
		if (gids[i].type != ep->gid.type ||
		    memcmp(&gids[i].gid, &ep->gid.gid, sizeof(gids[i].gid)))
			continue;
		use_gid(ep, &gids[i]);
		return 0;
	}
	return n < 0 ? n : -ENODEV;
}

/* Who connects knows no GID of the peer yet, and offers its own. */
static int offer_gids(struct mrg_ep *ep, struct transfer_message_hello *hello)
{
	struct transfer_gid gids[OWN_GIDS];
	int n, ret = read_port(ep);

	if (ret)
		return say(ep, ret, "Bring the port up.",
			   ret == -ENETDOWN ? "the port is not active" : strerror(-ret));
	n = ep->port.ethernet ? own_gids(ep, gids, OWN_GIDS) : 0;
	if (n < 0 || (ep->port.ethernet && !n))
		return say(ep, n ? n : -ENODEV,
			   "Give its netdev an address, or name another GID index.",
			   "the port has no such GID");
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

/* ---- the endpoint's own things ---- */

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
		say(ep, ret,
		    "See ibv_devinfo -v for the device's limits, and lower depth or lanes.",
		    strerror(-ret));
	return ret;
}

static void name_peer(struct mrg_ep *ep, const char *name)
{
	size_t length = strlen(ep->peer);

	snprintf(ep->peer + length, sizeof(ep->peer) - length, " (%s)", name);
}

static void introduce(struct mrg_ep *ep, struct transfer_message_hello *hello)
{
	hello->port = ep->port;
	memcpy(hello->name, ep->transfer->name, sizeof(hello->name));
}

/* Until the connection stands, HELLO waits in @ep->tx. */
int transfer_handshake_begin(struct mrg_ep *ep)
{
	struct transfer_message message = { .type = MESSAGE_HELLO };
	int ret = transfer_ep_equip(ep);

	if (!ret)
		ret = offer_gids(ep, &message.hello);
	if (!ret)
		ret = make_lanes(ep, ep->transfer->limits.lanes, &message.hello);
	if (ret)
		return transfer_fail_with(ep->transfer, &ep->error);
	introduce(ep, &message.hello);
	ep->tx = malloc(MESSAGE_SMALL);
	if (!ep->tx)
		return -ENOMEM;
	ep->tx_room = MESSAGE_SMALL;
	ep->tx_length = transfer_message_encode(&message, ep->tx);
	return 0;
}

/* ---- failing ---- */

static void give_up(struct mrg_ep *ep, int code)
{
	if (code == -EPROTONOSUPPORT)
		transfer_ep_fail(ep, code, "handshake",
				 "Run the same version of libmrguard on both sides.",
				 "%s speaks another version than this side's %d", ep->peer,
				 MESSAGE_VERSION);
	else if (code == -EPROTO || code == -EMSGSIZE)
		transfer_ep_fail(ep, -EPROTO, "handshake", "Check the address and the port.",
				 "what %s sends is not mrguard's, or out of place", ep->peer);
	else if (code == -ECONNRESET || code == -EPIPE)
		transfer_ep_fail(ep, -ECONNRESET, "connection", "Look at the peer's process.",
				 "%s is gone, without a word", ep->peer);
	else
		transfer_ep_fail(ep, code, "connection", "Look at the peer and the network.",
				 "the connection to %s failed: %s", ep->peer, strerror(-code));
}

/* ---- who listens ---- */

static int connect_lanes(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	int ret;

	if (hello->port.ethernet != ep->port.ethernet)
		return say(ep, -EPROTONOSUPPORT, "Use devices of one kind.",
			   "one side is InfiniBand and the other is Ethernet");
	if (ep->port.ethernet && hello->port.gid_type != ep->port.gid_type)
		return say(ep, -EPROTONOSUPPORT, "Name GIDs of one type on both sides.",
			   "one side's GID is RoCEv1 and the other's RoCEv2");
	ret = transfer_lanes_connect(ep, hello);
	if (ret)
		say(ep, ret, "Check that the GIDs of both sides reach each other.",
		    "a queue pair cannot be connected to the peer's");
	return ret;
}

static int check_listener(struct mrg_ep *ep)
{
	if (!ep->listener || ep->listener->unaccepted < UNACCEPTED_MAX)
		return 0;
	return say(ep, -EBUSY, "Connect again later.", "too many peers wait to be accepted");
}

static int on_hello(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	struct transfer_message message = { .type = MESSAGE_WELCOME };
	struct transfer_message_hello theirs = *hello;
	uint32_t lanes = ep->transfer->limits.lanes;
	int taken, ret;

	if (hello->port.ethernet && !hello->gids)
		return -EPROTO;
	name_peer(ep, hello->name);
	ret = check_listener(ep);
	if (!ret)
		ret = transfer_ep_equip(ep);
	if (!ret)
		ret = transfer_handshake_port(ep, hello->gid, (int)hello->gids, &taken);
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
	return transfer_socket_send(ep, &message);
}

/* ---- who connects ---- */

static void opened(struct mrg_ep *ep)
{
	ep->state = EP_OPEN;
	ep->greet_by = NEVER;
	ep->stats.lanes = ep->lane_count;
	ep->stats.depth = ep->transfer->limits.depth;
	transfer_ep_wake(ep);
}

static void drop_surplus(struct mrg_ep *ep, uint32_t wanted)
{
	while (ep->lane_count > wanted) {
		struct transfer_lane *lane = &ep->lanes[--ep->lane_count];

		ep->ops->destroy_qp(lane->qp);
		lane->qp = NULL;
	}
}

/* The one that the peer sends to; there must be a way to the peer's as well. */
static int take_gid(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	struct transfer_message_gid peer = { .type = hello->port.gid_type };
	int theirs, ret;

	if (!ep->port.ethernet || !hello->port.ethernet)
		return 0;
	if (hello->taken >= ep->offered_count)
		return -EPROTO;
	memcpy(peer.gid, hello->port.gid, sizeof(peer.gid));
	ret = transfer_handshake_port(ep, &peer, 1, &theirs);
	if (!ret)
		use_gid(ep, &ep->offered[hello->taken]);
	return ret;
}

static int on_welcome(struct mrg_ep *ep, const struct transfer_message_hello *hello)
{
	const struct transfer_message ready = { .type = MESSAGE_READY };
	int ret;

	if (hello->lanes > ep->lane_count)
		return -EPROTO;
	name_peer(ep, hello->name);
	drop_surplus(ep, hello->lanes);
	ret = take_gid(ep, hello);
	if (!ret)
		ret = connect_lanes(ep, hello);
	if (ret)
		return ret;
	ep->peer_port = hello->port;
	ret = transfer_socket_send(ep, &ready);
	if (!ret)
		opened(ep);
	return ret;
}

/* ---- messages ---- */

static int on_refused(struct mrg_ep *ep, const struct transfer_message_refusal *refusal)
{
	struct mrg_error error = { .piece = -1 };

	transfer_error_set(&error, -EREMOTEIO, "peer", refusal->remedy, "%.50s says: %s", ep->peer,
			   refusal->cause);
	transfer_ep_fail_with(ep, &error);
	return 0;
}

static int on_bye(struct mrg_ep *ep)
{
	ep->settled = true;
	transfer_ep_fail(ep, -ESHUTDOWN, "connection", "Connect again.",
			 "%s has closed the endpoint", ep->peer);
	return 0;
}

static int on_note(struct mrg_ep *ep, const struct transfer_message_bytes *bytes)
{
	struct transfer_note *note;

	if (ep->note_bytes > NOTES_MAX) {
		transfer_ep_fail(
			ep, -ENOBUFS, "receive note", "Collect notes as they come.",
			"%zu bytes of notes and their heads wait to be collected, and %u may",
			ep->note_bytes, NOTES_MAX);
		return 0;
	}
	note = malloc(sizeof(*note) + bytes->length);
	if (!note)
		return -ENOMEM;
	note->next = NULL;
	note->length = bytes->length;
	memcpy(note->bytes, bytes->bytes, bytes->length);
	if (ep->note_last)
		ep->note_last->next = note;
	else
		ep->note_first = note;
	ep->note_last = note;
	ep->note_bytes += sizeof(*note) + note->length;
	transfer_ep_wake(ep);
	return 0;
}

static int take_open(struct mrg_ep *ep, const struct transfer_message *message)
{
	switch (message->type) {
	case MESSAGE_NOTE:
		return on_note(ep, &message->note);
	case MESSAGE_REVOKE:
	case MESSAGE_REVOKED:
		return transfer_revoke_message(ep, message);
	case MESSAGE_OFFER:
	case MESSAGE_ANSWER:
	case MESSAGE_BROKEN:
	case MESSAGE_RESUME:
		return transfer_lane_message(ep, message);
	default:
		return -EPROTO;
	}
}

static int take(struct mrg_ep *ep, const struct transfer_message *message)
{
	if (message->type == MESSAGE_REFUSED)
		return on_refused(ep, &message->refusal);
	if (message->type == MESSAGE_BYE)
		return on_bye(ep);
	if (ep->state == EP_OPEN)
		return take_open(ep, message);
	if (ep->state == EP_GREETING && !ep->dialed && message->type == MESSAGE_HELLO)
		return on_hello(ep, &message->hello);
	if (ep->state == EP_GREETING && ep->dialed && message->type == MESSAGE_WELCOME)
		return on_welcome(ep, &message->hello);
	if (ep->state == EP_CONFIRMING && message->type == MESSAGE_READY) {
		opened(ep);
		return 0;
	}
	return ep->state == EP_FAILED ? 0 : -EPROTO;
}

static int dialed(struct mrg_ep *ep)
{
	socklen_t length = sizeof(int);
	int err = 0;

	getsockopt(ep->socket, SOL_SOCKET, SO_ERROR, &err, &length);
	if (err)
		return -err;
	ep->state = EP_GREETING;
	return transfer_socket_flush(ep);
}

void transfer_handshake_ready(struct mrg_ep *ep, uint32_t events)
{
	struct mrg_error said;
	int ret = 0;

	if (ep->socket < 0 || ep->state == EP_FAILED)
		return;
	ep->error.code = 0;
	if (ep->state == EP_DIALING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		ret = dialed(ep);
	else if (events & EPOLLOUT)
		ret = transfer_socket_flush(ep);
	if (!ret && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		ret = transfer_socket_receive(ep, take);
	if (!ret || ep->state == EP_FAILED)
		return;
	/* A step that failed may have said why. */
	if (ep->error.code == ret) {
		said = ep->error;
		transfer_ep_fail_with(ep, &said);
	} else {
		give_up(ep, ret);
	}
}

void transfer_handshake_tick(struct mrg_ep *ep, uint64_t now)
{
	if (ep->state == EP_OPEN || ep->state == EP_FAILED)
		return;
	if (now >= ep->greet_by)
		transfer_ep_fail(ep, -ETIMEDOUT, "handshake",
				 "Check that the peer runs, and the network.",
				 "%s did not finish the handshake within %u ms", ep->peer,
				 ep->transfer->opts.handshake_ms);
	else
		transfer_control_look(ep, ep->greet_by + MS);
}
