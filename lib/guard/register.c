/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "guard/event.h"
#include "guard/judge.h"
#include "guard/message.h"
#include "guard/mr_table.h"
#include "guard/names.h"
#include "guard/real.h"
#include "guard/register.h"

/* Marking a range in the middle of a VMA makes three of one. */
#define VMAS_PER_MARK 2

static const char risk_remedy[] =
	"Register pieces that end at multiples of 2 GiB of the iova, or use mrg_reg_dmabuf(), or choose an iova that differs from the DMA address in bit 31, or run a kernel with commit 15fe76e23615.";
static const char bare_remedy[] =
	"The guard could not start, and tries again at the next registration; give the process memory and file descriptors.";
static const char unknown_remedy[] =
	"Load mrguard.ko and mrguard_walk.ko and let the process open /dev/mrguard, or register ranges that cross no multiple of 2 GiB of their iova.";

static const char cap_remedy[] =
	" Or let root cap the pages of all programs: mrguard cap on, see mrguard-cap(8).";

/* libibverbs calls itself: ibv_reg_mr() calls ibv_reg_mr_iova2() with the same range. */
static bool is_inner(const struct guard_request *req)
{
	const struct guard_request *outer = guard_thread.current;

	return outer && outer->pd == req->pd && outer->length == req->length &&
	       outer->fd == req->fd && outer->addr == req->addr && outer->offset == req->offset;
}

static struct ibv_mr *call_inner(const struct guard_request *req)
{
	struct guard_request same = *req;

	same.lib = guard_thread.current->lib;
	return guard_real_register(&same);
}

/* A signal handler may interrupt an outer call, so that one is restored. */
static struct ibv_mr *call_outer(const struct guard_request *req, int entry_errno)
{
	const struct guard_request *outer = guard_thread.current;
	struct ibv_mr *mr;

	guard_thread.current = req;
	errno = entry_errno;
	mr = guard_real_register(req);
	guard_thread.current = outer;
	return mr;
}

static struct guard_event *note_event(struct guard_process *p, enum guard_event_kind kind,
				      const struct guard_request *req, enum mrg_verdict verdict,
				      int error)
{
	return guard_event_note(p->state, kind, req, verdict, error, guard_process_now(p));
}

static const char *cause_of(const struct guard_finding *finding)
{
	return finding->reason[0] ? finding->reason : guard_grounds_sentence(finding->grounds);
}

static bool is_risk(enum mrg_verdict verdict)
{
	return verdict == MRG_WRAPS || verdict == MRG_HANGS;
}

static enum guard_action action_for(const struct guard_process *p, enum mrg_verdict verdict)
{
	if (is_risk(verdict))
		return p->policy.at_risk;
	return verdict == MRG_VERDICT_UNKNOWN ? p->policy.unknown : GUARD_OBSERVE;
}

/* An engine can make thousands alike: each refusal has a line, but of those that
 * are unknown and allowed only the first. */
static bool first_allowed(const struct guard_process *p)
{
	return atomic_load(&p->state->allowed.count) == 1;
}

/* Whether the policy allows it. */
static bool permit(struct guard_process *p, const struct guard_request *req,
		   const struct guard_finding *finding)
{
	enum guard_action action = action_for(p, finding->verdict);
	bool risk = is_risk(finding->verdict), refuse = action == GUARD_REFUSE;
	char remedy[sizeof(((struct guard_event *)NULL)->remedy)];

	if (p->policy.at_risk == GUARD_OBSERVE)
		guard_message_finding(p, "Observed", req, finding, "");
	if (!risk && finding->verdict != MRG_VERDICT_UNKNOWN)
		return true;
	snprintf(remedy, sizeof(remedy), "%s%s", risk ? risk_remedy : unknown_remedy,
		 finding->cap_would_help ? cap_remedy : "");
	guard_count(refuse ? &p->state->refused : &p->state->allowed, req->length);
	guard_event_explain(note_event(p, refuse ? GUARD_EVENT_REFUSED : GUARD_EVENT_ALLOWED, req,
				       finding->verdict, refuse ? EOPNOTSUPP : 0),
			    cause_of(finding), remedy);
	if (refuse)
		guard_message_finding(p, "Refused", req, finding, remedy);
	else if (action == GUARD_ALLOW && (risk || first_allowed(p)))
		guard_message_finding(p, "Allowed", req, finding, remedy);
	return !refuse;
}

