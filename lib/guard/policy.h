/* SPDX-License-Identifier: MIT */
/* What the guard is told by the environment; `mrguard run' has options for it. */
#ifndef GUARD_POLICY_H
#define GUARD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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

/** guard_policy_read() - from the environment.  Return: NULL, or the name of a
 *  variable whose word is none: its default is taken, the safe one. */
const char *guard_policy_read(struct guard_policy *policy);

/** guard_action_parse() - "observe", "refuse", "allow"; false for others */
bool guard_action_parse(const char *word, enum guard_action *action);
const char *guard_action_name(enum guard_action action);

/** guard_report_path() - %p is replaced.  Return: false where it does not fit */
bool guard_report_path(const char *pattern, pid_t pid, char *path, size_t size);

#endif
