/* SPDX-License-Identifier: MIT */
/* The limits of the process or unit that the check is asked about. */
#ifndef CHECK_LIMITS_H
#define CHECK_LIMITS_H

#include "check/check.h"

/* Soft limit named as in /proc/PID/limits; UINT64_MAX is unlimited.  @target gets
 * "pid 4242" or "unit foo.service (pid 4242)".  -ENOENT: no process was named. */
int check_limits_of_target(struct check_ctx *ctx, const char *name, uint64_t *value, char *target,
			   size_t cap);
/* The line for a limit that check_limits_of_target() did not get. */
void check_limits_add_unknown(struct check_ctx *ctx, const char *target, int rc);
/* The target has CAP_IPC_LOCK where the kernel asks for it, in the initial
 * user namespace: ib_umem_get() then applies no limit to pinned memory. */
bool check_limits_target_may_lock(struct check_ctx *ctx);

#endif
