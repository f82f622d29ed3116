/* SPDX-License-Identifier: MIT */
/*
 * The calls that the programs of tests/gpu look up by name: those of an
 * application that allocates and copies.  Device memory is mapped here, so a
 * copy is memcpy().
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/double/engine.h"

#define CALL(name, ...)        \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

__attribute__((constructor)) static void start(void)
{
	double_reset();
	double_gpu.need_init = true;
	if (getenv("MRG_GPU_DOUBLE_DEVICES"))
		double_gpu.devices = atoi(getenv("MRG_GPU_DOUBLE_DEVICES"));
}

CALL(cuInit, unsigned int flags)
{
	return double_init(flags);
}

CALL(cuDriverGetVersion, int *version)
{
	*version = double_gpu.version;
	return 0;
}

CALL(cuDeviceGetName, char *name, int length, int device)
{
	return double_device_name(name, length, device);
}

CALL(cuDevicePrimaryCtxRetain, void **ctx, int device)
{
	return double_primary_retain(ctx, device);
}

CALL(cuDevicePrimaryCtxGetState, int device, unsigned int *flags, int *active)
{
	return double_primary_state(device, flags, active);
}

CALL(cuCtxSetCurrent, void *ctx)
{
	void *before;

	double_ctx_pop(&before);
	return double_ctx_push(ctx);
}

CALL(cuCtxGetCurrent, void **ctx)
{
	return double_ctx_current(ctx);
}

CALL(cuCtxSynchronize, void)
{
	return 0;
}

static int alloc(uint64_t *ptr, enum double_kind kind, size_t size)
{
	*ptr = double_alloc(kind, size, 0);
	return *ptr ? 0 : GPU_OUT_OF_MEMORY;
}

CALL(cuMemAlloc_v2, uint64_t *ptr, size_t size)
{
	return alloc(ptr, DOUBLE_LEGACY, size);
}

CALL(cuMemFree_v2, uint64_t ptr)
{
	return double_free(ptr);
}

CALL(cuMemAllocManaged, uint64_t *ptr, size_t size, unsigned int flags)
{
	return flags ? alloc(ptr, DOUBLE_MANAGED, size) : GPU_INVALID_VALUE;
}

CALL(cuMemAllocAsync, uint64_t *ptr, size_t size, void *stream)
{
	(void)stream;
	return alloc(ptr, DOUBLE_POOL, size);
}

CALL(cuMemFreeAsync, uint64_t ptr, void *stream)
{
	(void)stream;
	return double_free(ptr);
}

CALL(cuMemHostAlloc, void **ptr, size_t size, unsigned int flags)
{
	uint64_t addr;

	(void)flags;
	if (alloc(&addr, DOUBLE_PINNED, size))
		return GPU_OUT_OF_MEMORY;
	*ptr = (void *)(uintptr_t)addr;
	return 0;
}

CALL(cuMemFreeHost, void *ptr)
{
	return double_free((uint64_t)(uintptr_t)ptr);
}

CALL(cuMemcpyHtoD_v2, uint64_t to, const void *from, size_t size)
{
	memcpy((void *)(uintptr_t)to, from, size);
	return 0;
}

CALL(cuMemcpyDtoH_v2, void *to, uint64_t from, size_t size)
{
	memcpy(to, (void *)(uintptr_t)from, size);
	return 0;
}

CALL(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t size, void *stream)
{
	(void)stream;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
	return 0;
}

CALL(cuMemGetInfo_v2, size_t *free_bytes, size_t *total)
{
	*total = 1ull << 37;
	*free_bytes = *total;
	return 0;
}

CALL(cuEventCreate, void **event, unsigned int flags)
{
	(void)flags;
	*event = malloc(sizeof(double));
	return 0;
}

CALL(cuEventRecord, void *event, void *stream)
{
	double now = now_ms();

	(void)stream;
	memcpy(event, &now, sizeof(now));
	return 0;
}

CALL(cuEventSynchronize, void *event)
{
	(void)event;
	return 0;
}

CALL(cuEventElapsedTime, float *ms, void *from, void *to)
{
	*ms = (float)(*(double *)to - *(double *)from);
	return 0;
}

CALL(cuMemCreate, uint64_t *handle, size_t size, const struct gpu_prop *prop,
     unsigned long long flags)
{
	return double_create(handle, size, prop, flags);
}

CALL(cuMemRetainAllocationHandle, uint64_t *handle, void *addr)
{
	return double_retain(handle, (uint64_t)(uintptr_t)addr);
}

CALL(cuMemRelease, uint64_t handle)
{
	return double_release(handle);
}

CALL(cuMemExportToShareableHandle, void *out, uint64_t handle, int type, unsigned long long flags)
{
	return double_export(out, handle, type, flags);
}

CALL(cuMemImportFromShareableHandle, uint64_t *handle, void *os_handle, int type)
{
	return type == GPU_HANDLE_POSIX_FD ? double_import_fd(handle, (int)(intptr_t)os_handle) :
					     GPU_INVALID_VALUE;
}

CALL(cuMemAddressReserve, uint64_t *ptr, size_t size, size_t alignment, uint64_t hint,
     unsigned long long flags)
{
	return double_reserve(ptr, size, alignment, hint, flags);
}

CALL(cuMemAddressFree, uint64_t ptr, size_t size)
{
	return double_address_free(ptr, size);
}

CALL(cuMemMap, uint64_t ptr, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	return double_map(ptr, size, offset, handle, flags);
}

CALL(cuMemUnmap, uint64_t ptr, size_t size)
{
	return double_unmap(ptr, size);
}

CALL(cuMemSetAccess, uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count)
{
	return double_set_access(ptr, size, desc, count);
}
