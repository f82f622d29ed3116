/* SPDX-License-Identifier: MIT */
/* Revoking buffers. */
#ifndef TRANSFER_REVOKE_H
#define TRANSFER_REVOKE_H

#include "transfer/message.h"

struct mrg_ep;

/* REVOKE and REVOKED; with ep->lock held. */
int transfer_revoke_message(struct mrg_ep *ep, const struct transfer_message *message);

#endif
