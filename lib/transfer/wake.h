/* SPDX-License-Identifier: MIT */
/* Waking the threads that an endpoint concerns; with ep->lock held. */
#ifndef TRANSFER_WAKE_H
#define TRANSFER_WAKE_H

#include <stdint.h>

struct mrg_ep;
struct mrg_transfer;

/* Something changed: all threads that sleep look again. */
void transfer_ep_wake(struct mrg_ep *ep);
/* The control thread is to look at @ep at @due. */
void transfer_ep_look(struct mrg_ep *ep, uint64_t due);
/* The control thread is to look now. */
void transfer_kick(struct mrg_transfer *transfer);

#endif
