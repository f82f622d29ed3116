/* SPDX-License-Identifier: MIT */
/* The limits of the process or unit that the check is asked about. */
#ifndef MRG_HOST_CHECK_LIMITS_H
#define MRG_HOST_CHECK_LIMITS_H

#include "check.h"

/* Soft limit named as in /proc/PID/limits; UINT64_MAX is unlimited.  @who gets
 * "pid 4242" or "unit foo.service (pid 4242)".  -ENOENT: nobody was named. */
int limits_of_target(struct check_ctx *ctx, const char *name, uint64_t *value, char *who, size_t cap);

#endif
