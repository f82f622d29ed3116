/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files.h"
#include "host/maps.h"
#include "explain/pin.h"

/* Shared memory has names in /dev as well, and is memory like any other. */
static bool is_device_file(const char *name)
{
	static const char *const memory[] = { "/dev/zero", "/dev/shm/", "/dev/hugepages" };

	if (!strncmp(name, "/dmabuf:", 8))
		return true;
	if (strncmp(name, "/dev/", 5))
		return false;
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (!strncmp(name, memory[i], strlen(memory[i])))
			return false;
	return true;
}

static enum explain_pin_fault fault_of(const struct host_maps_vma *vma, bool need_write)
{
	/* What get_user_pages() refuses whoever asks: check_vma_flags(). */
	if (is_device_file(vma->name) || (vma->flags & (HOST_MF_IO | HOST_MF_PFNMAP)))
		return PIN_DEVICE;
	if (vma->perms[0] != 'r' && vma->perms[1] != 'w')
		return PIN_NO_ACCESS;
	return need_write && vma->perms[1] != 'w' ? PIN_READ_ONLY : PIN_NONE;
}

/* By its name; its file system decides, which memfds and shared memory have not. */
static bool is_shared_file(const struct host_maps_vma *vma)
{
	static const char *const memory[] = { "/memfd:", "/SYSV", "/anon_hugepage", "/dev/" };

	if (vma->perms[3] != 's' || vma->perms[1] != 'w' || !vma->inode || vma->name[0] != '/')
		return false;
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (!strncmp(vma->name, memory[i], strlen(memory[i])))
			return false;
	return !(vma->flags & HOST_MF_HUGETLB);
}

/* "36 35 8:1 / /data rw shared:1 - ext4 /dev/sda1 rw" */
static void read_file_system(const char *proc, const char *process, struct explain_pin_facts *facts)
{
	static const char *const memory[] = { "tmpfs", "devtmpfs", "hugetlbfs", "ramfs" };
	unsigned int major, minor;
	char path[PATH_MAX], line[1024], *type;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/mountinfo", proc, process);
	file = fopen(path, "re");
	while (file && !facts->file_fs[0] && fgets(line, sizeof(line), file)) {
		type = strstr(line, " - ");
		if (type && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
		    facts->file_dev == (major << 20 | minor))
			sscanf(type + 3, "%31s", facts->file_fs);
	}
	if (file)
		fclose(file);
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (!strcmp(facts->file_fs, memory[i]))
			facts->file_name[0] = '\0';
}

/* From 6.5 on long-term pins of mappings that need dirty tracking are refused. */
static enum explain_answer refuses_files(const char *proc)
{
	unsigned int major, minor;
	char release[128];

	if (!host_first_line(release, sizeof(release), "%s/sys/kernel/osrelease", proc) ||
	    sscanf(release, "%u.%u", &major, &minor) != 2)
		return EXPLAIN_UNKNOWN;
	return major > 6 || (major == 6 && minor >= 5) ? EXPLAIN_YES : EXPLAIN_NO;
}

/* Goes on from @facts->at, up to which nothing was found. */
static void see(const struct host_maps_vma *vma, bool need_write, struct explain_pin_facts *facts)
{
	if (facts->fault || vma->end <= facts->at || facts->at - facts->addr >= facts->length)
		return;
	facts->fault = vma->start > facts->at ? PIN_UNMAPPED : fault_of(vma, need_write);
	if (facts->fault == PIN_DEVICE)
		snprintf(facts->name, sizeof(facts->name), "%.*s", (int)sizeof(facts->name) - 1,
			 vma->name);
	if (facts->fault)
		return;
	facts->at = vma->end;
	if (!facts->file_name[0] && is_shared_file(vma)) {
		facts->file_at = vma->start > facts->addr ? vma->start : facts->addr;
		facts->file_dev = vma->dev;
		snprintf(facts->file_name, sizeof(facts->file_name), "%.*s",
			 (int)sizeof(facts->file_name) - 1, vma->name);
	}
}

static int walk(const char *path, bool need_write, struct explain_pin_facts *facts)
{
	struct host_maps_vma vma;
	struct host_maps maps;
	int ret = host_maps_open(&maps, path);

	if (ret)
		return ret;
	facts->at = facts->addr;
	while ((ret = host_maps_next(&maps, &vma)) == 1) {
		facts->gpu_driver |= strstr(vma.name, "/libcuda.so") ||
				     strstr(vma.name, "/libamdhip64.so");
		see(&vma, need_write, facts);
	}
	host_maps_close(&maps);
	if (!ret && !facts->fault && facts->at - facts->addr < facts->length)
		facts->fault = PIN_UNMAPPED;
	return ret;
}

/*
 * A module that gives the RDMA core its pages uses symbols of it, and so is one
 * of its users, the fourth word: "ib_core 548864 2 nvidia_peermem,ib_uverbs,".
 * One that was built where these symbols were missing is loaded and does
 * nothing.
 */
static void take_module(const char *line, struct explain_pin_facts *facts)
{
	char name[64], users[512];

	if (sscanf(line, "%63s %*s %*s %511s", name, users) != 2)
		return;
	if ((!strcmp(name, "nvidia_peermem") || !strcmp(name, "nv_peer_mem")) &&
	    facts->peermem == PEERMEM_ABSENT)
		facts->peermem = PEERMEM_IDLE;
	if ((!strcmp(name, "ib_core") || !strcmp(name, "ib_uverbs")) &&
	    (strstr(users, "nvidia_peermem") || strstr(users, "nv_peer_mem")))
		facts->peermem = PEERMEM_LINKED;
}

static void read_modules(const char *proc, struct explain_pin_facts *facts)
{
	char path[PATH_MAX], line[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/modules", proc);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		take_module(line, facts);
	fclose(file);
}

int explain_pin_read(const char *proc, const char *process, uint64_t addr, uint64_t length,
		     bool need_write, struct explain_pin_facts *facts)
{
	struct explain_pin_facts found = { .addr = addr, .length = length };
	struct explain_pin_facts flags = found;
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), "%s/%s/maps", proc, process);
	ret = walk(path, need_write, &found);
	if (ret)
		return ret;
	/* Only smaps tells a device mapping without a name, and it is dear. */
	snprintf(path, sizeof(path), "%s/%s/smaps", proc, process);
	if (!found.fault && !walk(path, need_write, &flags) && flags.fault == PIN_DEVICE)
		found = flags;
	read_modules(proc, &found);
	if (found.file_name[0]) {
		read_file_system(proc, process, &found);
		/* By a mount that is not in sight, it may be anything. */
		found.file_refused = found.file_fs[0] ? refuses_files(proc) : EXPLAIN_UNKNOWN;
	}
	*facts = found;
	return 0;
}

void explain_pin_ask_gpu(struct mrg_gpu *gpu, struct explain_pin_facts *facts)
{
	struct mrg_mem mem;

	if (mrg_gpu_classify(gpu, facts->addr, facts->length, &mem))
		return;
	if (mem.kind >= MRG_MEM_CUDA) {
		facts->kind = mem.kind;
		facts->unflagged = mem.rdma == MRG_RDMA_NO;
		facts->chunks = mem.count;
		facts->end = mem.hole;
	}
	mrg_mem_release(&mem);
}

void explain_pin_ask_drivers(struct explain_pin_facts *facts)
{
	struct mrg_gpu *gpu;

	if (mrg_gpu_open(&gpu, NULL))
		return;
	explain_pin_ask_gpu(gpu, facts);
	mrg_gpu_close(gpu);
}
