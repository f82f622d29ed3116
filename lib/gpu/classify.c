/* SPDX-License-Identifier: MIT */
/*
 * What an address range is.  CUDA is asked first, then HIP, then the kernel;
 * each answer comes from a call, never from the look of an address.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/driver.h"

#define MINE 1 /* a driver knows the pointer */

static void name_device(const struct gpu_driver *driver, struct mrg_mem *mem)
{
	char pci[32] = "";

	if (mem->device < 0)
		return;
	gpu_device_key(driver, mem->device, mem->uuid);
	if (!driver->c.device_pci(pci, sizeof(pci), mem->device))
		memcpy(mem->pci, pci, strnlen(pci, sizeof(mem->pci) - 1));
}

/*
 * The allocation of memory that is not VMM's.  The attributes give the same and
 * need no context, but for a pool they may speak of its reserved range: only
 * the call's answer is a bound that can be relied on.
 */
static void find_allocation(const struct gpu_driver *driver, uint64_t addr, uint64_t length,
			    struct mrg_mem *mem)
{
	uint64_t base = 0;
	size_t size = 0;

	if (driver->c.address_range(&base, &size, addr) || !base) {
		base = size = 0;
		if (mem->kind != MRG_MEM_CUDA_POOL) {
			driver->c.attribute(&base, GPU_ATTR_RANGE_START, addr);
			driver->c.attribute(&size, GPU_ATTR_RANGE_SIZE, addr);
		}
	}
	mem->base = base;
	mem->size = size;
	if (base && (addr < base || length > size || addr - base > size - length))
		mem->hole = base + size;
}

/* ---- CUDA ---- */

struct cuda_answer {
	uint64_t context;
	uint64_t type;
	uint64_t managed;
	uint64_t ordinal;
	uint64_t id;
};

/*
 * One call, which leaves zeros for a pointer that CUDA does not know.  All five
 * attributes are older than CUDA 12, so no driver rejects the call for one.
 * Each buffer has 8 bytes, since the widths differ.
 */
static int ask_cuda(const struct gpu_driver *driver, uint64_t addr, struct cuda_answer *answer)
{
	int attributes[] = { GPU_ATTR_CONTEXT, GPU_ATTR_MEMORY_TYPE, GPU_ATTR_IS_MANAGED,
			     GPU_ATTR_DEVICE_ORDINAL, GPU_ATTR_BUFFER_ID };
	void *data[] = { &answer->context, &answer->type, &answer->managed, &answer->ordinal,
			 &answer->id };

	memset(answer, 0, sizeof(*answer));
	return driver->cuda.attributes(5, attributes, data, addr);
}

static bool is_vmm(const struct gpu_driver *driver, uint64_t addr)
{
	uint64_t handle;

	if (driver->c.retain(&handle, addr))
		return false;
	driver->c.release(handle);
	return true;
}

static bool is_pool(const struct gpu_driver *driver, uint64_t addr)
{
	uint64_t pool = 0;

	return !driver->c.attribute(&pool, GPU_ATTR_MEMPOOL, addr) && pool;
}

static void set_kind(struct mrg_mem *mem, enum mrg_mem_kind kind, const char *source)
{
	mem->kind = kind;
	mem->source = source;
}

static void judge_cuda(const struct gpu_driver *driver, uint64_t addr,
		       const struct cuda_answer *answer, struct mrg_mem *mem)
{
	if ((uint32_t)answer->managed & 1)
		set_kind(mem, MRG_MEM_CUDA_MANAGED, "cuPointerGetAttributes");
	else if (is_vmm(driver, addr))
		set_kind(mem, MRG_MEM_CUDA_VMM, "cuMemRetainAllocationHandle");
	else if ((uint32_t)answer->type == CUDA_MEMORY_HOST)
		set_kind(mem, MRG_MEM_HOST_PINNED, "cuPointerGetAttributes");
	else if (is_pool(driver, addr))
		set_kind(mem, MRG_MEM_CUDA_POOL, "cuPointerGetAttribute");
	else
		set_kind(mem, MRG_MEM_CUDA, "cuPointerGetAttributes");
}

/* An address that was imported by IPC has the flag off, and its DMA-BUF export
 * fails; so "no" is right for it as well. */
static void fill_cuda(const struct gpu_driver *driver, uint64_t addr, uint64_t length,
		      const struct cuda_answer *answer, struct mrg_mem *mem)
{
	uint64_t capable = 0;

	mem->device = (int32_t)answer->ordinal;
	mem->id = answer->id;
	find_allocation(driver, addr, length, mem);
	if (!driver->c.attribute(&capable, GPU_ATTR_RDMA_CAPABLE, addr))
		mem->rdma = (uint32_t)capable & 1 ? MRG_RDMA_YES : MRG_RDMA_NO;
}

