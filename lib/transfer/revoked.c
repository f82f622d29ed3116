/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/endpoint.h"
#include "transfer/slice.h"
#include "transfer/revoked.h"

#define GENERATIONS_MAX 4096 /* that are remembered */

bool transfer_generations_have(const struct transfer_generations *g, uint64_t generation)
{
	for (size_t i = generation ? g->count : 0; i-- > 0;)
		if (g->at[i] == generation)
			return true;
	return false;
}

int transfer_generations_add(struct transfer_generations *g, uint64_t generation)
{
	if (!g->at)
		g->at = calloc(GENERATIONS_MAX, sizeof(*g->at));
	if (!g->at)
		return -ENOMEM;
	if (g->count == GENERATIONS_MAX)
		memmove(g->at, g->at + 1, --g->count * sizeof(*g->at));
	g->at[g->count++] = generation;
	return 0;
}

bool transfer_revoked_uses(const struct transfer_request *request, uint64_t generation)
{
	for (uint32_t i = 0; i < request->op_count; i++)
		if (request->ops[i].remote->generation == generation)
			return true;
	return false;
}

int transfer_revoked_add(struct transfer_revoked *revoked, uint64_t generation)
{
	struct transfer_revocation *r = malloc(sizeof(*r));

	if (!r || transfer_generations_add(&revoked->by_peer, generation)) {
		free(r);
		return -ENOMEM;
	}
	*r = (struct transfer_revocation){ revoked->to_confirm, generation };
	revoked->to_confirm = r;
	return 0;
}

static bool in_use(const struct mrg_ep *ep, uint64_t generation)
{
	const struct transfer_request *r;

	TAILQ_FOREACH(r, &ep->active, link)
		if (transfer_revoked_uses(r, generation))
			return true;
	return false;
}

void transfer_revoked_confirm(struct mrg_ep *ep)
{
	struct transfer_revocation **at = &ep->revoked.to_confirm, *r;
	struct transfer_message message = { .type = MESSAGE_REVOKED };

	while ((r = *at) != NULL) {
		if (in_use(ep, r->generation)) {
			at = &r->next;
			continue;
		}
		message.generation = r->generation;
		*at = r->next;
		free(r);
		if (ep->state == EP_OPEN)
			transfer_socket_send(&ep->socket, &message);
	}
}

void transfer_revoked_free(struct transfer_revoked *revoked)
{
	struct transfer_revocation *next;

	for (struct transfer_revocation *r = revoked->to_confirm; r; r = next) {
		next = r->next;
		free(r);
	}
	free(revoked->by_peer.at);
	free(revoked->confirmed.at);
}
