/* SPDX-License-Identifier: MIT */
/* Endpoints and listeners: made, slept on, failed, closed. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "transfer/transfer.h"

#define SPIN_NS 20000 /* before a thread sleeps for a completion */
#define FAREWELL_MS 200 /* for the peer to take in that it is over */

/* ---- made and freed ---- */

static void init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attr);
	pthread_condattr_destroy(&attr);
}

/* Who has not said HELLO yet costs this side no more than the connection. */
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
	transfer_error_set(&ep->error, ret, "make endpoint",
			   "Raise the limit on open files (ulimit -n).",
			   "no memory or no descriptors for an endpoint: %s", strerror(-ret));
	return ret;
}

struct mrg_ep *transfer_ep_new(struct mrg_transfer *transfer, int fd, const char *peer)
{
	struct mrg_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->transfer = transfer;
	ep->ops = transfer->ops;
	ep->socket = fd;
	ep->fd = ep->event = -1;
	ep->due = ep->greet_by = NEVER;
	ep->inline_bytes = transfer->limits.inline_bytes;
	snprintf(ep->peer, sizeof(ep->peer), "%s", peer);
	pthread_mutex_init(&ep->lock, NULL);
	init_condition(&ep->changed);
	return ep;
}

static void free_requests(struct mrg_request *request)
{
	struct mrg_request *next;

	for (; request; request = next) {
		next = request->next;
		free(request);
	}
}

static void free_notes(struct mrg_ep *ep)
{
	struct transfer_note *next;

	for (struct transfer_note *note = ep->note_first; note; note = next) {
		next = note->next;
		free(note);
	}
}

static void free_revocations(struct mrg_ep *ep)
{
	struct transfer_revocation *next;

	for (struct transfer_revocation *r = ep->to_confirm; r; r = next) {
		next = r->next;
		free(r);
	}
	free(ep->revoked);
	free(ep->confirmed);
}

void transfer_ep_free(struct mrg_ep *ep)
{
	transfer_lanes_destroy(ep);
	if (ep->cq)
		ep->ops->destroy_cq(ep->cq);
	if (ep->channel)
		ep->ops->destroy_channel(ep->channel);
	if (ep->socket >= 0)
		close(ep->socket);
	if (ep->event >= 0)
		close(ep->event);
	if (ep->fd >= 0)
		close(ep->fd);
	for (int i = 0; i < LANES_MAX; i++)
		free(ep->lanes[i].ring);
	free_requests(ep->done_first);
	free_requests(ep->spare);
	free_notes(ep);
	free_revocations(ep);
	free(ep->repeat.slices);
	free(ep->rx);
	free(ep->tx);
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
	transfer_socket_send(ep, &message);
}

void transfer_ep_fail_with(struct mrg_ep *ep, const struct mrg_error *error)
{
	if (ep->state == EP_FAILED)
		return;
	ep->error = *error;
	/* Nobody hears it where the connection is the cause. */
	if (ep->state != EP_DIALING && error->code != -ECONNRESET)
		tell_why(ep);
	ep->state = EP_FAILED;
	if (ep->socket >= 0)
		close(ep->socket);
	ep->socket = -1;
	for (uint32_t i = 0; i < ep->lane_count; i++) {
		transfer_lane_break(ep, &ep->lanes[i]);
		if (ep->lanes[i].state != LANE_NONE || !ep->lanes[i].qp)
			continue;
		ep->ops->destroy_qp(ep->lanes[i].qp);
		ep->lanes[i].qp = NULL;
	}
	transfer_request_fail_all(ep, error->code);
	transfer_control_look(ep, 0);
	transfer_ep_wake(ep);
}

void transfer_ep_fail(struct mrg_ep *ep, int code, const char *stage, const char *remedy,
		      const char *cause, ...)
{
	struct mrg_error error = { .code = code, .piece = -1 };
	va_list args;

	snprintf(error.stage, sizeof(error.stage), "%s", stage);
	snprintf(error.remedy, sizeof(error.remedy), "%s", remedy);
	va_start(args, cause);
	vsnprintf(error.cause, sizeof(error.cause), cause, args);
	va_end(args);
	transfer_ep_fail_with(ep, &error);
}

/* ---- sleeping ---- */

void transfer_ep_wake(struct mrg_ep *ep)
{
	const uint64_t one = 1;

	pthread_cond_broadcast(&ep->changed);
	if (!ep->sleeper && !ep->armed)
		return;
	if (write(ep->event, &one, sizeof(one)) < 0)
		return; /* full: it is readable */
}

