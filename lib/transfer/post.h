/* SPDX-License-Identifier: MIT */
/* Posting; with ep->lock held. */
#ifndef TRANSFER_POST_H
#define TRANSFER_POST_H

struct mrg_ep;

void transfer_post_all(struct mrg_ep *ep);

#endif
