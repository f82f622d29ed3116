/* SPDX-License-Identifier: MIT */
/*
 * VMM memory, chunk by chunk.  No call gives the list, and the reserved range
 * says nothing about what is mapped in it, so the range is walked mapping by
 * mapping.
 */
#include <errno.h>

#include "base/grow.h"
#include "gpu/driver.h"

#define MAX_CHUNKS (1u << 20) /* 2 TiB of 2 MiB chunks */

static uint64_t attribute(const struct gpu_driver *driver, uint64_t addr, int which)
{
	uint64_t value = 0;

	if (driver->c.attribute(&value, which, addr))
		return 0;
	return value;
}

uint64_t gpu_buffer_id(const struct gpu_driver *driver, uint64_t addr)
{
	return attribute(driver, addr, GPU_ATTR_BUFFER_ID);
}

static int ask_mapping(const struct gpu_driver *driver, uint64_t addr, uint64_t *base,
		       uint64_t *size)
{
	int result;

	*base = *size = 0;
	result = driver->c.attribute(base, GPU_ATTR_MAPPING_BASE, addr);
	if (!result)
		result = driver->c.attribute(size, GPU_ATTR_MAPPING_SIZE, addr);
	return result;
}

/*
 * The mapping that holds @addr.  cuMemGetAddressRange() wants a current context
 * (CUresult 201), and one of that chunk's own device; for chunks in CPU memory
 * it answers base 0.  The attributes do neither, and know no more of a hole.
 */
static int find_mapping(const struct gpu_driver *driver, uint64_t addr, struct mrg_mem_chunk *chunk)
{
	uint64_t base = 0, size = 0;
	size_t bytes = 0;
	int result = driver->c.address_range(&base, &bytes, addr);

	size = bytes;
	if (result || !base)
		result = ask_mapping(driver, addr, &base, &size);
	if (result)
		return result;
	if (!base || addr < base || addr - base >= size)
		return GPU_NOT_FOUND;
	chunk->addr = base;
	chunk->size = size;
	return 0;
}

static bool was_imported(struct mrg_gpu *gpu, uint64_t addr)
{
	struct gpu_imported *i;

	pthread_mutex_lock(&gpu->lock);
	for (i = gpu->imported; i; i = i->next)
		if (addr >= i->addr && addr - i->addr < i->size)
			break;
	pthread_mutex_unlock(&gpu->lock);
	return i;
}

static int read_properties(struct mrg_gpu *gpu, const struct gpu_driver *driver,
			   struct mrg_mem_chunk *chunk)
{
	struct gpu_prop prop = { 0 };
	uint64_t handle;
	int result = driver->c.retain(&handle, chunk->addr);

	if (result)
		return result;
	result = driver->c.properties(&prop, handle);
	driver->c.release(handle);
	if (result)
		return result;
	chunk->id = gpu_buffer_id(driver, chunk->addr);
	chunk->handle_types = (uint32_t)prop.handle_types;
	chunk->device = prop.location.type == GPU_LOCATION_DEVICE ? prop.location.id : -1;
	/* HIP has no such flag: all its memory can be exported. */
	chunk->rdma = driver->vendor == GPU_HIP || prop.flags.rdma;
	chunk->compressed = prop.flags.compression;
	chunk->imported = was_imported(gpu, chunk->addr);
	return 0;
}

static int add(const struct mrg_gpu *gpu, struct mrg_mem *mem, size_t *room,
	       const struct mrg_mem_chunk *chunk)
{
	struct mrg_mem_chunk *more;

	if (mem->count == MAX_CHUNKS)
		return base_fail(gpu->error_owner, -E2BIG, "walk chunks",
				 "Share or export the range in parts.",
				 "The range has more than %u chunks.", MAX_CHUNKS);
	more = base_grow(mem->chunks, room, mem->count, sizeof(*more));
	if (!more)
		return base_fail(gpu->error_owner, -ENOMEM, "walk chunks", "",
				 "No memory is left for more than %zu chunks.", mem->count);
	mem->chunks = more;
	mem->chunks[mem->count++] = *chunk;
	return 0;
}

static void sum_up(struct mrg_mem *mem)
{
	const struct mrg_mem_chunk *first = mem->chunks;
	bool all = true, imported = false;

	mem->base = first->addr;
	mem->device = first->device;
	mem->id = first->id;
	mem->handle_types = UINT32_MAX;
	for (size_t i = 0; i < mem->count; i++) {
		mem->size += mem->chunks[i].size;
		mem->handle_types &= mem->chunks[i].handle_types;
		mem->several_devices |= mem->chunks[i].device != first->device;
		imported |= mem->chunks[i].imported;
		all &= mem->chunks[i].rdma || mem->chunks[i].imported;
	}
	mem->rdma = !all ? MRG_RDMA_NO : imported ? MRG_RDMA_UNKNOWN : MRG_RDMA_YES;
}

int gpu_walk(struct mrg_gpu *gpu, struct gpu_driver *driver, uint64_t addr, uint64_t length,
	     struct mrg_mem *mem)
{
	struct mrg_mem_chunk chunk = { 0 };
	size_t room = 0;
	int result, ret;

	for (uint64_t at = addr; at < addr + length; at = chunk.addr + chunk.size) {
		result = find_mapping(driver, at, &chunk);
		if (!result)
			result = read_properties(gpu, driver, &chunk);
		if (result == GPU_INVALID_CONTEXT)
			return gpu_fail_call(gpu, driver, "walk chunks", "cuMemGetAddressRange",
					     result);
		if (result || (mem->count && chunk.addr != at)) {
			mem->hole = at;
			break;
		}
		ret = add(gpu, mem, &room, &chunk);
		if (ret)
			return ret;
	}
	if (mem->count)
		sum_up(mem);
	return 0;
}
