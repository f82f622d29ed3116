/* SPDX-License-Identifier: MIT */
/* Events: registrations that are worth a line of the report. */
#ifndef GUARD_EVENT_H
#define GUARD_EVENT_H

#include "guard/request.h"

/**
 * guard_event_note() - record an event
 * @error: errno that the program gets; 0: none
 * @ns: since the start
 *
 * A program that repeats the same call for ever (UCX after EAGAIN) makes one
 * event, with a count.
 *
 * Return: the event, to be completed by guard_event_explain(); NULL where it was
 * counted only, or the list is full.
 */
struct guard_event *guard_event_note(struct guard_state *s, enum guard_event_kind kind,
				     const struct guard_request *req, enum mrg_verdict verdict,
				     int error, uint64_t ns);

/** guard_event_explain() - complete an event; NULL is allowed */
void guard_event_explain(struct guard_event *event, const char *cause, const char *remedy);

#endif
