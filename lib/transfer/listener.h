/* SPDX-License-Identifier: MIT */
/* Listeners: where peers come in. */
#ifndef TRANSFER_LISTENER_H
#define TRANSFER_LISTENER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <mrguard/transfer.h>

STAILQ_HEAD(transfer_ep_queue, mrg_ep);

struct mrg_listener {
	struct mrg_transfer *transfer;
	int fd;
	size_t slot;
	unsigned int port;
	pthread_cond_t arrived; /* with transfer->lock */
	struct transfer_ep_queue open; /* not accepted */
	size_t unaccepted;
	size_t greeting;
};

/* By the control thread, with transfer->lock held. */

/* Takes in what connects.  Return: when the first of them is to be looked at. */
uint64_t transfer_listener_ready(struct mrg_listener *listener);
/*
 * Endpoints that no mrg_listener_accept() has returned belong to the control
 * thread: an open one goes to its listener, one that failed is freed.  With
 * ep->lock held.  True: @ep is gone, and its lock with it.
 */
bool transfer_listener_take(struct mrg_ep *ep);

#endif
