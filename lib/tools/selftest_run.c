/* SPDX-License-Identifier: MIT */
/* The self-test's work: a loopback over one device, the buffer once as the
 * remote and once as the local side. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/fail.h"
#include "tools/selftest.h"

#define BOUNCE (2ULL << 20)
#define SIDES 2 /* remote, local */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct run {
	const struct selftest_args *args;
	const struct target *target;
	const struct selftest_progress *progress;
	struct selftest_result *result;
	struct mrg_error *error;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct rc_end ends[2];
	void *bounce;
	struct ibv_mr *bounce_mr;
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	struct ibv_mr *raw;
	struct small_truth small;
	struct verify_spans spans;
	bool local;
	uint64_t done;
};

static int fail_errno(struct run *run, const char *stage, const char *what)
{
	int code = errno ? -errno : -EIO;

	return base_error_set(run->error, code, stage, "", "%s failed: %s.", what, strerror(-code));
}

static int open_ends(struct run *run)
{
	int ret = 0;

	run->pd = ibv_alloc_pd(run->verbs);
	if (!run->pd)
		return fail_errno(run, "open", "ibv_alloc_pd");
	for (int i = 0; i < 2 && !ret; i++)
		ret = rc_open(&run->ends[i], run->verbs, run->pd);
	for (int i = 0; i < 2 && !ret; i++)
		ret = rc_connect(&run->ends[i], &run->ends[1 - i].addr);
	for (int i = 0; i < 2 && ret; i++)
		if (run->ends[i].fault[0])
			return base_error_set(
				run->error, ret, "connect",
				"Bring the port up (see `rdma link'); a RoCE port needs an address.",
				"The queue pairs of %s cannot be connected: %s.", run->args->device,
				run->ends[i].fault);
	run->bounce = malloc(BOUNCE);
	if (run->bounce)
		run->bounce_mr = ibv_reg_mr(run->pd, run->bounce, BOUNCE, ACCESS);
	return run->bounce_mr ? 0 :
				fail_errno(run, "open", "The registration of the bounce buffer");
}

/* The library's own words where it has any. */
static int library_failed(struct run *run, int code, const char *what)
{
	if (!mrg_last_error(run->ctx, run->error))
		return code;
	return base_error_set(run->error, code, "register", "", "%s failed: %s.", what,
			      strerror(-code));
}

static int register_guarded(struct run *run)
{
	const struct target *t = run->target;
	struct selftest_result *result = run->result;
	int ret = mrg_open(&run->ctx, run->verbs, &run->args->open);

	if (!ret && t->buf.fd >= 0)
		ret = mrg_reg_dmabuf(run->ctx, run->pd, &t->buf, t->addr, t->size, ACCESS,
				     &run->args->reg, &run->mr);
	else if (!ret)
		ret = mrg_reg(run->ctx, run->pd, t->map, t->size, ACCESS, &run->args->reg,
			      &run->mr);
	if (ret)
		return library_failed(run, ret, "The registration");
	result->mrs = mrg_mr_count(run->mr);
	selftest_note_plan(result, mrg_mr_plan(run->mr));
	mrg_mr_describe(run->mr, result->words, sizeof(result->words));
	return 0;
}

/* Plain verbs, as an engine without mrguard calls it. */
static int register_raw(struct run *run)
{
	const struct target *t = run->target;
	uint64_t offset;

	/* What the plan would have said; that it cannot is no failure here. */
	register_guarded(run);
	mrg_dereg(run->mr);
	run->mr = NULL;
	if (t->buf.fd < 0)
		run->raw = ibv_reg_mr(run->pd, t->map, t->size, ACCESS);
	else if (!mrg_dmabuf_offset(&t->buf, t->addr, &offset))
		run->raw = ibv_reg_dmabuf_mr(run->pd, offset, t->size, t->addr, t->buf.fd, ACCESS);
	if (!run->raw)
		return fail_errno(run, "register", "The plain registration");
	run->result->mrs = 1;
	run->result->strategy = MRG_STRATEGY_NONE;
	return 0;
}

static ssize_t keys(void *arg, uint64_t offset, uint64_t length, struct mrg_seg *segs, size_t cap)
{
	struct run *run = arg;

	if (run->mr)
		return mrg_keys(run->mr, run->target->addr + offset, length, segs, cap);
	segs[0] = (struct mrg_seg){ .wire = run->target->addr + offset,
				    .length = length,
				    .lkey = run->raw->lkey,
				    .rkey = run->raw->rkey };
	return 1;
}

