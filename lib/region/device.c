/* SPDX-License-Identifier: MIT */
/* The RDMA devices of a context, and what verbs and sysfs tell of each. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/files.h"
#include "host/module_file.h"
#include "host/pick.h"
#include "region/context.h"

/*
 * Drivers that have never given an MR a page of 4 GiB or more, and the largest
 * that they do give (their page bitmaps for reg_user_mr and reg_user_mr_dmabuf,
 * Linux 5.15 to 7.3).  They hold for drivers that came with the kernel: vendor
 * stacks bring drivers and walks of their own.  mlx5 and ionic are not here,
 * since firmware and kernel version decide there.
 */
static const struct {
	const char *pci_driver;
	const char *rdma_module;
	uint32_t page_shift;
} known_bounds[] = {
	{ "bnxt_en", "bnxt_re", 30 },
	{ "ice", "irdma", 30 },
	{ "i40e", "irdma", 30 },
	{ "idpf", "irdma", 30 },
	{ "efa", "efa", 31 },
	{ "erdma", "erdma", 30 },
	{ "mana", "mana_ib", 31 },
	{ "mlx4_core", "mlx4_ib", 31 },
	{ "hns3", "hns_roce_hw_v2", 31 },
};

static uint32_t bound_by_driver(const struct region_env *env, const char *driver)
{
	for (size_t i = 0; i < sizeof(known_bounds) / sizeof(known_bounds[0]); i++)
		if (!strcmp(driver, known_bounds[i].pci_driver) &&
		    host_module_in_tree(env->sys, known_bounds[i].rdma_module) &&
		    host_module_in_tree(env->sys, "ib_core"))
			return known_bounds[i].page_shift;
	return 0;
}

/*
 * Kernel's iommu_group_show_type(): DMA and DMA-FQ translate, identity does
 * not.  A function without a group has no IOMMU in its way.
 */
static enum mrg_iommu iommu_of(const char *dir)
{
	char path[PATH_MAX + 32], type[32];

	snprintf(path, sizeof(path), "%s/iommu_group", dir);
	if (access(path, F_OK))
		return MRG_IOMMU_MODE_NONE;
	if (!host_first_line(type, sizeof(type), "%s/iommu_group/type", dir))
		return MRG_IOMMU_MODE_UNKNOWN;
	if (!strcmp(type, "identity"))
		return MRG_IOMMU_MODE_IDENTITY;
	return strncmp(type, "DMA", 3) ? MRG_IOMMU_MODE_UNKNOWN : MRG_IOMMU_MODE_TRANSLATED;
}

/* Where the function's facts are: an RDMA device can hang below an auxiliary
 * device, which has neither an IOMMU group nor the driver that is meant. */
static void device_dir(const struct region_device *device, const struct region_env *env, char *dir,
		       size_t size)
{
	if (device->has_pci)
		snprintf(dir, size, "%s/bus/pci/devices/%04x:%02x:%02x.%x", env->sys,
			 device->pci.domain, device->pci.bus, device->pci.device,
			 device->pci.function);
	else
		snprintf(dir, size, "%s/class/infiniband/%s/device", env->sys, device->name);
}

static void read_files(struct region_device *device, const struct region_env *env)
{
	char class_dir[PATH_MAX], dir[PATH_MAX];

	device->has_pci = !mrg_importer_find(env->sys, device->name, &device->pci);
	device_dir(device, env, dir, sizeof(dir));
	host_link_name(device->pci_driver, sizeof(device->pci_driver), "%s/driver", dir);
	device->page_shift_bound = bound_by_driver(env, device->pci_driver);
	device->pick = host_pick_read(env->sys, device->name);
	snprintf(class_dir, sizeof(class_dir), "%s/class/infiniband/%s", env->sys, device->name);
	device->iommu = access(class_dir, F_OK) ? MRG_IOMMU_MODE_UNKNOWN : iommu_of(dir);
}

void region_device_read(const struct region_env *env, const char *name,
			struct region_device *device)
{
	memset(device, 0, sizeof(*device));
	snprintf(device->name, sizeof(device->name), "%s", name);
	read_files(device, env);
}

static struct region_device *find_device(const struct mrg_ctx *ctx, const struct ibv_context *verbs)
{
	struct region_device *d = atomic_load_explicit(&ctx->devices, memory_order_acquire);

	/* By name too: another device may be opened at a closed one's address. */
	while (d && (d->verbs != verbs || strcmp(d->name, ibv_get_device_name(verbs->device))))
		d = d->next;
	return d;
}

static int add_device(struct mrg_ctx *ctx, struct ibv_context *verbs, struct region_device **out)
{
	struct ibv_device_attr attr;
	struct region_device *device;
	int err = ctx->env->query_device(verbs, &attr);

	if (err)
		return err > 0 ? -err : err;
	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	region_device_read(ctx->env, ibv_get_device_name(verbs->device), device);
	device->verbs = verbs;
	device->max_mr_size = attr.max_mr_size;
	device->next = atomic_load_explicit(&ctx->devices, memory_order_relaxed);
	atomic_store_explicit(&ctx->devices, device, memory_order_release);
	*out = device;
	return 0;
}

int region_device_get(struct mrg_ctx *ctx, struct ibv_context *verbs,
		      const struct region_device **out)
{
	struct region_device *device = find_device(ctx, verbs);
	int ret = 0;

	if (!device) {
		pthread_mutex_lock(&ctx->lock);
		device = find_device(ctx, verbs);
		if (!device)
			ret = add_device(ctx, verbs, &device);
		pthread_mutex_unlock(&ctx->lock);
	}
	if (ret)
		return base_fail(ctx->error_owner, ret, "query device",
				 "Check that the device is still there (rdma link, dmesg).",
				 "The device %s cannot be asked for its limits: %s.",
				 ibv_get_device_name(verbs->device), strerror(-ret));
	*out = device;
	return 0;
}