static void note_vmas(struct guard_process *p)
{
	uint64_t count = p->room.count + p->room.charge;
	struct guard_state *s = p->state;

	if (!p->room.count)
		return;
	if (!atomic_load_explicit(&s->vma_first, memory_order_relaxed))
		atomic_store_explicit(&s->vma_first, count, memory_order_relaxed);
	atomic_store_explicit(&s->vma_last, count, memory_order_relaxed);
	if (count > atomic_load_explicit(&s->vma_peak, memory_order_relaxed))
		atomic_store_explicit(&s->vma_peak, count, memory_order_relaxed);
	atomic_store_explicit(&s->vma_limit, p->room.limit, memory_order_relaxed);
}

static bool marks_pages(const struct guard_process *p, const struct guard_request *req)
{
	return req->fd < 0 && !(req->access & IBV_ACCESS_ON_DEMAND) &&
	       atomic_load_explicit(&p->state->fork, memory_order_relaxed) == GUARD_FORK_PASSED_ON;
}

/* At the limit one madvise that fails makes libibverbs' fork counts wrong for
 * good, and other calls fail without a word about VMAs. */
static bool has_room(struct guard_process *p, const struct guard_request *req)
{
	bool refuse = p->policy.at_risk == GUARD_REFUSE;
	struct mrg_error error;
	int ret, cancel;

	if (!guard_enter(&cancel))
		return true;
	ret = region_headroom_check(&p->room, marks_pages(p, req) ? VMAS_PER_MARK : 0, &error);
	note_vmas(p);
	guard_leave(cancel);
	if (!ret)
		return true;
	guard_count(&p->state->no_vmas, req->length);
	guard_event_explain(note_event(p, GUARD_EVENT_NO_VMAS, req, MRG_VERDICT_UNKNOWN,
				       refuse ? ENOMEM : 0),
			    error.cause, error.remedy);
	guard_message(p, "%s %s. %s %s", refuse ? "Refused" : "Allowed", guard_call_name(req->call),
		      error.cause, error.remedy);
	return !refuse;
}

/* Judges, and applies the policy.  Sets errno where it returns false. */
static bool allowed(struct guard_process *p, const struct guard_request *req,
		    struct guard_finding *finding)
{
	guard_judge(p, req, finding);
	if (!permit(p, req, finding)) {
		errno = EOPNOTSUPP;
		return false;
	}
	if (!has_room(p, req)) {
		errno = ENOMEM;
		return false;
	}
	return true;
}

/*
 * The guard could not be made yet: memory or descriptors are short, or this is a
 * signal handler that came while it was made.  Nothing is counted.
 */
static bool allowed_bare(const struct guard_request *req)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct guard_finding finding;
	struct guard_process p;

	guard_judge_bare(req, &finding);
	if (finding.verdict != MRG_VERDICT_UNKNOWN)
		return true;
	guard_process_bare(&p);
	if (p.policy.unknown == GUARD_REFUSE)
		guard_message_finding(&p, "Refused", req, &finding, bare_remedy);
	else if (!atomic_flag_test_and_set(&said))
		guard_message_finding(&p, "Allowed", req, &finding, bare_remedy);
	errno = EOPNOTSUPP;
	return p.policy.unknown != GUARD_REFUSE;
}

static void fill_record(struct guard_process *p, const struct guard_request *req,
			const struct guard_finding *finding, const struct ibv_mr *mr,
			struct guard_record *record)
{
	static atomic_uint number;

	*record = (struct guard_record){
		.addr = req->fd < 0 ? req->addr : 0,
		.iova = req->iova,
		.length = req->length,
		.offset = req->offset,
		.ns = guard_process_now(p),
		.number = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1,
		.lkey = mr->lkey,
		.call = (uint8_t)req->call,
		.path = (uint8_t)finding->path,
		.verdict = (uint8_t)finding->verdict,
		.grounds = (uint8_t)finding->grounds,
		.page_shift = (uint8_t)finding->page_shift,
	};
}

static void note_made(struct guard_process *p, const struct guard_request *req,
		      const struct guard_finding *finding, const struct ibv_mr *mr)
{
	struct guard_record record;

	fill_record(p, req, finding, mr, &record);
	guard_count(&p->state->made[finding->path][finding->verdict], req->length);
	if (!guard_mr_add(p->state, mr, &record))
		atomic_fetch_add(&p->state->unlisted, 1);
}

