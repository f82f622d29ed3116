/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

#define CGROUPS "/sys/fs/cgroup"
#define CGROUP_DEPTH 3 /* slice, unit, and what the unit made for itself */
#define CAP_IPC_LOCK_BIT 14

static int first_pid(struct check_ctx *ctx, const char *cgroup)
{
	char path[PATH_MAX], text[4096];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	return host_tree_read(ctx->tree, path, text, sizeof(text)) > 0 ? atoi(text) : 0;
}

/*
 * A process of the unit: its own cgroup has none where it delegates to others
 * below.  @unit NULL: any cgroup will do.
 */
static int find_pid(struct check_ctx *ctx, const char *cgroup, const char *unit, int depth)
{
	char **names = NULL, path[PATH_MAX];
	ssize_t n;
	int pid = unit ? 0 : first_pid(ctx, cgroup);

	if (pid || depth == CGROUP_DEPTH)
		return pid;
	n = host_tree_list(ctx->tree, cgroup, &names);
	for (ssize_t i = 0; i < n && !pid; i++) {
		const char *want = unit && strcmp(names[i], unit) ? unit : NULL;

		if (unit && want && !strstr(names[i], ".slice"))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", cgroup, names[i]) < sizeof(path))
			pid = find_pid(ctx, path, want, depth + 1);
	}
	if (n >= 0)
		host_tree_free_names(names, n);
	return pid;
}

/* A unit's limits are those of its processes. */
static int pid_of_unit(struct check_ctx *ctx, const char *unit, int *pid)
{
	if (strchr(unit, '/'))
		return -EINVAL;
	*pid = find_pid(ctx, CGROUPS, unit, 0);
	return *pid > 0 ? 0 : -ESTALE;
}

static int target_pid(struct check_ctx *ctx, int *pid)
{
	*pid = ctx->opts->pid;
	if (*pid)
		return 0;
	return ctx->opts->unit ? pid_of_unit(ctx, ctx->opts->unit, pid) : -ENOENT;
}

void check_limits_add_unknown(struct check_ctx *ctx, const char *target, int rc)
{
	const char *remedy = "Run as root.", *why = check_why(rc);

	if (rc == -ESTALE) {
		remedy =
			"Start the unit ('systemctl status UNIT'), or name a process: 'mrguard check PID'.";
		why = "no process in its cgroup (" CGROUPS ")";
	} else if (rc == -ESRCH) {
		remedy = "Name a process that runs: 'mrguard check PID'.";
		why = "no such process";
	}
	check_add(ctx, MRG_CHECK_UNKNOWN, "", "The limit is not known.", remedy, "%s: %s", target,
		  why);
}

/* A container's root has its capabilities in a namespace of its own. */
static bool in_initial_namespace(struct check_ctx *ctx, int pid)
{
	unsigned int inside, outside, count;
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (host_tree_read(ctx->tree, path, text, sizeof(text)) <= 0)
		return false;
	return sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && !outside &&
	       count == UINT32_MAX;
}

bool check_limits_target_may_lock(struct check_ctx *ctx)
{
	char path[64], text[8192], *at;
	uint64_t effective;
	int pid;

	if (target_pid(ctx, &pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (host_tree_read(ctx->tree, path, text, sizeof(text)) <= 0)
		return false;
	at = strstr(text, "CapEff:");
	return at && sscanf(at, "CapEff: %" SCNx64, &effective) == 1 &&
	       effective >> CAP_IPC_LOCK_BIT & 1 && in_initial_namespace(ctx, pid);
}

int check_limits_of_target(struct check_ctx *ctx, const char *name, uint64_t *value, char *target,
			   size_t cap)
{
	char path[64], text[8192], *at;
	int pid, rc = target_pid(ctx, &pid);
	ssize_t n;

	if (ctx->opts->pid)
		snprintf(target, cap, "pid %d", pid);
	else if (!rc)
		snprintf(target, cap, "unit %.80s (pid %d)", ctx->opts->unit, pid);
	else
		snprintf(target, cap, "unit %.80s", ctx->opts->unit ? ctx->opts->unit : "");
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	n = host_tree_read(ctx->tree, path, text, sizeof(text));
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
