/* SPDX-License-Identifier: MIT */
/* Registration of a plan's pieces: all of them, or none. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "region/request.h"

/*
 * Behind an IOMMU that translates, one mapping can be larger than what is left
 * in one piece of its address space, and pieces of this size still fit.
 */
#define SMALL_PIECE (1ULL << 30)

/*
 * An on-demand registration meets EAGAIN where an invalidation came in between
 * (mmu_interval_read_retry), which passes.  Any other EAGAIN does not: it is
 * madvise() at the VMA limit, and asking again makes libibverbs forget marks.
 */
#define TRIES 8
#define FIRST_WAIT_NS 500000L

static struct ibv_mr *call_verbs(const struct region_request *req, const struct mrg_piece *piece)
{
	const struct region_env *env = req->ctx->env;

	errno = 0;
	if (req->fd >= 0)
		return env->reg_dmabuf(req->pd, req->offset + piece->offset, piece->length,
				       piece->iova, req->fd, req->access);
	return env->reg(req->pd, (void *)(uintptr_t)(req->addr + piece->offset), piece->length,
			req->access);
}

static int call_until_settled(const struct region_request *req, const struct mrg_piece *piece,
			      struct ibv_mr **mr)
{
	struct timespec wait = { .tv_nsec = FIRST_WAIT_NS };
	bool passes = req->access & IBV_ACCESS_ON_DEMAND;

	for (int try = 1;; try++) {
		*mr = call_verbs(req, piece);
		if (*mr)
			return 0;
		if (errno != EAGAIN || !passes || try == TRIES)
			return errno ? -errno : -EIO;
		nanosleep(&wait, NULL);
		wait.tv_nsec *= 2;
	}
}

/* Memory whose pages libibverbs may mark.  Returns 1 where the guard refused,
 * and wrote @error. */
static int register_marked(const struct region_request *req, const struct mrg_piece *piece,
			   struct ibv_mr **mr, struct mrg_error *error)
{
	struct mrg_vma_guard *guard = req->ctx->guard;
	uint64_t addr = req->addr + piece->offset;
	int ret;

	if (region_vma_guard_before_reg(guard, addr, piece->length, error))
		return 1;
	ret = call_until_settled(req, piece, mr);
	region_vma_guard_after_reg(guard, addr, piece->length, ret);
	return ret;
}

static int dereg_piece(const struct mrg_mr *mr, size_t i)
{
	const struct region_piece *piece = &mr->pieces[i];
	int err = mr->ctx->env->dereg(mr->verbs[i]);

	if (mr->marks_pages)
		region_vma_guard_after_dereg(mr->ctx->guard, mr->addr + piece->start, piece->length,
					     -err);
	return err;
}

/* From the last to the first; stops at one that does not let go. */
static int dereg_all(struct mrg_mr *mr, size_t done)
{
	int err;

	while (done) {
		err = dereg_piece(mr, done - 1);
		if (err)
			break;
		done--;
	}
	mr->count = done;
	return done ? -(err > 0 ? err : EIO) : 0;
}

static void free_pieces(struct mrg_mr *mr)
{
	if (mr->verbs != &mr->one_verbs)
		free(mr->verbs);
	if (mr->pieces != &mr->one_piece)
		free(mr->pieces);
	mr->verbs = NULL;
	mr->pieces = NULL;
}

static void mr_free(struct mrg_mr *mr)
{
	struct mrg_ctx *ctx = mr->ctx;

	region_decision_put(mr->decision);
	free_pieces(mr);
	free(mr);
	region_ctx_put(ctx);
}

static int alloc_pieces(struct mrg_mr *mr)
{
	if (mr->count == 1) {
		mr->verbs = &mr->one_verbs;
		mr->pieces = &mr->one_piece;
		return 0;
	}
	mr->verbs = calloc(mr->count, sizeof(*mr->verbs));
	mr->pieces = calloc(mr->count, sizeof(*mr->pieces));
	return mr->verbs && mr->pieces ? 0 : -ENOMEM;
}

