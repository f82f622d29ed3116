/* SPDX-License-Identifier: MIT */
/*
 * The control thread: it reads what peers say, and looks at endpoints whose time
 * has come.  Each transfer handle has one, however many endpoints it has.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "transfer/clock.h"
#include "transfer/transfer.h"
#include "transfer/endpoint.h"
#include "transfer/listener.h"

#define EVENTS 64
#define KICK UINT64_MAX
#define SLEEP_MAX_MS 60000

/* When @ep is to be looked at again, NEVER where it is gone. */
static uint64_t ep_ready(struct mrg_ep *ep, uint32_t events)
{
	uint64_t due;

	pthread_mutex_lock(&ep->lock);
	transfer_dispatch_ready(ep, events);
	if (transfer_listener_take(ep))
		return NEVER;
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

static uint64_t ep_tick(struct mrg_ep *ep, uint64_t now)
{
	uint64_t due;

	pthread_mutex_lock(&ep->lock);
	if (ep->due <= now) {
		transfer_dispatch_tick(ep, now);
		if (transfer_listener_take(ep))
			return NEVER;
	}
	due = ep->due;
	pthread_mutex_unlock(&ep->lock);
	return due;
}

static uint64_t tick_all(struct mrg_transfer *transfer)
{
	uint64_t next = NEVER, due, now;

	/* An endpoint that is added or hurries from here on has to kick. */
	atomic_store(&transfer->wakes_at, NEVER);
	now = transfer_now();
	for (size_t i = 0; i < transfer->slots.count; i++) {
		struct mrg_ep *ep = transfer->slots.at[i].ep;

		if (!ep)
			continue;
		/* One that is busy, and not due, must not hold the others up. */
		due = atomic_load(&ep->due);
		if (due <= now)
			due = ep_tick(ep, now);
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
	slot = transfer_slots_find(&transfer->slots, event->data.u64);
	if (!slot)
		return;
	due = slot->listener ? transfer_listener_ready(slot->listener) :
			       ep_ready(slot->ep, event->events);
	*next = due < *next ? due : *next;
}

static void *run(void *arg)
{
	struct mrg_transfer *transfer = arg;
	struct epoll_event events[EVENTS];
	uint64_t next = 0;
	int n, ms;

	pthread_mutex_lock(&transfer->lock);
	while (!transfer->stop) {
		if (next <= transfer_now())
			next = tick_all(transfer);
		atomic_store(&transfer->wakes_at, next);
		pthread_mutex_unlock(&transfer->lock);
		ms = transfer_ms_until(next);
		n = epoll_wait(transfer->slots.epoll, events, EVENTS,
			       ms > SLEEP_MAX_MS ? SLEEP_MAX_MS : ms);
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

	transfer->slots.epoll = epoll_create1(EPOLL_CLOEXEC);
	transfer->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (transfer->slots.epoll < 0 || transfer->kick < 0 ||
	    epoll_ctl(transfer->slots.epoll, EPOLL_CTL_ADD, transfer->kick, &event))
		return -errno;
	return 0;
}

static void close_fds(struct mrg_transfer *transfer)
{
	if (transfer->slots.epoll >= 0)
		close(transfer->slots.epoll);
	if (transfer->kick >= 0)
		close(transfer->kick);
}

int transfer_control_start(struct mrg_transfer *transfer)
{
	int ret = make_fds(transfer);

	if (!ret)
		ret = base_thread_start(&transfer->thread, run, transfer);
	if (ret)
		close_fds(transfer);
	return ret;
}

void transfer_control_stop(struct mrg_transfer *transfer)
{
	pthread_mutex_lock(&transfer->lock);
	transfer->stop = true;
	pthread_mutex_unlock(&transfer->lock);
	transfer_kick(transfer);
	pthread_join(transfer->thread, NULL);
	/* Of listeners that are closed, and not drained yet. */
	for (size_t i = 0; i < transfer->slots.count; i++)
		if (transfer->slots.at[i].ep)
			transfer_ep_free(transfer->slots.at[i].ep);
	close_fds(transfer);
	free(transfer->slots.at);
}
