/* SPDX-License-Identifier: MIT */
/* The GPUs of this host, what each can do, and why not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "host/files.h"

#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002

static void set(struct mrg_gpu_cap *cap, bool yes, const char *why_not)
{
	cap->yes = yes;
	snprintf(cap->why, sizeof(cap->why), "%s", yes ? "" : why_not);
}

static void no(struct mrg_gpu_cap *cap, const char *why)
{
	set(cap, false, why);
}

static void all_no(struct mrg_gpu_device *d, const char *why)
{
	no(&d->dmabuf, why);
	no(&d->vmm_rdma, why);
	no(&d->share_fd, why);
	no(&d->fabric, why);
	no(&d->coherent, why);
}

static unsigned int read_hex(const struct mrg_gpu *gpu, const char *pci, const char *file)
{
	char line[32];

	host_first_line(line, sizeof(line), "%s/bus/pci/devices/%s/%s", gpu->sysfs, pci, file);
	return (unsigned int)strtoul(line, NULL, 16);
}

static void read_driver(const struct mrg_gpu *gpu, const char *pci, char *driver, size_t size)
{
	host_link_name(driver, size, "%s/bus/pci/devices/%s/driver", gpu->sysfs, pci);
}

/* ---- CUDA ---- */

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04" */
bool gpu_open_modules(void)
{
	char line[256];

	host_first_line(line, sizeof(line), "/proc/driver/nvidia/version");
	return strstr(line, "Open Kernel Module");
}

static void judge_dmabuf(const struct gpu_driver *driver, int ordinal, struct mrg_gpu_cap *cap)
{
	if (!driver->c.dmabuf)
		no(cap, "The driver is older than CUDA 11.7.");
	else
		set(cap, gpu_cuda_attribute(driver, ordinal, CUDA_DEV_DMABUF),
		    gpu_open_modules() ?
			    "The GPU has no GPUDirect RDMA." :
			    "The kernel modules are NVIDIA's proprietary ones, and only the open ones export DMA-BUFs.");
}

/* The attribute tells of the hardware; without a channel's node every fabric
 * allocation fails with CUDA_ERROR_NOT_PERMITTED (H200, driver 580). */
static bool has_imex_channel(const struct mrg_gpu *gpu)
{
	char path[160];
	bool found = false;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/nvidia-caps-imex-channels", gpu->nodes);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		found = !strncmp(entry->d_name, "channel", 7) &&
			!faccessat(dirfd(dir), entry->d_name, R_OK | W_OK, AT_EACCESS);
	closedir(dir);
	return found;
}

static void judge_cuda(struct mrg_gpu *gpu, const struct gpu_driver *driver,
		       struct mrg_gpu_device *d)
{
	judge_dmabuf(driver, d->ordinal, &d->dmabuf);
	set(&d->vmm_rdma, gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_VMM_RDMA),
	    "The driver does not support RDMA to VMM memory on this GPU: use cudaMalloc().");
	set(&d->share_fd, gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_POSIX_FD),
	    "The driver gives no file descriptors for VMM memory.");
	if (!gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_FABRIC))
		no(&d->fabric, "The GPU has no fabric handles.");
	else
		set(&d->fabric, has_imex_channel(gpu),
		    "No IMEX channel is open to this process (/dev/nvidia-caps-imex-channels/channel*).");
	set(&d->coherent, gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_HOST_PAGE_TABLES),
	    "The CPU and the GPU have separate page tables.");
}

/* ---- HIP ---- */

static void judge_hip(const struct gpu_driver *driver, struct mrg_gpu_device *d)
{
	if (!driver->c.dmabuf && !driver->hsa.export_dmabuf)
		no(&d->dmabuf, "This ROCm release has no call that exports a DMA-BUF.");
	else
		set(&d->dmabuf, gpu_hip_dmabuf(driver),
		    "The amdgpu driver's KFD interface is older than 1.12.");
	set(&d->vmm_rdma, true, "");
	set(&d->share_fd, true, "");
	no(&d->fabric, "AMD GPUs have no fabric handles.");
	no(&d->coherent, "HIP does not report it.");
}

/* ---- both ---- */

static struct mrg_gpu_device *add(struct mrg_gpu_list *list)
{
	struct mrg_gpu_device *more = realloc(list->devices, (list->count + 1) * sizeof(*more));

	if (!more)
		return NULL;
	list->devices = more;
	memset(&more[list->count], 0, sizeof(*more));
	return &more[list->count++];
}

static void lower(char *text)
{
	for (; *text; text++)
		if (*text >= 'A' && *text <= 'F')
			*text = (char)(*text - 'A' + 'a');
}

static int add_device(struct mrg_gpu *gpu, const struct gpu_driver *driver, int ordinal,
		      struct mrg_gpu_list *list)
{
	struct mrg_gpu_device *d = add(list);
	size_t memory = 0;

