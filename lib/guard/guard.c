/* SPDX-License-Identifier: MIT */
/* What the guard does around a registration. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "region/fork_state.h"

#include "guard/entry.h"
#include "guard/output.h"
#include "guard/report.h"

/* Marking a range in the middle of a VMA makes three of one. */
#define VMAS_PER_MARK 2

static const char risk_remedy[] =
	"Register pieces that end at multiples of 2 GiB of the iova, or through mrg_reg_dmabuf(); or take an iova that differs from the DMA address in bit 31; or a kernel with commit 15fe76e23615.";
static const char unknown_remedy[] =
	"Load mrguard.ko and mrguard_walk.ko and give the process /dev/mrguard, so that it can be told; or keep each registration within 2 GiB.";

/* libibverbs calls itself: ibv_reg_mr() is ibv_reg_mr_iova2() of the same. */
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
	return guard_call_real(&same);
}

/* A signal handler that registers memory comes back to what it interrupted. */
static struct ibv_mr *call_outer(const struct guard_request *req, int entry_errno)
{
	const struct guard_request *outer = guard_thread.current;
	struct ibv_mr *mr;

	guard_thread.current = req;
	errno = entry_errno;
	mr = guard_call_real(req);
	guard_thread.current = outer;
	return mr;
}

/* What happened, and to what. */
static bool same_event(const struct guard_event *a, const struct guard_event *b)
{
	return a->kind == b->kind && a->call == b->call && a->error == b->error && a->fd == b->fd &&
	       a->addr == b->addr && a->iova == b->iova && a->length == b->length &&
	       a->offset == b->offset;
}

/* Programs that ask again for ever (UCX after EAGAIN) are one line. */
static bool seen_before(struct guard_state *s, const struct guard_event *event)
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

/* NULL where it is known already, or where the report is full. */
static struct guard_event *new_event(struct guard_process *p, enum guard_event_kind kind,
				     const struct guard_request *req, enum mrg_verdict verdict,
				     int error)
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
		.ns = guard_now(p),
	};
	uint32_t i;

	if (seen_before(p->state, &event))
		return NULL;
	i = atomic_fetch_add(&p->state->events, 1);
	if (i >= GUARD_EVENTS)
		return NULL;
	/* It is not ready: nobody looks at it yet. */
	memcpy((void *)&p->state->event[i], &event, offsetof(struct guard_event, cause));
	return &p->state->event[i];
}

static void close_event(struct guard_event *e, const char *cause, const char *remedy)
{
	if (!e)
		return;
	snprintf(e->cause, sizeof(e->cause), "%s", cause);
	snprintf(e->remedy, sizeof(e->remedy), "%s", remedy);
	atomic_store_explicit(&e->ready, 1, memory_order_release);
}

