/* SPDX-License-Identifier: MIT */
/* The handle, and what both drivers have in common. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "base/opts.h"

static void *dl_open(const char *name, bool loaded_only)
{
	return dlopen(name, RTLD_LAZY | RTLD_LOCAL | (loaded_only ? RTLD_NOLOAD : 0));
}

static void *dl_sym(void *library, const char *name)
{
	return dlsym(library, name);
}

const struct gpu_loader gpu_dl_loader = { dl_open, dl_sym };

int gpu_open_with(struct mrg_gpu **out, const struct mrg_gpu_opts *opts,
		  const struct gpu_loader *loader, const char *nodes)
{
	const uint32_t known = MRG_GPU_NO_CUDA | MRG_GPU_NO_HIP | MRG_GPU_CONTEXT;
	struct mrg_gpu_opts o;
	struct mrg_gpu *gpu;

	if (base_opts_copy(&o, sizeof(o), opts) || o.flags & ~known || o.reserved)
		return -EINVAL;
	if (!o.page_size)
		o.page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	if (o.page_size < 4096 || o.page_size & (o.page_size - 1))
		return -EINVAL;
	if (!o.sysfs)
		o.sysfs = "/sys";
	if (strlen(o.sysfs) >= sizeof(gpu->sysfs))
		return -EINVAL;
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return -ENOMEM;
	gpu->error_owner = mrg_private_error_owner();
	gpu->loader = loader;
	gpu->nodes = nodes;
	gpu->flags = o.flags;
	gpu->page_size = o.page_size;
	strcpy(gpu->sysfs, o.sysfs);
	gpu->pid = getpid();
	gpu->drivers[GPU_CUDA].vendor = GPU_CUDA;
	gpu->drivers[GPU_HIP].vendor = GPU_HIP;
	pthread_mutex_init(&gpu->lock, NULL);
	*out = gpu;
	return 0;
}

int mrg_gpu_open(struct mrg_gpu **gpu, const struct mrg_gpu_opts *opts)
{
	return gpu_open_with(gpu, opts, &gpu_dl_loader, "/dev");
}

/* Libraries stay loaded: neither driver survives dlclose(). */
void mrg_gpu_close(struct mrg_gpu *gpu)
{
	if (!gpu)
		return;
	if (gpu->pid == getpid()) {
		gpu_drop_contexts(gpu);
		pthread_mutex_destroy(&gpu->lock);
	}
	free(gpu);
}

int mrg_gpu_last_error(const struct mrg_gpu *gpu, struct mrg_error *error)
{
	return mrg_private_error_read(gpu->error_owner, error);
}

int gpu_check(const struct mrg_gpu *gpu)
{
	if (gpu->pid == getpid())
		return 0;
	return base_fail(
		gpu->error_owner, -ECHILD, "check process",
		"Start the child with exec, or open a handle in it before CUDA or HIP is set up.",
		"The handle was opened by process %d, and this is its child %d: no GPU driver survives fork().",
		(int)gpu->pid, (int)getpid());
}

const char *gpu_vendor_name(enum gpu_vendor vendor)
{
	return vendor == GPU_CUDA ? "CUDA" : "HIP";
}

static int load(struct mrg_gpu *gpu, struct gpu_driver *driver, bool loaded_only)
{
	return driver->vendor == GPU_CUDA ? gpu_cuda_load(gpu, driver, loaded_only) :
					    gpu_hip_load(gpu, driver, loaded_only);
}

static bool left_out(const struct mrg_gpu *gpu, enum gpu_vendor vendor)
{
	return gpu->flags & (vendor == GPU_CUDA ? MRG_GPU_NO_CUDA : MRG_GPU_NO_HIP);
}

struct gpu_driver *gpu_peek(struct mrg_gpu *gpu, enum gpu_vendor vendor)
{
	struct gpu_driver *driver = &gpu->drivers[vendor];
	bool usable;

	if (left_out(gpu, vendor))
		return NULL;
	pthread_mutex_lock(&gpu->lock);
	if (!driver->loaded)
		load(gpu, driver, true);
	usable = driver->loaded && !driver->broken;
	pthread_mutex_unlock(&gpu->lock);
	return usable ? driver : NULL;
}

/* The device node that driver libraries open.  Without it cuInit() fails anyway, and before
 * that forks nvidia-modprobe, which a process with registered memory may not
 * survive. */
static bool has_node(const struct mrg_gpu *gpu, enum gpu_vendor vendor)
{
	static const char *const nodes[GPU_VENDORS][2] = {
		[GPU_CUDA] = { "nvidiactl", "dxg" },
		[GPU_HIP] = { "kfd", "dxg" },
	};
	char path[160];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", gpu->nodes, nodes[vendor][i]);
		if (!access(path, F_OK))
			return true;
	}
	return false;
}

