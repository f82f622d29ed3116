/* SPDX-License-Identifier: MIT */
/* Broken lanes, made again; with ep->lock held. */
#ifndef TRANSFER_REMAKE_H
#define TRANSFER_REMAKE_H

#include "transfer/lane.h"
#include "transfer/message.h"

void transfer_remake_tick(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now);
int transfer_remake_message(struct mrg_ep *ep, const struct transfer_message *message);

#endif
