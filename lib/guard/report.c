/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "guard/policy.h"
#include "guard/report.h"

#define SCHEMA "mrguard.run/1"
#define MRS_IN_TEXT 16u /* JSON has all of them */

static uint64_t get(const _Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static uint64_t made_count(const struct guard_state *s)
{
	uint64_t sum = 0;

	for (size_t p = 0; p < GUARD_PATHS; p++)
		for (size_t v = 0; v < GUARD_VERDICTS; v++)
			sum += get(&s->made[p][v].count);
	return sum;
}

static uint64_t made_bytes(const struct guard_state *s)
{
	uint64_t sum = 0;

	for (size_t p = 0; p < GUARD_PATHS; p++)
		for (size_t v = 0; v < GUARD_VERDICTS; v++)
			sum += get(&s->made[p][v].bytes);
	return sum;
}

/* In a moving process the two numbers are not of one time. */
static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static const char *fork_words(const struct guard_state *s)
{
	bool copies = s->kernel_copies == MRG_KERNEL_COPIES;

	switch (atomic_load(&s->fork)) {
	case GUARD_FORK_SKIPPED:
		return "asked for and skipped: the kernel copies pinned pages at fork";
	case GUARD_FORK_PASSED_ON:
		return copies ?
			       "asked for, and passed on" :
			       "asked for, and needed: the kernel does not copy pinned pages, or does not say so";
	default:
		return copies ?
			       "not asked for, and not needed: the kernel copies pinned pages at fork" :
			       "not asked for; the kernel does not copy pinned pages, or does not say so";
	}
}

static const char *fork_name(const struct guard_state *s)
{
	switch (atomic_load(&s->fork)) {
	case GUARD_FORK_SKIPPED:
		return "skipped";
	case GUARD_FORK_PASSED_ON:
		return "passed-on";
	default:
		return "not-asked";
	}
}

static const char *const event_names[] = {
	[GUARD_EVENT_REFUSED] = "refused",
	[GUARD_EVENT_LET_PASS] = "let-pass",
	[GUARD_EVENT_NO_ROOM] = "no-vmas",
	[GUARD_EVENT_FAILED] = "failed",
};

static const char *event_name(uint32_t kind)
{
	return kind <= GUARD_EVENT_FAILED ? event_names[kind] : "?";
}

static uint32_t kept_events(const struct guard_state *s)
{
	uint32_t all = atomic_load(&s->events);

	return all < GUARD_EVENTS ? all : GUARD_EVENTS;
}

/* strerror() is not for signal handlers. */
static const char *module_words(int error)
{
	switch (error) {
	case ENOENT:
		return "not there";
	case EACCES:
	case EPERM:
		return "no permission";
	case EPROTO:
		return "it speaks another version";
	default:
		return "it cannot be opened";
	}
}

/* ------------------------------------------------------------------- text */

static void text_tally(struct guard_text *t, const char *what, const struct guard_tally *tally)
{
	if (!get(&tally->count))
		return;
	guard_text_str(t, "; ");
	guard_text_str(t, what);
	guard_text_str(t, " ");
	guard_text_u64(t, get(&tally->count));
}

static void text_head(struct guard_text *t, const struct guard_state *s)
{
	guard_text_str(t, "mrguard: report of ");
	guard_text_str(t, s->program);
	guard_text_str(t, " (");
	guard_text_int(t, s->pid);
	guard_text_str(t, "): at risk ");
	guard_text_str(t, guard_action_name(s->at_risk));
	guard_text_str(t, ", unknown ");
	guard_text_str(t, guard_action_name(s->unknown));
	guard_text_str(t, "; kernel's walk ");
	guard_text_str(t, mrg_walk_name(s->walk));
	if (s->module_error) {
		guard_text_str(t, "; without /dev/mrguard (");
		guard_text_str(t, module_words(-s->module_error));
		guard_text_str(t, "), so verdicts are conservative");
	}
	guard_text_str(t, "\n  ");
	guard_text_u64(t, made_count(s));
	guard_text_str(t, " registered (");
	guard_text_size(t, made_bytes(s));
	guard_text_str(t, "), ");
	guard_text_u64(t, get(&s->gone.count));
	guard_text_str(t, " deregistered");
	text_tally(t, "refused", &s->refused);
	text_tally(t, "let pass", &s->let_pass);
	text_tally(t, "refused for want of VMAs", &s->no_room);
	text_tally(t, "failed", &s->failed);
	guard_text_str(t, "\n");
}

static void text_kinds(struct guard_text *t, const struct guard_state *s)
{
	for (uint32_t p = 0; p < GUARD_PATHS; p++)
		for (uint32_t v = 0; v < GUARD_VERDICTS; v++) {
			if (!get(&s->made[p][v].count))
				continue;
			guard_text_str(t, "  ");
			guard_text_pad(t, guard_path_name(p), 16);
			guard_text_pad(t, mrg_verdict_name(v), 8);
			guard_text_u64(t, get(&s->made[p][v].count));
			guard_text_str(t, ", ");
			guard_text_size(t, get(&s->made[p][v].bytes));
			guard_text_str(t, "\n");
		}
}

static void text_course(struct guard_text *t, const struct guard_state *s)
{
	guard_text_str(t, "  fork protection: ");
	guard_text_str(t, fork_words(s));
	guard_text_str(t, "\n");
	if (!get(&s->vma_last))
		return;
	guard_text_str(t, "  VMAs: ");
	guard_text_u64(t, get(&s->vma_first));
	guard_text_str(t, " at first, ");
	guard_text_u64(t, get(&s->vma_last));
	guard_text_str(t, " now, ");
	guard_text_u64(t, get(&s->vma_peak));
	guard_text_str(t, " at most, of ");
	guard_text_u64(t, get(&s->vma_limit));
	guard_text_str(t, "\n");
}

static void text_event(struct guard_text *t, const struct guard_event *e)
{
	guard_text_str(t, "  ");
	guard_text_str(t, event_name(e->kind));
	guard_text_str(t, ": ");
	guard_text_str(t, guard_call_name(e->call));
	guard_text_str(t, " of ");
	guard_text_size(t, e->length);
	guard_text_str(t, e->fd >= 0 ? " at iova " : " at ");
	guard_text_hex(t, e->fd >= 0 ? e->iova : e->addr);
	if (e->error) {
		guard_text_str(t, ", errno ");
		guard_text_int(t, e->error);
	}
	guard_text_str(t, ". ");
	guard_text_str(t, e->cause);
	guard_text_str(t, " ");
	guard_text_str(t, e->remedy);
	if (atomic_load(&e->times) > 1) {
		guard_text_str(t, " (");
		guard_text_u64(t, atomic_load(&e->times));
		guard_text_str(t, " times)");
	}
	guard_text_str(t, "\n");
}

static void text_events(struct guard_text *t, const struct guard_state *s)
{
	uint32_t all = atomic_load(&s->events);

	for (uint32_t i = 0; i < kept_events(s); i++)
		if (atomic_load_explicit(&s->event[i].ready, memory_order_acquire))
			text_event(t, &s->event[i]);
	if (all <= GUARD_EVENTS)
		return;
	guard_text_str(t, "  and ");
	guard_text_u64(t, all - GUARD_EVENTS);
	guard_text_str(t, " more like these\n");
}

static void text_record(struct guard_text *t, const struct guard_record *r)
{
	bool dmabuf = r->path == GUARD_DMABUF;

	guard_text_str(t, "    ");
	guard_text_str(t, guard_call_name(r->call));
	guard_text_str(t, " of ");
	guard_text_size(t, r->length);
	guard_text_str(t, dmabuf ? " at iova " : " at ");
	guard_text_hex(t, dmabuf ? r->iova : r->addr);
	guard_text_str(t, ", ");
	guard_text_str(t, guard_path_name(r->path));
	guard_text_str(t, ", ");
	guard_text_str(t, mrg_verdict_name(r->verdict));
	guard_text_str(t, ": ");
	guard_text_str(t, guard_grounds_words(r->grounds));
	guard_text_str(t, "\n");
}

static void text_live(struct guard_text *t, const struct guard_state *s, enum guard_moment moment)
{
	uint64_t live = less(made_count(s), get(&s->gone.count)), shown = 0;
	struct guard_record record;

	if (!live)
		return;
	guard_text_str(t, "  ");
	guard_text_u64(t, live);
	guard_text_str(t, moment == GUARD_AT_END ? " never deregistered:\n" : " live now:\n");
	for (size_t i = 0; i < GUARD_RECORDS && shown < MRS_IN_TEXT; i++)
		if (guard_live(s, i, &record)) {
			text_record(t, &record);
			shown++;
		}
	if (live > shown) {
		guard_text_str(t, "    and ");
		guard_text_u64(t, live - shown);
		guard_text_str(t, " more\n");
	}
}

void guard_report_text(struct guard_text *t, const struct guard_state *s, enum guard_moment moment)
{
	text_head(t, s);
	text_kinds(t, s);
	text_course(t, s);
	text_events(t, s);
	text_live(t, s, moment);
	if (get(&s->unseen)) {
		guard_text_str(t, "  ");
		guard_text_u64(t, get(&s->unseen));
		guard_text_str(t, " look-ups in further copies of libibverbs were not guarded\n");
	}
}

/* ------------------------------------------------------------------- JSON */

static void json_tally(struct guard_text *t, const char *key, const struct guard_tally *tally)
{
	guard_text_open(t, key, '{');
	guard_text_json_u64(t, "count", get(&tally->count));
	guard_text_json_u64(t, "bytes", get(&tally->bytes));
	guard_text_close(t, '}');
}

static void json_kinds(struct guard_text *t, const struct guard_state *s)
{
	guard_text_open(t, "kinds", '[');
	for (uint32_t p = 0; p < GUARD_PATHS; p++)
		for (uint32_t v = 0; v < GUARD_VERDICTS; v++) {
			if (!get(&s->made[p][v].count))
				continue;
			guard_text_open(t, NULL, '{');
			guard_text_json_str(t, "path", guard_path_name(p));
			guard_text_json_str(t, "verdict", mrg_verdict_name(v));
			guard_text_json_u64(t, "count", get(&s->made[p][v].count));
			guard_text_json_u64(t, "bytes", get(&s->made[p][v].bytes));
			guard_text_close(t, '}');
		}
	guard_text_close(t, ']');
}

static void json_calls(struct guard_text *t, const struct guard_state *s)
{
	guard_text_open(t, "calls", '{');
	for (uint32_t i = 0; i < GUARD_CALLS; i++)
		guard_text_json_u64(t, guard_call_name(i), get(&s->calls[i]));
	guard_text_close(t, '}');
}

static void json_event(struct guard_text *t, const struct guard_event *e)
{
	guard_text_open(t, NULL, '{');
	guard_text_json_str(t, "what", event_name(e->kind));
	guard_text_json_str(t, "call", guard_call_name(e->call));
	guard_text_json_str(t, "verdict", mrg_verdict_name(e->verdict));
	guard_text_json_int(t, "errno", e->error);
	guard_text_json_int(t, "fd", e->fd);
	guard_text_json_hex(t, "addr", e->addr);
	guard_text_json_hex(t, "iova", e->iova);
	guard_text_json_hex(t, "length", e->length);
	guard_text_json_hex(t, "offset", e->offset);
	guard_text_json_u64(t, "times", atomic_load(&e->times));
	guard_text_json_u64(t, "ms", e->ns / 1000000);
	guard_text_json_str(t, "cause", e->cause);
	guard_text_json_str(t, "remedy", e->remedy);
	guard_text_close(t, '}');
}

static void json_events(struct guard_text *t, const struct guard_state *s)
{
	guard_text_open(t, "events", '[');
	for (uint32_t i = 0; i < kept_events(s); i++)
		if (atomic_load_explicit(&s->event[i].ready, memory_order_acquire))
			json_event(t, &s->event[i]);
	guard_text_close(t, ']');
	guard_text_json_u64(t, "events_all", atomic_load(&s->events));
}

static void json_record(struct guard_text *t, const struct guard_record *r)
{
	guard_text_open(t, NULL, '{');
	guard_text_json_u64(t, "number", r->number);
	guard_text_json_str(t, "call", guard_call_name(r->call));
	guard_text_json_str(t, "path", guard_path_name(r->path));
	guard_text_json_str(t, "verdict", mrg_verdict_name(r->verdict));
	guard_text_json_str(t, "reason", guard_grounds_words(r->grounds));
	guard_text_json_hex(t, "addr", r->addr);
	guard_text_json_hex(t, "iova", r->iova);
	guard_text_json_hex(t, "length", r->length);
	guard_text_json_hex(t, "offset", r->offset);
	guard_text_json_u64(t, "page_shift", r->page_shift);
	guard_text_json_hex(t, "lkey", r->lkey);
	guard_text_json_u64(t, "ms", r->ns / 1000000);
	guard_text_close(t, '}');
}

static void json_live(struct guard_text *t, const struct guard_state *s)
{
	struct guard_record record;

	guard_text_json_u64(t, "live", less(made_count(s), get(&s->gone.count)));
	guard_text_open(t, "mrs", '[');
	for (size_t i = 0; i < GUARD_RECORDS; i++)
		if (guard_live(s, i, &record))
			json_record(t, &record);
	guard_text_close(t, ']');
	guard_text_json_u64(t, "unlisted", get(&s->unlisted));
}

static void json_head(struct guard_text *t, const struct guard_state *s, enum guard_moment moment)
{
	static const char *const moments[] = { "end", "signal", "live" };

	guard_text_json_str(t, "schema", SCHEMA);
	guard_text_json_str(t, "moment", moments[moment]);
	guard_text_json_int(t, "pid", s->pid);
	guard_text_json_str(t, "program", s->program);
	guard_text_json_str(t, "at_risk", guard_action_name(s->at_risk));
	guard_text_json_str(t, "unknown", guard_action_name(s->unknown));
	guard_text_json_str(t, "walk", mrg_walk_name(s->walk));
	guard_text_json_int(t, "module_error", -s->module_error);
	guard_text_json_str(t, "fork", fork_name(s));
	guard_text_json_str(t, "fork_reason", fork_words(s));
}

static void json_vmas(struct guard_text *t, const struct guard_state *s)
{
	guard_text_open(t, "vmas", '{');
	guard_text_json_u64(t, "first", get(&s->vma_first));
	guard_text_json_u64(t, "last", get(&s->vma_last));
	guard_text_json_u64(t, "peak", get(&s->vma_peak));
	guard_text_json_u64(t, "limit", get(&s->vma_limit));
	guard_text_close(t, '}');
}

void guard_report_json(struct guard_text *t, const struct guard_state *s, enum guard_moment moment)
{
	guard_text_open(t, NULL, '{');
	json_head(t, s, moment);
	guard_text_json_u64(t, "registered", made_count(s));
	guard_text_json_u64(t, "bytes", made_bytes(s));
	guard_text_json_u64(t, "deregistered", get(&s->gone.count));
	json_tally(t, "refused", &s->refused);
	json_tally(t, "let_pass", &s->let_pass);
	json_tally(t, "no_vmas", &s->no_room);
	json_tally(t, "failed", &s->failed);
	json_kinds(t, s);
	json_calls(t, s);
	json_vmas(t, s);
	json_events(t, s);
	json_live(t, s);
	guard_text_json_u64(t, "unseen", get(&s->unseen));
	guard_text_close(t, '}');
	guard_text_str(t, "\n");
}
