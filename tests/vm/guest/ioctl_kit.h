/* SPDX-License-Identifier: MIT */
/* What the guest tests of /dev/mrguard's ioctls share. */
#ifndef IOCTL_KIT_H
#define IOCTL_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/mman.h>

#include "uapi/mrguard.h"

#include "tools/simgpu_spec.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))
#define LARGEST_PAGE (64 * KIB) /* that a kernel has */
#define PAGE_BITS ((unsigned int)__builtin_ctzll(PAGE))

static int mrguard = -1, simgpu = -1;
static struct mrg_ioc_importer importer;

/* 0, or -errno */
static inline int call(unsigned long cmd, void *arg)
{
	return ioctl(mrguard, cmd, arg) ? -errno : 0;
}

static inline int make_buffer(const char *spec)
{
	int fd = simgpu_spec_create(spec);

	if (fd < 0)
		print_error("%s: %s\n", spec, strerror(-fd));
	assert_true(fd >= 0);
	return fd;
}

/* Sixteen pages at an invented address. */
static inline int make_pages(uint64_t addr)
{
	char spec[64];

	snprintf(spec, sizeof(spec), "%lluK@0x%llx,fake", (unsigned long long)(16 * PAGE / KIB),
		 (unsigned long long)addr);
	return make_buffer(spec);
}

static inline struct mrg_ioc_layout layout_of(int fd, struct mrg_ioc_run *runs, uint32_t cap)
{
	return (struct mrg_ioc_layout){
		.size = sizeof(struct mrg_ioc_layout),
		.dmabuf_fd = fd,
		.importer = importer,
		.runs = (uintptr_t)runs,
		.runs_cap = cap,
	};
}

static inline struct mrg_ioc_blocks blocks_of(const struct mrg_ioc_run *runs, uint32_t n,
					      uint64_t iova, uint64_t length)
{
	return (struct mrg_ioc_blocks){
		.size = sizeof(struct mrg_ioc_blocks),
		.dmabuf_fd = -1,
		.runs = (uintptr_t)runs,
		.runs_cap = n,
		.iova = iova,
		.length = length,
		.pgsz_bitmap = ~(PAGE - 1),
	};
}

static inline struct simgpu_stat simgpu_now(void)
{
	struct simgpu_stat st = { .fd = -1 };

	assert_int_equal(ioctl(simgpu, SIMGPU_IOC_STAT, &st), 0);
	return st;
}

/* What MRG_IOC_INFO must find on this kernel. */
static inline uint32_t expected_walk(void)
{
	const char *walk = getenv("MRG_WALK");

	assert_non_null(walk);
	return MRG_WALK_INFO_KNOWN | MRG_WALK_INFO_CROSSES |
	       (strcmp(walk, "truncating") ? 0 : MRG_WALK_INFO_OFFSET32);
}

static inline int truncating(void)
{
	return !!(expected_walk() & MRG_WALK_INFO_OFFSET32);
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Knuth's 64-bit linear generator; its high bits are the good ones. */
static inline uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*seed >> 20) % limit;
}

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Lines of /proc/self/maps, by nothing that allocates. */
static inline uint64_t count_lines(void)
{
	static char buffer[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint64_t lines = 0;
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		for (char *p = buffer; (p = memchr(p, '\n', (size_t)(buffer + n - p))); p++)
			lines++;
	close(fd);
	return lines;
}

/* Where the kernel has a vsyscall page, /proc shows it, and it is nobody's VMA. */
static inline uint64_t lines_of_nobody(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t found = 0;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found += !!strstr(line, "[vsyscall]");
	fclose(f);
	return found;
}

/* The PCI functions that a driver is bound to, @cap at most; returns their number. */
static inline int functions_of(const char *driver, struct mrg_ioc_importer *out, int cap)
{
	unsigned int domain, bus, dev, fn;
	struct dirent *e;
	char path[128];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	dir = opendir(path);
	while (dir && n < cap && (e = readdir(dir))) {
		if (sscanf(e->d_name, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4)
			continue;
		out[n++] = (struct mrg_ioc_importer){
			.domain = domain,
			.bus = (uint8_t)bus,
			.devfn = (uint8_t)(dev << 3 | fn),
		};
	}
	if (dir)
		closedir(dir);
	return n;
}

static inline void function_name(const struct mrg_ioc_importer *imp, char name[16])
{
	snprintf(name, 16, "%04x:%02x:%02x.%x", imp->domain & 0xffff, imp->bus, imp->devfn >> 3,
		 imp->devfn & 7);
}

/* Loads modules, opens both devices, and takes @driver's first function as importer. */
static inline int kit_open(const char *modules, const char *driver)
{
	char command[128];

	snprintf(command, sizeof(command), "modprobe -a %s >&2", modules);
	if (system(command))
		return -1;
	mrguard = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	simgpu = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	if (mrguard < 0 || simgpu < 0)
		return -1;
	return functions_of(driver, &importer, 1) == 1 ? 0 : -1;
}

static inline int kit_close(const char *modules)
{
	char command[128];

	close(mrguard);
	close(simgpu);
	snprintf(command, sizeof(command), "modprobe -r %s >&2", modules);
	return system(command);
}

#endif
