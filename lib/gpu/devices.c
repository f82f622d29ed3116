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

#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002

static void yes(struct mrg_gpu_cap *cap)
{
	cap->yes = true;
	cap->why[0] = '\0';
}

static void no(struct mrg_gpu_cap *cap, const char *why)
{
	cap->yes = false;
	snprintf(cap->why, sizeof(cap->why), "%s", why);
}

static void all_no(struct mrg_gpu_device *d, const char *why)
{
	no(&d->dmabuf, why);
	no(&d->vmm_rdma, why);
	no(&d->share_fd, why);
	no(&d->fabric, why);
	no(&d->coherent, why);
}

static void read_first_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");

	line[0] = '\0';
	if (!file)
		return;
	if (!fgets(line, (int)size, file))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(file);
}

static unsigned int read_hex(const struct mrg_gpu *gpu, const char *pci, const char *file)
{
	char path[480], line[32];

	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", gpu->sysfs, pci, file);
	read_first_line(path, line, sizeof(line));
	return (unsigned int)strtoul(line, NULL, 16);
}

static void read_driver(const struct mrg_gpu *gpu, const char *pci, char *driver, size_t size)
{
	char path[480], target[256];
	const char *name;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/driver", gpu->sysfs, pci);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return;
	target[length] = '\0';
	name = strrchr(target, '/');
	snprintf(driver, size, "%.*s", (int)size - 1, name ? name + 1 : target);
}

/* ---- CUDA ---- */

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04" */
bool gpu_open_modules(void)
{
	char line[256];

	read_first_line("/proc/driver/nvidia/version", line, sizeof(line));
	return strstr(line, "Open Kernel Module");
}

static void judge_dmabuf(const struct gpu_driver *driver, int ordinal, struct mrg_gpu_cap *cap)
{
	if (!driver->c.dmabuf) {
		no(cap, "The driver is older than CUDA 11.7.");
	} else if (gpu_cuda_attribute(driver, ordinal, CUDA_DEV_DMABUF)) {
		yes(cap);
	} else {
		no(cap,
		   gpu_open_modules() ?
			   "The GPU has no GPUDirect RDMA." :
			   "The kernel modules are NVIDIA's proprietary ones, and only the open ones export DMA-BUFs.");
	}
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
	if (gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_VMM_RDMA))
		yes(&d->vmm_rdma);
	else
		no(&d->vmm_rdma,
		   "The driver does not support RDMA to VMM memory on this GPU: use cudaMalloc().");
	if (gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_POSIX_FD))
		yes(&d->share_fd);
	else
		no(&d->share_fd, "The driver gives no file descriptors for VMM memory.");
	if (!gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_FABRIC))
		no(&d->fabric, "The GPU has no fabric handles.");
	else if (!has_imex_channel(gpu))
		no(&d->fabric,
		   "No IMEX channel is open to this process (/dev/nvidia-caps-imex-channels/channel*).");
	else
		yes(&d->fabric);
	if (gpu_cuda_attribute(driver, d->ordinal, CUDA_DEV_HOST_PAGE_TABLES))
		yes(&d->coherent);
	else
		no(&d->coherent, "The CPU and the GPU have separate page tables.");
}

/* ---- HIP ---- */

static void judge_hip(const struct gpu_driver *driver, struct mrg_gpu_device *d)
{
	if (!driver->c.dmabuf && !driver->hsa.export_dmabuf)
		no(&d->dmabuf, "This ROCm release has no call that exports a DMA-BUF.");
	else if (!gpu_hip_dmabuf(driver))
		no(&d->dmabuf, "The amdgpu driver's KFD interface is older than 1.12.");
	else
		yes(&d->dmabuf);
	yes(&d->vmm_rdma);
	yes(&d->share_fd);
	no(&d->fabric, "AMD GPUs have no fabric handles.");
	no(&d->coherent, "HIP does not report it.");
}

/* ---- both ---- */

static struct mrg_gpu_device *add(struct mrg_gpu_list *list)
{
	struct mrg_gpu_device *more;

	more = realloc(list->devices, (list->count + 1) * sizeof(*more));
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

static void kernel_version(enum gpu_vendor vendor, char *out, size_t size)
{
	const char *path = vendor == GPU_CUDA ? "/sys/module/nvidia/version" :
						"/sys/module/amdgpu/version";

	read_first_line(path, out, size);
}

static int add_runtime(struct mrg_gpu *gpu, enum gpu_vendor vendor, struct mrg_gpu_list *list)
{
	struct mrg_gpu_runtime *runtime = &list->runtimes[vendor];
	struct gpu_driver *driver;
	struct mrg_error error = { 0 };
	int count = 0, ret = 0;

	strcpy(runtime->vendor, gpu_vendor_name(vendor));
	kernel_version(vendor, runtime->kernel, sizeof(runtime->kernel));
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
