/* SPDX-License-Identifier: MIT */
/*
 * Two processes over simnic.  The owner has the buffer and registers it; the
 * other has a bounce buffer.  Where the buffer is the remote side, the other
 * posts; where it is the local side, the owner does.  Whoever posts verifies,
 * with the CPU's mapping of the same DMA-BUF as the truth.
 */
#ifndef GUEST_PAIR_H
#define GUEST_PAIR_H

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "ground.h"

#define PAIR_MAX_SEGS 256
#define PAIR_BOUNCE (2 * MIB)
#define PAIR_SECONDS 600
#define PAIR_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* How the owner registers. */
enum pair_by { BY_RAW, BY_AUTO, BY_SPLIT, BY_REBASE, BY_COUNT };

struct pair_job {
	int fd; /* -1: ordinary memory at @map */
	void *map; /* where the CPU sees the buffer */
	uint64_t size;
	uint64_t iova;
	enum pair_by by;
	uint64_t raw_piece; /* raw: MRs of so many bytes, 0 = one */
	struct mrg_reg_opts opts; /* @strategy comes from @by */
	bool local; /* the buffer is the posting side */
	const struct verify_spans *spans;
};

/* Between the processes. */
struct pair_shared {
	pthread_barrier_t barrier;
	struct rc_addr owner, other;
	struct mrg_seg bounce_keys;
	struct mrg_seg segs[PAIR_MAX_SEGS];
	size_t seg_count;
	enum mrg_strategy strategy;
	char words[400]; /* mrg_mr_describe() */
	char fault[256]; /* "": all went well */
	uint64_t compared, bad, overwritten;
	size_t span_count[VERIFY_WAYS];
	unsigned char bounce[PAIR_BOUNCE] __attribute__((aligned(4096)));
};

/* What the poster hands on, span by span; runs in its process. */
typedef void pair_span_fn(void *arg, enum verify_way way, const struct verify_span *span,
			  const struct verify_fault *faults, size_t count);

__attribute__((format(printf, 2, 3))) static inline int pair_fault(struct pair_shared *sh,
								   const char *format, ...)
{
	va_list args;

	if (sh->fault[0])
		return -1;
	va_start(args, format);
	vsnprintf(sh->fault, sizeof(sh->fault), format, args);
	va_end(args);
	return -1;
}

static inline struct pair_shared *pair_shared_make(void)
{
	struct pair_shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (sh == MAP_FAILED)
		bail("no memory");
	return sh;
}

/* One side: its device, its domain, its end. */
struct pair_side {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct rc_end end;
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	struct ibv_mr *raw[PAIR_MAX_SEGS];
	size_t raw_count;
};

static inline int side_open(struct pair_side *side, struct pair_shared *sh, const char *device)
{
	memset(side, 0, sizeof(*side));
	side->verbs = rc_device_open(device);
	side->pd = side->verbs ? ibv_alloc_pd(side->verbs) : NULL;
	if (!side->pd)
		return pair_fault(sh, "%s: %s", device, strerror(errno));
	if (rc_open(&side->end, side->verbs, side->pd))
		return pair_fault(sh, "%s", side->end.fault);
	return 0;
}

static inline struct ibv_mr *raw_register(const struct pair_side *side, const struct pair_job *job,
					  uint64_t at, uint64_t length)
{
	if (job->fd < 0)
		return ibv_reg_mr(side->pd, (char *)job->map + at, length, PAIR_ACCESS);
	return ibv_reg_dmabuf_mr(side->pd, at, length, job->iova + at, job->fd, PAIR_ACCESS);
}

static inline int register_raw(struct pair_side *side, struct pair_shared *sh,
			       const struct pair_job *job)
{
	uint64_t step = job->raw_piece ? job->raw_piece : job->size;

	for (uint64_t at = 0; at < job->size; at += step) {
		uint64_t length = job->size - at < step ? job->size - at : step;
		struct ibv_mr *mr = raw_register(side, job, at, length);

		if (!mr)
			return pair_fault(sh, "plain registration: %s", strerror(errno));
		side->raw[side->raw_count++] = mr;
		sh->segs[sh->seg_count++] = (struct mrg_seg){
			.wire = job->iova + at, .length = length, .lkey = mr->lkey, .rkey = mr->rkey
		};
	}
	return 0;
}

static inline int register_mrguard(struct pair_side *side, struct pair_shared *sh,
				   const struct pair_job *job)
{
	const struct mrg_dmabuf buf = { .fd = job->fd, .base = job->iova };
	struct mrg_reg_opts opts = job->opts;
	struct mrg_error error;
	ssize_t n;
	int ret;

	opts.size = sizeof(opts);
	opts.strategy = job->by == BY_SPLIT  ? MRG_STRATEGY_SPLIT :
			job->by == BY_REBASE ? MRG_STRATEGY_REBASE :
					       MRG_STRATEGY_AUTO;
	if (mrg_open(&side->ctx, side->verbs, NULL))
		return pair_fault(sh, "mrg_open");
	if (job->fd < 0)
		ret = mrg_reg(side->ctx, side->pd, job->map, job->size, PAIR_ACCESS, &opts,
			      &side->mr);
	else
		ret = mrg_reg_dmabuf(side->ctx, side->pd, &buf, job->iova, job->size, PAIR_ACCESS,
				     &opts, &side->mr);
	if (ret && !mrg_last_error(side->ctx, &error))
		return pair_fault(sh, "mrguard: %s", error.cause);
	n = mrg_keys(side->mr, job->iova, job->size, sh->segs, PAIR_MAX_SEGS);
	if (n < 1 || n > PAIR_MAX_SEGS)
		return pair_fault(sh, "mrg_keys: %zd", n);
	sh->seg_count = (size_t)n;
	sh->strategy = mrg_plan_strategy(mrg_mr_plan(side->mr));
	mrg_mr_describe(side->mr, sh->words, sizeof(sh->words));
	return 0;
}

