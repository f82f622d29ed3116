/* SPDX-License-Identifier: MIT */
/* The end of an endpoint's use. */
#ifndef TRANSFER_CONNECT_H
#define TRANSFER_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

struct mrg_ep;

#define FAREWELL_MS 200 /* for the peer to take in that it is over */

/* True: BYE was sent, and transfer_ep_farewell() waits for its answer. */
bool transfer_ep_end(struct mrg_ep *ep);
/* Waits until the peer has read it, or until @until. */
void transfer_ep_farewell(struct mrg_ep *ep, uint64_t until);

#endif
