/* SPDX-License-Identifier: MIT */
/* What /proc tells of ordinary memory: huge pages, limits. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/maps.h"
#include "region/request.h"

#define CAP_IPC_LOCK_BIT 14

static int open_proc(const struct region_env *env, const char *file, struct host_maps *maps)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/self/%s", env->proc, file);
	return host_maps_open(maps, path);
}

/*
 * smaps makes the kernel walk the page tables of every mapping before the
 * range, so this is asked only where a buffer must be cut.
 */
uint64_t region_huge_page(const struct region_env *env, uint64_t addr, uint64_t length)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	uint64_t largest = 0;

	if (open_proc(env, "smaps", &maps))
		return 0;
	while (host_maps_next(&maps, &vma) == 1 && vma.start < addr + length)
		if (vma.end > addr && (vma.flags & HOST_MF_HUGETLB) && vma.page_size > largest)
			largest = vma.page_size;
	host_maps_close(&maps);
	return largest;
}

/* Calls @line for each line of a file of /proc. */
static bool each_line(const struct region_env *env, const char *file,
		      void (*line)(const char *text, struct region_proc *proc),
		      struct region_proc *proc)
{
	char path[PATH_MAX], text[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", env->proc, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(text, sizeof(text), f))
		line(text, proc);
	fclose(f);
	return true;
}

static void status_line(const char *text, struct region_proc *proc)
{
	uint64_t value;

	if (sscanf(text, "VmPin: %" SCNu64 " kB", &value) == 1)
		proc->pinned = value << 10;
	else if (sscanf(text, "CapEff: %" SCNx64, &value) == 1)
		proc->may_lock = value >> CAP_IPC_LOCK_BIT & 1;
}

static void limits_line(const char *text, struct region_proc *proc)
{
	uint64_t value;

	if (sscanf(text, "Max locked memory %" SCNu64, &value) == 1)
		proc->memlock = value;
}

/*
 * The kernel asks capable(), that is, in the first user namespace: in another
 * the capability of its root does not count.
 */
static void uid_map_line(const char *text, struct region_proc *proc)
{
	uint64_t inside, outside, count;

	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3 &&
	    (outside || count != UINT32_MAX))
		proc->may_lock = false;
}

static void map_count_line(const char *text, struct region_proc *proc)
{
	proc->vma_limit = strtoull(text, NULL, 10);
}

static void count_line(const char *text, struct region_proc *proc)
{
	if (strchr(text, '\n'))
		proc->vmas++;
}

void region_proc_read(const struct region_env *env, struct region_proc *proc)
{
	*proc = (struct region_proc){ .memlock = UINT64_MAX };
	proc->known = each_line(env, "self/status", status_line, proc) &&
		      each_line(env, "self/limits", limits_line, proc) &&
		      each_line(env, "sys/vm/max_map_count", map_count_line, proc) &&
		      each_line(env, "self/maps", count_line, proc);
	each_line(env, "self/uid_map", uid_map_line, proc);
}
