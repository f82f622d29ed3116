/* SPDX-License-Identifier: MIT */
/* Messages of the peer, to the files that act on them; with ep->lock held. */
#ifndef TRANSFER_DISPATCH_H
#define TRANSFER_DISPATCH_H

#include <stdint.h>

struct mrg_ep;

/* The socket has these epoll(7) events. */
void transfer_dispatch_ready(struct mrg_ep *ep, uint32_t events);
/* The endpoint's time has come. */
void transfer_dispatch_tick(struct mrg_ep *ep, uint64_t now);

#endif
