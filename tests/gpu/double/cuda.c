/* SPDX-License-Identifier: MIT */
/*
 * The double as libcuda.so.1: cuGetProcAddress_v2(), with each call's first
 * version, so that a wrong one in lib/gpu/cuda.c shows; and, for the programs
 * of tests/gpu that allocate and copy, the calls that they look up by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/double/engine.h"

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
			int *status);

static int needs_context(void)
{
	return double_current_device() < 0 ? GPU_INVALID_CONTEXT : 0;
}

static int cuda_address_range(uint64_t *base, size_t *size, uint64_t ptr)
{
	uint64_t ignored;
	size_t also;

	if (needs_context())
		return GPU_INVALID_CONTEXT;
	return double_address_range(base ? base : &ignored, size ? size : &also, ptr);
}

static int cuda_dmabuf(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags)
{
	if (needs_context())
		return GPU_INVALID_CONTEXT;
	return fd ? double_dmabuf(fd, ptr, size, type, flags) : GPU_INVALID_VALUE;
}

static int cuda_ipc_get(struct gpu_ipc_handle *handle, uint64_t ptr)
{
	return needs_context() ? GPU_INVALID_CONTEXT : double_ipc_get(handle, ptr);
}

static int cuda_ipc_open(uint64_t *ptr, struct gpu_ipc_handle handle, unsigned int flags)
{
	return needs_context() ? GPU_INVALID_CONTEXT : double_ipc_open(ptr, handle, flags);
}

static int cuda_import(uint64_t *handle, void *os_handle, int type)
{
	if (type != GPU_HANDLE_POSIX_FD)
		return GPU_INVALID_VALUE;
	return double_import_fd(handle, (int)(intptr_t)os_handle);
}

static int cuda_attribute(int *value, int attribute, int device)
{
	int result = double_call();

	if (result)
		return result;
	if (device < 0 || device >= double_gpu.devices || attribute >= 160)
		return GPU_INVALID_DEVICE;
	*value = double_gpu.attributes[device][attribute];
	return 0;
}

static int cuda_version(int *version)
{
	*version = double_gpu.version;
	return 0;
}

static int cuda_error_name(int result, const char **name)
{
	if (result != GPU_INVALID_VALUE)
		return GPU_INVALID_VALUE;
	*name = "CUDA_ERROR_INVALID_VALUE";
	return 0;
}

static struct gpu_calls calls = {
	.error_name = cuda_error_name,
	.attribute = double_attribute,
	.address_range = cuda_address_range,
	.dmabuf = cuda_dmabuf,
	.ipc_get = cuda_ipc_get,
	.ipc_open = cuda_ipc_open,
	.ipc_close = double_ipc_close,
	.retain = double_retain,
	.release = double_release,
	.properties = double_properties,
	.granularity = double_granularity,
	.export_handle = double_export,
	.import_handle = cuda_import,
	.reserve = double_reserve,
	.address_free = double_address_free,
	.map = double_map,
	.unmap = double_unmap,
	.set_access = double_set_access,
	.can_access_peer = double_can_access_peer,
	.device_count = double_device_count,
	.device_name = double_device_name,
	.device_uuid = double_device_uuid,
	.device_memory = double_device_memory,
	.device_pci = double_device_pci,
	.init = double_init,
	.version = cuda_version,
};

static struct gpu_cuda_calls cuda = {
	.attributes = double_attributes,
	.device_attribute = cuda_attribute,
	.ctx_current = double_ctx_current,
	.ctx_device = double_ctx_device,
	.ctx_push = double_ctx_push,
	.ctx_pop = double_ctx_pop,
	.primary_state = double_primary_state,
	.primary_retain = double_primary_retain,
	.primary_release = double_primary_release,
};

/* The version that brought the form which lib/gpu declares, and the first
 * version of all: a request between the two gets another ABI. */
struct entry {
	const char *name;
	int first, form;
	void *function;
};

