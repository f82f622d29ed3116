/* SPDX-License-Identifier: MIT */
/*
 * The control thread: it reads what peers say, and looks at endpoints whose time
 * has come.  One a transfer handle, however many endpoints it has.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "transfer/transfer.h"

#define EVENTS 64
#define KICK UINT64_MAX
#define GREETING_MAX 1024 /* handshakes of a listener at a time */
#define ACCEPTS 64 /* connections at a time: others wait meanwhile */
#define SCARCE_US 10000
/* Each look costs a walk over all endpoints: thousands of handshakes share it. */
#define GREET_STEP_MS 100

static uint64_t key_of(const struct mrg_transfer *transfer, size_t slot)
{
	return (uint64_t)transfer->slots[slot].serial << 32 | slot;
}

static struct transfer_slot *find_slot(struct mrg_transfer *transfer, uint64_t key)
{
	size_t index = key & UINT32_MAX;
	struct transfer_slot *slot = &transfer->slots[index];

	return index < transfer->slot_count && slot->serial == key >> 32 ? slot : NULL;
}

static int free_slot(struct mrg_transfer *transfer, size_t *index)
{
	size_t count = transfer->slot_count ? 2 * transfer->slot_count : 8;
	struct transfer_slot *slots;

	for (*index = 0; *index < transfer->slot_count; ++*index)
		if (!transfer->slots[*index].ep && !transfer->slots[*index].listener)
			return 0;
	slots = reallocarray(transfer->slots, count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + transfer->slot_count, 0, (count - transfer->slot_count) * sizeof(*slots));
	transfer->slots = slots;
	transfer->slot_count = count;
	return 0;
}

static int watch(struct mrg_transfer *transfer, int fd, bool writes, size_t slot)
{
	struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0) };

	transfer->slots[slot].serial++;
	event.data.u64 = key_of(transfer, slot);
	return epoll_ctl(transfer->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int transfer_control_add_ep(struct mrg_ep *ep, bool writes)
{
	struct mrg_transfer *transfer = ep->transfer;
	int ret = free_slot(transfer, &ep->slot);

	if (!ret)
		ret = watch(transfer, ep->socket, writes, ep->slot);
	if (ret)
		return ret;
	ep->tx_watched = writes;
	ep->key = key_of(transfer, ep->slot);
	transfer->slots[ep->slot].ep = ep;
	return 0;
}

int transfer_control_add_listener(struct mrg_listener *listener)
{
	struct mrg_transfer *transfer = listener->transfer;
	int ret = free_slot(transfer, &listener->slot);

	if (!ret)
		ret = watch(transfer, listener->fd, false, listener->slot);
	if (!ret)
		transfer->slots[listener->slot].listener = listener;
	return ret;
}

void transfer_control_remove(struct mrg_transfer *transfer, size_t slot, int fd)
{
	if (fd >= 0)
		epoll_ctl(transfer->epoll, EPOLL_CTL_DEL, fd, NULL);
	transfer->slots[slot].serial++;
	transfer->slots[slot].ep = NULL;
	transfer->slots[slot].listener = NULL;
}

void transfer_control_watch(struct mrg_ep *ep, bool writes)
{
	struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0) };

	if (writes == ep->tx_watched || ep->socket < 0)
		return;
	event.data.u64 = ep->key;
	if (!epoll_ctl(ep->transfer->epoll, EPOLL_CTL_MOD, ep->socket, &event))
		ep->tx_watched = writes;
}

