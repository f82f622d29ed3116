/* SPDX-License-Identifier: MIT */
/* The rdma controller of cgroups: how many objects of a device a group may have. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

/* The group's path by /proc/PID/cgroup, below where its files are. */
static bool read_group(const char *proc, const char *process, char *dir, size_t size)
{
	char path[PATH_MAX], line[PATH_MAX], *group;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/cgroup", proc, process);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		group = strchr(line, ':');
		if (!group || strstr(group, "/../"))
			continue;
		if (!strncmp(group, "::", 2))
			found = snprintf(dir, size, "%s/../sys/fs/cgroup%s", proc, group + 2) <
				(int)size;
		else if (!strncmp(group, ":rdma:", 6))
			found = snprintf(dir, size, "%s/../sys/fs/cgroup/rdma%s", proc, group + 6) <
				(int)size;
	}
	if (file)
		fclose(file);
	return found;
}

/* The number of "hca_object=N" in the device's line; UINT64_MAX for "max". */
static bool read_objects(const char *dir, const char *name, const char *device, uint64_t *objects)
{
	char path[PATH_MAX + 32], line[256], *at;
	size_t len = strlen(device);
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		at = strstr(line, "hca_object=");
		if (strncmp(line, device, len) || line[len] != ' ' || !at)
			continue;
		at += strlen("hca_object=");
		*objects = strncmp(at, "max", 3) ? strtoull(at, NULL, 10) : UINT64_MAX;
		found = true;
	}
	if (file)
		fclose(file);
	return found;
}

/* The first device of rdma.max that has no object left, or @only. */
static void read_level(const char *dir, const char *only, struct explain_cgroup *facts)
{
	char path[PATH_MAX + 32], line[256], device[64];
	uint64_t max, current;
	FILE *file;

	snprintf(path, sizeof(path), "%s/rdma.max", dir);
	file = fopen(path, "re");
	if (!file)
		return;
	facts->limited = true;
	while (!facts->full && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s", device) != 1 || (only && strcmp(only, device)) ||
		    !read_objects(dir, "rdma.max", device, &max) ||
		    !read_objects(dir, "rdma.current", device, &current))
			continue;
		if (current >= max) {
			*facts = (struct explain_cgroup){ .known = true,
							  .limited = true,
							  .full = true,
							  .current = current,
							  .max = max };
			snprintf(facts->device, sizeof(facts->device), "%s", device);
			snprintf(facts->group, sizeof(facts->group), "%s",
				 strstr(dir, "/sys/fs/cgroup") + strlen("/sys/fs/cgroup"));
		}
	}
	fclose(file);
}

void explain_read_cgroup(const char *proc, const char *process, const char *device,
			 struct explain_cgroup *facts)
{
	char dir[PATH_MAX], *slash;
	size_t top = strlen(proc) + strlen("/../sys/fs/cgroup");

	*facts = (struct explain_cgroup){ .known = read_group(proc, process, dir, sizeof(dir)) };
	if (!facts->known)
		return;
	/* In a cgroup namespace of its own: what is above cannot be seen. */
	facts->known = strcmp(dir + top, "/");
	while (!facts->full && strlen(dir) > top && (slash = strrchr(dir, '/'))) {
		read_level(dir, device, facts);
		*slash = '\0';
	}
}

void explain_cgroup(const struct explain_evidence *evidence, struct mrg_finding *finding)
{
	static const char remedy[] =
		"Raise rdma.max of that cgroup (the pod's or the unit's), or have fewer MRs, queues and protection domains in it.";
	const struct explain_cgroup *group = &evidence->process.cgroup;

	if (evidence->opts.call == MRG_CALL_MMAP || evidence->opts.call == MRG_CALL_MADVISE)
		explain_rule_out(finding, "%s makes no object of a device.",
				 mrg_call_name(evidence->opts.call));
	else if (evidence->opts.error != EAGAIN)
		explain_rule_out(finding, "A cgroup without objects left gives EAGAIN.");
	else if (group->full)
		explain_say(
			finding, MRG_IS, remedy,
			"Cgroup %.100s has %s of the %s objects that its rdma.max lets it have on %s.",
			group->group, NUMBER(group->current), NUMBER(group->max), group->device);
	else if (!group->known)
		explain_say(
			finding, MRG_NOT_SEEN,
			"Look at rdma.max and rdma.current of its cgroup on the host.",
			"The limits of the process's cgroup, or of those above it, cannot be seen.");
	else
		explain_rule_out(finding, "%s",
				 group->limited ?
					 "Its cgroup has objects left (rdma.max)." :
					 "No cgroup of it limits RDMA objects (rdma.max).");
}
