/* SPDX-License-Identifier: MIT */
/*
 * libcuda.so.1.  Each call is asked for by cuGetProcAddress_v2() with the
 * version that brought the form we declare: this pins the ABI for CUDA 12 and
 * 13 alike.  Plain dlsym() would give the oldest form, for cuMemGetAddressRange
 * one with 32-bit pointers.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver.h"

typedef int (*proc_address_t)(const char *symbol, void **function, int version, uint64_t flags,
			      int *status);

struct symbol {
	const char *name;
	int version;
	size_t offset;
	bool optional;
};

#define CALL(field, name, version)                                            \
	{                                                                     \
		"cu" name, version, offsetof(struct gpu_driver, field), false \
	}
#define MAYBE(field, name, version)                                          \
	{                                                                    \
		"cu" name, version, offsetof(struct gpu_driver, field), true \
	}

static const struct symbol symbols[] = {
	CALL(c.init, "Init", 2000),
	CALL(c.version, "DriverGetVersion", 2020),
	CALL(c.error_name, "GetErrorName", 6000),
	CALL(c.device_count, "DeviceGetCount", 2000),
	CALL(c.device_name, "DeviceGetName", 2000),
	CALL(c.device_uuid, "DeviceGetUuid", 11040),
	CALL(c.device_memory, "DeviceTotalMem", 3020),
	CALL(c.device_pci, "DeviceGetPCIBusId", 4010),
	CALL(c.can_access_peer, "DeviceCanAccessPeer", 4000),
	CALL(c.attribute, "PointerGetAttribute", 4000),
	CALL(c.address_range, "MemGetAddressRange", 3020),
	MAYBE(c.dmabuf, "MemGetHandleForAddressRange", 11070),
	CALL(c.ipc_get, "IpcGetMemHandle", 4010),
	CALL(c.ipc_open, "IpcOpenMemHandle", 11000),
	CALL(c.ipc_close, "IpcCloseMemHandle", 4010),
	CALL(c.retain, "MemRetainAllocationHandle", 11000),
	CALL(c.release, "MemRelease", 10020),
	CALL(c.properties, "MemGetAllocationPropertiesFromHandle", 10020),
	CALL(c.granularity, "MemGetAllocationGranularity", 10020),
	CALL(c.export_handle, "MemExportToShareableHandle", 10020),
	CALL(c.import_handle, "MemImportFromShareableHandle", 10020),
	CALL(c.reserve, "MemAddressReserve", 10020),
	CALL(c.address_free, "MemAddressFree", 10020),
	CALL(c.map, "MemMap", 10020),
	CALL(c.unmap, "MemUnmap", 10020),
	CALL(c.set_access, "MemSetAccess", 10020),
	CALL(cuda.attributes, "PointerGetAttributes", 7000),
	CALL(cuda.device_attribute, "DeviceGetAttribute", 2000),
	CALL(cuda.ctx_current, "CtxGetCurrent", 4000),
	CALL(cuda.ctx_device, "CtxGetDevice", 2000),
	CALL(cuda.ctx_push, "CtxPushCurrent", 4000),
	CALL(cuda.ctx_pop, "CtxPopCurrent", 4000),
	CALL(cuda.primary_state, "DevicePrimaryCtxGetState", 7000),
	CALL(cuda.primary_retain, "DevicePrimaryCtxRetain", 7000),
	CALL(cuda.primary_release, "DevicePrimaryCtxRelease", 11000),
};

static void lacks(struct gpu_driver *driver, const struct symbol *symbol, int result)
{
	if (result == GPU_STUB_LIBRARY)
		snprintf(
			driver->why, sizeof(driver->why),
			"The libcuda.so.1 that was loaded is the CUDA toolkit's stub: take its folder out of LD_LIBRARY_PATH.");
	else
		snprintf(driver->why, sizeof(driver->why),
			 "The driver library, libcuda.so.1, has no %s() as of CUDA %d.%d.",
			 symbol->name, symbol->version / 1000, symbol->version % 1000 / 10);
}

/* An unknown name gives success and NULL, and so does a version before the
 * call's first, so the pointer is what counts. */
static bool resolve(struct gpu_driver *driver, proc_address_t get)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *function = NULL;
		int status = 0, result;

		result = get(symbols[i].name, &function, symbols[i].version, 0, &status);
		if (!function && (result || !symbols[i].optional)) {
			lacks(driver, &symbols[i], result);
			return false;
		}
		memcpy((char *)driver + symbols[i].offset, &function, sizeof(function));
	}
	return true;
}

/* Only this name: "libcuda.so" may be the toolkit's stub. */
int gpu_cuda_load(struct mrg_gpu *gpu, struct gpu_driver *driver, bool loaded_only)
{
	void *library = gpu->loader->open("libcuda.so.1", loaded_only);
	proc_address_t get;
	void *symbol;

	if (!library)
		return -ENODEV;
	driver->loaded = true;
	symbol = gpu->loader->sym(library, "cuGetProcAddress_v2");
	if (!symbol) {
		driver->broken = true;
		snprintf(
			driver->why, sizeof(driver->why),
			"The driver library, libcuda.so.1, has no cuGetProcAddress_v2(): it is older than CUDA 12.0.");
		return 0;
	}
	memcpy(&get, &symbol, sizeof(get));
	driver->broken = !resolve(driver, get);
	if (!driver->broken)
		driver->c.version(&driver->version);
	return 0;
}

int gpu_cuda_attribute(const struct gpu_driver *driver, int ordinal, int attribute)
{
	int value = 0;

	if (driver->cuda.device_attribute(&value, attribute, ordinal))
		return 0;
	return value;
}
