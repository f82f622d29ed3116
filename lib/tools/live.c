/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "tools/exporter.h"
#include "tools/fail.h"
#include "tools/live.h"

static uint64_t query_max_mr_size(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr attr = { 0 };
	struct ibv_context *context;

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		context = ibv_open_device(list[i]);
		if (context && ibv_query_device(context, &attr))
			attr.max_mr_size = 0;
		if (context)
			ibv_close_device(context);
	}
	if (list)
		ibv_free_device_list(list);
	return attr.max_mr_size;
}

static bool same_function(const struct mrg_pci_addr *a, const struct mrg_pci_addr *b)
{
	return a->domain == b->domain && a->bus == b->bus && a->device == b->device &&
	       a->function == b->function;
}

/* Whichever way the importer was named, its RDMA device knows a limit. */
static void find_rdma(struct live *live)
{
	struct mrg_rdma_dev *devs;
	ssize_t count = mrg_rdma_list(NULL, &devs);

	if (count < 0)
		return;
	for (ssize_t i = 0; i < count && !live->rdma[0]; i++)
		if (devs[i].has_pci && same_function(&devs[i].pci, &live->importer)) {
			memcpy(live->rdma, devs[i].name, sizeof(live->rdma));
			live->pick = devs[i].pick;
		}
	free(devs);
	if (live->rdma[0])
		live->max_mr_size = query_max_mr_size(live->rdma);
}

static int find_importer(const char *name, struct live *live, struct mrg_error *error)
{
	int ret = mrg_importer_find(NULL, name, &live->importer);

	if (ret == -EINVAL)
		return base_error_set(
			error, ret, "find importer", "Write mlx5_0 or 0000:01:00.0.",
			"The --importer \"%s\" must be an RDMA device or a PCI address.", name);
	if (ret)
		return base_error_set(
			error, ret, "find importer",
			"`mrguard info' lists the RDMA devices, `lspci -D' the PCI functions.",
			"No PCI function stands behind the --importer \"%s\" on this host.", name);
	find_rdma(live);
	return 0;
}

/* Engines register with iova = virtual address; so does this by default. */
static int find_iova(const struct buffer_args *args, struct live *live, struct mrg_error *error)
{
	struct live_buffer *buffer = &live->buffer;

	if (args->has_iova) {
		live->iova = args->iova;
		return 0;
	}
	buffer->map = mmap(NULL, buffer->size, PROT_READ, MAP_SHARED, buffer->fd, 0);
	if (buffer->map == MAP_FAILED) {
		int code = -errno;

		buffer->map = NULL;
		return base_error_set(error, code, "map DMA-BUF", "Give --iova.",
				      "The DMA-BUF cannot be mapped to find an iova: %s.",
				      strerror(-code));
	}
	live->iova = (uint64_t)(uintptr_t)buffer->map + live->offset;
	return 0;
}

/* What mrguard(4) says about each of them, in the words of the command. */
static int layout_failed(const struct live *live, int code, struct mrg_error *error)
{
	struct pci_text importer = pci_text(&live->importer);

	switch (code) {
	case -ENODEV:
		return base_error_set(error, code, "layout", "`lspci -D' lists the PCI functions.",
				      "There is no PCI function %s.", importer.text);
	case -ENXIO:
		return base_error_set(
			error, code, "layout", "Bind it to the driver that does its DMA.",
			"The PCI function %s has no driver, or one that leaves DMA to user space.",
			importer.text);
	case -EPERM:
		return base_error_set(
			error, code, "layout", "Use sudo, or name an RDMA device.",
			"The PCI function %s has no RDMA device below it, so it needs CAP_SYS_ADMIN.",
			importer.text);
	case -EADDRNOTAVAIL:
		return base_error_set(
			error, code, "layout",
			"Register it with mrg_reg_dmabuf(), whose MRs are then right for any addresses.",
			"Mappings of the PCI function %s bounce (SWIOTLB) or are not coherent, so a look could undo what others write.",
			importer.text);
	case -EINVAL:
		return base_error_set(
			error, code, "layout",
			"Keep the range inside, and offset and iova equal within a page.",
			"The offset 0x%llx, length 0x%llx and iova 0x%llx do not "
			"fit a DMA-BUF of 0x%llx bytes.",
			(unsigned long long)live->offset, (unsigned long long)live->length,
			(unsigned long long)live->iova, (unsigned long long)live->buffer.size);
	default:
		return base_error_set(error, code, "layout", "",
				      "The PCI function %s could not map the DMA-BUF: %s.",
				      importer.text, strerror(-code));
	}
}

static bool walks_entries(enum mrg_walk walk)
{
	return walk == MRG_WALK_PER_ENTRY || walk == MRG_WALK_PER_ENTRY_NARROW;
}

static int ask_layout(struct live *live, bool entries, struct mrg_error *error)
{
	uint32_t flags;
	int ret;

	module_open(&live->module);
	if (live->module.state != MODULE_LOADED || !live->module.info.has_layout)
		return 0;
	flags = entries || walks_entries(live->module.info.walk) ? 0 : MRG_LAYOUT_COALESCE;
	ret = mrg_dev_layout(live->module.dev, live->buffer.fd, &live->importer, live->iova,
			     live->offset, live->length, flags, &live->layout);
	if (ret)
		return layout_failed(live, ret, error);
	live->has_layout = true;
	return 0;
}

static int find_range(const struct buffer_args *args, struct live *live, struct mrg_error *error)
{
	live->offset = args->offset;
	if (args->offset >= live->buffer.size || args->length > live->buffer.size - args->offset)
		return base_error_set(
			error, -EINVAL, "find range", "Give a smaller --offset or --length.",
			"The range of 0x%llx bytes at offset 0x%llx reaches past the end "
			"of the DMA-BUF at 0x%llx.",
			(unsigned long long)args->length, (unsigned long long)args->offset,
			(unsigned long long)live->buffer.size);
	live->length = args->length ? args->length : live->buffer.size - args->offset;
	return 0;
}

int live_open(const struct buffer_args *args, bool entries, struct live *live,
	      struct mrg_error *error)
{
	int ret;

	memset(live, 0, sizeof(*live));
	live->buffer.fd = -1;
	ret = find_importer(args->importer, live, error);
	if (!ret)
		ret = exporter_open(args->dmabuf_from, &live->buffer.fd, &live->buffer.size, error);
	if (!ret)
		ret = find_range(args, live, error);
	if (!ret)
		ret = find_iova(args, live, error);
	if (!ret)
		ret = ask_layout(live, entries, error);
	if (ret)
		live_close(live);
	return ret;
}

void live_close(struct live *live)
{
	if (live->has_layout)
		mrg_layout_release(&live->layout);
	if (live->buffer.map)
		munmap(live->buffer.map, live->buffer.size);
	if (live->buffer.fd >= 0)
		close(live->buffer.fd);
	module_close(&live->module);
}
