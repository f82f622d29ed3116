/* SPDX-License-Identifier: MIT */
/*
 * A host that tests make up: verbs that count and fail on demand, a module that
 * shows the layout that the test sets, and sysfs and proc below a folder of its own.
 */
#ifndef UNIT_REGION_FAKE_H
#define UNIT_REGION_FAKE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "region/context.h"

/* A test with a host of its own. */
#define FAKE_TEST(test) cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

struct fake_mr {
	struct ibv_mr mr; /* first: verbs hands this out */
	uint64_t offset;
	uint64_t iova;
	int fd;
	struct fake_mr *next;
};

static struct fake_host {
	char root[64];
	char sys[80], proc[80];
	struct region_env env;
	struct ibv_device device;
	struct ibv_context verbs;
	struct ibv_pd pd;
	uint64_t max_mr_size;

	/* verbs */
	struct fake_mr *live;
	size_t live_count;
	size_t calls; /* registrations asked for, fd -1 apart */
	size_t dereg_calls;
	size_t fail_call; /* number of the one that fails, 1 = first; 0: none */
	int fail_errno;
	size_t fail_times; /* how many from there on; 0 = one */
	uint64_t fail_above; /* any longer piece fails with ENOMEM */
	size_t dereg_fails; /* deregistration number that fails, 0: none */
	int provider_answer; /* to fd -1 */
	int kernel_answer;
	uint32_t next_key;

	/* DMA-BUF and module */
	int64_t dmabuf_size;
	bool no_dmabuf;
	struct region_dmabuf_id dmabuf_id; /* inode 0: not known */
	int module_error;
	enum mrg_walk walk;
	enum mrg_cap cap;
	uint64_t cap_uncapped;
	int info_error;
	size_t infos; /* asked for, mrg_open()'s among them */
	size_t cap_ends; /* number of the one from which it is no longer effective, 0: none */
	size_t devs_open;
	bool no_layout_feature;
	int layout_error;
	struct mrg_sg *sg;
	size_t sg_count;
	enum mrg_iommu iommu;
	bool moves;
	size_t layouts; /* asked for */
	size_t layouts_held;
} host;

static struct ibv_mr *fake_register(uint64_t offset, void *addr, size_t length, uint64_t iova,
				    int fd)
{
	size_t times = host.fail_times ? host.fail_times : 1;
	struct fake_mr *mr;

	host.calls++;
	if (host.fail_call && host.calls >= host.fail_call && host.calls < host.fail_call + times) {
		errno = host.fail_errno;
		return NULL;
	}
	if (host.fail_above && length > host.fail_above) {
		errno = ENOMEM;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->mr.addr = addr;
	mr->mr.length = length;
	mr->mr.pd = &host.pd;
	mr->mr.lkey = ++host.next_key;
	mr->mr.rkey = mr->mr.lkey | 0x80000000u;
	mr->offset = offset;
	mr->iova = iova;
	mr->fd = fd;
	mr->next = host.live;
	host.live = mr;
	host.live_count++;
	return &mr->mr;
}

static struct ibv_mr *fake_reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)access;
	assert_ptr_equal(pd, &host.pd);
	return fake_register(0, addr, length, (uintptr_t)addr, -1);
}

static struct ibv_mr *fake_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
				      uint64_t iova, int fd, int access)
{
	(void)access;
	assert_ptr_equal(pd, &host.pd);
	if (fd == -1) {
		errno = host.provider_answer;
		return NULL;
	}
	return fake_register(offset, NULL, length, iova, fd);
}

static int fake_dereg(struct ibv_mr *mr)
{
	struct fake_mr **at = &host.live;

	host.dereg_calls++;
	if (host.dereg_calls == host.dereg_fails)
		return EBUSY;
	while (*at && &(*at)->mr != mr)
		at = &(*at)->next;
	assert_non_null(*at);
	*at = (*at)->next;
	host.live_count--;
	free(mr);
	return 0;
}

static int fake_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	(void)verbs;
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = host.max_mr_size;
	return 0;
}

static int fake_kernel_probe(struct ibv_pd *pd)
{
	(void)pd;
	return host.kernel_answer;
}

static int64_t fake_dmabuf_size(int fd)
{
	(void)fd;
	return host.dmabuf_size;
}

