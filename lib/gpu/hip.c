/* SPDX-License-Identifier: MIT */
/*
 * libamdhip64, and libhsa-runtime64 below it.  Only one major version of HIP
 * may live in a process, so the one that the application has is looked for
 * before any is loaded.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver.h"

struct symbol {
	const char *name;
	size_t offset;
	bool optional;
};

#define OLDEST 50700000 /* before, hipMemAllocationProp is laid out otherwise */

#define CALL(field, name)                                       \
	{                                                       \
		name, offsetof(struct gpu_driver, field), false \
	}
#define MAYBE(field, name)                                     \
	{                                                      \
		name, offsetof(struct gpu_driver, field), true \
	}

/* hipMemGetHandleForAddressRange came with ROCm 7.0. */
static const struct symbol symbols[] = {
	CALL(c.init, "hipInit"),
	CALL(c.version, "hipRuntimeGetVersion"),
	CALL(c.device_count, "hipGetDeviceCount"),
	CALL(c.device_name, "hipDeviceGetName"),
	CALL(c.device_uuid, "hipDeviceGetUuid"),
	CALL(c.device_memory, "hipDeviceTotalMem"),
	CALL(c.device_pci, "hipDeviceGetPCIBusId"),
	CALL(c.can_access_peer, "hipDeviceCanAccessPeer"),
	CALL(c.attribute, "hipPointerGetAttribute"),
	CALL(c.address_range, "hipMemGetAddressRange"),
	MAYBE(c.dmabuf, "hipMemGetHandleForAddressRange"),
	CALL(c.ipc_get, "hipIpcGetMemHandle"),
	CALL(c.ipc_open, "hipIpcOpenMemHandle"),
	CALL(c.ipc_close, "hipIpcCloseMemHandle"),
	CALL(c.retain, "hipMemRetainAllocationHandle"),
	CALL(c.release, "hipMemRelease"),
	CALL(c.properties, "hipMemGetAllocationPropertiesFromHandle"),
	CALL(c.granularity, "hipMemGetAllocationGranularity"),
	CALL(c.export_handle, "hipMemExportToShareableHandle"),
	CALL(c.import_handle, "hipMemImportFromShareableHandle"),
	CALL(c.reserve, "hipMemAddressReserve"),
	CALL(c.address_free, "hipMemAddressFree"),
	CALL(c.map, "hipMemMap"),
	CALL(c.unmap, "hipMemUnmap"),
	CALL(c.set_access, "hipMemSetAccess"),
	CALL(hip.pointer, "hipPointerGetAttributes"),
	CALL(hip.get_device, "hipGetDevice"),
	CALL(hip.set_device, "hipSetDevice"),
	CALL(hip.last_error, "hipGetLastError"),
	CALL(hip.peek_error, "hipPeekAtLastError"),
	CALL(hip.error_name, "hipGetErrorName"),
};

static const struct symbol hsa_symbols[] = {
	MAYBE(hsa.export_dmabuf, "hsa_amd_portable_export_dmabuf"),
	MAYBE(hsa.close_dmabuf, "hsa_amd_portable_close_dmabuf"),
	MAYBE(hsa.system_info, "hsa_system_get_info"),
};

static bool resolve(struct mrg_gpu *gpu, struct gpu_driver *driver, void *library,
		    const struct symbol *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *function = gpu->loader->sym(library, table[i].name);

		if (!function && !table[i].optional) {
			snprintf(driver->why, sizeof(driver->why),
				 "The runtime, libamdhip64.so, has no %s().", table[i].name);
			return false;
		}
		memcpy((char *)driver + table[i].offset, &function, sizeof(function));
	}
	return true;
}

static void *open_hip(struct mrg_gpu *gpu, bool loaded_only)
{
	static const char *const names[] = {
		"libamdhip64.so.7",
		"libamdhip64.so.6",
		"libamdhip64.so.5",
		"libamdhip64.so",
	};
	void *library = NULL;

	for (size_t i = 0; i < 4 && !library; i++)
		library = gpu->loader->open(names[i], true);
	for (size_t i = 0; i < 4 && !library && !loaded_only; i++)
		library = gpu->loader->open(names[i], false);
	return library;
}

int gpu_hip_load(struct mrg_gpu *gpu, struct gpu_driver *driver, bool loaded_only)
{
	void *library = open_hip(gpu, loaded_only);
	void *hsa;

	if (!library)
		return -ENODEV;
	driver->loaded = true;
	driver->broken =
		!resolve(gpu, driver, library, symbols, sizeof(symbols) / sizeof(symbols[0]));
	if (driver->broken)
		return 0;
	driver->c.version(&driver->version);
	if (driver->version < OLDEST) {
		driver->broken = true;
		snprintf(
			driver->why, sizeof(driver->why),
			"The runtime, libamdhip64.so, is of HIP %d.%d, and the oldest release that is supported is 5.7.",
			driver->version / 10000000, driver->version / 100000 % 100);
		return 0;
	}
	/* HIP has loaded it: only that copy knows HIP's allocations. */
	hsa = gpu->loader->open("libhsa-runtime64.so.1", true);
	if (hsa)
		resolve(gpu, driver, hsa, hsa_symbols, 3);
	return 0;
}

bool gpu_hip_dmabuf(const struct gpu_driver *driver)
{
	bool can = true;

	if (driver->hsa.system_info && driver->hsa.system_info(HSA_SYSTEM_DMABUF, &can))
		can = true;
	return can;
}
