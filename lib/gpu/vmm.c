/* SPDX-License-Identifier: MIT */
/*
 * VMM chunks as file descriptors, and back.  A chunk's handle is taken and
 * given back within one call: handles are heap pointers of the driver, and a
 * stale one is a SIGSEGV, not an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/grow.h"
#include "gpu/vmm.h"

/* From this release on the import takes the descriptor itself, as CUDA does;
 * before, a pointer to it, and a descriptor crashes it. */
#define HIP_IMPORT_BY_VALUE 70100000

static int stale(const struct mrg_gpu *gpu, uint64_t addr)
{
	return base_fail(gpu->error_owner, -ESTALE, "export chunk", "Publish the range again.",
			 "The memory at 0x%llx was freed or mapped anew since it was published.",
			 (unsigned long long)addr);
}

/* The id is read while the handle is held: if it is the published one, so is
 * the handle. */
int gpu_export_chunk(struct mrg_gpu *gpu, enum gpu_vendor vendor, uint64_t addr, uint64_t id,
		     int *out)
{
	struct gpu_driver *driver = &gpu->drivers[vendor];
	uint64_t handle;
	int result, fd = -1;

	if (driver->c.retain(&handle, addr))
		return stale(gpu, addr);
	if (id && gpu_buffer_id(driver, addr) != id) {
		driver->c.release(handle);
		return stale(gpu, addr);
	}
	result = driver->c.export_handle(&fd, handle, GPU_HANDLE_POSIX_FD, 0);
	driver->c.release(handle);
	if (!result && fd < 0)
		result = GPU_UNKNOWN;
	if (result)
		return gpu_fail_call(gpu, driver, "export chunk",
				     gpu_call_name(driver, "MemExportToShareableHandle"), result);
	*out = fd;
	return 0;
}

int gpu_ipc_export(struct mrg_gpu *gpu, enum gpu_vendor vendor, int device, uint64_t base,
		   uint64_t id, struct gpu_ipc_handle *handle)
{
	struct gpu_driver *driver = &gpu->drivers[vendor];
	struct gpu_scope scope;
	int result, ret;

	ret = gpu_enter_at(gpu, driver, device, base, &scope);
	if (ret)
		return ret;
	result = driver->c.ipc_get(handle, base);
	if (id && gpu_buffer_id(driver, base) != id)
		ret = stale(gpu, base);
	gpu_leave(&scope);
	if (ret)
		return ret;
	if (result == GPU_INVALID_VALUE)
		return base_fail(
			gpu->error_owner, -EOPNOTSUPP, "export handle",
			"Share memory in the process that allocated it.",
			"The call %s() refuses the memory at 0x%llx: it was imported from another process.",
			gpu_call_name(driver, "IpcGetMemHandle"), (unsigned long long)base);
	if (result)
		return gpu_fail_call(gpu, driver, "export handle",
				     gpu_call_name(driver, "IpcGetMemHandle"), result);
	return 0;
}

/* ---- importing ---- */

static struct gpu_prop device_prop(int device)
{
	struct gpu_prop prop = {
		.type = GPU_ALLOCATION_PINNED,
		.handle_types = GPU_HANDLE_POSIX_FD,
		.location = { GPU_LOCATION_DEVICE, device },
	};

	return prop;
}

int gpu_window_granule(struct gpu_window *window, uint64_t *granule)
{
	struct gpu_prop prop = device_prop(window->device);
	size_t size = 0;
	int result;

	result = window->driver->c.granularity(&size, &prop, GPU_GRANULARITY_MIN);
	if (result)
		return gpu_fail_call(window->gpu, window->driver, "reserve",
				     gpu_call_name(window->driver, "MemGetAllocationGranularity"),
				     result);
	*granule = size;
	return 0;
}

int gpu_window_open(struct mrg_gpu *gpu, enum gpu_vendor vendor, const uint8_t key[16], int device,
		    uint64_t size, struct gpu_window *window)
{
	uint64_t granule;
	int result, ret;

	memset(window, 0, sizeof(*window));
	window->gpu = gpu;
	ret = gpu_start(gpu, vendor, &window->driver);
	if (ret)
		return ret;
	ret = gpu_find_device(gpu, window->driver, key);
	if (ret < 0)
		return ret;
	window->owner = ret;
	window->device = device < 0 ? ret : device;
	ret = gpu_window_granule(window, &granule);
	if (ret)
		return ret;
	result = window->driver->c.reserve(&window->addr, size, granule, 0, 0);
	if (result)
		return gpu_fail_call(gpu, window->driver, "reserve",
				     gpu_call_name(window->driver, "MemAddressReserve"), result);
	window->size = size;
	return 0;
}

static int grow(struct gpu_window *window)
{
	uint64_t *sizes = base_grow(window->sizes, &window->room, window->count, sizeof(*sizes));
	int *fds = base_grow(window->fds, &window->fd_room, window->held, sizeof(*fds));

	window->sizes = sizes ? sizes : window->sizes;
	window->fds = fds ? fds : window->fds;
	return sizes && fds ? 0 : -ENOMEM;
}

/* CUDA takes the number by value, where 0 would be taken for NULL on ROCm: the
 * descriptor is above 2 already. */
static int import(const struct gpu_driver *driver, int fd, uint64_t *handle)
{
	void *os_handle = (void *)(uintptr_t)fd;

	if (driver->vendor == GPU_HIP && driver->version < HIP_IMPORT_BY_VALUE)
		os_handle = &fd;
	return driver->c.import_handle(handle, os_handle, GPU_HANDLE_POSIX_FD);
}

static int add_failed(struct gpu_window *window, const char *call, int result)
{
	return gpu_fail_call(window->gpu, window->driver, "import chunk", call, result);
}

