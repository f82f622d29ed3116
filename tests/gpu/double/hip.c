/* SPDX-License-Identifier: MIT */
/*
 * The double as libamdhip64 and libhsa-runtime64, of the release that
 * double_gpu.version names (major * 10^7 + minor * 10^5 + patch): 5.7 and 6.4
 * have no hipMemGetHandleForAddressRange(), 7.0 has, and from 7.1 on the import
 * takes a descriptor by value.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/double/engine.h"

#define ROCM_6 60000000
#define ROCM_7 70000000
#define ROCM_7_1 70100000

static __thread int current;
static __thread int last_error;

static int failed(int result)
{
	if (result)
		last_error = result;
	return result;
}

/* hipMemoryType: 5.x Host 0, Device 1, Managed 4; 6.x Unregistered 0, Host 1,
 * Device 2, Managed 3. */
static int memory_type(uint32_t cuda_type, bool managed)
{
	if (double_gpu.version < ROCM_6)
		return managed ? 4 : cuda_type == CUDA_MEMORY_HOST ? 0 : 1;
	return managed ? 3 : (int)cuda_type;
}

static int hip_pointer(struct gpu_hip_pointer *p, const void *ptr)
{
	uint64_t addr = (uint64_t)(uintptr_t)ptr, type = 0, managed = 0, device = 0;

	if (failed(double_attribute(&type, GPU_ATTR_MEMORY_TYPE, addr)))
		return GPU_INVALID_VALUE;
	double_attribute(&managed, GPU_ATTR_IS_MANAGED, addr);
	double_attribute(&device, GPU_ATTR_DEVICE_ORDINAL, addr);
	memset(p, 0, sizeof(*p));
	p->type = memory_type((uint32_t)type, managed & 1);
	p->device = (int)device;
	p->is_managed = managed & 1;
	return 0;
}

static int hip_attribute(void *data, int attribute, uint64_t ptr)
{
	return failed(double_attribute(data, attribute, ptr));
}

/* Both outputs are written without a look. */
static int hip_address_range(uint64_t *base, size_t *size, uint64_t ptr)
{
	if (!base || !size)
		abort();
	return failed(double_address_range(base, size, ptr));
}

/* Gives no offset: where the buffer object starts before the allocation, the
 * DMA-BUF is larger than what was asked for. */
static int hip_dmabuf(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags)
{
	int result;

	if (flags)
		return failed(GPU_INVALID_VALUE);
	result = double_dmabuf(fd, ptr, size, type, 0);
	if (!result && double_gpu.hip_offset &&
	    ftruncate(*(int *)fd, (off_t)(size + double_gpu.hip_offset)))
		abort();
	return failed(result);
}

/* Before 7.1 a pointer to the descriptor; a descriptor there is followed, which
 * is a crash. */
static int hip_import(uint64_t *handle, void *os_handle, int type)
{
	uintptr_t value = (uintptr_t)os_handle;

	if (type != GPU_HANDLE_POSIX_FD)
		return failed(GPU_INVALID_VALUE);
	if (double_gpu.version >= ROCM_7_1)
		return failed(value > 1 << 20 ? GPU_INVALID_VALUE :
						double_import_fd(handle, (int)value));
	if (value < 4096) {
		fprintf(stderr, "HIP before 7.1 would follow %p\n", os_handle);
		abort();
	}
	return failed(double_import_fd(handle, *(int *)os_handle));
}

/* Releases before 2026 refuse ranges over several chunks. */
static int hip_set_access(uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count)
{
	uint64_t base = 0;
	size_t chunk = 0;

	double_address_range(&base, &chunk, ptr);
	if (base != ptr || chunk != size)
		return failed(GPU_INVALID_VALUE);
	return failed(double_set_access(ptr, size, desc, count));
}

/* hipIpcMemLazyEnablePeerAccess is 0 up to 5.7 and 1 from 6.0 on. */
static int hip_ipc_open(uint64_t *ptr, struct gpu_ipc_handle handle, unsigned int flags)
{
	if (flags != (double_gpu.version >= ROCM_6))
		return failed(GPU_INVALID_VALUE);
	return failed(double_ipc_open(ptr, handle, GPU_IPC_LAZY_PEER));
}

static int hip_version(int *version)
{
	*version = double_gpu.version;
	return 0;
}

static int hip_get_device(int *device)
{
	*device = current;
	return 0;
}

static int hip_set_device(int device)
{
	if (device < 0 || device >= double_gpu.devices)
		return failed(GPU_INVALID_DEVICE);
	current = device;
	return 0;
}

static int hip_last_error(void)
{
	int result = last_error;

	last_error = 0;
	return result;
}

static int hip_peek_error(void)
{
	return last_error;
}

static const char *hip_error_name(int result)
{
	return result == GPU_INVALID_VALUE ? "hipErrorInvalidValue" : "hipErrorUnknown";
}

