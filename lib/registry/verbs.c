/* SPDX-License-Identifier: MIT */
/* Verbs entries: a buffer's MRs on one device. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "registry/registry.h"

/* More than one for GPU memory that takes several DMA-BUFs. */
struct verbs_entry {
	size_t count;
	struct mrg_mr *mrs[];
};

int registry_verbs_device(struct mrg_registry *registry, struct registry_device *device)
{
	struct ibv_context *context = device->open.pd->context;
	struct ibv_port_attr port;
	int ret;

	(void)registry;
	ret = ibv_query_port(context, (uint8_t)device->open.port, &port);
	if (ret)
		return -ret;
	snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(context->device));
	device->guid = ibv_get_device_guid(context->device);
	device->lid = port.lid;
	device->link_layer = port.link_layer;
	return 0;
}

static int gpu_failure(const struct mrg_registry *registry, int code, struct mrg_error *error)
{
	if (registry->gpu && !mrg_gpu_last_error(registry->gpu, error))
		return error->code = code;
	return base_error_set(error, code, "classify memory", "",
			      "The memory's kind is not known: %s.", strerror(-code));
}

/* What region has kept, and of which device it is. */
static int region_failure(const struct mrg_registry *registry, size_t device, int code,
			  struct mrg_error *error)
{
	struct mrg_error cause;

	if (mrg_last_error(registry->ctx, &cause))
		return base_error_set(error, code, "register memory", "", "Device %s: %s.",
				      registry->devices[device].name, strerror(-code));
	return base_error_set_piece(error, code, cause.piece, cause.stage, cause.remedy,
				    "Device %s: %s", registry->devices[device].name, cause.cause);
}

/* Return: 0, or the first -errno; MRs that failed are still in it. */
static int dereg_all(struct verbs_entry *entry)
{
	int ret, first = 0;
	size_t left = 0;

	for (size_t i = 0; i < entry->count; i++) {
		ret = mrg_dereg(entry->mrs[i]);
		if (!ret)
			continue;
		entry->mrs[left++] = entry->mrs[i];
		first = first ? first : ret;
	}
	entry->count = left;
	return first;
}

static const struct mrg_reg_opts *reg_opts(const struct registry_request *request)
{
	return request->reg.size ? &request->reg : NULL;
}

static int reg_whole(struct mrg_registry *registry, struct registry_request *request, size_t device,
		     struct mrg_mr **mr)
{
	struct ibv_pd *pd = registry->devices[device].open.pd;

	if (request->has_dmabuf)
		return mrg_reg_dmabuf(registry->ctx, pd, &request->dmabuf, request->addr,
				      request->length, request->access, reg_opts(request), mr);
	return mrg_reg(registry->ctx, pd, (void *)(uintptr_t)request->addr, request->length,
		       request->access, reg_opts(request), mr);
}

/* GPU memory is exported once for all devices of a call. */
static int export_once(struct mrg_registry *registry, struct registry_request *request)
{
	struct mrg_mem mem;
	bool gpu;
	int ret;

	if (!registry->gpu || request->has_dmabuf || request->exported)
		return 0;
	ret = mrg_gpu_classify(registry->gpu, request->addr, request->length, &mem);
	if (ret)
		return ret;
	gpu = mem.kind >= MRG_MEM_CUDA;
	mrg_mem_release(&mem);
	if (!gpu)
		return 0;
	ret = mrg_gpu_export(registry->gpu, request->addr, request->length, NULL, &request->export);
	request->exported = !ret;
	return ret;
}

static int reg_pieces(struct mrg_registry *registry, struct registry_request *request,
		      size_t device, struct verbs_entry *entry)
{
	for (size_t i = 0; i < request->export.count; i++) {
		const struct mrg_export_piece *piece = &request->export.pieces[i];
		int ret = mrg_reg_dmabuf(registry->ctx, registry->devices[device].open.pd,
					 &piece->buf, piece->addr, piece->length, request->access,
					 reg_opts(request), &entry->mrs[entry->count]);

		if (ret)
			return ret;
		entry->count++;
	}
	return 0;
}

static int reg_entry(struct mrg_registry *registry, struct registry_request *request, size_t device,
		     struct verbs_entry *entry)
{
	int ret;

	if (request->exported)
		return reg_pieces(registry, request, device, entry);
	ret = reg_whole(registry, request, device, &entry->mrs[0]);
	entry->count = !ret;
	return ret;
}

int registry_verbs_add(struct mrg_registry *registry, struct registry_request *request,
		       size_t device, void **out, struct mrg_error *error)
{
	struct verbs_entry *entry;
	size_t count;
	int ret = export_once(registry, request);

	if (ret)
		return gpu_failure(registry, ret, error);
	count = request->exported ? request->export.count : 1;
	entry = calloc(1, sizeof(*entry) + count * sizeof(entry->mrs[0]));
	if (!entry)
		return base_error_set(error, -ENOMEM, "register memory", "Free memory.",
				      "There is no memory for an entry.");
	ret = reg_entry(registry, request, device, entry);
	if (!ret) {
		*out = entry;
		return 0;
	}
	region_failure(registry, device, ret, error);
	/* A device may refuse for reasons of its own. */
	if (dereg_all(entry))
		*out = entry;
	else
		free(entry);
	return ret;
}

int registry_verbs_remove(struct mrg_registry *registry, void *at, struct mrg_error *error)
{
	struct verbs_entry *entry = at;
	int ret = dereg_all(entry);

	(void)registry;
	if (ret)
		return base_error_set(error, ret, "deregister memory",
				      "Unbind memory windows, and unregister again.",
				      "MRs that could not be deregistered: %zu (%s).", entry->count,
				      strerror(-ret));
	free(entry);
	return 0;
}

static const struct mrg_mr *mr_holding(const struct verbs_entry *entry, uint64_t addr)
{
	for (size_t i = 0; i < entry->count; i++)
		if (addr - mrg_mr_addr(entry->mrs[i]) < mrg_mr_length(entry->mrs[i]))
			return entry->mrs[i];
	return NULL;
}

/* One MR after the other; @segs NULL counts. */
static ssize_t walk_mrs(const struct verbs_entry *entry, uint64_t addr, uint64_t length,
			struct mrg_seg *segs)
{
	ssize_t count = 0;

	while (length) {
		const struct mrg_mr *mr = mr_holding(entry, addr);
		uint64_t left, part;
		ssize_t got;

		if (!mr)
			return -ERANGE;
		left = mrg_mr_addr(mr) + (mrg_mr_length(mr) - addr);
		part = left < length ? left : length;
		got = mrg_keys(mr, addr, part, segs ? segs + count : NULL, segs ? SIZE_MAX : 0);
		if (got < 0)
			return got;
		count += got;
		addr += part;
		length -= part;
	}
	return count ? count : -ERANGE;
}

ssize_t registry_verbs_keys(const void *at, uint64_t addr, uint64_t length, struct mrg_seg *segs,
			    size_t cap)
{
	const struct verbs_entry *entry = at;
	ssize_t count;

	if (entry->count == 1)
		return mrg_keys(entry->mrs[0], addr, length, segs, cap);
	count = walk_mrs(entry, addr, length, NULL);
	if (count > 0 && (size_t)count <= cap)
		walk_mrs(entry, addr, length, segs);
	return count;
}
