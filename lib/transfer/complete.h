/* SPDX-License-Identifier: MIT */
/* Taking completions; with ep->lock held. */
#ifndef TRANSFER_COMPLETE_H
#define TRANSFER_COMPLETE_H

struct mrg_ep;

/* Polls, and posts what there is room for. */
void transfer_ep_progress(struct mrg_ep *ep);
/* Polls alone. */
void transfer_ep_drain(struct mrg_ep *ep);

#endif
