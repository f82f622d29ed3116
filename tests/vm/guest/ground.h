/* SPDX-License-Identifier: MIT */
/*
 * The ground for tests with real bytes: simgpu's memory, simnic's devices, the
 * tools' own eyes (lib/tools/verify.h), and TAP.
 */
#ifndef GUEST_GROUND_H
#define GUEST_GROUND_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mrguard/host.h>
#include <mrguard/region.h>

#include "tools/simgpu.h"
#include "tools/rc_loop.h"
#include "tools/verify.h"

/* The guest's programs are one file each; these parts belong to the command. */
#include "tools/pattern.c"
#include "tools/rc_loop.c"
#include "tools/verify.c"
#include "tools/verify_spans.c"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

static int tap_count;

/* The running kernel's: 4, 16 or 64 KiB. */
static inline uint64_t host_page(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

__attribute__((format(printf, 2, 3))) static inline bool ok(bool good, const char *format, ...)
{
	va_list args;

	printf("%s %d - ", good ? "ok" : "not ok", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	return good;
}

static inline void tap_end(void)
{
	printf("1..%d\n", tap_count);
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void bail(const char *format, ...)
{
	va_list args;

	printf("Bail out! ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(99);
}

__attribute__((format(printf, 1, 2))) static inline int run_command(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	fflush(stdout);
	return system(command);
}

/* librxe has no ibv_reg_dmabuf_mr(): starts the program again with the shim. */
static inline void preload_shim(char **argv)
{
	const char *build = getenv("MRG_BUILD");
	char shim[512];

	if (getenv("LD_PRELOAD"))
		return;
	snprintf(shim, sizeof(shim), "%s/tests/vm/shim/simnic-verbs.so", build ? build : "build");
	setenv("LD_PRELOAD", shim, 1);
	execv("/proc/self/exe", argv);
	bail("cannot start again with %s: %s", shim, strerror(errno));
}

static inline void ground_up(void)
{
	if (run_command(
		    "modprobe simgpu && modprobe simnic && modprobe mrguard && modprobe mrguard_walk"))
		bail("the modules do not load");
}

static inline void ground_down(void)
{
	ok(!run_command(
		   "modprobe -r simnic && modprobe -r simgpu && modprobe -r mrguard_walk && modprobe -r mrguard"),
	   "nothing keeps the modules from being unloaded");
}

/* mrguard_cap.ko, which leaves MRs no page above this. */
#define CAP_SHIFT 31

static inline void cap_load(void)
{
	if (run_command("modprobe mrguard_cap"))
		bail("the cap does not load");
}

static inline void cap_unload(void)
{
	if (run_command("modprobe -r mrguard_cap"))
		bail("the cap does not unload");
}

static inline bool walk_is_truncating(void)
{
	const char *walk = getenv("MRG_WALK");

	return walk && !strcmp(walk, "truncating");
}

static inline bool machine_is(const char *name)
{
	const char *machine = getenv("MRG_MACHINE");

	return machine && !strcmp(machine, name);
}

static inline bool full_run(void)
{
	const char *full = getenv("MRG_FULL");

	return full && *full;
}

static inline void simnic_set(const char *device, const char *file, uint64_t value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/simnic/%s/%s", device, file);
	f = fopen(path, "w");
	if (!f || fprintf(f, "%llu\n", (unsigned long long)value) < 0 || fclose(f))
		bail("%s: %s", path, strerror(errno));
}

static inline uint64_t simnic_stat(const char *device, const char *name)
{
	char path[128], key[64];
	unsigned long long value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/simnic/%s/stats", device);
	f = fopen(path, "r");
	while (f && fscanf(f, "%63s %llu", key, &value) == 2)
		if (!strcmp(key, name)) {
			fclose(f);
			return value;
		}
	bail("%s has no %s", path, name);
}

/* 2^n bytes: the page that the region has. */
static inline unsigned int mr_page_shift(const char *device, const struct ibv_mr *mr)
{
	unsigned int shift = 0;
	char path[96], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/simnic/%s/mr/%x", device, mr->lkey);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "page_shift %u", &shift) != 1)
		;
	if (f)
		fclose(f);
	return shift;
}

/* A DMA-BUF over simgpu's memory; entries of @seg bytes (0: the importer's). */
static inline int make_dmabuf_as(uint32_t flags, const struct mrg_sg *sg, uint32_t count,
				 uint64_t seg)
{
	struct simgpu_create create = { .size = sizeof(create),
					.flags = flags,
					.seg = seg,
					.extents = (uintptr_t)sg,
					.extents_n = count };
	int device = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	int fd = ioctl(device, SIMGPU_IOC_CREATE, &create);

	if (fd < 0)
		bail("simgpu refuses the buffer: %s", strerror(errno));
	close(device);
	return fd;
}

static inline int make_dmabuf(const struct mrg_sg *sg, uint32_t count, uint64_t seg)
{
	return make_dmabuf_as(0, sg, count, seg);
}

/* The CPU's own way to the bytes. */
static inline int mapped_read(void *arg, uint64_t offset, void *buf, uint64_t length)
{
	memcpy(buf, (char *)arg + offset, length);
	return 0;
}

static inline int mapped_write(void *arg, uint64_t offset, const void *buf, uint64_t length)
{
	memcpy((char *)arg + offset, buf, length);
	return 0;
}

static inline void own_pages(char *base, const struct verify_span *span)
{
	uint64_t in_page = host_page() - 1;
	uint64_t start = span->offset & ~in_page;
	uint64_t end = (span->offset + span->length + in_page) & ~in_page;

	/* Shared between processes, as a DMA-BUF's are. */
	if (mmap(base + start, end - start, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
}

/*
 * Gigabytes of ordinary memory that take little: one file of 64 MiB again and
 * again, and pages of their own where the test looks.
 */
static inline void *map_sparse(uint64_t addr, uint64_t size, const struct verify_spans *spans)
{
	const uint64_t part = 64 * MIB;
	int file = memfd_create("rest", MFD_CLOEXEC);
	char *base = (char *)addr;

	if (file < 0 || ftruncate(file, (off_t)part))
		bail("memfd: %s", strerror(errno));
	for (uint64_t at = 0; at < size; at += part)
		if (mmap(base + at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
			 0) == MAP_FAILED)
			bail("mmap: %s", strerror(errno));
	close(file);
	for (size_t i = 0; i < spans->count; i++)
		own_pages(base, &spans->blocks[i]);
	for (size_t i = 0; i < spans->line_count; i++)
		own_pages(base, &spans->lines[i]);
	own_pages(base, &spans->tails[spans->tail_count - 1]);
	return base;
}

/* The part of a list of segments that is a range of what they are together. */
static inline ssize_t segs_range(const struct mrg_seg *all, size_t count, uint64_t offset,
				 uint64_t length, struct mrg_seg *segs, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < count && length; i++) {
		uint64_t part = all[i].length;

		if (offset >= part) {
			offset -= part;
			continue;
		}
		part = part - offset < length ? part - offset : length;
		if (n == cap)
			return -E2BIG;
		segs[n] = all[i];
		segs[n].wire += offset;
		segs[n++].length = part;
		length -= part;
		offset = 0;
	}
	return length ? -ERANGE : (ssize_t)n;
}

#endif
