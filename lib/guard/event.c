/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "guard/event.h"

static bool same_event(const struct guard_event *a, const struct guard_event *b)
{
	return a->kind == b->kind && a->call == b->call && a->error == b->error && a->fd == b->fd &&
	       a->addr == b->addr && a->iova == b->iova && a->length == b->length &&
	       a->offset == b->offset;
}

static bool count_repeated(struct guard_state *s, const struct guard_event *event)
{
	uint32_t count = atomic_load(&s->events);

	for (uint32_t i = 0; i < count && i < GUARD_EVENTS; i++) {
		if (!atomic_load_explicit(&s->event[i].ready, memory_order_acquire) ||
		    !same_event(&s->event[i], event))
			continue;
		atomic_fetch_add(&s->event[i].times, 1);
		return true;
	}
	return false;
}

struct guard_event *guard_event_note(struct guard_state *s, enum guard_event_kind kind,
				     const struct guard_request *req, enum mrg_verdict verdict,
				     int error, uint64_t ns)
{
	const struct guard_event event = {
		.times = 1,
		.kind = kind,
		.call = req->call,
		.verdict = verdict,
		.error = error,
		.fd = req->fd,
		.addr = req->addr,
		.iova = req->iova,
		.length = req->length,
		.offset = req->offset,
		.ns = ns,
	};
	uint32_t i;

	if (count_repeated(s, &event))
		return NULL;
	i = atomic_fetch_add(&s->events, 1);
	if (i >= GUARD_EVENTS)
		return NULL;
	/* Readers skip it until it is ready. */
	memcpy((void *)&s->event[i], &event, offsetof(struct guard_event, cause));
	return &s->event[i];
}

void guard_event_explain(struct guard_event *event, const char *cause, const char *remedy)
{
	if (!event)
		return;
	snprintf(event->cause, sizeof(event->cause), "%s", cause);
	snprintf(event->remedy, sizeof(event->remedy), "%s", remedy);
	atomic_store_explicit(&event->ready, 1, memory_order_release);
}
