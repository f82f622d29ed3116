/* SPDX-License-Identifier: MIT */
/* The guard's variables of the environment; `mrguard run' has options that set them. */
#ifndef GUARD_POLICY_H
#define GUARD_POLICY_H

#include <mrguard/common.h>

#include "guard/state.h"

#define GUARD_ENV "MRGUARD_GUARD"
#define GUARD_ENV_UNKNOWN "MRGUARD_GUARD_UNKNOWN"
#define GUARD_ENV_REPORT "MRGUARD_GUARD_REPORT"
#define GUARD_ENV_FORMAT "MRGUARD_GUARD_FORMAT"

struct guard_policy {
	enum guard_action at_risk;
	enum guard_action unknown;
	bool json;
	bool quiet; /* no report at the end: format "none" */
	const char *report; /* a path, %p is the process; NULL: standard error */
};

/**
 * guard_policy_read() - from the environment
 * @error: OUT the variable whose value is unknown, where one is
 *
 * Return: 0; -EINVAL where a value is unknown: its default, the safe one, applies.
 */
int guard_policy_read(struct guard_policy *policy, struct mrg_error *error);

/** guard_report_path() - replace %p.  Return: false where the path does not fit */
bool guard_report_path(const char *pattern, pid_t pid, char *path, size_t size);

#endif
