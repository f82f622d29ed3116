/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/listener.h"

#define GREETING_MAX 1024 /* handshakes of a listener at a time */
#define ACCEPTS 64 /* connections at a time: others wait meanwhile */
#define SCARCE_US 10000

int mrg_listener_open(struct mrg_transfer *transfer, const char *host, const char *service,
		      struct mrg_listener **out)
{
	struct mrg_listener *listener = calloc(1, sizeof(*listener));
	uint64_t key;
	int ret;

	if (!listener)
		return transfer_fail(transfer, -ENOMEM, "listen", "Free memory on this host.",
				     "No memory is left for a listener.");
	STAILQ_INIT(&listener->open);
	listener->transfer = transfer;
	listener->fd = transfer_socket_listen(transfer, host, service, &listener->port);
	if (listener->fd < 0) {
		ret = listener->fd;
		free(listener);
		return ret;
	}
	transfer_condition_init(&listener->arrived);
	pthread_mutex_lock(&transfer->lock);
	ret = transfer_slots_add(&transfer->slots, NULL, listener, listener->fd, false,
				 &listener->slot, &key);
	pthread_mutex_unlock(&transfer->lock);
	if (!ret) {
		*out = listener;
		return 0;
	}
	pthread_cond_destroy(&listener->arrived);
	close(listener->fd);
	free(listener);
	return transfer_fail(transfer, ret, "listen", "Raise the limits on memory and open files.",
			     "The listener cannot be watched: %s.", strerror(-ret));
}

/* With transfer->lock held: those that are still greeting are let go. */
static void disown(struct mrg_listener *listener)
{
	struct mrg_transfer *transfer = listener->transfer;

	for (size_t i = 0; i < transfer->slots.count; i++) {
		struct mrg_ep *ep = transfer->slots.at[i].ep;

		if (!ep)
			continue;
		pthread_mutex_lock(&ep->lock);
		if (ep->listener == listener) {
			ep->listener = NULL;
			ep->orphan = true;
			transfer_ep_fail(ep, -ESHUTDOWN, "handshake", "Connect again.",
					 "The listener was closed.");
		}
		pthread_mutex_unlock(&ep->lock);
	}
}

/* All are notified before the first is waited for. */
static void let_go(struct transfer_ep_queue *open)
{
	struct transfer_ep_queue notified = STAILQ_HEAD_INITIALIZER(notified);
	struct mrg_ep *ep;
	uint64_t until;

	while ((ep = STAILQ_FIRST(open))) {
		STAILQ_REMOVE_HEAD(open, next_open);
		if (transfer_ep_end(ep))
			STAILQ_INSERT_TAIL(&notified, ep, next_open);
		else
			transfer_ep_free(ep);
	}
	until = transfer_after(FAREWELL_MS);
	while ((ep = STAILQ_FIRST(&notified))) {
		STAILQ_REMOVE_HEAD(&notified, next_open);
		transfer_ep_farewell(ep, until);
		transfer_ep_free(ep);
	}
}

void mrg_listener_close(struct mrg_listener *listener)
{
	if (!listener)
		return;
	pthread_mutex_lock(&listener->transfer->lock);
	transfer_slots_remove(&listener->transfer->slots, listener->slot, listener->fd);
	disown(listener);
	pthread_mutex_unlock(&listener->transfer->lock);
	let_go(&listener->open);
	pthread_cond_destroy(&listener->arrived);
	close(listener->fd);
	free(listener);
}

unsigned int mrg_listener_port(const struct mrg_listener *listener)
{
	return listener->port;
}

static int wait_for_peer(struct mrg_listener *listener, uint64_t until)
{
	while (STAILQ_EMPTY(&listener->open))
		if (transfer_condition_wait(&listener->arrived, &listener->transfer->lock, until))
			return STAILQ_EMPTY(&listener->open) ? -EAGAIN : 0;
	return 0;
}

int mrg_listener_accept(struct mrg_listener *listener, int timeout_ms, struct mrg_ep **ep)
{
	struct mrg_transfer *transfer = listener->transfer;
	uint64_t until = transfer_after(timeout_ms);
	int ret;

	pthread_mutex_lock(&transfer->lock);
	ret = wait_for_peer(listener, until);
	if (!ret) {
		*ep = STAILQ_FIRST(&listener->open);
		STAILQ_REMOVE_HEAD(&listener->open, next_open);
		listener->unaccepted--;
	}
	pthread_mutex_unlock(&transfer->lock);
	if (ret)
		return transfer_fail(transfer, ret, "accept", "Wait longer, or check the peer.",
				     "No peer connected within %d ms.", timeout_ms);
	return 0;
}

/* ---- peers that come in ---- */

static void hand_over(struct mrg_ep *ep)
{
	struct mrg_listener *listener = ep->listener;

	ep->listener = NULL;
	listener->greeting--;
	listener->unaccepted++;
	STAILQ_INSERT_TAIL(&listener->open, ep, next_open);
	pthread_cond_signal(&listener->arrived);
}

bool transfer_listener_take(struct mrg_ep *ep)
{
	struct mrg_transfer *transfer = ep->transfer;
	struct mrg_listener *listener = ep->listener;

	if (!listener && !ep->orphan)
		return false;
	if (listener && ep->state == EP_OPEN) {
		hand_over(ep);
		return false;
	}
	if (ep->state != EP_FAILED || !transfer_lanes_quiet(ep))
		return false;
	if (listener)
		listener->greeting--;
	transfer_slots_remove(&transfer->slots, ep->slot, ep->socket.fd);
	pthread_mutex_unlock(&ep->lock);
	transfer_ep_free(ep);
	return true;
}

/* When it is to be looked at; NEVER if it cannot be taken in. */
static uint64_t welcome_one(struct mrg_listener *listener, int fd, const char *peer)
{
	struct mrg_transfer *transfer = listener->transfer;
	struct mrg_ep *ep = transfer_ep_new(transfer, fd, peer);
	uint64_t due;

	if (!ep) {
		close(fd);
		return NEVER;
	}
	ep->listener = listener;
	ep->state = EP_GREETING;
	if (transfer_slots_add(&transfer->slots, ep, NULL, fd, false, &ep->slot, &ep->socket.key)) {
		transfer_ep_free(ep);
		return NEVER;
	}
	listener->greeting++;
	pthread_mutex_lock(&ep->lock);
	transfer_handshake_greet(ep);
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

uint64_t transfer_listener_ready(struct mrg_listener *listener)
{
	uint64_t next = NEVER, due;
	struct sockaddr_storage addr;
	socklen_t length;
	char peer[80];
	int fd = -1;

	/* Connections that are left over keep it readable. */
	for (int n = 0; n < ACCEPTS; n++) {
		length = sizeof(addr);
		fd = accept4(listener->fd, (struct sockaddr *)&addr, &length,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			break;
		/* A flood.  Peers that wait to be accepted are refused in handshake.c. */
		if (listener->greeting >= GREETING_MAX) {
			close(fd);
			continue;
		}
		transfer_socket_prepare(fd);
		transfer_socket_name((struct sockaddr *)&addr, length, peer);
		due = welcome_one(listener, fd, peer);
		next = due < next ? due : next;
	}
	/* Out of descriptors: it stays readable, so leave time for other work. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		usleep(SCARCE_US);
	return next;
}