static int hsa_export(const void *ptr, size_t size, int *fd, uint64_t *offset)
{
	uint64_t base = 0, addr = (uint64_t)(uintptr_t)ptr;
	size_t whole = 0;
	int result = double_address_range(&base, &whole, addr);

	if (result || addr < base || addr - base + size > whole)
		return 0x1003;
	result = double_dmabuf(fd, base, (whole + 4095) & ~4095ul, GPU_DMABUF_FD, 0);
	if (result)
		return 0x1008;
	if (ftruncate(*fd, (off_t)(((whole + 4095) & ~4095ul) + double_gpu.hip_offset)))
		abort();
	*offset = addr - base + double_gpu.hip_offset;
	return 0;
}

static int hsa_close(int fd)
{
	return close(fd) ? 0x1000 : 0;
}

static int hsa_info(int attribute, void *value)
{
	if (attribute != HSA_SYSTEM_DMABUF)
		return 0x1001;
	*(bool *)value = true;
	return 0;
}

static struct gpu_calls calls = {
	.attribute = hip_attribute,
	.address_range = hip_address_range,
	.dmabuf = hip_dmabuf,
	.ipc_get = double_ipc_get,
	.ipc_open = hip_ipc_open,
	.ipc_close = double_ipc_close,
	.retain = double_retain,
	.release = double_release,
	.properties = double_properties,
	.granularity = double_granularity,
	.export_handle = double_export,
	.import_handle = hip_import,
	.reserve = double_reserve,
	.address_free = double_address_free,
	.map = double_map,
	.unmap = double_unmap,
	.set_access = hip_set_access,
	.can_access_peer = double_can_access_peer,
	.device_count = double_device_count,
	.device_name = double_device_name,
	.device_uuid = double_device_uuid,
	.device_memory = double_device_memory,
	.device_pci = double_device_pci,
	.init = double_init,
	.version = hip_version,
};

static struct gpu_hip_calls hip = {
	.pointer = hip_pointer,
	.get_device = hip_get_device,
	.set_device = hip_set_device,
	.last_error = hip_last_error,
	.peek_error = hip_peek_error,
	.error_name = hip_error_name,
};

static struct gpu_hsa_calls hsa = {
	.export_dmabuf = hsa_export,
	.close_dmabuf = hsa_close,
	.system_info = hsa_info,
};

#define ENTRY(name, pointer)            \
	{                               \
		name, (void *)(pointer) \
	}

void *double_hip_symbol(const char *name);

void *double_hip_symbol(const char *name)
{
	const struct {
		const char *name;
		void *function;
	} entries[] = {
		ENTRY("hipInit", calls.init),
		ENTRY("hipRuntimeGetVersion", calls.version),
		ENTRY("hipGetDeviceCount", calls.device_count),
		ENTRY("hipDeviceGetName", calls.device_name),
		ENTRY("hipDeviceGetUuid", calls.device_uuid),
		ENTRY("hipDeviceTotalMem", calls.device_memory),
		ENTRY("hipDeviceGetPCIBusId", calls.device_pci),
		ENTRY("hipDeviceCanAccessPeer", calls.can_access_peer),
		ENTRY("hipPointerGetAttribute", calls.attribute),
		ENTRY("hipMemGetAddressRange", calls.address_range),
		ENTRY("hipIpcGetMemHandle", calls.ipc_get),
		ENTRY("hipIpcOpenMemHandle", calls.ipc_open),
		ENTRY("hipIpcCloseMemHandle", calls.ipc_close),
		ENTRY("hipMemRetainAllocationHandle", calls.retain),
		ENTRY("hipMemRelease", calls.release),
		ENTRY("hipMemGetAllocationPropertiesFromHandle", calls.properties),
		ENTRY("hipMemGetAllocationGranularity", calls.granularity),
		ENTRY("hipMemExportToShareableHandle", calls.export_handle),
		ENTRY("hipMemImportFromShareableHandle", calls.import_handle),
		ENTRY("hipMemAddressReserve", calls.reserve),
		ENTRY("hipMemAddressFree", calls.address_free),
		ENTRY("hipMemMap", calls.map),
		ENTRY("hipMemUnmap", calls.unmap),
		ENTRY("hipMemSetAccess", calls.set_access),
		ENTRY("hipPointerGetAttributes", hip.pointer),
		ENTRY("hipGetDevice", hip.get_device),
		ENTRY("hipSetDevice", hip.set_device),
		ENTRY("hipGetLastError", hip.last_error),
		ENTRY("hipPeekAtLastError", hip.peek_error),
		ENTRY("hipGetErrorName", hip.error_name),
		ENTRY("hsa_amd_portable_export_dmabuf", hsa.export_dmabuf),
		ENTRY("hsa_amd_portable_close_dmabuf", hsa.close_dmabuf),
		ENTRY("hsa_system_get_info", hsa.system_info),
	};

	if (double_gpu.version >= ROCM_7 && !strcmp(name, "hipMemGetHandleForAddressRange"))
		return (void *)calls.dmabuf;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (!strcmp(entries[i].name, name))
			return entries[i].function;
	return NULL;
}