static bool fake_is_dmabuf(int fd)
{
	(void)fd;
	return !host.no_dmabuf;
}

static bool fake_dmabuf_id(int fd, struct region_dmabuf_id *id)
{
	(void)fd;
	*id = host.dmabuf_id;
	return host.dmabuf_id.inode;
}

static int fake_dev_open(struct mrg_dev **dev)
{
	if (!host.module_error)
		*dev = (struct mrg_dev *)&host;
	host.devs_open += !host.module_error;
	return host.module_error;
}

static void fake_dev_close(struct mrg_dev *dev)
{
	(void)dev;
	host.devs_open--;
}

static int fake_dev_info(struct mrg_dev *dev, struct mrg_dev_info *info)
{
	(void)dev;
	if (++host.infos == host.cap_ends)
		host.cap = MRG_CAP_NOT_EFFECTIVE;
	if (host.info_error)
		return host.info_error;
	*info = (struct mrg_dev_info){
		.abi = 1,
		.has_walk = true,
		.has_layout = !host.no_layout_feature,
		.walk = host.walk,
		.cap = host.cap,
		.cap_uncapped = host.cap_uncapped,
	};
	return 0;
}

static int fake_dev_layout(struct mrg_dev *dev, int fd, const struct mrg_pci_addr *importer,
			   uint64_t iova, uint64_t offset, uint64_t length, uint32_t flags,
			   struct mrg_layout *layout)
{
	(void)dev, (void)fd, (void)importer, (void)iova, (void)length, (void)flags;
	host.layouts++;
	if (host.layout_error)
		return host.layout_error;
	host.layouts_held++;
	*layout = (struct mrg_layout){ .sg = host.sg,
				       .count = host.sg_count,
				       .start = offset & ~4095ULL,
				       .iommu = host.iommu,
				       .moves = host.moves };
	return 0;
}

static void fake_layout_release(struct mrg_layout *layout)
{
	(void)layout;
	host.layouts_held--;
}

static void write_file(const char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void write_file(const char *text, const char *format, ...)
{
	char path[256];
	va_list args;
	FILE *f;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void link_file(const char *target, const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", host.root, path);
	unlink(full);
	assert_int_equal(symlink(target, full), 0);
}

/* The IOMMU group's type; NULL: no IOMMU. */
static inline void set_iommu(const char *type)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/sys/devices/pci0000:00/0000:01:00.0/iommu_group",
		 host.root);
	unlink(path);
	if (!type)
		return;
	write_file(type, "%s/sys/kernel/iommu_groups/7/type", host.root);
	link_file("../../../kernel/iommu_groups/7",
		  "sys/devices/pci0000:00/0000:01:00.0/iommu_group");
}

static inline void set_driver(const char *driver)
{
	char target[64];

	snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s", driver);
	link_file(target, "sys/devices/pci0000:00/0000:01:00.0/driver");
}

/* The device's module, loaded with that taint: "" is one of the kernel's tree. */
static inline void set_module(const char *driver, const char *taint)
{
	char text[16], path[64], target[64];

	snprintf(text, sizeof(text), "%s\n", taint);
	write_file(text, "%s/sys/module/%s/taint", host.root, driver);
	write_file("", "%s/sys/module/ib_core/holders/%s", host.root, driver);
	write_file("", "%s/sys/bus/pci/drivers/%s/bind", host.root, driver);
	snprintf(target, sizeof(target), "../../../../module/%s", driver);
	snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/module", driver);
	link_file(target, path);
}

static inline void set_proc(uint64_t memlock, uint64_t pinned, size_t vmas, uint64_t vma_limit)
{
	char text[256], path[128];
	FILE *maps;

	snprintf(text, sizeof(text), "Name:\tx\nVmPin:\t%8llu kB\nCapEff:\t0000000000000000\n",
		 (unsigned long long)pinned >> 10);
	write_file(text, "%s/self/status", host.proc);
	snprintf(text, sizeof(text),
		 "Limit                     Soft Limit           Hard Limit           Units\n"
		 "Max locked memory         %-20llu %-20llu bytes\n",
		 (unsigned long long)memlock, (unsigned long long)memlock);
	write_file(text, "%s/self/limits", host.proc);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)vma_limit);
	write_file(text, "%s/sys/vm/max_map_count", host.proc);
	write_file("         0          0 4294967295\n", "%s/self/uid_map", host.proc);
	write_file("", "%s/self/maps", host.proc);
	snprintf(path, sizeof(path), "%s/self/maps", host.proc);
	maps = fopen(path, "w");
	fputs("100000000-800000000000 rw-p 00000000 00:00 0 \n", maps);
	for (size_t i = 1; i < vmas; i++)
		fprintf(maps, "%zx000-%zx000 rw-p 00000000 00:00 0 \n", 0x800000000 + i,
			0x800000001 + i);
	fclose(maps);
}