static void kick(struct mrg_transfer *transfer)
{
	const uint64_t one = 1;

	if (write(transfer->kick, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

void transfer_control_look(struct mrg_ep *ep, uint64_t due)
{
	if (due >= ep->due)
		return;
	ep->due = due;
	/* The thread itself sees what it has set. */
	if (due < atomic_load(&ep->transfer->wakes_at) &&
	    !pthread_equal(pthread_self(), ep->transfer->thread))
		kick(ep->transfer);
}

void transfer_control_greet(struct mrg_ep *ep)
{
	const uint64_t step = GREET_STEP_MS * MS;

	ep->greet_by = transfer_now() + ep->transfer->opts.handshake_ms * MS;
	transfer_control_look(ep, (ep->greet_by / step + 1) * step);
}

/* ---- peers that come in ---- */

static void hand_over(struct mrg_ep *ep)
{
	struct mrg_listener *listener = ep->listener;

	ep->listener = NULL;
	listener->greeting--;
	listener->unaccepted++;
	if (listener->last)
		listener->last->next_open = ep;
	else
		listener->first = ep;
	listener->last = ep;
	pthread_cond_signal(&listener->came);
}

/* Whom nobody has accepted, the thread takes care of.  True: @ep is gone. */
static bool greeted(struct mrg_transfer *transfer, struct mrg_ep *ep)
{
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
	transfer_control_remove(transfer, ep->slot, ep->socket);
	pthread_mutex_unlock(&ep->lock);
	transfer_ep_free(ep);
	return true;
}

/* When it is to be looked at; NEVER where it cannot be taken in. */
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
	if (transfer_control_add_ep(ep, false)) {
		transfer_ep_free(ep);
		return NEVER;
	}
	listener->greeting++;
	pthread_mutex_lock(&ep->lock);
	transfer_control_greet(ep);
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

static uint64_t listener_ready(struct mrg_listener *listener)
{
	uint64_t next = NEVER, due;
	struct sockaddr_storage addr;
	socklen_t length;
	char peer[80];
	int fd = -1;

	/* What is left over keeps it readable. */
	for (int n = 0; n < ACCEPTS; n++) {
		length = sizeof(addr);
		fd = accept4(listener->fd, (struct sockaddr *)&addr, &length,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			break;
		/* A flood; those who only came too early are told (handshake.c). */
		if (listener->greeting >= GREETING_MAX) {
			close(fd);
			continue;
		}
		transfer_socket_prepare(fd);
		transfer_socket_name((struct sockaddr *)&addr, length, peer);
		due = welcome_one(listener, fd, peer);
		next = due < next ? due : next;
	}
	/* Out of descriptors: it stays readable, and must not be all we do. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		usleep(SCARCE_US);
	return next;
}

/* ---- the loop ---- */

/* When @ep is to be looked at again, NEVER where it is gone. */
static uint64_t ep_ready(struct mrg_transfer *transfer, struct mrg_ep *ep, uint32_t events)
{
	uint64_t due;

	pthread_mutex_lock(&ep->lock);
	transfer_handshake_ready(ep, events);
	if (greeted(transfer, ep))
		return NEVER;
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

static uint64_t ep_tick(struct mrg_transfer *transfer, struct mrg_ep *ep, uint64_t now)
{
	uint64_t due;

	pthread_mutex_lock(&ep->lock);
	if (ep->due <= now) {
		ep->due = NEVER;
		transfer_handshake_tick(ep, now);
		transfer_request_tick(ep, now);
		for (uint32_t i = 0; i < LANES_MAX; i++)
			transfer_lane_tick(ep, &ep->lanes[i], now);
		if (greeted(transfer, ep))
			return NEVER;
	}
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

static uint64_t tick_all(struct mrg_transfer *transfer)
{
	uint64_t next = NEVER, due, now;

	/* Who is added or hurries from here on has to kick. */
	atomic_store(&transfer->wakes_at, NEVER);
	now = transfer_now();
	for (size_t i = 0; i < transfer->slot_count; i++) {
		struct mrg_ep *ep = transfer->slots[i].ep;

		if (!ep)
			continue;
		/* One that is busy, and not due, must not hold the others up. */
		due = atomic_load(&ep->due);
		if (due <= now)
			due = ep_tick(transfer, ep, now);
		next = due < next ? due : next;
	}
	return next;
}

static void handle(struct mrg_transfer *transfer, const struct epoll_event *event, uint64_t *next)
{
	struct transfer_slot *slot;
	uint64_t due;

	if (event->data.u64 == KICK) {
		uint64_t count;

		if (read(transfer->kick, &count, sizeof(count)) > 0)
			*next = 0;
		return;
	}
	slot = find_slot(transfer, event->data.u64);
	if (!slot)
		return;
	due = slot->listener ? listener_ready(slot->listener) :
			       ep_ready(transfer, slot->ep, event->events);
	*next = due < *next ? due : *next;
}

static int wait_ms(uint64_t next)
{
	uint64_t now = transfer_now(), ms;

	if (next == NEVER)
		return -1;
	if (next <= now)
		return 0;
	ms = (next - now + MS - 1) / MS;
	return ms > 60000 ? 60000 : (int)ms;
}

static void *run(void *arg)
{
	struct mrg_transfer *transfer = arg;
	struct epoll_event events[EVENTS];
	uint64_t next = 0;
	int n;

	pthread_mutex_lock(&transfer->lock);
	while (!transfer->stop) {
		if (next <= transfer_now())
			next = tick_all(transfer);
		atomic_store(&transfer->wakes_at, next);
		pthread_mutex_unlock(&transfer->lock);
		n = epoll_wait(transfer->epoll, events, EVENTS, wait_ms(next));
		pthread_mutex_lock(&transfer->lock);
		for (int i = 0; i < n; i++)
			handle(transfer, &events[i], &next);
	}
	pthread_mutex_unlock(&transfer->lock);
	return NULL;
}

static int make_fds(struct mrg_transfer *transfer)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = KICK };

	transfer->epoll = epoll_create1(EPOLL_CLOEXEC);
	transfer->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (transfer->epoll < 0 || transfer->kick < 0 ||
	    epoll_ctl(transfer->epoll, EPOLL_CTL_ADD, transfer->kick, &event))
		return -errno;
	return 0;
}

static void close_fds(struct mrg_transfer *transfer)
{
	if (transfer->epoll >= 0)
		close(transfer->epoll);
	if (transfer->kick >= 0)
		close(transfer->kick);
}

/* Signals are the application's. */
int transfer_control_start(struct mrg_transfer *transfer)
{
	sigset_t all, before;
	int ret = make_fds(transfer);

	if (!ret) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		ret = -pthread_create(&transfer->thread, NULL, run, transfer);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (ret)
		close_fds(transfer);
	return ret;
}

void transfer_control_stop(struct mrg_transfer *transfer)
{
	pthread_mutex_lock(&transfer->lock);
	transfer->stop = true;
	pthread_mutex_unlock(&transfer->lock);
	kick(transfer);
	pthread_join(transfer->thread, NULL);
	/* Of listeners that are closed, and not drained yet. */
	for (size_t i = 0; i < transfer->slot_count; i++)
		if (transfer->slots[i].ep)
			transfer_ep_free(transfer->slots[i].ep);
	close_fds(transfer);
	free(transfer->slots);
}
