/* SPDX-License-Identifier: MIT */
/* The life of a request: its handle, its end, its deadline. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/registry.h>

#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/request.h"
#include "transfer/revoked.h"

#define SMALL_BYTES 512 /* of requests that are kept to be used again */
#define SPARE_MAX 256
#define PLACES_FIRST 64
#define GENERATIONS 1024 /* that an endpoint takes at a time */

/* ---- the table ---- */

/* Generations of all endpoints together, so that no two requests share one. */
static uint64_t next_generation(struct transfer_request_table *table)
{
	static _Atomic uint64_t shares;

	if (table->generation == table->last_generation) {
		table->generation = atomic_fetch_add(&shares, GENERATIONS);
		/* A multiple of the share is left out: it could wrap to 0. */
		table->last_generation = table->generation + GENERATIONS - 1;
	}
	return ++table->generation;
}

static bool take_place(struct transfer_request_table *table, uint32_t *place)
{
	struct transfer_request_place *places;
	uint32_t room;

	if (table->first_free) {
		*place = table->first_free - 1;
		table->first_free = table->places[*place].next_free;
		return true;
	}
	if (table->count == table->room) {
		room = table->room ? 2 * table->room : PLACES_FIRST;
		if (room > REQUEST_PLACES)
			return false;
		places = reallocarray(table->places, room, sizeof(*places));
		if (!places)
			return false;
		table->places = places;
		table->room = room;
	}
	*place = table->count++;
	return true;
}

static struct transfer_request *allocate(struct transfer_request_table *table, size_t bytes)
{
	struct transfer_request *request = malloc(bytes);

	if (!request || !take_place(table, &request->place)) {
		free(request);
		return NULL;
	}
	table->places[request->place].request = request;
	return request;
}

struct transfer_request *transfer_request_new(struct mrg_ep *ep, size_t bytes)
{
	struct transfer_request_table *table = &ep->requests;
	struct transfer_request *request = SLIST_FIRST(&table->spare);
	uint32_t place;

	if (bytes < SMALL_BYTES)
		bytes = SMALL_BYTES;
	if (bytes == SMALL_BYTES && request) {
		SLIST_REMOVE_HEAD(&table->spare, in_spare);
		table->spare_count--;
	} else {
		request = allocate(table, bytes);
		if (!request)
			return NULL;
	}
	place = request->place;
	memset(request, 0, sizeof(*request));
	request->ep = ep;
	request->place = place;
	request->handle = next_generation(table) << REQUEST_PLACE_BITS | place;
	request->bytes = bytes;
	return request;
}

void transfer_request_free(struct transfer_request *request)
{
	struct transfer_request_table *table = &request->ep->requests;
	struct transfer_request_place *place = &table->places[request->place];

	request->handle = 0;
	if (request->bytes == SMALL_BYTES && table->spare_count < SPARE_MAX) {
		SLIST_INSERT_HEAD(&table->spare, request, in_spare);
		table->spare_count++;
		return;
	}
	place->request = NULL;
	place->next_free = table->first_free;
	table->first_free = request->place + 1;
	free(request);
}

void transfer_request_table_free(struct mrg_ep *ep)
{
	for (uint32_t i = 0; i < ep->requests.count; i++)
		free(ep->requests.places[i].request);
	free(ep->requests.places);
}

/* ---- the end ---- */

void transfer_request_put_buffers(struct transfer_request *request, uint32_t count)
{
	const struct mrg_local *local = request->ops[0].local;

	for (uint32_t i = 0; i < count && request->holds; i++)
		mrg_buffer_put(local[i].buffer);
}

static void finish(struct transfer_request *request)
{
	struct mrg_ep *ep = request->ep;

	transfer_request_put_buffers(request, request->range_count);
	TAILQ_REMOVE(&ep->active, request, link);
	ep->ops_out -= request->op_count;
	ep->stats.requests++;
	ep->stats.failed += request->result.status != 0;
	request->result.bytes = request->total - request->left;
	request->done = true;
	if (!request->waited)
		TAILQ_INSERT_TAIL(&ep->done, request, link);
	if (ep->revoked.to_confirm)
		transfer_revoked_confirm(ep);
	if (ep->sleeper || ep->waiters || ep->armed)
		transfer_ep_wake(ep);
}

static void finish_if_over(struct transfer_request *request)
{
	if (!request->done && !request->in_flight && !request->waiting &&
	    (request->result.status || !request->left))
		finish(request);
}