#define ENTRY(name, first, form, pointer)            \
	{                                            \
		name, first, form, (void *)(pointer) \
	}

static int find(const char *symbol, int version, void **function)
{
	const struct entry entries[] = {
		ENTRY("cuInit", 2000, 2000, calls.init),
		ENTRY("cuDriverGetVersion", 2020, 2020, calls.version),
		ENTRY("cuGetErrorName", 6000, 6000, calls.error_name),
		ENTRY("cuDeviceGetCount", 2000, 2000, calls.device_count),
		ENTRY("cuDeviceGetName", 2000, 2000, calls.device_name),
		ENTRY("cuDeviceGetUuid", 9020, 11040, calls.device_uuid),
		ENTRY("cuDeviceTotalMem", 2000, 3020, calls.device_memory),
		ENTRY("cuDeviceGetPCIBusId", 4010, 4010, calls.device_pci),
		ENTRY("cuDeviceCanAccessPeer", 4000, 4000, calls.can_access_peer),
		ENTRY("cuPointerGetAttribute", 4000, 4000, calls.attribute),
		ENTRY("cuMemGetAddressRange", 2000, 3020, calls.address_range),
		ENTRY("cuMemGetHandleForAddressRange", 11070, 11070, calls.dmabuf),
		ENTRY("cuIpcGetMemHandle", 4010, 4010, calls.ipc_get),
		ENTRY("cuIpcOpenMemHandle", 4010, 11000, calls.ipc_open),
		ENTRY("cuIpcCloseMemHandle", 4010, 4010, calls.ipc_close),
		ENTRY("cuMemRetainAllocationHandle", 11000, 11000, calls.retain),
		ENTRY("cuMemRelease", 10020, 10020, calls.release),
		ENTRY("cuMemGetAllocationPropertiesFromHandle", 10020, 10020, calls.properties),
		ENTRY("cuMemGetAllocationGranularity", 10020, 10020, calls.granularity),
		ENTRY("cuMemExportToShareableHandle", 10020, 10020, calls.export_handle),
		ENTRY("cuMemImportFromShareableHandle", 10020, 10020, calls.import_handle),
		ENTRY("cuMemAddressReserve", 10020, 10020, calls.reserve),
		ENTRY("cuMemAddressFree", 10020, 10020, calls.address_free),
		ENTRY("cuMemMap", 10020, 10020, calls.map),
		ENTRY("cuMemUnmap", 10020, 10020, calls.unmap),
		ENTRY("cuMemSetAccess", 10020, 10020, calls.set_access),
		ENTRY("cuPointerGetAttributes", 7000, 7000, cuda.attributes),
		ENTRY("cuDeviceGetAttribute", 2000, 2000, cuda.device_attribute),
		ENTRY("cuCtxGetCurrent", 4000, 4000, cuda.ctx_current),
		ENTRY("cuCtxGetDevice", 2000, 2000, cuda.ctx_device),
		ENTRY("cuCtxPushCurrent", 2000, 4000, cuda.ctx_push),
		ENTRY("cuCtxPopCurrent", 2000, 4000, cuda.ctx_pop),
		ENTRY("cuDevicePrimaryCtxGetState", 7000, 7000, cuda.primary_state),
		ENTRY("cuDevicePrimaryCtxRetain", 7000, 7000, cuda.primary_retain),
		ENTRY("cuDevicePrimaryCtxRelease", 7000, 11000, cuda.primary_release),
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, symbol))
			continue;
		if (version < entries[i].first)
			return 2;
		if (version < entries[i].form) {
			fprintf(stderr, "%s: version %d is of another form\n", symbol, version);
			abort();
		}
		*function = entries[i].function;
		return 0;
	}
	return 1;
}

/* Unknown names and versions give success, a null pointer and a status. */
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
			int *status)
{
	(void)flags;
	*function = NULL;
	*status = find(symbol, version, function);
	return 0;
}