static int arm(struct mrg_ep *ep)
{
	ep->armed = true;
	if (!ep->cq)
		return 0;
	return ep->ops->notify_cq(ep->cq);
}

static int ms_until(uint64_t until)
{
	uint64_t now = transfer_now(), ms;

	if (until == NEVER)
		return -1;
	ms = until > now ? (until - now + MS - 1) / MS : 0;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* One thread sleeps on the descriptor, for all that wait. */
static void sleep_first(struct mrg_ep *ep, uint64_t until,
			bool (*holds)(struct mrg_ep *ep, void *arg), void *arg)
{
	struct pollfd p = { .fd = ep->fd, .events = POLLIN };

	ep->sleeper = true;
	arm(ep);
	/* What came before it was armed makes no event. */
	if (ep->cq) {
		transfer_ep_drain(ep);
		transfer_post_all(ep);
	}
	if (!holds(ep, arg)) {
		pthread_mutex_unlock(&ep->lock);
		poll(&p, 1, ms_until(until));
		pthread_mutex_lock(&ep->lock);
	}
	ep->sleeper = false;
	pthread_cond_broadcast(&ep->changed);
}

static void sleep_next(struct mrg_ep *ep, uint64_t until)
{
	struct timespec at = { (time_t)(until / (1000 * MS)), (long)(until % (1000 * MS)) };

	ep->waiters++;
	if (until == NEVER)
		pthread_cond_wait(&ep->changed, &ep->lock);
	else
		pthread_cond_timedwait(&ep->changed, &ep->lock, &at);
	ep->waiters--;
}

int transfer_ep_await(struct mrg_ep *ep, bool (*holds)(struct mrg_ep *ep, void *arg), void *arg,
		      int timeout_ms)
{
	uint64_t now = transfer_now(), spin = now + SPIN_NS;
	uint64_t until = timeout_ms < 0 ? NEVER : now + (uint64_t)timeout_ms * MS;

	for (;;) {
		transfer_ep_progress(ep);
		if (holds(ep, arg))
			return 0;
		now = transfer_now();
		if (now >= until)
			return -EAGAIN;
		if (now < spin && ep->ops_out) {
			pthread_mutex_unlock(&ep->lock);
			pthread_mutex_lock(&ep->lock);
		} else if (ep->sleeper) {
			sleep_next(ep, until);
		} else {
			sleep_first(ep, until, holds, arg);
		}
	}
}

int mrg_ep_fd(const struct mrg_ep *ep)
{
	return ep->fd;
}

int mrg_ep_arm(struct mrg_ep *ep)
{
	int some;

	pthread_mutex_lock(&ep->lock);
	transfer_ep_progress(ep);
	arm(ep);
	if (ep->cq) {
		transfer_ep_drain(ep);
		transfer_post_all(ep);
	}
	some = ep->done_first || ep->note_first || ep->state == EP_FAILED;
	pthread_mutex_unlock(&ep->lock);
	return some;
}

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
	ret = transfer_control_add_ep(ep, true);
	transfer_control_greet(ep);
	pthread_mutex_unlock(&ep->lock);
	pthread_mutex_unlock(&transfer->lock);
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
		return transfer_fail(transfer, -ENOMEM, "connect", "", "no memory");
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
	return !ep->active && (ep->state == EP_OPEN || transfer_lanes_quiet(ep));
}

static bool say_bye(struct mrg_ep *ep)
{
	const struct transfer_message bye = { .type = MESSAGE_BYE };

	return ep->socket >= 0 && !transfer_socket_send(ep, &bye) && !ep->tx_length &&
	       !shutdown(ep->socket, SHUT_WR);
}