int gpu_window_add(struct gpu_window *window, int fd, uint64_t size)
{
	const struct gpu_driver *driver = window->driver;
	uint64_t handle;
	int result;

	if (size > window->size - window->filled || grow(window)) {
		close(fd);
		return base_fail(window->gpu->error_owner, -ENOMEM, "import chunk", "",
				 "No memory or address space is left for a chunk of %llu bytes.",
				 (unsigned long long)size);
	}
	result = import(driver, fd, &handle);
	/* Some ROCm releases put the import off until the mapping gets access, so
	 * there the descriptor stays open until then. */
	if (driver->vendor == GPU_HIP)
		window->fds[window->held++] = fd;
	else
		close(fd);
	if (result)
		return add_failed(window, gpu_call_name(driver, "MemImportFromShareableHandle"),
				  result);
	result = driver->c.map(window->addr + window->filled, size, 0, handle, 0);
	driver->c.release(handle);
	if (result)
		return add_failed(window, gpu_call_name(driver, "MemMap"), result);
	window->sizes[window->count++] = size;
	window->filled += size;
	return 0;
}

static void close_held(struct gpu_window *window)
{
	while (window->held)
		close(window->fds[--window->held]);
}

/* HIP before 2026 refuses ranges over several chunks. */
static int set_access(struct gpu_window *window, int device, size_t first, uint64_t from)
{
	struct gpu_access access = {
		.location = { GPU_LOCATION_DEVICE, device },
		.flags = GPU_ACCESS_READ_WRITE,
	};
	uint64_t at = window->addr + from;
	int result = 0;

	if (window->driver->vendor == GPU_CUDA)
		return window->driver->c.set_access(at, window->filled - from, &access, 1);
	for (size_t i = first; i < window->count && !result; i++) {
		result = window->driver->c.set_access(at, window->sizes[i], &access, 1);
		at += window->sizes[i];
	}
	return result;
}

int gpu_window_settle(struct gpu_window *window)
{
	int result;

	if (window->ready == window->filled)
		return 0;
	result = set_access(window, window->device, window->ready_count, window->ready);
	close_held(window);
	if (result)
		return base_fail(window->gpu->error_owner, gpu_errno(result), "set access",
				 "Use a device that is a peer of the one that the memory is on.",
				 "The call %s() for device %d failed with %s.",
				 gpu_call_name(window->driver, "MemSetAccess"), window->device,
				 gpu_result(window->driver, result).text);
	window->ready = window->filled;
	window->ready_count = window->count;
	return 0;
}

static int give_peers(struct gpu_window *window)
{
	const struct gpu_driver *driver = window->driver;
	int count = 0, can, given = 0;

	driver->c.device_count(&count);
	for (int i = 0; i < count; i++) {
		can = 0;
		if (i == window->device || driver->c.can_access_peer(&can, i, window->owner) ||
		    !can)
			continue;
		given += !set_access(window, i, 0, 0);
	}
	return given;
}

static void note_import(struct gpu_window *window)
{
	struct mrg_gpu *gpu = window->gpu;

	pthread_mutex_lock(&gpu->lock);
	window->note.addr = window->addr;
	window->note.size = window->filled;
	window->note.next = gpu->imported;
	gpu->imported = &window->note;
	window->noted = true;
	pthread_mutex_unlock(&gpu->lock);
}

int gpu_window_finish(struct gpu_window *window, bool all)
{
	note_import(window);
	return 1 + (all ? give_peers(window) : 0);
}

static void forget_import(struct gpu_window *window)
{
	struct gpu_imported **at = &window->gpu->imported;

	pthread_mutex_lock(&window->gpu->lock);
	while (window->noted && *at && *at != &window->note)
		at = &(*at)->next;
	if (window->noted && *at)
		*at = window->note.next;
	pthread_mutex_unlock(&window->gpu->lock);
}

void gpu_window_close(struct gpu_window *window)
{
	uint64_t at = window->addr;

	forget_import(window);
	close_held(window);
	for (size_t i = 0; i < window->count; i++) {
		window->driver->c.unmap(at, window->sizes[i]);
		at += window->sizes[i];
	}
	if (window->size)
		window->driver->c.address_free(window->addr, window->size);
	free(window->sizes);
	free(window->fds);
	memset(window, 0, sizeof(*window));
}

int gpu_ipc_import(struct mrg_gpu *gpu, enum gpu_vendor vendor, const uint8_t key[16],
		   const struct gpu_ipc_handle *handle, int *device, uint64_t *addr)
{
	struct gpu_driver *driver;
	unsigned int flags = GPU_IPC_LAZY_PEER;
	struct gpu_scope scope;
	int result, ret;

	ret = gpu_start(gpu, vendor, &driver);
	if (ret)
		return ret;
	*device = gpu_find_device(gpu, driver, key);
	if (*device < 0)
		return *device;
	ret = gpu_enter(gpu, driver, *device, NULL, &scope);
	if (ret)
		return ret;
	if (vendor == GPU_HIP && driver->version < 60000000)
		flags = HIP5_IPC_LAZY_PEER;
	result = driver->c.ipc_open(addr, *handle, flags);
	gpu_leave(&scope);
	if (result)
		return gpu_fail_call(gpu, driver, "import handle",
				     gpu_call_name(driver, "IpcOpenMemHandle"), result);
	return 0;
}

void gpu_ipc_release(struct mrg_gpu *gpu, enum gpu_vendor vendor, int device, uint64_t addr)
{
	struct gpu_driver *driver = &gpu->drivers[vendor];
	struct gpu_scope scope;

	if (gpu_enter(gpu, driver, device, NULL, &scope))
		return;
	driver->c.ipc_close(addr);
	gpu_leave(&scope);
}
