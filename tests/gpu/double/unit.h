/* SPDX-License-Identifier: MIT */
/* For unit tests: the doubles within the test program, and handles that find
 * them in place of real libraries. */
#ifndef DOUBLE_UNIT_H
#define DOUBLE_UNIT_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/driver.h"
#include "gpu/double/engine.h"

#ifdef DOUBLE_CUDA
#include "gpu/double/cuda.c"
#endif
#ifdef DOUBLE_HIP
#include "gpu/double/hip.c"
#endif
#include "gpu/double/engine.c"

#define MIB (1ull << 20)

/* Whether the process "has loaded" the library: what RTLD_NOLOAD finds. */
static bool unit_loaded = true;
static int unit_opens;

static void *unit_open(const char *name, bool loaded_only)
{
	bool wanted = false;

#ifdef DOUBLE_CUDA
	wanted |= !strcmp(name, "libcuda.so.1");
#endif
#ifdef DOUBLE_HIP
	wanted |= !strncmp(name, "libamdhip64.so", 14) || !strncmp(name, "libhsa", 6);
#endif
	if (!wanted || (loaded_only && !unit_loaded))
		return NULL;
	unit_opens++;
	unit_loaded = true;
	return &double_gpu;
}

static void *unit_sym(void *library, const char *name)
{
	(void)library;
#ifdef DOUBLE_CUDA
	if (!strcmp(name, "cuGetProcAddress_v2"))
		return (void *)cuGetProcAddress_v2;
#endif
#ifdef DOUBLE_HIP
	return double_hip_symbol(name);
#endif
	return NULL;
}

static const struct gpu_loader unit_loader = { unit_open, unit_sym };

/* A folder with the device nodes that drivers are started for. */
static char unit_nodes_path[] = "/tmp/mrguard-nodes-XXXXXX";

static void unit_drop_nodes(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/nvidiactl", unit_nodes_path);
	unlink(path);
	snprintf(path, sizeof(path), "%s/kfd", unit_nodes_path);
	unlink(path);
	rmdir(unit_nodes_path);
}

static inline const char *unit_nodes(void)
{
	static bool made;
	char path[64];

	if (made)
		return unit_nodes_path;
	assert_non_null(mkdtemp(unit_nodes_path));
	snprintf(path, sizeof(path), "%s/nvidiactl", unit_nodes_path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	snprintf(path, sizeof(path), "%s/kfd", unit_nodes_path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	made = true;
	atexit(unit_drop_nodes);
	return unit_nodes_path;
}

static inline struct mrg_gpu *unit_gpu(uint32_t flags)
{
	struct mrg_gpu_opts opts = { .size = sizeof(opts),
				     .flags = flags,
				     .sysfs = "/nonexistent" };
	struct mrg_gpu *gpu;

	assert_int_equal(gpu_open_with(&gpu, &opts, &unit_loader, unit_nodes()), 0);
	return gpu;
}

/* A mapped run of VMM chunks, as an application makes it. */
struct unit_chunk {
	uint64_t size;
	int handle_types;
	bool rdma;
	int device; /* -1: the host's memory */
	bool hole; /* reserved, nothing mapped */
	bool compressed;
};

struct unit_vmm {
	uint64_t addr, size;
};

static inline void unit_map(uint64_t addr, const struct unit_chunk *chunk)
{
	struct gpu_prop prop = {
		.type = GPU_ALLOCATION_PINNED,
		.handle_types = chunk->handle_types,
		.location = { chunk->device < 0 ? 3 : GPU_LOCATION_DEVICE,
			      chunk->device < 0 ? 0 : chunk->device },
		.flags.rdma = chunk->rdma,
		.flags.compression = chunk->compressed,
	};
	struct gpu_access access = {
		.location = { GPU_LOCATION_DEVICE, 0 },
		.flags = GPU_ACCESS_READ_WRITE,
	};
	uint64_t handle;

	if (chunk->hole)
		return;
	assert_int_equal(double_create(&handle, chunk->size, &prop, 0), 0);
	assert_int_equal(double_map(addr, chunk->size, 0, handle, 0), 0);
	assert_int_equal(double_release(handle), 0);
	assert_int_equal(double_set_access(addr, chunk->size, &access, 1), 0);
}

static inline struct unit_vmm unit_vmm(const struct unit_chunk *chunks, size_t count)
{
	struct unit_vmm vmm = { 0 };
	uint64_t at;

	for (size_t i = 0; i < count; i++)
		vmm.size += chunks[i].size;
	assert_int_equal(double_reserve(&vmm.addr, vmm.size, 0, 0, 0), 0);
	at = vmm.addr;
	for (size_t i = 0; i < count; i++) {
		unit_map(at, &chunks[i]);
		at += chunks[i].size;
	}
	return vmm;
}

static inline void unit_vmm_free(struct unit_vmm vmm)
{
	assert_int_equal(double_unmap(vmm.addr, vmm.size), 0);
	assert_int_equal(double_address_free(vmm.addr, vmm.size), 0);
}

static inline int unit_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 4096; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#endif
