/* SPDX-License-Identifier: MIT */
/*
 * A registration on its way: checked (check.c), planned (plan.c), carried out
 * (reg.c), and explained where it failed (cause.c).  Internal to lib/region.
 */
#ifndef REGION_REQUEST_H
#define REGION_REQUEST_H

#include "host/limits.h"
#include "region/mr.h"

struct region_request {
	struct mrg_ctx *ctx;
	struct ibv_pd *pd;
	const struct region_device *device;
	int fd; /* the DMA-BUF; -1: ordinary memory */
	uint64_t addr;
	uint64_t length;
	uint64_t offset; /* of @addr in the DMA-BUF */
	int access;
	bool without_cap; /* the kernel's cap is not to be counted on */
	int first_error; /* -errno of a try in larger pieces; 0: this is the first */
	struct mrg_reg_opts opts;
};

/* Each returns 0, or -errno with the failure kept for mrg_last_error(). */
int region_check(struct region_request *req, const struct mrg_reg_opts *opts);
int region_check_opts(struct region_request *req, const struct mrg_reg_opts *opts);
int region_check_range(const struct region_request *req);
int region_check_dmabuf(struct region_request *req, const struct mrg_dmabuf *buf);

/* Decides: sets mr's decision and count.  @max_mr_size: 0, or a further limit. */
int region_decide(const struct region_request *req, uint64_t max_mr_size, struct mrg_mr *mr);

/* Asks whether the kernel's cap keeps the pages of the device's MRs at 2 GiB, now:
 * 1, 0, or -errno where the module's descriptor fails. */
int region_cap_holds(const struct mrg_ctx *ctx, const struct region_device *device);

/* The MRs to make.  @room is for the one that no plan was made for. */
const struct mrg_piece *region_pieces(const struct region_request *req, const struct mrg_mr *mr,
				      struct mrg_piece *room);

/*
 * What was decided for the same range of the same DMA-BUF before, or NULL; the
 * caller gets a reference.  Only where the addresses cannot change.
 */
struct region_decision *region_layout_cache_find(const struct region_request *req,
						 const struct mrg_plan_opts *opts);
void region_layout_cache_add(const struct region_request *req, const struct mrg_plan_opts *opts,
			     struct region_decision *decision);
void region_layout_cache_drop(struct mrg_ctx *ctx);

/*
 * Whether memlock or the VMA limit, which no smaller piece helps, fits.  @limits
 * were read before a failed piece is undone: the registered ones still count.
 */
bool region_limit_hit(const struct region_request *req, const struct mrg_piece *piece, int code,
		      const struct host_limits *limits);
int region_explain(const struct region_request *req, int code, size_t index,
		   const struct mrg_piece *piece, const struct host_limits *limits);

/* mrg_cuts() in a world of the caller's. */
ssize_t region_cuts(const struct region_env *env, int fd, const char *device, uint64_t iova,
		    uint64_t offset, uint64_t length, const struct mrg_reg_opts *opts,
		    uint64_t *cuts, size_t cap);

/* Largest page in the range, 0 where all are ordinary. */
uint64_t region_huge_page(const struct mrg_ctx *ctx, uint64_t addr, uint64_t length);

#endif