static void note_piece(struct mrg_mr *mr, size_t i, const struct mrg_piece *piece)
{
	mr->pieces[i] = (struct region_piece){
		.start = piece->offset,
		.length = piece->length,
		.delta = piece->iova - piece->offset,
		.lkey = mr->verbs[i]->lkey,
		.rkey = mr->verbs[i]->rkey,
	};
}

static void push_stuck(struct mrg_mr *mr)
{
	mr->next = atomic_load(&mr->ctx->stuck);
	while (!atomic_compare_exchange_weak(&mr->ctx->stuck, &mr->next, mr))
		;
}

void region_own_undo(struct mrg_mr *mr)
{
	if (dereg_all(mr, mr->count))
		push_stuck(mr);
	else
		mr_free(mr);
}

/* The device may let go by now of what it did not. */
static void retry_stuck(struct mrg_ctx *ctx)
{
	struct mrg_mr *mr = atomic_exchange(&ctx->stuck, NULL), *next;

	for (; mr; mr = next) {
		next = mr->next;
		region_own_undo(mr);
	}
}

void region_stuck_drop(struct mrg_ctx *ctx)
{
	struct mrg_mr *mr, *next;

	retry_stuck(ctx);
	for (mr = atomic_load(&ctx->stuck); mr; mr = next) {
		next = mr->next;
		ctx->keeps_dev |= region_counts_on_cap(mr);
		mr_free(mr);
	}
}

/* Takes back what is registered, and tells why it went no further.  Returns 1
 * where smaller pieces are worth a try. */
static int give_up(const struct region_request *req, struct mrg_mr *mr,
		   const struct mrg_piece *pieces, size_t failed, int code, bool may_shrink)
{
	const struct mrg_piece *piece = &pieces[failed];
	struct host_limits limits = { 0 };

	if (code == -ENOMEM || code == -EAGAIN)
		host_limits_read(req->ctx->env->proc, "self", &limits);
	mr->stuck = dereg_all(mr, failed);
	if (code == -ENOMEM && may_shrink && !mr->stuck && piece->length > SMALL_PIECE &&
	    !region_limit_hit(req, piece, code, &limits))
		return 1;
	return region_explain(req, code, failed, piece, &limits);
}

static int register_pieces(const struct region_request *req, struct mrg_mr *mr, bool may_shrink)
{
	size_t count = mr->count;
	struct mrg_piece room;
	const struct mrg_piece *pieces = region_pieces(req, mr, &room);
	struct mrg_error refusal;
	int ret = alloc_pieces(mr);

	if (ret)
		return base_fail(req->ctx->error_owner, ret, "register",
				 "Free memory, or raise its limit.",
				 "There is no memory for a handle of %zu MRs.", count);
	for (size_t i = 0; i < count; i++) {
		if (mr->marks_pages)
			ret = register_marked(req, &pieces[i], &mr->verbs[i], &refusal);
		else
			ret = call_until_settled(req, &pieces[i], &mr->verbs[i]);
		if (ret < 0)
			return give_up(req, mr, pieces, i, ret, may_shrink);
		if (ret) {
			mr->stuck = dereg_all(mr, i);
			refusal.piece = (int)i;
			return mrg_private_error_keep(req->ctx->error_owner, &refusal);
		}
		note_piece(mr, i, &pieces[i]);
	}
	return 0;
}

static bool translates(const struct region_request *req, const struct mrg_mr *mr)
{
	return mr->decision->translated || req->device->iommu == MRG_IOMMU_MODE_TRANSLATED;
}

/* Decides once more, for another request of the same buffer that has no MR yet. */
static int start_over(const struct region_request *again, uint64_t max_mr_size, struct mrg_mr *mr)
{
	free_pieces(mr);
	region_decision_put(mr->decision);
	memset(&mr->own_decision, 0, sizeof(mr->own_decision));
	return region_decide(again, max_mr_size, mr);
}

