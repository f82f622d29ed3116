/* SPDX-License-Identifier: MIT */
/*
 * Host memory: whether a range is mapped, and in pages of which size.  Linux
 * 6.11 answers for one address at a time (PROCMAP_QUERY); before that the
 * lines of /proc/self/maps are read, and smaps, which costs a page-table walk a
 * line, only where a mapping can be of huge pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "host/maps.h"

#define HUGETLBFS 0x958458f6 /* HUGETLBFS_MAGIC */

/* Add the mapping at *@at; false where it is a hole. */
static bool take(const struct host_maps_vma *vma, uint64_t *at, struct mrg_mem *mem)
{
	if (vma->start > *at || (vma->perms[0] != 'r' && vma->perms[1] != 'w'))
		return false;
	if (!mem->size)
		mem->base = vma->start;
	mem->size = vma->end - mem->base;
	if (vma->page_size > mem->page_size)
		mem->page_size = vma->page_size;
	*at = vma->end;
	return true;
}

/* Both walk from *@at to @end or to a hole, and move *@at there.  0 or -errno. */
static int walk_by_query(uint64_t *at, uint64_t end, struct mrg_mem *mem)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct host_maps_vma vma;
	int ret = 0;

	if (fd < 0)
		return -errno;
	while (*at < end && !ret) {
		ret = host_maps_query(fd, *at, &vma);
		if (!ret && !take(&vma, at, mem))
			break;
	}
	close(fd);
	return ret == -ENOENT ? 0 : ret;
}

/* KernelPageSize of the mapping that starts at @start */
static uint64_t smaps_page_size(uint64_t start)
{
	struct host_maps_vma vma = { 0 };
	struct host_maps smaps;

	if (host_maps_open(&smaps, "/proc/self/smaps"))
		return 0;
	while (host_maps_next(&smaps, &vma) == 1 && vma.start < start)
		;
	host_maps_close(&smaps);
	return vma.start == start ? vma.page_size : 0;
}

/* Unnamed memory is never of huge pages: the kernel names that itself.  A path
 * that was cut cannot be looked up. */
static bool may_be_huge(const char *name)
{
	struct statfs fs;

	if (!strncmp(name, "/anon_hugepage", 14) || !strncmp(name, "/memfd:", 7) ||
	    !strncmp(name, "/SYSV", 5) || strstr(name, " (deleted)"))
		return true;
	if (name[0] != '/')
		return false;
	return strlen(name) == HOST_MAPS_NAME_MAX - 1 ||
	       (!statfs(name, &fs) && fs.f_type == HUGETLBFS);
}

static int walk_by_text(uint64_t base_page, uint64_t *at, uint64_t end, struct mrg_mem *mem)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	int ret = host_maps_open(&maps, "/proc/self/maps");

	if (ret)
		return ret;
	while (*at < end && (ret = host_maps_next(&maps, &vma)) == 1) {
		if (vma.end <= *at)
			continue;
		vma.page_size = may_be_huge(vma.name) ? smaps_page_size(vma.start) : base_page;
		if (!take(&vma, at, mem))
			break;
	}
	host_maps_close(&maps);
	return ret < 0 ? ret : 0;
}

int gpu_host_classify(const struct mrg_gpu *gpu, uint64_t addr, uint64_t length, bool use_ioctl,
		      struct mrg_mem *mem)
{
	uint64_t at = addr, end = addr + length;
	int ret = -ENOTTY;

	mem->device = -1;
	if (use_ioctl)
		ret = walk_by_query(&at, end, mem);
	if (ret == -ENOTTY || ret == -EINVAL)
		ret = walk_by_text(gpu->page_size, &at, end, mem);
	if (ret)
		return base_fail(gpu->error_owner, ret, "classify", "Mount /proc.",
				 "The file /proc/self/maps cannot be read: %s.", strerror(-ret));
	if (at < end)
		mem->hole = at;
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