static int start_failed(const struct mrg_gpu *gpu, const struct gpu_driver *driver, int result)
{
	const char *remedy = "";

	switch (result) {
	case GPU_SYSTEM_NOT_READY:
		remedy =
			"Start nvidia-fabricmanager, which must be up before GPUs linked by NVSwitch can be used.";
		break;
	case GPU_SYSTEM_DRIVER_MISMATCH:
	case GPU_COMPAT_NOT_SUPPORTED:
		remedy =
			"Install a libcuda.so.1 and a kernel driver of the same version, and remove a compat library of a container.";
		break;
	case GPU_MPS_CONNECTION_FAILED:
	case GPU_MPS_SERVER_NOT_READY:
		remedy =
			"Start the MPS control daemon, which does not answer, or unset CUDA_MPS_PIPE_DIRECTORY.";
		break;
	case GPU_OPERATING_SYSTEM:
		remedy = "Mount a new /proc, if this process is in a PID namespace.";
		break;
	}
	return base_fail(gpu->error_owner, -ENODEV, "initialise driver", remedy,
			 "The driver does not start: %s() failed with %s.",
			 gpu_call_name(driver, "Init"), gpu_result(driver, result).text);
}

static int no_node(const struct mrg_gpu *gpu, enum gpu_vendor vendor)
{
	return base_fail(gpu->error_owner, -ENODEV, "initialise driver",
			 "Load the kernel driver, or give this container its devices.",
			 "This host has no device node of %s in %s.", gpu_vendor_name(vendor),
			 gpu->nodes);
}

static int initialise(struct mrg_gpu *gpu, struct gpu_driver *driver)
{
	int count, result;

	/* An application that has set it up already needs no second time. */
	if (driver->vendor == GPU_CUDA && !driver->c.device_count(&count))
		return 0;
	if (!has_node(gpu, driver->vendor))
		return no_node(gpu, driver->vendor);
	result = driver->c.init(0);
	if (result)
		return start_failed(gpu, driver, result);
	result = driver->c.device_count(&count);
	return result ? start_failed(gpu, driver, result) : 0;
}

static int start_locked(struct mrg_gpu *gpu, struct gpu_driver *driver)
{
	if (!driver->loaded)
		load(gpu, driver, true);
	if (!driver->loaded && !has_node(gpu, driver->vendor))
		return no_node(gpu, driver->vendor);
	if (!driver->loaded && load(gpu, driver, false))
		return base_fail(gpu->error_owner, -ENODEV, "load driver",
				 "Install the GPU's driver, or give this container its libraries.",
				 "The library %s cannot be loaded.",
				 driver->vendor == GPU_CUDA ? "libcuda.so.1" : "libamdhip64.so");
	if (driver->broken)
		return base_fail(gpu->error_owner, -ENODEV, "load driver",
				 "Install a newer driver.", "%s", driver->why);
	return initialise(gpu, driver);
}

int gpu_start(struct mrg_gpu *gpu, enum gpu_vendor vendor, struct gpu_driver **driver)
{
	int ret;

	if (left_out(gpu, vendor))
		return base_fail(gpu->error_owner, -ENODEV, "load driver",
				 "Open a handle without MRG_GPU_NO_CUDA and MRG_GPU_NO_HIP.",
				 "The handle was opened without %s.", gpu_vendor_name(vendor));
	pthread_mutex_lock(&gpu->lock);
	ret = start_locked(gpu, &gpu->drivers[vendor]);
	pthread_mutex_unlock(&gpu->lock);
	if (!ret)
		*driver = &gpu->drivers[vendor];
	return ret;
}

int gpu_device_key(const struct gpu_driver *driver, int ordinal, uint8_t key[16])
{
	struct gpu_uuid uuid;
	char pci[32] = "";
	int result;

	memset(key, 0, 16);
	if (!driver->c.device_uuid(&uuid, ordinal)) {
		memcpy(key, uuid.bytes, 16);
		return 0;
	}
	result = driver->c.device_pci(pci, sizeof(pci), ordinal);
	if (result)
		return gpu_errno(result);
	memcpy(key, pci, strnlen(pci, 16));
	return 0;
}

int gpu_find_device(struct mrg_gpu *gpu, const struct gpu_driver *driver, const uint8_t key[16])
{
	uint8_t other[16];
	int count = 0;

	driver->c.device_count(&count);
	for (int i = 0; i < count; i++)
		if (!gpu_device_key(driver, i, other) && !memcmp(key, other, 16))
			return i;
	return base_fail(
		gpu->error_owner, -ENODEV, "find device",
		driver->vendor == GPU_CUDA ?
			"Make the owner's GPU visible to this process: see CUDA_VISIBLE_DEVICES, and the container's devices." :
			"Make the owner's GPU visible to this process: see HIP_VISIBLE_DEVICES, and the container's devices.",
		"This process sees %d GPUs, and the memory is on another one.", count);
}