static inline void side_close(struct pair_side *side, struct pair_shared *sh)
{
	int err = mrg_dereg(side->mr);

	for (size_t i = 0; i < side->raw_count; i++)
		err |= ibv_dereg_mr(side->raw[i]);
	if (err)
		pair_fault(sh, "deregistration failed");
	mrg_close(side->ctx);
	rc_close(&side->end);
	if (side->pd)
		ibv_dealloc_pd(side->pd);
	if (side->verbs)
		ibv_close_device(side->verbs);
}

struct poster {
	const struct pair_job *job;
	struct pair_shared *sh;
	struct pair_side *side;
	struct verify v;
	pair_span_fn *span_done;
	void *arg;
};

/* The owner looks its keys up as an engine does; the other has a list of them. */
static inline ssize_t poster_keys(void *arg, uint64_t offset, uint64_t length, struct mrg_seg *segs,
				  size_t cap)
{
	struct poster *p = arg;

	if (p->side->mr)
		return mrg_keys(p->side->mr, p->job->iova + offset, length, segs, cap);
	return segs_range(p->sh->segs, p->sh->seg_count, offset, length, segs, cap);
}

static inline void poster_span(void *arg, const struct verify_span *span,
			       const struct verify_fault *faults, size_t count)
{
	struct poster *p = arg;

	p->sh->span_count[p->v.way]++;
	if (p->span_done)
		p->span_done(p->arg, p->v.way, span, faults, count);
}

static inline void post(struct pair_side *side, const struct pair_job *job, struct pair_shared *sh,
			pair_span_fn *span_done, void *arg)
{
	const struct verify_truth truth = { mapped_read, mapped_write, job->map };
	struct poster p = {
		.job = job, .sh = sh, .side = side, .span_done = span_done, .arg = arg
	};

	p.v = (struct verify){
		.end = &side->end,
		.tested_is_local = job->local,
		.keys = poster_keys,
		.keys_arg = &p,
		.bounce = sh->bounce_keys,
		.bounce_mem = sh->bounce,
		.truth = &truth,
		.size = job->size,
		.span_done = poster_span,
		.span_done_arg = &p,
	};
	for (int way = VERIFY_INTO; way < VERIFY_WAYS; way++)
		if (verify_spans_run(&p.v, (enum verify_way)way, job->spans))
			pair_fault(sh, "transfer: %s", side->end.fault);
	sh->compared = p.v.compared;
	sh->bad = p.v.bad;
	sh->overwritten = p.v.overwritten;
	verify_release(&p.v);
}

static inline int register_bounce(struct pair_side *side, struct pair_shared *sh)
{
	struct ibv_mr *mr = ibv_reg_mr(side->pd, sh->bounce, PAIR_BOUNCE, PAIR_ACCESS);

	if (!mr)
		return pair_fault(sh, "bounce buffer: %s", strerror(errno));
	side->raw[side->raw_count++] = mr;
	sh->bounce_keys = (struct mrg_seg){ .wire = (uintptr_t)sh->bounce,
					    .length = PAIR_BOUNCE,
					    .lkey = mr->lkey,
					    .rkey = mr->rkey };
	return 0;
}

/* Each step is taken by both, or by none. */
static inline bool pair_step(struct pair_shared *sh)
{
	pthread_barrier_wait(&sh->barrier);
	return !sh->fault[0];
}

static inline void pair_process(bool owner, const struct pair_job *job, struct pair_shared *sh,
				pair_span_fn *span_done, void *arg)
{
	struct pair_side side;

	alarm(PAIR_SECONDS);
	if (!side_open(&side, sh, owner ? "simnic0" : "simnic1")) {
		if (!owner)
			register_bounce(&side, sh);
		else if (job->by == BY_RAW)
			register_raw(&side, sh, job);
		else
			register_mrguard(&side, sh, job);
		*(owner ? &sh->owner : &sh->other) = side.end.addr;
	}
	if (pair_step(sh) && rc_connect(&side.end, owner ? &sh->other : &sh->owner))
		pair_fault(sh, "%s", side.end.fault);
	if (pair_step(sh) && owner == job->local)
		post(&side, job, sh, span_done, arg);
	pair_step(sh);
	side_close(&side, sh);
	_exit(0);
}

/* Returns 0, or -1 with sh->fault set. */
static inline int pair_run(const struct pair_job *job, struct pair_shared *sh,
			   pair_span_fn *span_done, void *arg)
{
	pthread_barrierattr_t attr;
	pid_t pids[2];
	int status;

	memset(sh, 0, offsetof(struct pair_shared, bounce));
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&sh->barrier, &attr, 2);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			pair_process(i == 0, job, sh, span_done, arg);
	}
	for (int i = 0; i < 2; i++) {
		pid_t pid = wait(&status);

		if (WIFEXITED(status) && !WEXITSTATUS(status))
			continue;
		pair_fault(sh, "a process ended with status 0x%x", (unsigned int)status);
		/* The one left would wait for it for ever. */
		if (!i)
			kill(pid == pids[0] ? pids[1] : pids[0], SIGKILL);
	}
	return sh->fault[0] ? -1 : 0;
}

#endif