static int register_planned(const struct region_request *req, struct mrg_mr *mr)
{
	int ret = register_pieces(req, mr, translates(req, mr));
	struct region_request again;

	if (ret <= 0)
		return ret;
	/* The one failure that smaller pieces are a remedy for. */
	again = *req;
	again.first_error = -ENOMEM;
	ret = start_over(&again, SMALL_PIECE, mr);
	if (ret)
		return ret;
	mr->decision->shrunk = true;
	return register_pieces(&again, mr, false);
}

/* The cap's effect ended while the MRs were made: they may have large pages. */
static int register_without_cap(const struct region_request *req, struct mrg_mr *mr)
{
	struct region_request again = *req;
	int ret = dereg_all(mr, mr->count);

	if (ret) {
		mr->stuck = true;
		return base_fail(
			req->ctx->error_owner, ret, "register",
			"Set the cap again (mrguard cap on), and register again.",
			"The cap lost its effect during the registration, and ibv_dereg_mr() fails with %s for the MR that counts on it.",
			strerror(-ret));
	}
	again.without_cap = true;
	ret = start_over(&again, 0, mr);
	return ret ? ret : register_planned(&again, mr);
}

static int plan_and_register(const struct region_request *req, struct mrg_mr *mr)
{
	int ret = region_decide(req, 0, mr);

	if (!ret)
		ret = register_planned(req, mr);
	if (ret || !region_counts_on_cap(mr) || region_cap_holds(req->ctx, req->device) > 0)
		return ret;
	return register_without_cap(req, mr);
}

static int reg(const struct region_request *req, struct mrg_mr **out)
{
	struct mrg_mr *mr = calloc(1, sizeof(*mr));
	int ret;

	if (!mr)
		return base_fail(req->ctx->error_owner, -ENOMEM, "register",
				 "Free memory, or raise its limit.",
				 "There is no memory for a handle.");
	if (atomic_load_explicit(&req->ctx->stuck, memory_order_relaxed))
		retry_stuck(req->ctx);
	mr->ctx = req->ctx;
	atomic_fetch_add_explicit(&req->ctx->users, 1, memory_order_relaxed);
	mr->addr = req->addr;
	mr->length = req->length;
	/* libibverbs marks neither DMA-BUFs nor on-demand memory against fork. */
	mr->marks_pages = req->fd < 0 && !(req->access & IBV_ACCESS_ON_DEMAND);
	ret = plan_and_register(req, mr);
	if (ret && mr->stuck)
		push_stuck(mr);
	else if (ret)
		mr_free(mr);
	if (ret)
		return ret;
	region_mr_index(mr);
	*out = mr;
	return 0;
}

int mrg_reg_dmabuf(struct mrg_ctx *ctx, struct ibv_pd *pd, const struct mrg_dmabuf *buf,
		   uint64_t addr, uint64_t length, int access, const struct mrg_reg_opts *opts,
		   struct mrg_mr **mr)
{
	struct region_request req = { .ctx = ctx,
				      .pd = pd,
				      .fd = buf->fd,
				      .addr = addr,
				      .length = length,
				      .access = access };
	int ret = region_check(&req, opts);

	if (!ret)
		ret = region_check_dmabuf(&req, buf);
	return ret ? ret : reg(&req, mr);
}

int mrg_reg(struct mrg_ctx *ctx, struct ibv_pd *pd, void *addr, size_t length, int access,
	    const struct mrg_reg_opts *opts, struct mrg_mr **mr)
{
	struct region_request req = { .ctx = ctx,
				      .pd = pd,
				      .fd = -1,
				      .addr = (uintptr_t)addr,
				      .length = length,
				      .access = access };
	int ret = region_check(&req, opts);

	return ret ? ret : reg(&req, mr);
}

int region_own_dereg(struct mrg_mr *mr)
{
	int ret;

	mr->length = 0;
	ret = dereg_all(mr, mr->count);
	if (ret)
		return base_fail_piece(
			mr->ctx->error_owner, ret, (int)mr->count - 1, "deregister",
			"Destroy what is bound to the MR (memory windows), and call again.",
			"The call ibv_dereg_mr() fails for piece %zu with %s; it and those before it are still registered.",
			mr->count - 1, strerror(-ret));
	mr_free(mr);
	return 0;
}
