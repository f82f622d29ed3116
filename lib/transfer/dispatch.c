/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/note.h"
#include "transfer/lane.h"
#include "transfer/revoked.h"

static void give_up(struct mrg_ep *ep, int code)
{
	if (code == -EPROTONOSUPPORT)
		transfer_ep_fail(ep, code, "handshake",
				 "Run the same version of libmrguard on both sides.",
				 "Peer %s speaks another version than this side's, %d.", ep->peer,
				 MESSAGE_VERSION);
	else if (code == -EPROTO || code == -EMSGSIZE)
		transfer_ep_fail(ep, -EPROTO, "handshake", "Check the address and the port.",
				 "Peer %s sends messages that are not mrguard's, or out of place.",
				 ep->peer);
	else if (code == -ECONNRESET || code == -EPIPE)
		transfer_ep_fail(ep, -ECONNRESET, "connection", "Check the peer's process.",
				 "Peer %s closed the connection without a message.", ep->peer);
	else
		transfer_ep_fail(ep, code, "connection", "Check the peer and the network.",
				 "The connection to %s failed: %s.", ep->peer, strerror(-code));
}

static int on_refused(struct mrg_ep *ep, const struct transfer_message_refusal *refusal)
{
	struct mrg_error error;

	base_error_set(&error, -EREMOTEIO, "peer", refusal->remedy, "Peer %.50s says: \"%s\".",
		       ep->peer, refusal->cause);
	transfer_ep_fail_with(ep, &error);
	return 0;
}

static int take_open(struct mrg_ep *ep, const struct transfer_message *message)
{
	switch (message->type) {
	case MESSAGE_NOTE:
		return transfer_note_message(ep, &message->note);
	case MESSAGE_REVOKE:
	case MESSAGE_REVOKED:
		return transfer_revoke_message(ep, message);
	case MESSAGE_OFFER:
	case MESSAGE_ANSWER:
	case MESSAGE_BROKEN:
	case MESSAGE_RESUME:
		return transfer_remake_message(ep, message);
	default:
		return -EPROTO;
	}
}

static int take(struct mrg_ep *ep, const struct transfer_message *message)
{
	if (message->type == MESSAGE_REFUSED)
		return on_refused(ep, &message->refusal);
	if (message->type == MESSAGE_BYE) {
		ep->settled = true;
		transfer_ep_fail(ep, -ESHUTDOWN, "connection", "Connect again.",
				 "Peer %s has closed the endpoint.", ep->peer);
		return 0;
	}
	if (message->type >= MESSAGE_OPTIONAL)
		return 0;
	if (ep->state == EP_OPEN)
		return take_open(ep, message);
	return ep->state == EP_FAILED ? 0 : transfer_handshake_message(ep, message);
}

static int dialed(struct mrg_ep *ep)
{
	socklen_t length = sizeof(int);
	int err = 0;

	getsockopt(ep->socket.fd, SOL_SOCKET, SO_ERROR, &err, &length);
	if (err)
		return -err;
	ep->state = EP_GREETING;
	return transfer_socket_flush(&ep->socket);
}

void transfer_dispatch_ready(struct mrg_ep *ep, uint32_t events)
{
	struct mrg_error said;
	int ret = 0;

	if (ep->socket.fd < 0 || ep->state == EP_FAILED)
		return;
	ep->error.code = 0;
	if (ep->state == EP_DIALING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		ret = dialed(ep);
	else if (events & EPOLLOUT)
		ret = transfer_socket_flush(&ep->socket);
	if (!ret && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		ret = transfer_socket_receive(ep, &ep->socket, take);
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

void transfer_dispatch_tick(struct mrg_ep *ep, uint64_t now)
{
	ep->due = NEVER;
	transfer_handshake_tick(ep, now);
	transfer_request_tick(ep, now);
	for (uint32_t i = 0; i < LANES_MAX; i++)
		transfer_remake_tick(ep, &ep->lanes[i], now);
}
