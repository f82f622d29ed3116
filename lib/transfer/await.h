/* SPDX-License-Identifier: MIT */
/* Sleeping until something holds. */
#ifndef TRANSFER_AWAIT_H
#define TRANSFER_AWAIT_H

#include <stdbool.h>

struct mrg_ep;

/*
 * Carries on until @holds is true.  With ep->lock held, which is let go while
 * it sleeps.  0 or -EAGAIN.
 */
int transfer_ep_await(struct mrg_ep *ep, bool (*holds)(struct mrg_ep *ep, void *arg), void *arg,
		      int timeout_ms);

#endif
