/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/policy.h"

static const char *const action_names[] = {
	[GUARD_OBSERVE] = "observe",
	[GUARD_REFUSE] = "refuse",
	[GUARD_ALLOW] = "allow",
};

bool guard_action_parse(const char *word, enum guard_action *action)
{
	for (size_t i = 0; i < sizeof(action_names) / sizeof(action_names[0]); i++) {
		if (strcmp(word, action_names[i]))
			continue;
		*action = (enum guard_action)i;
		return true;
	}
	return false;
}

const char *guard_action_name(enum guard_action action)
{
	return action_names[action];
}

static bool read_action(const char *name, enum guard_action *action)
{
	/* A program with more rights than its caller takes no orders from it. */
	const char *word = secure_getenv(name);

	return !word || guard_action_parse(word, action);
}

static bool read_format(struct guard_policy *policy)
{
	const char *word = secure_getenv(GUARD_ENV_FORMAT);

	if (!word || !strcmp(word, "text"))
		return true;
	policy->json = !strcmp(word, "json");
	policy->quiet = !strcmp(word, "none");
	return policy->json || policy->quiet;
}

const char *guard_policy_read(struct guard_policy *policy)
{
	const char *wrong = NULL;

	*policy = (struct guard_policy){ .at_risk = GUARD_REFUSE, .unknown = GUARD_ALLOW };
	if (!read_action(GUARD_ENV, &policy->at_risk))
		wrong = GUARD_ENV;
	/* Who only looks on looks on at both. */
	if (policy->at_risk == GUARD_OBSERVE)
		policy->unknown = GUARD_OBSERVE;
	if (!read_action(GUARD_ENV_UNKNOWN, &policy->unknown))
		wrong = GUARD_ENV_UNKNOWN;
	if (!read_format(policy))
		wrong = GUARD_ENV_FORMAT;
	policy->report = secure_getenv(GUARD_ENV_REPORT);
	if (policy->report && !*policy->report)
		policy->report = NULL;
	return wrong;
}

bool guard_report_path(const char *pattern, pid_t pid, char *path, size_t size)
{
	char number[16];
	size_t used = 0;

	snprintf(number, sizeof(number), "%d", (int)pid);
	while (*pattern && used + sizeof(number) < size) {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			memcpy(path + used, number, strlen(number));
			used += strlen(number);
			pattern += 2;
		} else {
			path[used++] = *pattern++;
		}
	}
	path[used] = '\0';
	return !*pattern;
}