/* The peer hears of it before the connection ends, if it listens at all. */
static void await_farewell(struct mrg_ep *ep, uint64_t until)
{
	struct pollfd p = { .fd = ep->socket, .events = POLLIN };
	char rest[4096];

	while (poll(&p, 1, ms_until(until)) > 0 &&
	       recv(ep->socket, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
}

static void forget(struct mrg_ep *ep)
{
	struct mrg_transfer *transfer = ep->transfer;

	pthread_mutex_lock(&transfer->lock);
	transfer_control_remove(transfer, ep->slot, ep->socket);
	pthread_mutex_unlock(&transfer->lock);
}

/* True: the peer has been told, and may take its time. */
static bool end_use(struct mrg_ep *ep)
{
	bool open;

	pthread_mutex_lock(&ep->lock);
	transfer_request_fail_all(ep, -ECANCELED);
	transfer_ep_await(ep, is_idle, NULL, -1);
	open = ep->state == EP_OPEN;
	/* From here on nothing can arrive: the peer's requests fail. */
	transfer_lanes_destroy(ep);
	pthread_mutex_unlock(&ep->lock);
	forget(ep);
	return open && say_bye(ep);
}

void mrg_ep_close(struct mrg_ep *ep)
{
	if (!ep)
		return;
	if (end_use(ep))
		await_farewell(ep, transfer_now() + FAREWELL_MS * MS);
	transfer_ep_free(ep);
}

/* ---- what it is doing ---- */

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

/* ---- listeners ---- */

int mrg_listener_open(struct mrg_transfer *transfer, const char *host, const char *service,
		      struct mrg_listener **out)
{
	struct mrg_listener *listener = calloc(1, sizeof(*listener));
	int ret;

	if (!listener)
		return transfer_fail(transfer, -ENOMEM, "listen", "", "no memory");
	listener->transfer = transfer;
	listener->fd = transfer_socket_listen(transfer, host, service, &listener->port);
	if (listener->fd < 0) {
		ret = listener->fd;
		free(listener);
		return ret;
	}
	init_condition(&listener->came);
	pthread_mutex_lock(&transfer->lock);
	ret = transfer_control_add_listener(listener);
	pthread_mutex_unlock(&transfer->lock);
	if (!ret) {
		*out = listener;
		return 0;
	}
	pthread_cond_destroy(&listener->came);
	close(listener->fd);
	free(listener);
	return transfer_fail(transfer, ret, "listen", "", "%s", strerror(-ret));
}

/* With transfer->lock held: those that are still greeting are let go. */
static void disown(struct mrg_listener *listener)
{
	struct mrg_transfer *transfer = listener->transfer;

	for (size_t i = 0; i < transfer->slot_count; i++) {
		struct mrg_ep *ep = transfer->slots[i].ep;

		if (!ep)
			continue;
		pthread_mutex_lock(&ep->lock);
		if (ep->listener == listener) {
			ep->listener = NULL;
			ep->orphan = true;
			transfer_ep_fail(ep, -ESHUTDOWN, "handshake", "Connect again.",
					 "the listener was closed");
		}
		pthread_mutex_unlock(&ep->lock);
	}
}

/* All are told before one is waited for. */
static void let_go(struct mrg_ep *first)
{
	struct mrg_ep *told = NULL, *ep, *next;
	uint64_t until;

	for (ep = first; ep; ep = next) {
		next = ep->next_open;
		if (!end_use(ep)) {
			transfer_ep_free(ep);
			continue;
		}
		ep->next_open = told;
		told = ep;
	}
	until = transfer_now() + FAREWELL_MS * MS;
	for (ep = told; ep; ep = next) {
		next = ep->next_open;
		await_farewell(ep, until);
		transfer_ep_free(ep);
	}
}

void mrg_listener_close(struct mrg_listener *listener)
{
	if (!listener)
		return;
	pthread_mutex_lock(&listener->transfer->lock);
	transfer_control_remove(listener->transfer, listener->slot, listener->fd);
	disown(listener);
	pthread_mutex_unlock(&listener->transfer->lock);
	let_go(listener->first);
	pthread_cond_destroy(&listener->came);
	close(listener->fd);
	free(listener);
}

unsigned int mrg_listener_port(const struct mrg_listener *listener)
{
	return listener->port;
}

static int wait_for_peer(struct mrg_listener *listener, uint64_t until)
{
	pthread_mutex_t *lock = &listener->transfer->lock;
	struct timespec at = { (time_t)(until / (1000 * MS)), (long)(until % (1000 * MS)) };

	while (!listener->first) {
		if (until == NEVER)
			pthread_cond_wait(&listener->came, lock);
		else if (pthread_cond_timedwait(&listener->came, lock, &at))
			return listener->first ? 0 : -EAGAIN;
	}
	return 0;
}

int mrg_listener_accept(struct mrg_listener *listener, int timeout_ms, struct mrg_ep **ep)
{
	struct mrg_transfer *transfer = listener->transfer;
	uint64_t until = NEVER;
	int ret;

	if (timeout_ms >= 0)
		until = transfer_now() + (uint64_t)timeout_ms * MS;
	pthread_mutex_lock(&transfer->lock);
	ret = wait_for_peer(listener, until);
	if (!ret) {
		*ep = listener->first;
		listener->first = (*ep)->next_open;
		if (!listener->first)
			listener->last = NULL;
		listener->unaccepted--;
	}
	pthread_mutex_unlock(&transfer->lock);
	if (ret)
		return transfer_fail(transfer, ret, "accept", "", "no peer has come within %d ms",
				     timeout_ms);
	return 0;
}