static bool same_group(const struct selftest_group *g, bool local, const struct verify_fault *f)
{
	return g->local == local && g->way == f->way && g->kind == f->kind &&
	       g->distance == f->distance;
}

static void count_fault(struct selftest_result *result, bool local, const struct verify_fault *f)
{
	struct selftest_group *g = result->groups;
	size_t i = 0;

	while (i < result->group_count && !same_group(&g[i], local, f))
		i++;
	if (i == SELFTEST_GROUPS) {
		result->left_out++;
		return;
	}
	if (i == result->group_count) {
		result->group_count++;
		g[i] = (struct selftest_group){ .local = local,
						.way = f->way,
						.kind = f->kind,
						.distance = f->distance,
						.from = UINT64_MAX };
	}
	g[i].places++;
	g[i].bytes += f->length;
	if (f->offset < g[i].from)
		g[i].from = f->offset;
	if (f->offset + f->length > g[i].to)
		g[i].to = f->offset + f->length;
}

static void span_done(void *arg, const struct verify_span *span, const struct verify_fault *faults,
		      size_t count)
{
	struct run *run = arg;

	(void)span, (void)faults, (void)count;
	run->done++;
	if (run->progress->step)
		run->progress->step(run->progress->arg, run->done,
				    SIDES * VERIFY_WAYS * verify_spans_count(&run->spans));
}

static int run_side(struct run *run, const struct verify_truth *truth)
{
	struct verify v = {
		.end = &run->ends[0],
		.tested_is_local = run->local,
		.keys = keys,
		.keys_arg = run,
		.bounce = { .wire = (uintptr_t)run->bounce,
			    .length = BOUNCE,
			    .lkey = run->bounce_mr->lkey,
			    .rkey = run->bounce_mr->rkey },
		.bounce_mem = run->bounce,
		.truth = truth,
		.size = run->target->size,
		.span_done = span_done,
		.span_done_arg = run,
	};
	int ret = 0;

	for (int way = 0; way < VERIFY_WAYS && !ret; way++)
		ret = verify_spans_run(&v, (enum verify_way)way, &run->spans);
	for (size_t i = 0; i < v.fault_count; i++)
		count_fault(run->result, run->local, &v.faults[i]);
	run->result->compared += v.compared;
	run->result->wrong += v.bad;
	run->result->overwritten += v.overwritten;
	verify_release(&v);
	if (!ret)
		return 0;
	return base_error_set(
		run->error, ret, "transfer",
		"Look in dmesg; a region that registers and then fails on the wire is one that the device does not reach.",
		"A transfer failed with the buffer as the %s side: %s.",
		run->local ? "local" : "remote",
		run->ends[0].fault[0] ? run->ends[0].fault : strerror(-ret));
}

static int verify_all(struct run *run)
{
	struct verify_truth truth;
	int ret = 0;

	run->result->cpu_truth = run->target->map;
	if (!run->target->map)
		ret = small_truth_open(&run->small, &run->ends[0], run->target);
	if (!ret)
		ret = verify_spans_make(&run->spans, run->target->size, run->target->addr,
					run->args->blocks, run->args->block_size);
	if (ret)
		return base_error_set(run->error, ret, "prepare", "Give fewer or smaller blocks.",
				      "The blocks cannot be prepared: %s.", strerror(-ret));
	truth = target_truth(run->target, &run->small);
	for (int side = 0; side < SIDES && !ret; side++) {
		run->local = side;
		ret = run_side(run, &truth);
	}
	run->result->places = run->done;
	return ret;
}

static void close_all(struct run *run)
{
	verify_spans_free(&run->spans);
	small_truth_close(&run->small);
	/* The queue pairs first: nothing writes any more when memory goes. */
	for (int i = 0; i < 2; i++)
		rc_close(&run->ends[i]);
	mrg_dereg(run->mr);
	if (run->raw)
		ibv_dereg_mr(run->raw);
	if (run->bounce_mr)
		ibv_dereg_mr(run->bounce_mr);
	free(run->bounce);
	mrg_close(run->ctx);
	if (run->pd)
		ibv_dealloc_pd(run->pd);
}

int selftest_run(const struct selftest_args *args, const struct target *target,
		 struct ibv_context *verbs, const struct selftest_progress *progress,
		 struct selftest_result *result, struct mrg_error *error)
{
	struct run run = { .args = args,
			   .target = target,
			   .verbs = verbs,
			   .progress = progress,
			   .result = result,
			   .error = error };
	int ret = open_ends(&run);

	if (!ret)
		ret = args->raw ? register_raw(&run) : register_guarded(&run);
	if (!ret)
		ret = verify_all(&run);
	close_all(&run);
	return ret;
}
