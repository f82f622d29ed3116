/* SPDX-License-Identifier: MIT */
/* Endpoints are connected, and closed. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "transfer/endpoint.h"
#include "transfer/clock.h"

/* ---- connecting ---- */

static bool is_settled(struct mrg_ep *ep, void *arg)
{
	(void)arg;
	return ep->state == EP_OPEN || ep->state == EP_FAILED;
}

static int begin(struct mrg_ep *ep)
{
	struct mrg_transfer *transfer = ep->transfer;
	int ret;

	ep->dialed = true;
	ep->state = EP_DIALING;
	pthread_mutex_lock(&ep->lock);
	ret = transfer_handshake_begin(ep);
	pthread_mutex_unlock(&ep->lock);
	if (ret)
		return ret;
	pthread_mutex_lock(&transfer->lock);
	pthread_mutex_lock(&ep->lock);
	ret = transfer_slots_add(&transfer->slots, ep, NULL, ep->socket.fd, true, &ep->slot,
				 &ep->socket.key);
	ep->socket.tx_watched = true;
	transfer_handshake_greet(ep);
	pthread_mutex_unlock(&ep->lock);
	pthread_mutex_unlock(&transfer->lock);
	if (ret)
		transfer_fail(transfer, ret, "connect",
			      "Raise the limits on memory and open files.",
			      "The connection cannot be watched: %s.", strerror(-ret));
	return ret;
}

int mrg_ep_connect(struct mrg_transfer *transfer, const char *host, const char *service,
		   struct mrg_ep **out)
{
	struct mrg_error error;
	struct mrg_ep *ep;
	char peer[80];
	int ret, fd = transfer_socket_dial(transfer, host, service, peer);

	if (fd < 0)
		return fd;
	ep = transfer_ep_new(transfer, fd, peer);
	if (!ep) {
		close(fd);
		return transfer_fail(transfer, -ENOMEM, "connect", "Free memory on this host.",
				     "No memory is left for an endpoint.");
	}
	ret = begin(ep);
	if (ret) {
		transfer_ep_free(ep);
		return ret;
	}
	pthread_mutex_lock(&ep->lock);
	transfer_ep_await(ep, is_settled, NULL, -1);
	ret = ep->state == EP_OPEN ? 0 : ep->error.code;
	error = ep->error;
	pthread_mutex_unlock(&ep->lock);
	if (!ret) {
		*out = ep;
		return 0;
	}
	mrg_ep_close(ep);
	return transfer_fail_with(transfer, &error);
}

/* ---- closing ---- */

static bool is_idle(struct mrg_ep *ep, void *arg)
{
	(void)arg;
	return TAILQ_EMPTY(&ep->active) && (ep->state == EP_OPEN || transfer_lanes_quiet(ep));
}

static bool say_bye(struct mrg_ep *ep)
{
	const struct transfer_message bye = { .type = MESSAGE_BYE };

	return ep->socket.fd >= 0 && !transfer_socket_send(&ep->socket, &bye) &&
	       !ep->socket.tx_length && !shutdown(ep->socket.fd, SHUT_WR);
}

void transfer_ep_farewell(struct mrg_ep *ep, uint64_t until)
{
	struct pollfd p = { .fd = ep->socket.fd, .events = POLLIN };
	char ignored[4096];

	while (poll(&p, 1, transfer_ms_until(until)) > 0 &&
	       recv(ep->socket.fd, ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
		;
}

bool transfer_ep_end(struct mrg_ep *ep)
{
	struct mrg_transfer *transfer = ep->transfer;
	bool open;

	pthread_mutex_lock(&ep->lock);
	transfer_request_fail_all(ep, -ECANCELED);
	transfer_ep_await(ep, is_idle, NULL, -1);
	open = ep->state == EP_OPEN;
	/* From here on nothing can arrive: the peer's requests fail. */
	transfer_lanes_destroy(ep);
	pthread_mutex_unlock(&ep->lock);
	pthread_mutex_lock(&transfer->lock);
	transfer_slots_remove(&transfer->slots, ep->slot, ep->socket.fd);
	pthread_mutex_unlock(&transfer->lock);
	return open && say_bye(ep);
}

void mrg_ep_close(struct mrg_ep *ep)
{
	if (!ep)
		return;
	if (transfer_ep_end(ep))
		transfer_ep_farewell(ep, transfer_after(FAREWELL_MS));
	transfer_ep_free(ep);
}
