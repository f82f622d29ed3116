/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "host/limits.h"
#include "host/maps.h"

#define CAP_IPC_LOCK_BIT 14

static void status_line(const char *line, struct host_limits *limits)
{
	uint64_t value;

	if (sscanf(line, "VmPin: %" SCNu64 " kB", &value) == 1)
		limits->pinned = value << 10;
	else if (sscanf(line, "CapEff: %" SCNx64, &value) == 1)
		limits->may_lock = value >> CAP_IPC_LOCK_BIT & 1;
}

static void limits_line(const char *line, struct host_limits *limits)
{
	uint64_t value;

	if (sscanf(line, "Max locked memory %" SCNu64, &value) == 1)
		limits->memlock = value;
}

/*
 * ib_umem_get() asks capable(), that is, in the initial user namespace: a
 * container's root does not pass.
 */
static void uid_map_line(const char *line, struct host_limits *limits)
{
	uint64_t inside, outside, count;

	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3 &&
	    (outside || count != UINT32_MAX))
		limits->may_lock = false;
}

/* Calls @take for each line of @file in @dir. */
static int each_line(const char *dir, const char *file,
		     void (*take)(const char *line, struct host_limits *limits),
		     struct host_limits *limits)
{
	char path[PATH_MAX], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		take(line, limits);
	fclose(f);
	return 0;
}

int host_vma_limit(const char *proc, uint64_t *limit)
{
	char path[PATH_MAX];
	FILE *file;
	int fields;

	snprintf(path, sizeof(path), "%s/sys/vm/max_map_count", proc);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	fields = fscanf(file, "%" SCNu64, limit);
	fclose(file);
	return fields == 1 ? 0 : -EBADMSG;
}

int host_limits_read(const char *proc, const char *process, struct host_limits *limits)
{
	char dir[PATH_MAX / 2], path[PATH_MAX];
	ssize_t vmas;
	int ret;

	snprintf(dir, sizeof(dir), "%s/%s", proc, process);
	snprintf(path, sizeof(path), "%s/maps", dir);
	vmas = host_maps_count(path);
	*limits = (struct host_limits){ .memlock = UINT64_MAX,
					.vmas = vmas < 0 ? 0 : (uint64_t)vmas };
	limits->vmas_known = vmas >= 0 && !host_vma_limit(proc, &limits->vma_limit);
	ret = each_line(dir, "status", status_line, limits);
	limits->memlock_known = !ret && !each_line(dir, "limits", limits_line, limits);
	each_line(dir, "uid_map", uid_map_line, limits);
	return ret;
}
