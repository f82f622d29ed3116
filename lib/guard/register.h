/* SPDX-License-Identifier: MIT */
/* What the guard does around the calls that it replaces. */
#ifndef GUARD_REGISTER_H
#define GUARD_REGISTER_H

#include "guard/request.h"

/**
 * guard_register() - judge a registration, make or refuse it, and list it
 *
 * Return: the MR, or NULL with errno as verbs leaves it, EOPNOTSUPP (it would
 * wrap) or ENOMEM (VMAs run out).
 */
struct ibv_mr *guard_register(const struct guard_request *req);

/** guard_rereg_allowed() - false with errno set where it is refused */
bool guard_rereg_allowed(const struct guard_request *req);
/** guard_rereg_done() - list the MR with its new range */
void guard_rereg_done(const struct guard_request *req, struct ibv_mr *mr);

/* An MR that is being deregistered. */
struct guard_dereg {
	ssize_t place;
	struct guard_record record;
	bool counted;
};
void guard_dereg_begin(struct ibv_mr *mr, struct guard_dereg *dereg);
/** guard_dereg_end() - @result: of ibv_dereg_mr() */
void guard_dereg_end(struct ibv_mr *mr, const struct guard_dereg *dereg, int result);

/** guard_fork_wanted() - whether to pass ibv_fork_init() on to verbs */
bool guard_fork_wanted(void);

#endif