/* An affected kernel with the module, one device "fake0", no IOMMU. */
static int fake_setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	strcpy(host.root, "/tmp/mrguard-unit-XXXXXX");
	assert_non_null(mkdtemp(host.root));
	snprintf(host.sys, sizeof(host.sys), "%s/sys", host.root);
	snprintf(host.proc, sizeof(host.proc), "%s/proc", host.root);
	write_file("", "%s/sys/devices/pci0000:00/0000:01:00.0/vendor", host.root);
	write_file("", "%s/sys/bus/pci/devices/.keep", host.root);
	write_file("", "%s/sys/class/infiniband/fake0/node_type", host.root);
	link_file("../../../bus/pci", "sys/devices/pci0000:00/0000:01:00.0/subsystem");
	link_file("../../../devices/pci0000:00/0000:01:00.0", "sys/bus/pci/devices/0000:01:00.0");
	link_file("../../../devices/pci0000:00/0000:01:00.0", "sys/class/infiniband/fake0/device");
	set_driver("mlx5_core");
	set_proc(UINT64_MAX >> 1, 0, 100, 65530);
	strcpy(host.device.name, "fake0");
	host.verbs.device = &host.device;
	host.pd.context = &host.verbs;
	host.max_mr_size = UINT64_MAX;
	host.provider_answer = EBADF;
	host.kernel_answer = -EBADF;
	host.walk = MRG_WALK_TRUNCATING;
	host.dmabuf_size = 1LL << 40;
	host.env = (struct region_env){
		.reg = fake_reg,
		.reg_dmabuf = fake_reg_dmabuf,
		.dereg = fake_dereg,
		.query_device = fake_query_device,
		.kernel_probe = fake_kernel_probe,
		.dmabuf_size = fake_dmabuf_size,
		.is_dmabuf = fake_is_dmabuf,
		.dmabuf_id = fake_dmabuf_id,
		.dev_open = fake_dev_open,
		.dev_close = fake_dev_close,
		.dev_info = fake_dev_info,
		.dev_layout = fake_dev_layout,
		.layout_release = fake_layout_release,
		.sys = host.sys,
		.proc = host.proc,
	};
	return 0;
}

static int fake_teardown(void **state)
{
	char command[128];

	(void)state;
	assert_int_equal(host.live_count, 0);
	assert_int_equal(host.layouts_held, 0);
	snprintf(command, sizeof(command), "rm -rf %s", host.root);
	return system(command);
}

static inline struct mrg_ctx *open_fake(void)
{
	struct mrg_ctx *ctx;

	assert_int_equal(region_open(&ctx, &host.verbs, NULL, &host.env), 0);
	return ctx;
}

static const int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ;

static inline int reg_dmabuf(struct mrg_ctx *ctx, uint64_t addr, uint64_t length,
			     const struct mrg_reg_opts *opts, struct mrg_mr **mr)
{
	const struct mrg_dmabuf buf = { .fd = 5, .base = addr & ~4095ULL };

	return mrg_reg_dmabuf(ctx, &host.pd, &buf, addr, length, all_access, opts, mr);
}

static inline void assert_error(const struct mrg_ctx *ctx, int code, const char *stage,
				const char *words)
{
	struct mrg_error error;

	assert_int_equal(mrg_last_error(ctx, &error), 0);
	assert_int_equal(error.code, code);
	assert_string_equal(error.stage, stage);
	if (!strstr(error.cause, words) && !strstr(error.remedy, words))
		fail_msg("\"%s\" is neither in \"%s\" nor in \"%s\"", words, error.cause,
			 error.remedy);
}

#endif