static int describe_cuda(struct mrg_gpu *gpu, struct gpu_driver *driver, uint64_t addr,
			 uint64_t length, struct mrg_mem *mem)
{
	struct gpu_scope scope;
	struct cuda_answer answer;
	int result = ask_cuda(driver, addr, &answer);
	int entered, ret = 0;

	if (result == GPU_NOT_INITIALIZED || result == GPU_DEINITIALIZED)
		return 0;
	if (result)
		return gpu_fail_call(gpu, driver, "classify", "cuPointerGetAttributes", result);
	if (!(uint32_t)answer.type)
		return 0;
	judge_cuda(driver, addr, &answer, mem);
	if (mem->kind == MRG_MEM_HOST_PINNED)
		return 0;
	entered = gpu_enter(gpu, driver, (int32_t)answer.ordinal, (void *)(uintptr_t)answer.context,
			    &scope);
	if (mem->kind == MRG_MEM_CUDA_VMM)
		ret = gpu_walk(gpu, driver, addr, length, mem);
	else
		fill_cuda(driver, addr, length, &answer, mem);
	if (!entered)
		gpu_leave(&scope);
	name_device(driver, mem);
	return ret ? ret : MINE;
}

/* ---- HIP ---- */

/* The numbers of hipMemoryType changed with ROCm 6. */
static enum mrg_mem_kind hip_kind(const struct gpu_driver *driver,
				  const struct gpu_hip_pointer *pointer)
{
	bool old = driver->version < 60000000;

	if (pointer->is_managed || pointer->type == (old ? HIP5_MANAGED : HIP6_MANAGED))
		return MRG_MEM_HIP_MANAGED;
	if (pointer->type == (old ? HIP5_DEVICE : HIP6_DEVICE))
		return MRG_MEM_HIP;
	if (pointer->type == (old ? HIP5_HOST : HIP6_HOST))
		return MRG_MEM_HOST_PINNED;
	return MRG_MEM_UNKNOWN;
}

/* Some releases do not know VMM addresses in hipPointerGetAttributes(), so
 * these are asked about whatever it says. */
static int describe_hip(struct mrg_gpu *gpu, struct gpu_driver *driver, uint64_t addr,
			uint64_t length, struct mrg_mem *mem)
{
	struct gpu_hip_pointer pointer = { .device = -1 };
	struct gpu_scope scope;
	int ret = 0;

	gpu_enter(gpu, driver, -1, NULL, &scope);
	if (!driver->hip.pointer(&pointer, (void *)(uintptr_t)addr)) {
		set_kind(mem, hip_kind(driver, &pointer), "hipPointerGetAttributes");
		mem->device = pointer.device;
	}
	if (is_vmm(driver, addr)) {
		set_kind(mem, MRG_MEM_HIP_VMM, "hipMemRetainAllocationHandle");
		ret = gpu_walk(gpu, driver, addr, length, mem);
	} else if (mem->kind == MRG_MEM_HIP || mem->kind == MRG_MEM_HIP_MANAGED) {
		mem->id = gpu_buffer_id(driver, addr);
		mem->rdma = mem->kind == MRG_MEM_HIP ? MRG_RDMA_YES : MRG_RDMA_NO;
		find_allocation(driver, addr, length, mem);
	} else {
		mem->device = -1;
	}
	gpu_leave(&scope);
	name_device(driver, mem);
	return ret ? ret : mem->device >= 0;
}

/* ---- both ---- */

static int ask_drivers(struct mrg_gpu *gpu, uint64_t addr, uint64_t length, struct mrg_mem *mem)
{
	struct gpu_driver *driver = gpu_peek(gpu, GPU_CUDA);
	int ret = 0;

	if (driver)
		ret = describe_cuda(gpu, driver, addr, length, mem);
	if (ret || mem->kind == MRG_MEM_HOST_PINNED)
		return ret;
	driver = gpu_peek(gpu, GPU_HIP);
	return driver ? describe_hip(gpu, driver, addr, length, mem) : 0;
}

int mrg_gpu_classify(struct mrg_gpu *gpu, uint64_t addr, uint64_t length, struct mrg_mem *mem)
{
	struct mrg_mem found = { .device = -1, .source = "" };
	int ret = gpu_check(gpu);

	if (ret)
		return ret;
	if (!length || addr + length < addr)
		return base_fail(
			gpu->error_owner, -EINVAL, "classify",
			"Pass a length above 0, and an end that does not overflow.",
			"The range of %llu bytes at 0x%llx is empty or runs past the end of the address space.",
			(unsigned long long)length, (unsigned long long)addr);
	ret = ask_drivers(gpu, addr, length, &found);
	if (!ret)
		ret = gpu_host_classify(gpu, addr, length, true, &found);
	if (ret < 0) {
		mrg_mem_release(&found);
		return ret;
	}
	*mem = found;
	return 0;
}

void mrg_mem_release(struct mrg_mem *mem)
{
	free(mem->chunks);
	mem->chunks = NULL;
	mem->count = 0;
}

const char *mrg_mem_kind_name(enum mrg_mem_kind kind)
{
	static const char *const names[] = {
		[MRG_MEM_UNKNOWN] = "unknown",
		[MRG_MEM_HOST] = "host",
		[MRG_MEM_HUGETLB] = "hugetlb",
		[MRG_MEM_HOST_PINNED] = "pinned host",
		[MRG_MEM_CUDA] = "CUDA",
		[MRG_MEM_CUDA_VMM] = "CUDA VMM",
		[MRG_MEM_CUDA_POOL] = "CUDA pool",
		[MRG_MEM_CUDA_MANAGED] = "CUDA managed",
		[MRG_MEM_HIP] = "HIP",
		[MRG_MEM_HIP_VMM] = "HIP VMM",
		[MRG_MEM_HIP_MANAGED] = "HIP managed",
	};

	if ((size_t)kind >= sizeof(names) / sizeof(names[0]))
		return "unknown";
	return names[kind];
}
