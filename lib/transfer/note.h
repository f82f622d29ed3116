/* SPDX-License-Identifier: MIT */
/* Notes: the application's own words to the peer. */
#ifndef TRANSFER_NOTE_H
#define TRANSFER_NOTE_H

#include <stddef.h>
#include <sys/queue.h>

#include "transfer/message.h"

struct mrg_ep;

struct transfer_note {
	STAILQ_ENTRY(transfer_note) next;
	size_t length;
	uint8_t bytes[];
};

struct transfer_notes {
	STAILQ_HEAD(, transfer_note) list;
	size_t bytes; /* with their heads: an empty note takes memory too */
};

/* With ep->lock held. */
int transfer_note_message(struct mrg_ep *ep, const struct transfer_message_bytes *bytes);

#endif
