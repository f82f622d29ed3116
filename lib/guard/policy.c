/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "guard/names.h"
#include "guard/policy.h"

static int refuse_word(struct mrg_error *error, const char *name, const char *word,
		       const char *remedy)
{
	return base_error_set(error, -EINVAL, "read policy", remedy,
			      "%s is \"%s\", which is unknown, so the default applies.", name,
			      word);
}

static int read_action(const char *name, enum guard_action *action, struct mrg_error *error)
{
	/* A program with more rights than its caller ignores its caller's policy. */
	const char *word = secure_getenv(name);

	if (!word || guard_action_parse(word, action))
		return 0;
	return refuse_word(error, name, word, "Use refuse, allow or observe.");
}

static int read_format(struct guard_policy *policy, struct mrg_error *error)
{
	const char *word = secure_getenv(GUARD_ENV_FORMAT);

	if (!word || !strcmp(word, "text"))
		return 0;
	policy->json = !strcmp(word, "json");
	policy->quiet = !strcmp(word, "none");
	if (policy->json || policy->quiet)
		return 0;
	return refuse_word(error, GUARD_ENV_FORMAT, word, "Use text, json or none.");
}

int guard_policy_read(struct guard_policy *policy, struct mrg_error *error)
{
	int ret, failed;

	*policy = (struct guard_policy){ .at_risk = GUARD_REFUSE, .unknown = GUARD_ALLOW };
	ret = read_action(GUARD_ENV, &policy->at_risk, error);
	if (policy->at_risk == GUARD_OBSERVE)
		policy->unknown = GUARD_OBSERVE;
	failed = read_action(GUARD_ENV_UNKNOWN, &policy->unknown, error);
	ret = failed ? failed : ret;
	failed = read_format(policy, error);
	ret = failed ? failed : ret;
	policy->report = secure_getenv(GUARD_ENV_REPORT);
	if (policy->report && !*policy->report)
		policy->report = NULL;
	return ret;
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
