/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>

#include "transfer/endpoint.h"
#include "transfer/clock.h"

#define SPIN_NS 20000 /* before a thread sleeps for a completion */

/* Completions that came before it was armed make no event. */
static void arm(struct mrg_ep *ep)
{
	ep->armed = true;
	if (!ep->cq)
		return;
	ep->ops->notify_cq(ep->cq);
	transfer_ep_drain(ep);
	transfer_post_all(ep);
}

/* One thread sleeps on the descriptor, for all that wait. */
static void sleep_first(struct mrg_ep *ep, uint64_t until,
			bool (*holds)(struct mrg_ep *ep, void *arg), void *arg)
{
	struct pollfd p = { .fd = ep->fd, .events = POLLIN };

	ep->sleeper = true;
	arm(ep);
	if (!holds(ep, arg)) {
		pthread_mutex_unlock(&ep->lock);
		poll(&p, 1, transfer_ms_until(until));
		pthread_mutex_lock(&ep->lock);
	}
	ep->sleeper = false;
	pthread_cond_broadcast(&ep->changed);
}

int transfer_ep_await(struct mrg_ep *ep, bool (*holds)(struct mrg_ep *ep, void *arg), void *arg,
		      int timeout_ms)
{
	uint64_t now = transfer_now(), spin = now + SPIN_NS, until = transfer_after(timeout_ms);

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
			ep->waiters++;
			transfer_condition_wait(&ep->changed, &ep->lock, until);
			ep->waiters--;
		} else {
			sleep_first(ep, until, holds, arg);
		}
	}
}

int mrg_ep_arm(struct mrg_ep *ep)
{
	int some;

	pthread_mutex_lock(&ep->lock);
	transfer_ep_progress(ep);
	arm(ep);
	some = !TAILQ_EMPTY(&ep->done) || !STAILQ_EMPTY(&ep->notes.list) || ep->state == EP_FAILED;
	pthread_mutex_unlock(&ep->lock);
	return some;
}
