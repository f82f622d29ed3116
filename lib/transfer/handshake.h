/* SPDX-License-Identifier: MIT */
/* How two endpoints meet; with ep->lock held. */
#ifndef TRANSFER_HANDSHAKE_H
#define TRANSFER_HANDSHAKE_H

#include "transfer/message.h"

struct mrg_ep;

/* The side that connects, before the control thread knows it: its queue pairs. */
int transfer_handshake_begin(struct mrg_ep *ep);
/* The time for a handshake begins. */
void transfer_handshake_greet(struct mrg_ep *ep);
int transfer_handshake_message(struct mrg_ep *ep, const struct transfer_message *message);
void transfer_handshake_tick(struct mrg_ep *ep, uint64_t now);

#endif
