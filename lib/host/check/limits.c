/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"

/* A unit's limits are those of its processes. */
static int pid_of_unit(struct check_ctx *ctx, const char *unit, int *pid)
{
	static const char *const slices[] = { "system.slice", "user.slice", "" };
	char path[320], text[4096];

	if (strchr(unit, '/'))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(slices) / sizeof(*slices); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/%.200s/cgroup.procs", slices[i], unit);
		if (mrg_tree_read(ctx->tree, path, text, sizeof(text)) > 0) {
			*pid = atoi(text);
			return 0;
		}
	}
	return -ESRCH;
}

int limits_of_target(struct check_ctx *ctx, const char *name, uint64_t *value, char *who, size_t cap)
{
	char path[64], text[8192], *at;
	int pid = ctx->opts->pid, rc;
	ssize_t n;

	if (!pid && !ctx->opts->unit)
		return -ENOENT;
	snprintf(who, cap, "pid %d", pid);
	if (!pid) {
		rc = pid_of_unit(ctx, ctx->opts->unit, &pid);
		snprintf(who, cap, "unit %.80s (pid %d)", ctx->opts->unit, pid);
		if (rc)
			return rc;
	}
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	n = mrg_tree_read(ctx->tree, path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	at = strstr(text, name);
	if (!at)
		return -EINVAL;
	at += strlen(name);
	at += strspn(at, " ");
	if (!strncmp(at, "unlimited", 9)) {
		*value = UINT64_MAX;
		return 0;
	}
	return sscanf(at, "%" SCNu64, value) == 1 ? 0 : -EINVAL;
}
