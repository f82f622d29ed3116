/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "guard/mr_table.h"
#include "guard/names.h"
#include "guard/report.h"

#define SCHEMA "mrguard.run/2"
#define MRS_IN_TEXT 16u /* JSON has all of them */

static uint64_t get(const _Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static struct guard_size bytes_of(const struct guard_tally *tally)
{
	return guard_size(get(&tally->bytes));
}

static struct guard_tally made(const struct guard_state *s)
{
	struct guard_tally sum = { 0 };

	for (size_t p = 0; p < GUARD_PATHS; p++)
		for (size_t v = 0; v < GUARD_VERDICTS; v++) {
			sum.count += get(&s->made[p][v].count);
			sum.bytes += get(&s->made[p][v].bytes);
		}
	return sum;
}

/* The process may run: the two counts are not from one moment. */
static uint64_t live_count(const struct guard_state *s, uint64_t made_count)
{
	uint64_t ended = get(&s->deregistered.count);

	return made_count > ended ? made_count - ended : 0;
}

static const char *fork_sentence(const struct guard_state *s)
{
	static const char *const sentences[][2] = {
		[GUARD_FORK_NOT_ASKED] = {
			"The program did not ask for fork protection, and the kernel does not copy pinned pages, or does not say so.",
			"The program did not ask for fork protection and needs none: the kernel copies pinned pages.",
		},
		[GUARD_FORK_SKIPPED] = {
			"The program asked for fork protection, and the guard skipped it.",
			"The program asked for fork protection, and the guard skipped it: the kernel copies pinned pages.",
		},
		[GUARD_FORK_PASSED_ON] = {
			"The program asked for fork protection and has it: the kernel does not copy pinned pages, or does not say so.",
			"The program asked for fork protection and has it.",
		},
	};
	uint32_t fork = atomic_load(&s->fork);

	return fork > GUARD_FORK_PASSED_ON ? "?" :
					     sentences[fork][s->kernel_copies == MRG_KERNEL_COPIES];
}

/* The state may be another process's: no number of it is trusted. */
static int module_errno(const struct guard_state *s)
{
	return s->module_error < 0 && s->module_error > -4096 ? -s->module_error : 0;
}

static uint32_t kept_events(const struct guard_state *s)
{
	uint32_t all = atomic_load(&s->events);

	return all < GUARD_EVENTS ? all : GUARD_EVENTS;
}

static const struct guard_event *event_at(const struct guard_state *s, uint32_t i)
{
	const struct guard_event *e = &s->event[i];

	return atomic_load_explicit(&e->ready, memory_order_acquire) ? e : NULL;
}

/* Both forms of the report go through these. */
static const struct {
	const char *key;
	const char *text;
	size_t at;
} tallies[] = {
	{ "refused", "refused", offsetof(struct guard_state, refused) },
	{ "allowed", "allowed at risk or unknown", offsetof(struct guard_state, allowed) },
	{ "no_vmas", "short of VMAs", offsetof(struct guard_state, no_vmas) },
	{ "failed", "failed", offsetof(struct guard_state, failed) },
};
#define TALLIES (sizeof(tallies) / sizeof(tallies[0]))

static const struct guard_tally *tally_at(const struct guard_state *s, size_t i)
{
	return (const void *)((const char *)s + tallies[i].at);
}

/* ------------------------------------------------------------------- text */

/* strerror() is not for signal handlers. */
static const char *module_words(int error)
{
	switch (error) {
	case ENOENT:
		return "it does not exist";
	case EACCES:
	case EPERM:
		return "the process may not open it";
	case EPROTO:
		return "the module has another version of its interface";
	default:
		return "it cannot be opened";
	}
}

static void text_head(struct guard_sigsafe *t, const struct guard_state *s)
{
	guard_sigsafe_print(
		t,
		"mrguard: Report of %s (process %d).\n  Policy: at risk %s, unknown %s. Kernel's walk: %s.\n",
		s->program, s->pid, guard_action_name(s->at_risk), guard_action_name(s->unknown),
		mrg_walk_name(s->walk));
	if (s->module_error)
		guard_sigsafe_print(
			t, "  Verdicts are conservative without /dev/mrguard: %s (errno %d).\n",
			module_words(module_errno(s)), module_errno(s));
}

static void text_tallies(struct guard_sigsafe *t, const struct guard_state *s)
{
	const struct guard_tally sum = made(s);

	guard_sigsafe_print(t, "  %" PRIu64 " registered (%s), %" PRIu64 " deregistered",
			    get(&sum.count), bytes_of(&sum).text, get(&s->deregistered.count));
	for (size_t i = 0; i < TALLIES; i++) {
		uint64_t count = get(&tally_at(s, i)->count);

		if (count)
			guard_sigsafe_print(t, ", %" PRIu64 " %s", count, tallies[i].text);
	}
	guard_sigsafe_print(t, ".\n");
}

static void text_kinds(struct guard_sigsafe *t, const struct guard_state *s)
{
	for (uint32_t p = 0; p < GUARD_PATHS; p++)
		for (uint32_t v = 0; v < GUARD_VERDICTS; v++) {
			const struct guard_tally *kind = &s->made[p][v];

			if (get(&kind->count))
				guard_sigsafe_print(t, "  %-16s%-8s%" PRIu64 ", %s\n",
						    guard_path_name(p), mrg_verdict_name(v),
						    get(&kind->count), bytes_of(kind).text);
		}
}

static void text_vmas(struct guard_sigsafe *t, const struct guard_state *s)
{
	if (get(&s->vma_last))
		guard_sigsafe_print(t,
				    "  VMAs: %" PRIu64 " at first, %" PRIu64 " now, %" PRIu64
				    " at most; the limit is %" PRIu64 ".\n",
				    get(&s->vma_first), get(&s->vma_last), get(&s->vma_peak),
				    get(&s->vma_limit));
}

static void text_event(struct guard_sigsafe *t, const struct guard_event *e)
{
	uint32_t times = atomic_load(&e->times);

	guard_sigsafe_print(t, "  %s: %s of %s at %s%#" PRIx64, guard_event_name(e->kind),
			    guard_call_name(e->call), guard_size(e->length).text,
			    e->fd >= 0 ? "iova " : "", e->fd >= 0 ? e->iova : e->addr);
	if (e->error)
		guard_sigsafe_print(t, ", errno %d", e->error);
	if (times > 1)
		guard_sigsafe_print(t, ", %u times", times);
	guard_sigsafe_print(t, ". %s %s\n", e->cause, e->remedy);
}

static void text_events(struct guard_sigsafe *t, const struct guard_state *s)
{
	uint32_t all = atomic_load(&s->events);

	for (uint32_t i = 0; i < kept_events(s); i++)
		if (event_at(s, i))
			text_event(t, &s->event[i]);
	if (all > GUARD_EVENTS)
		guard_sigsafe_print(t, "  %u more of these are not shown.\n", all - GUARD_EVENTS);
}

static void text_record(struct guard_sigsafe *t, const struct guard_record *r)
{
	bool dmabuf = r->path == GUARD_DMABUF;

	guard_sigsafe_print(t, "    %s of %s at %s%#" PRIx64 " (%s): %s. %s\n",
			    guard_call_name(r->call), guard_size(r->length).text,
			    dmabuf ? "iova " : "", dmabuf ? r->iova : r->addr,
			    guard_path_name(r->path), mrg_verdict_name(r->verdict),
			    guard_grounds_sentence(r->grounds));
}

static void text_live(struct guard_sigsafe *t, const struct guard_state *s,
		      enum guard_moment moment)
{
	const struct guard_tally sum = made(s);
	uint64_t live = live_count(s, get(&sum.count)), shown = 0;
	struct guard_record record;

	if (!live)
		return;
	guard_sigsafe_print(t, "  %" PRIu64 "%s:\n", live,
			    moment == GUARD_AT_END ? " never deregistered" : " live now");
	for (size_t i = 0; i < GUARD_RECORDS && shown < MRS_IN_TEXT; i++)
		if (guard_mr_at(s, i, &record)) {
			text_record(t, &record);
			shown++;
		}
	if (live > shown)
		guard_sigsafe_print(t, "    %" PRIu64 " more are not shown.\n", live - shown);
}

static void text_report(struct guard_sigsafe *t, const struct guard_state *s,
			enum guard_moment moment)
{
	text_head(t, s);
	text_tallies(t, s);
	text_kinds(t, s);
	guard_sigsafe_print(t, "  %s\n", fork_sentence(s));
	text_vmas(t, s);
	text_events(t, s);
	text_live(t, s, moment);
	if (get(&s->unguarded))
		guard_sigsafe_print(t,
				    "  %" PRIu64
				    " look-ups in further copies of libibverbs were not guarded.\n",
				    get(&s->unguarded));
}

/* ------------------------------------------------------------------- JSON */

/* The rest of an object. */
static void json_tally(struct guard_sigsafe *t, const struct guard_tally *tally)
{
	guard_sigsafe_json_u64(t, "count", get(&tally->count));
	guard_sigsafe_json_u64(t, "bytes", get(&tally->bytes));
	guard_sigsafe_close(t, '}');
}

static void json_kinds(struct guard_sigsafe *t, const struct guard_state *s)
{
	guard_sigsafe_open(t, "kinds", '[');
	for (uint32_t p = 0; p < GUARD_PATHS; p++)
		for (uint32_t v = 0; v < GUARD_VERDICTS; v++) {
			if (!get(&s->made[p][v].count))
				continue;
			guard_sigsafe_open(t, NULL, '{');
			guard_sigsafe_json_str(t, "path", guard_path_name(p));
			guard_sigsafe_json_str(t, "verdict", mrg_verdict_name(v));
			json_tally(t, &s->made[p][v]);
		}
	guard_sigsafe_close(t, ']');
}

static void json_calls(struct guard_sigsafe *t, const struct guard_state *s)
{
	guard_sigsafe_open(t, "calls", '{');
	for (uint32_t i = 0; i < GUARD_REGISTRATIONS; i++)
		guard_sigsafe_json_u64(t, guard_call_name(i), get(&s->calls[i]));
	guard_sigsafe_close(t, '}');
}

/* What an event and an MR have in common. */
#define JSON_RANGE(t, object)                                          \
	do {                                                           \
		guard_sigsafe_json_hex(t, "addr", (object)->addr);     \
		guard_sigsafe_json_hex(t, "iova", (object)->iova);     \
		guard_sigsafe_json_hex(t, "length", (object)->length); \
		guard_sigsafe_json_hex(t, "offset", (object)->offset); \
	} while (0)

static void json_event(struct guard_sigsafe *t, const struct guard_event *e)
{
	guard_sigsafe_open(t, NULL, '{');
	guard_sigsafe_json_str(t, "what", guard_event_name(e->kind));
	guard_sigsafe_json_str(t, "call", guard_call_name(e->call));
	guard_sigsafe_json_str(t, "verdict", mrg_verdict_name(e->verdict));
	guard_sigsafe_json_int(t, "errno", e->error);
	guard_sigsafe_json_int(t, "fd", e->fd);
	JSON_RANGE(t, e);
	guard_sigsafe_json_u64(t, "times", atomic_load(&e->times));
	guard_sigsafe_json_u64(t, "ms", e->ns / 1000000);
	guard_sigsafe_json_str(t, "cause", e->cause);
	guard_sigsafe_json_str(t, "remedy", e->remedy);
	guard_sigsafe_close(t, '}');
}

static void json_events(struct guard_sigsafe *t, const struct guard_state *s)
{
	guard_sigsafe_open(t, "events", '[');
	for (uint32_t i = 0; i < kept_events(s); i++)
		if (event_at(s, i))
			json_event(t, &s->event[i]);
	guard_sigsafe_close(t, ']');
	guard_sigsafe_json_u64(t, "events_all", atomic_load(&s->events));
}

static void json_record(struct guard_sigsafe *t, const struct guard_record *r)
{
	guard_sigsafe_open(t, NULL, '{');
	guard_sigsafe_json_u64(t, "number", r->number);
	guard_sigsafe_json_str(t, "call", guard_call_name(r->call));
	guard_sigsafe_json_str(t, "path", guard_path_name(r->path));
	guard_sigsafe_json_str(t, "verdict", mrg_verdict_name(r->verdict));
	guard_sigsafe_json_str(t, "reason", guard_grounds_sentence(r->grounds));
	JSON_RANGE(t, r);
	guard_sigsafe_json_u64(t, "page_shift", r->page_shift);
	guard_sigsafe_json_hex(t, "lkey", r->lkey);
	guard_sigsafe_json_u64(t, "ms", r->ns / 1000000);
	guard_sigsafe_close(t, '}');
}

static void json_mrs(struct guard_sigsafe *t, const struct guard_state *s)
{
	struct guard_record record;

	guard_sigsafe_open(t, "mrs", '[');
	for (size_t i = 0; i < GUARD_RECORDS; i++)
		if (guard_mr_at(s, i, &record))
			json_record(t, &record);
	guard_sigsafe_close(t, ']');
	guard_sigsafe_json_u64(t, "unlisted", get(&s->unlisted));
}

static void json_vmas(struct guard_sigsafe *t, const struct guard_state *s)
{
	guard_sigsafe_open(t, "vmas", '{');
	guard_sigsafe_json_u64(t, "first", get(&s->vma_first));
	guard_sigsafe_json_u64(t, "last", get(&s->vma_last));
	guard_sigsafe_json_u64(t, "peak", get(&s->vma_peak));
	guard_sigsafe_json_u64(t, "limit", get(&s->vma_limit));
	guard_sigsafe_close(t, '}');
}

static void json_head(struct guard_sigsafe *t, const struct guard_state *s,
		      enum guard_moment moment)
{
	static const char *const moments[] = { "end", "signal", "live" };

	guard_sigsafe_json_str(t, "schema", SCHEMA);
	guard_sigsafe_json_str(t, "moment", moments[moment]);
	guard_sigsafe_json_int(t, "pid", s->pid);
	guard_sigsafe_json_str(t, "program", s->program);
	guard_sigsafe_json_str(t, "at_risk", guard_action_name(s->at_risk));
	guard_sigsafe_json_str(t, "unknown", guard_action_name(s->unknown));
	guard_sigsafe_json_str(t, "walk", mrg_walk_name(s->walk));
	guard_sigsafe_json_int(t, "module_error", module_errno(s));
	guard_sigsafe_json_str(t, "fork", guard_fork_name(atomic_load(&s->fork)));
	guard_sigsafe_json_str(t, "fork_reason", fork_sentence(s));
}

static void json_report(struct guard_sigsafe *t, const struct guard_state *s,
			enum guard_moment moment)
{
	const struct guard_tally sum = made(s);

	guard_sigsafe_open(t, NULL, '{');
	json_head(t, s, moment);
	guard_sigsafe_json_u64(t, "registered", get(&sum.count));
	guard_sigsafe_json_u64(t, "bytes", get(&sum.bytes));
	guard_sigsafe_json_u64(t, "deregistered", get(&s->deregistered.count));
	for (size_t i = 0; i < TALLIES; i++) {
		guard_sigsafe_open(t, tallies[i].key, '{');
		json_tally(t, tally_at(s, i));
	}
	json_kinds(t, s);
	json_calls(t, s);
	json_vmas(t, s);
	json_events(t, s);
	guard_sigsafe_json_u64(t, "live", live_count(s, get(&sum.count)));
	json_mrs(t, s);
	guard_sigsafe_json_u64(t, "unguarded", get(&s->unguarded));
	guard_sigsafe_close(t, '}');
	guard_sigsafe_print(t, "\n");
}

void guard_report(struct guard_sigsafe *t, const struct guard_state *s, enum guard_moment moment,
		  bool json)
{
	if (json)
		json_report(t, s, moment);
	else
		text_report(t, s, moment);
}
