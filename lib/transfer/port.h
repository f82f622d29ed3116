/* SPDX-License-Identifier: MIT */
/* This side's port and GID; with ep->lock held. */
#ifndef TRANSFER_PORT_H
#define TRANSFER_PORT_H

#include "route/gid_pair.h"
#include "transfer/message.h"

struct mrg_ep;

/* Each 0, or -errno with ep->error set. */

/* The port and the GID as they are now, for a peer at @peers. */
int transfer_port_find(struct mrg_ep *ep, const struct route_gid_peer *peers, int count,
		       int *theirs);
/* The port as it is now, and the GID as it was, wherever in the table it is. */
int transfer_port_same(struct mrg_ep *ep);
/* No GID of the peer is known yet: offers this side's. */
int transfer_port_offer(struct mrg_ep *ep, struct transfer_message_hello *hello);
/* Of those that were offered, the one that the peer has taken. */
void transfer_port_take(struct mrg_ep *ep, uint32_t taken);
int transfer_port_fail(struct mrg_ep *ep, int code, const char *remedy, const char *cause);

#endif
