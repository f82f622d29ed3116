/* SPDX-License-Identifier: MIT */
#include <unistd.h>

#include "transfer/endpoint.h"

void transfer_ep_wake(struct mrg_ep *ep)
{
	const uint64_t one = 1;

	pthread_cond_broadcast(&ep->changed);
	if (!ep->sleeper && !ep->armed)
		return;
	if (write(ep->event, &one, sizeof(one)) < 0)
		return; /* full: it is readable */
}

void transfer_kick(struct mrg_transfer *transfer)
{
	const uint64_t one = 1;

	if (write(transfer->kick, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

void transfer_ep_look(struct mrg_ep *ep, uint64_t due)
{
	if (due >= ep->due)
		return;
	ep->due = due;
	/* The thread itself sees what it has set. */
	if (due < atomic_load(&ep->transfer->wakes_at) &&
	    !pthread_equal(pthread_self(), ep->transfer->thread))
		transfer_kick(ep->transfer);
}
