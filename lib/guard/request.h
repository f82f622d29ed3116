/* SPDX-License-Identifier: MIT */
/* A registration as the program asked for it, and what the guard found out about it. */
#ifndef GUARD_REQUEST_H
#define GUARD_REQUEST_H

#include <infiniband/verbs.h>

#include "guard/state.h"

struct guard_mr_init_attr;

struct guard_request {
	enum guard_call call;
	unsigned int lib; /* the library whose function was called, see real.h */
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
	bool cap_would_help; /* mrguard_cap.ko would make it safe */
	char reason[640]; /* the planner's sentences; "": it was not asked, or the MR is safe */
};

#endif
