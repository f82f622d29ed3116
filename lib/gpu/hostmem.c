/* SPDX-License-Identifier: MIT */
/*
 * Host memory: whether a range is mapped, and in pages of which size.  Linux
 * 6.11 answers for one address at a time (PROCMAP_QUERY); before that the
 * lines of /proc/self/maps are read, and smaps, which costs a page-table walk a
 * line, only where a mapping can be of huge pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gpu/driver.h"

/* As in linux/fs.h since 6.11: struct procmap_query, PROCMAP_QUERY. */
struct map_query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t start;
	uint64_t end;
	uint64_t vma_flags;
	uint64_t page_size;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t name_size;
	uint32_t build_id_size;
	uint64_t name_addr;
	uint64_t build_id_addr;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define MAP_QUERY_READABLE 0x01
#define MAP_QUERY_WRITABLE 0x02
#define HUGETLBFS 0x958458f6 /* HUGETLBFS_MAGIC */

struct mapping {
	uint64_t start, end;
	uint64_t page_size;
	bool accessible;
};

static int query(int fd, uint64_t addr, struct mapping *found)
{
	struct map_query q = { .size = sizeof(q), .addr = addr };

	if (ioctl(fd, MAP_QUERY, &q))
		return -errno;
	found->start = q.start;
	found->end = q.end;
	found->page_size = q.page_size;
	found->accessible = q.vma_flags & (MAP_QUERY_READABLE | MAP_QUERY_WRITABLE);
	return 0;
}

/* Add the mapping at *@at; false where it is a hole. */
static bool take(const struct mapping *m, uint64_t *at, struct mrg_mem *mem)
{
	if (m->start > *at || !m->accessible)
		return false;
	if (!mem->size)
		mem->base = m->start;
	mem->size = m->end - mem->base;
	if (m->page_size > mem->page_size)
		mem->page_size = m->page_size;
	*at = m->end;
	return true;
}

/* -ENOTTY from kernels that have no such ioctl */
static int walk_by_query(uint64_t addr, uint64_t end, struct mrg_mem *mem)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct mapping m = { 0 };
	int ret = 0;

	if (fd < 0)
		return -errno;
	for (uint64_t at = addr; at < end;) {
		ret = query(fd, at, &m);
		if (ret && ret != -ENOENT)
			break;
		if (ret || !take(&m, &at, mem)) {
			mem->hole = at;
			ret = 0;
			break;
		}
	}
	close(fd);
	return ret;
}

/* KernelPageSize of the mapping that starts at @start */
static uint64_t smaps_page_size(uint64_t start)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long long from, to, kib = 0;
	bool inside = false;
	char *line = NULL;
	size_t room = 0;
	char dash;

	if (!smaps)
		return 0;
	while (getline(&line, &room, smaps) > 0) {
		if (sscanf(line, "%llx-%llx%c", &from, &to, &dash) == 3 && dash == ' ')
			inside = from == start;
		else if (inside && sscanf(line, "KernelPageSize: %llu kB", &kib) == 1)
			break;
	}
	free(line);
	fclose(smaps);
	return kib << 10;
}

/* Unnamed memory is never of huge pages: the kernel names that itself. */
static bool may_be_huge(const char *path)
{
	struct statfs fs;

	if (!strncmp(path, "/anon_hugepage", 14) || !strncmp(path, "/memfd:", 7) ||
	    !strncmp(path, "/SYSV", 5) || strstr(path, " (deleted)"))
		return true;
	return path[0] == '/' && !statfs(path, &fs) && fs.f_type == HUGETLBFS;
}

static bool parse_line(const char *line, uint64_t base_page, uint64_t at, struct mapping *m)
{
	unsigned long long start, end;
	int path = 0;
	char perms[5];

	if (sscanf(line, "%llx-%llx %4s %*x %*s %*u %n", &start, &end, perms, &path) < 3 ||
	    end <= at)
		return false;
	m->start = start;
	m->end = end;
	m->accessible = perms[0] == 'r' || perms[1] == 'w';
	m->page_size = base_page;
	if (path && line[path] == '/' && may_be_huge(line + path))
		m->page_size = smaps_page_size(start);
	return true;
}

static int walk_by_text(const struct mrg_gpu *gpu, uint64_t addr, uint64_t end, struct mrg_mem *mem)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t at = addr;
	struct mapping m;
	char *line = NULL;
	size_t room = 0;

	if (!maps)
		return -errno;
	while (at < end && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (parse_line(line, gpu->page_size, at, &m) && !take(&m, &at, mem))
			break;
	}
	if (at < end)
		mem->hole = at;
	free(line);
	fclose(maps);
	return 0;
}

int gpu_host_classify(const struct mrg_gpu *gpu, uint64_t addr, uint64_t length, bool use_ioctl,
		      struct mrg_mem *mem)
{
	int ret = -ENOTTY;

	mem->device = -1;
	if (use_ioctl)
		ret = walk_by_query(addr, addr + length, mem);
	if (ret == -ENOTTY || ret == -EINVAL)
		ret = walk_by_text(gpu, addr, addr + length, mem);
	if (ret)
		return gpu_fail(gpu, ret, "classify", "mount /proc",
				"/proc/self/maps cannot be read: %s", strerror(-ret));
	if (mem->kind == MRG_MEM_HOST_PINNED) {
		mem->rdma = MRG_RDMA_YES;
		return 0;
	}
	mem->source = "/proc/self/maps";
	if (!mem->size)
		return 0;
	mem->kind = mem->page_size > gpu->page_size ? MRG_MEM_HUGETLB : MRG_MEM_HOST;
	mem->rdma = MRG_RDMA_YES;
	return 0;
}
