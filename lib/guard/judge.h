/* SPDX-License-Identifier: MIT */
/* What would become of a registration. */
#ifndef GUARD_JUDGE_H
#define GUARD_JUDGE_H

#include "guard/process.h"

struct guard_mr_init_attr;

/* A registration as the program asked for it. */
struct guard_request {
	enum guard_call call;
	unsigned int lib; /* whose function was called, see guard_real.h */
	struct ibv_pd *pd;
	int fd; /* -1: ordinary memory */
	uint64_t addr; /* of ordinary memory */
	uint64_t length;
	uint64_t iova;
	uint64_t offset; /* in the DMA-BUF */
	unsigned int access;
	int mlx5_access;
	struct guard_mr_init_attr *attr; /* of ibv_reg_mr_ex() */
};

struct guard_finding {
	enum mrg_verdict verdict;
	enum guard_grounds grounds;
	enum guard_path path;
	uint32_t page_shift; /* 0: not known */
	char reason[640]; /* the planner's words; "" where it was not asked */
};

/**
 * guard_judge() - tell what one MR would do
 *
 * Most requests are plainly safe: small, or on a kernel whose walk is exact.
 * They cost no lock, no allocation and no system call.
 */
void guard_judge(struct guard_process *p, const struct guard_request *req,
		 struct guard_finding *finding);

/** guard_explain() - why verbs refused it; @cause and @remedy are OUT */
void guard_explain(struct guard_process *p, const struct guard_request *req, int error,
		   struct mrg_error *why);

#endif
