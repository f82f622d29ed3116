/* SPDX-License-Identifier: MIT */
/* Between the interposed functions and what the guard does around a call. */
#ifndef GUARD_ENTRY_H
#define GUARD_ENTRY_H

#include "guard/judge.h"

/** guard_call_real() - the call as the program made it */
struct ibv_mr *guard_call_real(const struct guard_request *req);

/** guard_register() - judge, register or refuse, and list it.  errno as verbs
 *  leaves it; EOPNOTSUPP where it would wrap, ENOMEM where VMAs run out */
struct ibv_mr *guard_register(const struct guard_request *req);

/** guard_rereg_allowed() - false with errno set where it is refused */
bool guard_rereg_allowed(const struct guard_request *req);
void guard_rereg_done(const struct guard_request *req, struct ibv_mr *mr);

/* An MR that is being deregistered. */
struct guard_leave {
	ssize_t place;
	struct guard_record record;
	bool counted;
};
void guard_dereg_begin(struct ibv_mr *mr, struct guard_leave *leave);
void guard_dereg_end(struct ibv_mr *mr, const struct guard_leave *leave, int result);

/** guard_fork_wanted() - whether ibv_fork_init() is to be passed on */
bool guard_fork_wanted(void);

#endif