	if (!d)
		return -ENOMEM;
	strcpy(d->vendor, gpu_vendor_name(driver->vendor));
	d->ordinal = ordinal;
	driver->c.device_name(d->name, sizeof(d->name), ordinal);
	driver->c.device_pci(d->pci, sizeof(d->pci), ordinal);
	lower(d->pci);
	driver->c.device_memory(&memory, ordinal);
	d->memory = memory;
	gpu_device_key(driver, ordinal, d->uuid);
	d->bar = gpu_bar_size(gpu, d->pci);
	read_driver(gpu, d->pci, d->driver, sizeof(d->driver));
	if (driver->vendor == GPU_CUDA)
		judge_cuda(gpu, driver, d);
	else
		judge_hip(driver, d);
	return 0;
}

static int add_runtime(struct mrg_gpu *gpu, enum gpu_vendor vendor, struct mrg_gpu_list *list)
{
	struct mrg_gpu_runtime *runtime = &list->runtimes[vendor];
	struct gpu_driver *driver;
	struct mrg_error error = { 0 };
	int count = 0, ret = 0;

	strcpy(runtime->vendor, gpu_vendor_name(vendor));
	host_first_line(runtime->kernel, sizeof(runtime->kernel), "/sys/module/%s/version",
			vendor == GPU_CUDA ? "nvidia" : "amdgpu");
	runtime->usable = !gpu_start(gpu, vendor, &driver);
	runtime->version = gpu->drivers[vendor].version;
	if (!runtime->usable) {
		mrg_gpu_last_error(gpu, &error);
		snprintf(runtime->why, sizeof(runtime->why), "%.191s", error.cause);
		return 0;
	}
	driver->c.device_count(&count);
	for (int i = 0; i < count && !ret; i++)
		ret = add_device(gpu, driver, i, list);
	return ret;
}

static bool is_listed(const struct mrg_gpu_list *list, const char *pci)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->devices[i].pci, pci))
			return true;
	return false;
}

/* A GPU that no runtime shows: the driver is not loaded, or it is hidden. */
static int add_bare(struct mrg_gpu *gpu, const char *pci, struct mrg_gpu_list *list)
{
	unsigned int class = read_hex(gpu, pci, "class");
	unsigned int vendor = read_hex(gpu, pci, "vendor");
	const struct mrg_gpu_runtime *runtime;
	struct mrg_gpu_device *d;

	if (class >> 16 != 0x03 && class >> 8 != 0x1200)
		return 0;
	if ((vendor != VENDOR_NVIDIA && vendor != VENDOR_AMD) || is_listed(list, pci))
		return 0;
	d = add(list);
	if (!d)
		return -ENOMEM;
	runtime = &list->runtimes[vendor == VENDOR_NVIDIA ? GPU_CUDA : GPU_HIP];
	strcpy(d->vendor, "none");
	d->ordinal = -1;
	snprintf(d->name, sizeof(d->name), "%s %04x", vendor == VENDOR_NVIDIA ? "NVIDIA" : "AMD",
		 read_hex(gpu, pci, "device"));
	snprintf(d->pci, sizeof(d->pci), "%.15s", pci);
	read_driver(gpu, pci, d->driver, sizeof(d->driver));
	d->bar = gpu_bar_size(gpu, pci);
	all_no(d, runtime->usable ? "The runtime does not show it to this process." : runtime->why);
	return 0;
}

static int add_bare_devices(struct mrg_gpu *gpu, struct mrg_gpu_list *list)
{
	struct dirent **entries;
	char path[160];
	int count, ret = 0;

	snprintf(path, sizeof(path), "%s/bus/pci/devices", gpu->sysfs);
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		return errno == ENOMEM ? -ENOMEM : 0;
	for (int i = 0; i < count; i++) {
		if (!ret && entries[i]->d_name[0] != '.')
			ret = add_bare(gpu, entries[i]->d_name, list);
		free(entries[i]);
	}
	free(entries);
	return ret;
}

int mrg_gpu_devices(struct mrg_gpu *gpu, struct mrg_gpu_list *list)
{
	struct mrg_gpu_list found = { 0 };
	int ret = gpu_check(gpu);

	if (ret)
		return ret;
	for (int vendor = 0; vendor < GPU_VENDORS && !ret; vendor++)
		ret = add_runtime(gpu, (enum gpu_vendor)vendor, &found);
	if (!ret)
		ret = add_bare_devices(gpu, &found);
	if (ret) {
		mrg_gpu_list_release(&found);
		return base_fail(gpu->error_owner, ret, "list devices", "",
				 "No memory is left for the list of devices.");
	}
	*list = found;
	return 0;
}

void mrg_gpu_list_release(struct mrg_gpu_list *list)
{
	free(list->devices);
	list->devices = NULL;
	list->count = 0;
}
