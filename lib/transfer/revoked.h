/* SPDX-License-Identifier: MIT */
/* The generations of buffers that either side has revoked; with ep->lock held. */
#ifndef TRANSFER_REVOKED_H
#define TRANSFER_REVOKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mrg_ep;
struct transfer_request;

/* The latest generations, oldest first. */
struct transfer_generations {
	uint64_t *at;
	size_t count;
};

struct transfer_revocation {
	struct transfer_revocation *next;
	uint64_t generation;
};

struct transfer_revoked {
	struct transfer_generations by_peer;
	struct transfer_generations confirmed; /* by the peer, of ours */
	struct transfer_revocation *to_confirm; /* the peer waits for MESSAGE_REVOKED */
};

bool transfer_generations_have(const struct transfer_generations *g, uint64_t generation);
int transfer_generations_add(struct transfer_generations *g, uint64_t generation);

bool transfer_revoked_uses(const struct transfer_request *request, uint64_t generation);
/* Keeps that the peer has revoked @generation, and waits for the confirmation. */
int transfer_revoked_add(struct transfer_revoked *revoked, uint64_t generation);
/* Tells the peer about each buffer that no request uses any more. */
void transfer_revoked_confirm(struct mrg_ep *ep);
void transfer_revoked_free(struct transfer_revoked *revoked);

/* REVOKE and REVOKED of the peer. */

/* REVOKE and REVOKED; with ep->lock held. */
int transfer_revoke_message(struct mrg_ep *ep, const struct transfer_message *message);

#endif