static const char *cause_of(const struct guard_finding *finding)
{
	return finding->reason[0] ? finding->reason : guard_grounds_words(finding->grounds);
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

/* One line for each that is refused, and for the first of a kind that passes:
 * an engine can make thousands alike. */
static bool first_of_its_kind(struct guard_process *p)
{
	return atomic_load(&p->state->let_pass.count) == 1;
}

/* Whether the policy lets it be made. */
static bool permit(struct guard_process *p, const struct guard_request *req,
		   const struct guard_finding *finding)
{
	enum guard_action action = action_for(p, finding->verdict);
	bool risk = is_risk(finding->verdict);
	const char *remedy = risk ? risk_remedy : unknown_remedy;

	if (p->policy.at_risk == GUARD_OBSERVE)
		guard_output_finding(p, req, finding, "", "");
	if (!risk && finding->verdict != MRG_VERDICT_UNKNOWN)
		return true;
	if (action == GUARD_REFUSE) {
		guard_count(&p->state->refused, req->length);
		close_event(new_event(p, GUARD_EVENT_REFUSED, req, finding->verdict, EOPNOTSUPP),
			    cause_of(finding), remedy);
		guard_output_finding(p, req, finding, "refused", remedy);
		return false;
	}
	guard_count(&p->state->let_pass, req->length);
	close_event(new_event(p, GUARD_EVENT_LET_PASS, req, finding->verdict, 0), cause_of(finding),
		    remedy);
	if (action == GUARD_ALLOW && (risk || first_of_its_kind(p)))
		guard_output_finding(p, req, finding, "let pass", remedy);
	return true;
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

/* At the limit one madvise that fails leaves libibverbs' fork counts wrong for
 * good, and other calls fail that say nothing of VMAs. */
static bool has_room(struct guard_process *p, const struct guard_request *req)
{
	struct mrg_error error;
	int ret, cancel;

	if (!guard_enter(&cancel))
		return true;
	ret = region_headroom_check(&p->room, marks_pages(p, req) ? VMAS_PER_MARK : 0, &error);
	note_vmas(p);
	guard_leave(cancel);
	if (!ret)
		return true;
	guard_count(&p->state->no_room, req->length);
	close_event(new_event(p, GUARD_EVENT_NO_ROOM, req, MRG_VERDICT_UNKNOWN,
			      p->policy.at_risk == GUARD_REFUSE ? ENOMEM : 0),
		    error.cause, error.remedy);
	guard_output_line(p, "mrguard: ",
			  p->policy.at_risk == GUARD_REFUSE ? "refused " : "close to its end: ",
			  guard_call_name(req->call), ". ", error.cause, " ", error.remedy, NULL);
	return p->policy.at_risk != GUARD_REFUSE;
}

/* Judged, and the policy asked.  False with errno set. */
static bool allowed(struct guard_process *p, const struct guard_request *req,
		    struct guard_finding *finding)
{
	atomic_fetch_add_explicit(&p->state->calls[req->call], 1, memory_order_relaxed);
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
		.ns = guard_now(p),
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
	if (!guard_put(p->state, mr, &record))
		atomic_fetch_add(&p->state->unlisted, 1);
}

static void note_failed(struct guard_process *p, const struct guard_request *req,
			const struct guard_finding *finding, int error)
{
	struct guard_event *e = new_event(p, GUARD_EVENT_FAILED, req, finding->verdict, error);
	struct mrg_error why;

	guard_count(&p->state->failed, req->length);
	/* What is explained is read from /proc, and takes a millisecond. */
	if (!e)
		return;
	guard_explain(p, req, error, &why);
	close_event(
		e,
		why.cause[0] ?
			why.cause :
			"Not explained: it came while the guard was at work in this thread, or there was no memory.",
		why.remedy);
}

struct ibv_mr *guard_register(const struct guard_request *req)
{
	int entry_errno = errno, error;
	struct guard_finding finding;
	struct guard_process *p;
	struct ibv_mr *mr;

	if (is_inner(req))
		return call_inner(req);
	p = guard_process();
	if (!p) {
		errno = entry_errno;
		return guard_call_real(req);
	}
	if (!allowed(p, req, &finding))
		return NULL;
	mr = call_outer(req, entry_errno);
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
	struct guard_process *p = guard_process();
	int entry_errno = errno;
	struct guard_finding finding;

	if (p && !allowed(p, req, &finding))
		return false;
	errno = entry_errno;
	return true;
}

/* The MR stays one, with another range. */
void guard_rereg_done(const struct guard_request *req, struct ibv_mr *mr)
{
	struct guard_process *p = guard_process_ready();
	struct guard_record *record = p ? guard_find(p->state, mr) : NULL;
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

void guard_dereg_begin(struct ibv_mr *mr, struct guard_leave *leave)
{
	struct guard_process *p = guard_process_ready();

	leave->counted = p != NULL;
	leave->place = p ? guard_take(p->state, mr, &leave->record) : -1;
}

void guard_dereg_end(struct ibv_mr *mr, const struct guard_leave *leave, int result)
{
	struct guard_process *p = guard_process_ready();

	if (!p || !leave->counted)
		return;
	if (result) {
		if (leave->place >= 0)
			guard_put_back(p->state, mr, leave->place);
		return;
	}
	/* One that is in no list was made before the guard, or found no place. */
	if (leave->place < 0 && !atomic_load(&p->state->unlisted))
		return;
	guard_count(&p->state->gone, leave->place >= 0 ? leave->record.length : 0);
}

bool guard_fork_wanted(void)
{
	int entry_errno = errno;
	struct guard_process *p = guard_process();
	bool wanted = true;

	if (p) {
		wanted = p->state->kernel_copies != MRG_KERNEL_COPIES ||
			 p->policy.at_risk == GUARD_OBSERVE;
		atomic_store(&p->state->fork, wanted ? GUARD_FORK_PASSED_ON : GUARD_FORK_SKIPPED);
	}
	errno = entry_errno;
	return wanted;
}
