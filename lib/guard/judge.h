/* SPDX-License-Identifier: MIT */
/* What a registration would do, and why verbs refused it. */
#ifndef GUARD_JUDGE_H
#define GUARD_JUDGE_H

#include "guard/process.h"
#include "guard/request.h"

/**
 * guard_judge() - find out what one MR would do
 *
 * Most requests are plainly safe: small, or on a kernel whose walk is exact.
 * Those take no lock, no allocation and no system call.
 */
void guard_judge(struct guard_process *p, const struct guard_request *req,
		 struct guard_finding *finding);

/** guard_judge_cap() - whether the kernel's cap holds for the request, now */
bool guard_judge_cap(struct guard_process *p, const struct guard_request *req);

/** guard_judge_bare() - the same while there is no guard: from the request alone.
 *  Takes no lock, no allocation and no system call. */
void guard_judge_bare(const struct guard_request *req, struct guard_finding *finding);

/**
 * guard_explain() - why verbs refused it
 * @error: errno of verbs
 * @why: OUT
 */
void guard_explain(struct guard_process *p, const struct guard_request *req, int error,
		   struct mrg_error *why);

#endif
