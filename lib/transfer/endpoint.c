/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"

/* ---- made and freed ---- */

/* Before its HELLO, a peer costs this side no more than the connection. */
int transfer_ep_equip(struct mrg_ep *ep)
{
	struct epoll_event event = { .events = EPOLLIN };
	int ret;

	errno = ENOMEM;
	ep->fd = epoll_create1(EPOLL_CLOEXEC);
	ep->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ep->channel = ep->ops->create_channel(ep->transfer->verbs);
	if (ep->fd >= 0 && ep->event >= 0 && ep->channel &&
	    !epoll_ctl(ep->fd, EPOLL_CTL_ADD, ep->event, &event) &&
	    !epoll_ctl(ep->fd, EPOLL_CTL_ADD, ep->channel->fd, &event))
		return 0;
	ret = -errno;
	base_error_set(&ep->error, ret, "make endpoint",
		       "Raise the limit on open files (ulimit -n).",
		       "No memory or no descriptors are left for an endpoint: %s.", strerror(-ret));
	return ret;
}

struct mrg_ep *transfer_ep_new(struct mrg_transfer *transfer, int fd, const char *peer)
{
	struct mrg_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	STAILQ_INIT(&ep->queue);
	TAILQ_INIT(&ep->active);
	TAILQ_INIT(&ep->done);
	STAILQ_INIT(&ep->notes.list);
	ep->transfer = transfer;
	ep->ops = transfer->ops;
	ep->socket.fd = fd;
	ep->socket.epoll = transfer->slots.epoll;
	ep->fd = ep->event = -1;
	ep->due = ep->greet_by = NEVER;
	ep->inline_bytes = transfer->limits.inline_bytes;
	snprintf(ep->peer, sizeof(ep->peer), "%s", peer);
	pthread_mutex_init(&ep->lock, NULL);
	transfer_condition_init(&ep->changed);
	return ep;
}

static void free_notes(struct transfer_notes *notes)
{
	struct transfer_note *note;

	while ((note = STAILQ_FIRST(&notes->list))) {
		STAILQ_REMOVE_HEAD(&notes->list, next);
		free(note);
	}
}

void transfer_ep_free(struct mrg_ep *ep)
{
	transfer_lanes_destroy(ep);
	if (ep->cq)
		ep->ops->destroy_cq(ep->cq);
	if (ep->channel)
		ep->ops->destroy_channel(ep->channel);
	transfer_socket_close(&ep->socket);
	if (ep->event >= 0)
		close(ep->event);
	if (ep->fd >= 0)
		close(ep->fd);
	for (int i = 0; i < LANES_MAX; i++)
		free(ep->lanes[i].ring);
	transfer_request_table_free(ep);
	free_notes(&ep->notes);
	transfer_revoked_free(&ep->revoked);
	free(ep->repeat.slices);
	free(ep->socket.rx);
	free(ep->socket.tx);
	pthread_cond_destroy(&ep->changed);
	pthread_mutex_destroy(&ep->lock);
	free(ep);
}

/* ---- the end of its use ---- */

static void tell_why(struct mrg_ep *ep)
{
	struct transfer_message message = { .type = MESSAGE_REFUSED };

	message.refusal.code = ep->error.code;
	snprintf(message.refusal.cause, sizeof(message.refusal.cause), "%.*s", MESSAGE_TEXT - 1,
		 ep->error.cause);
	snprintf(message.refusal.remedy, sizeof(message.refusal.remedy), "%.*s", MESSAGE_TEXT - 1,
		 ep->error.remedy);
	transfer_socket_send(&ep->socket, &message);
}

void transfer_ep_fail_with(struct mrg_ep *ep, const struct mrg_error *error)
{
	if (ep->state == EP_FAILED)
		return;
	ep->error = *error;
	/* Where the connection is the cause, no message arrives. */
	if (ep->state != EP_DIALING && error->code != -ECONNRESET)
		tell_why(ep);
	ep->state = EP_FAILED;
	transfer_socket_close(&ep->socket);
	for (uint32_t i = 0; i < ep->lane_count; i++) {
		transfer_lane_break(ep, &ep->lanes[i]);
		/* Of a handshake that is not over. */
		if (ep->lanes[i].state == LANE_NONE)
			transfer_lane_destroy(ep, &ep->lanes[i]);
	}
	transfer_request_fail_all(ep, error->code);
	transfer_ep_look(ep, 0);
	transfer_ep_wake(ep);
}

void transfer_ep_fail(struct mrg_ep *ep, int code, const char *stage, const char *remedy,
		      const char *cause, ...)
{
	struct mrg_error error;
	va_list args;

	va_start(args, cause);
	base_error_vset(&error, code, -1, stage, remedy, cause, args);
	va_end(args);
	transfer_ep_fail_with(ep, &error);
}

/* ---- what it is doing ---- */

int mrg_ep_fd(const struct mrg_ep *ep)
{
	return ep->fd;
}

int mrg_ep_status(struct mrg_ep *ep, struct mrg_error *error)
{
	int up = 0;

	pthread_mutex_lock(&ep->lock);
	for (uint32_t i = 0; i < ep->lane_count; i++)
		up += ep->lanes[i].state == LANE_UP;
	if (ep->state == EP_FAILED) {
		up = ep->error.code;
		if (error)
			*error = ep->error;
	}
	pthread_mutex_unlock(&ep->lock);
	return up;
}

const char *mrg_ep_peer(const struct mrg_ep *ep)
{
	return ep->peer;
}

void mrg_ep_stats(struct mrg_ep *ep, struct mrg_ep_stats *stats)
{
	pthread_mutex_lock(&ep->lock);
	*stats = ep->stats;
	pthread_mutex_unlock(&ep->lock);
}