static void note_failed(struct guard_process *p, const struct guard_request *req,
			const struct guard_finding *finding, int error)
{
	struct guard_event *event = note_event(p, GUARD_EVENT_FAILED, req, finding->verdict, error);
	struct mrg_error why;

	guard_count(&p->state->failed, req->length);
	/* An explanation reads /proc and takes a millisecond: once an event. */
	if (!event)
		return;
	guard_explain(p, req, error, &why);
	guard_event_explain(event, why.cause, why.remedy);
}

static void count_call(struct guard_process *p, const struct guard_request *req)
{
	atomic_fetch_add_explicit(&p->state->calls[req->call], 1, memory_order_relaxed);
}

/*
 * Calls verbs where the policy allows it; false and errno where it does not.  An
 * MR that counts on the cap is taken back if the effect ended meanwhile: it may
 * have large pages.
 */
static bool register_allowed(struct guard_process *p, const struct guard_request *req,
			     int entry_errno, struct guard_finding *finding, struct ibv_mr **mr)
{
	guard_dereg_mr_fn *dereg;
	int error;

	while (allowed(p, req, finding)) {
		*mr = call_outer(req, entry_errno);
		if (!*mr || finding->grounds != GUARD_CAPPED)
			return true;
		error = errno;
		if (guard_judge_cap(p, req)) {
			errno = error;
			return true;
		}
		dereg = guard_real(req->lib, GUARD_DEREG_MR);
		if (dereg)
			dereg(*mr);
	}
	return false;
}

struct ibv_mr *guard_register(const struct guard_request *req)
{
	int entry_errno = errno, error;
	struct guard_finding finding;
	struct guard_process *p;
	struct ibv_mr *mr;

	if (is_inner(req))
		return call_inner(req);
	p = guard_process_start();
	if (!p)
		return allowed_bare(req) ? call_outer(req, entry_errno) : NULL;
	count_call(p, req);
	if (!register_allowed(p, req, entry_errno, &finding, &mr))
		return NULL;
	error = errno;
	if (mr)
		note_made(p, req, &finding, mr);
	else
		note_failed(p, req, &finding, error);
	errno = error;
	return mr;
}

bool guard_rereg_allowed(const struct guard_request *req)
{
	struct guard_process *p = guard_process_start();
	int entry_errno = errno;
	struct guard_finding finding;

	if (p)
		count_call(p, req);
	if (p ? !allowed(p, req, &finding) : !allowed_bare(req))
		return false;
	errno = entry_errno;
	return true;
}

void guard_rereg_done(const struct guard_request *req, struct ibv_mr *mr)
{
	struct guard_process *p = guard_process_ready();
	struct guard_record *record = p ? guard_mr_find(p->state, mr) : NULL;
	struct guard_finding finding;

	if (!record)
		return;
	guard_judge(p, req, &finding);
	record->addr = req->addr;
	record->iova = req->iova;
	record->length = req->length;
	record->lkey = mr->lkey;
	record->verdict = (uint8_t)finding.verdict;
	record->grounds = (uint8_t)finding.grounds;
	record->path = (uint8_t)finding.path;
}

void guard_dereg_begin(struct ibv_mr *mr, struct guard_dereg *dereg)
{
	struct guard_process *p = guard_process_ready();

	dereg->counted = p != NULL;
	dereg->place = p ? guard_mr_remove(p->state, mr, &dereg->record) : -1;
}

void guard_dereg_end(struct ibv_mr *mr, const struct guard_dereg *dereg, int result)
{
	struct guard_process *p = guard_process_ready();

	if (!p || !dereg->counted)
		return;
	if (result) {
		if (dereg->place >= 0)
			guard_mr_restore(p->state, mr, dereg->place);
		return;
	}
	/* One that is not listed was made before the guard, or found no place. */
	if (dereg->place < 0 && !atomic_load(&p->state->unlisted))
		return;
	guard_count(&p->state->deregistered, dereg->place >= 0 ? dereg->record.length : 0);
}

bool guard_fork_wanted(void)
{
	int entry_errno = errno;
	struct guard_process *p = guard_process_start();
	bool wanted = true;

	if (p) {
		wanted = p->state->kernel_copies != MRG_KERNEL_COPIES ||
			 p->policy.at_risk == GUARD_OBSERVE;
		atomic_store(&p->state->fork, wanted ? GUARD_FORK_PASSED_ON : GUARD_FORK_SKIPPED);
	}
	errno = entry_errno;
	return wanted;
}