void transfer_request_confirm(struct transfer_request *request, uint32_t length)
{
	request->in_flight--;
	request->left -= length;
	request->ep->stats.bytes += length;
	if (!request->left || request->result.status)
		finish_if_over(request);
}

static void purge_repeats(struct transfer_request *request)
{
	struct transfer_slice_queue *queue = &request->ep->repeat;
	size_t count = queue->count;
	struct transfer_slice slice;

	if (!request->waiting)
		return;
	while (count--) {
		transfer_slice_queue_pop(queue, &slice);
		if (slice.request == request)
			request->waiting--;
		else
			transfer_slice_queue_push(queue, &slice);
	}
}

void transfer_request_fail(struct transfer_request *request, const struct mrg_result *cause)
{
	uint32_t repeated = request->result.repeated;
	uint64_t now;

	if (request->done || request->result.status)
		return;
	request->result = *cause;
	request->result.repeated = repeated;
	if (request->queued)
		STAILQ_REMOVE(&request->ep->queue, request, transfer_request, in_queue);
	request->queued = false;
	purge_repeats(request);
	if (request->in_flight) {
		now = transfer_now();
		request->abort_at = now + request->ep->transfer->opts.grace_ms * MS;
		transfer_ep_look(request->ep, request->abort_at);
	}
	finish_if_over(request);
}

void transfer_request_fail_all(struct mrg_ep *ep, int status)
{
	const struct mrg_result cause = { .status = status, .side = MRG_SIDE_PATH };
	struct transfer_request *next;

	for (struct transfer_request *r = TAILQ_FIRST(&ep->active); r; r = next) {
		next = TAILQ_NEXT(r, link);
		transfer_request_fail(r, &cause);
	}
}

void transfer_request_repeat(struct mrg_ep *ep, const struct transfer_slice *slice)
{
	static const struct mrg_result no_memory = { .status = -ENOMEM };
	struct transfer_request *request = slice->request;

	request->in_flight--;
	if (!request->result.status) {
		if (!transfer_slice_queue_push(&ep->repeat, slice)) {
			request->waiting++;
			return;
		}
		transfer_request_fail(request, &no_memory);
	}
	finish_if_over(request);
}

/* A READ writes on this side alone, and this side's queue pair is gone. */
void transfer_request_drop_failed(struct mrg_ep *ep, struct transfer_lane *lane)
{
	uint32_t keep = lane->tail, end = lane->head;

	for (uint32_t i = lane->tail; i != end; i++) {
		struct transfer_slice slice = lane->ring[i & lane->mask];
		const struct transfer_request *request = slice.request;

		if (request->result.status && request->ops[slice.op].code == MRG_OP_READ) {
			transfer_request_repeat(ep, &slice);
			continue;
		}
		lane->ring[keep++ & lane->mask] = slice;
	}
	lane->head = keep;
}

/* ---- time ---- */

static bool lane_carries(const struct transfer_lane *lane, const struct transfer_request *request)
{
	for (uint32_t i = lane->tail; i != lane->head; i++)
		if (lane->ring[i & lane->mask].request == request)
			return true;
	return false;
}

/* The grace is over: its queue pairs go, and take their packets with them. */
static void abort_now(struct mrg_ep *ep, struct transfer_request *request)
{
	request->abort_at = NEVER;
	for (uint32_t i = 0; i < ep->lane_count; i++) {
		struct transfer_lane *lane = &ep->lanes[i];

		if (!lane_carries(lane, request))
			continue;
		if (lane->state == LANE_UP)
			transfer_lane_break(ep, lane);
		else if (!lane->qp || lane->state != LANE_DRAINING)
			transfer_request_drop_failed(ep, lane);
		if (request->done)
			return;
	}
}

void transfer_request_tick(struct mrg_ep *ep, uint64_t now)
{
	const struct mrg_result late = { .status = -ETIMEDOUT };
	struct transfer_request *next;

	for (struct transfer_request *r = TAILQ_FIRST(&ep->active); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->deadline <= now && !r->result.status) {
			transfer_request_fail(r, &late);
			continue;
		}
		if (r->abort_at <= now)
			abort_now(ep, r);
		if (!r->result.status)
			transfer_ep_look(ep, r->deadline);
		transfer_ep_look(ep, r->abort_at);
	}
}
