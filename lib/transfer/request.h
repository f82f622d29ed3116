/* SPDX-License-Identifier: MIT */
/*
 * Requests: batches on their way, or done.
 *
 * Callers know a request by a number, its handle: the place in the endpoint's
 * table below, and above it a generation that no other request of the process
 * has had.  So a handle that is stale, or another endpoint's, finds nothing.
 */
#ifndef TRANSFER_REQUEST_H
#define TRANSFER_REQUEST_H

#include <stdbool.h>
#include <sys/queue.h>

#include <mrguard/transfer.h>

#include "transfer/slice.h"

struct mrg_ep;
struct transfer_lane;

#define REQUEST_PLACE_BITS 24
#define REQUEST_PLACES (1u << REQUEST_PLACE_BITS)

struct transfer_request {
	struct mrg_ep *ep;
	uint64_t handle; /* 0: free */
	uint32_t place; /* in the endpoint's table */
	uint32_t op_count;
	union {
		STAILQ_ENTRY(transfer_request) in_queue;
		SLIST_ENTRY(transfer_request) in_spare;
	};
	TAILQ_ENTRY(transfer_request) link; /* of those not done, or done */
	void *user;
	uint64_t left; /* bytes not confirmed */
	struct transfer_cursor cursor;
	uint32_t in_flight; /* slices posted, or in a broken lane */
	uint32_t waiting; /* slices to be repeated */
	uint32_t range_count; /* of all operations together */
	bool queued;
	bool done;
	bool holds; /* buffers of a registry */
	bool waited; /* by mrg_wait(): not for mrg_poll() */
	struct mrg_result result;
	uint64_t total;
	uint64_t deadline;
	uint64_t abort_at; /* when its lanes are broken for it */
	size_t bytes; /* of this allocation */
	struct transfer_op ops[];
};

TAILQ_HEAD(transfer_request_list, transfer_request);
STAILQ_HEAD(transfer_request_queue, transfer_request);

/* A place without a request holds the next such place, plus one. */
struct transfer_request_place {
	struct transfer_request *request;
	uint32_t next_free;
};

struct transfer_request_table {
	struct transfer_request_place *places;
	uint32_t count, room;
	uint32_t first_free; /* plus one; 0: none */
	SLIST_HEAD(, transfer_request) spare; /* small ones with their places, to be used again */
	uint32_t spare_count;
	uint64_t generation, last_generation; /* those that are left of the endpoint's share */
};

/* All with ep->lock held. */

/* A zeroed request with room for @bytes, and a handle; NULL: no memory, or no place. */
struct transfer_request *transfer_request_new(struct mrg_ep *ep, size_t bytes);
void transfer_request_free(struct transfer_request *request);
/* NULL: the handle is stale, or another endpoint's. */
static inline struct transfer_request *
transfer_request_find(const struct transfer_request_table *table, uint64_t handle)
{
	uint32_t place = handle & (REQUEST_PLACES - 1);
	struct transfer_request *request;

	if (!handle || place >= table->count)
		return NULL;
	request = table->places[place].request;
	return request && request->handle == handle ? request : NULL;
}

/* All that are left. */
void transfer_request_table_free(struct mrg_ep *ep);

/* The first cause counts.  It is done once nothing of it is in flight. */
void transfer_request_fail(struct transfer_request *request, const struct mrg_result *cause);
void transfer_request_fail_all(struct mrg_ep *ep, int status);
/* A slice is no longer in flight, and was not carried out: it will be repeated,
 * or its request is one less from its end. */
void transfer_request_repeat(struct mrg_ep *ep, const struct transfer_slice *slice);
/* A slice was carried out. */
void transfer_request_confirm(struct transfer_request *request, uint32_t length);
/* The first @count ranges' buffers may be unregistered again. */
void transfer_request_put_buffers(struct transfer_request *request, uint32_t count);
/* Of a lane that is not up: drops what can be dropped of failed requests. */
void transfer_request_drop_failed(struct mrg_ep *ep, struct transfer_lane *lane);
void transfer_request_tick(struct mrg_ep *ep, uint64_t now);

/* What a completion means, and a request's end in words. */

/* Fills in status and side.  True: worth repeating. */
bool transfer_cause_of(const struct ibv_wc *wc, struct mrg_result *result);
/* Of a request that failed by itself, not by its endpoint. */
void transfer_cause_words(const struct transfer_request *request, struct mrg_error *error);

#endif
