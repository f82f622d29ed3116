/* SPDX-License-Identifier: MIT */
/*
 * DMA-BUFs for a range.  Everything that libcuda answers with a crash or with a
 * DMA-BUF over somebody else's memory is refused here first.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "base/opts.h"

struct job {
	struct mrg_gpu *gpu;
	struct gpu_driver *driver;
	uint64_t addr, length;
	uint32_t flags;
	struct mrg_export out;
};

/* ---- refusals ---- */

static int refuse_hole(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;

	if (mem->chunks || mem->device < 0 || !mem->base)
		return base_fail(
			job->gpu->error_owner, -EFAULT, "check range",
			"Export the mapped parts one by one; PyTorch's segments get holes when their cache is emptied.",
			"Nothing is mapped at 0x%" PRIx64 ", %" PRIu64 " bytes into the range.",
			mem->hole, mem->hole - job->addr);
	return base_fail(job->gpu->error_owner, -ERANGE, "check range",
			 "Export each allocation by itself: neighbours are not one buffer.",
			 "The allocation at 0x%" PRIx64 " has %" PRIu64
			 " bytes, and the range ends %" PRIu64 " bytes past it.",
			 mem->base, mem->size, job->addr + job->length - (mem->base + mem->size));
}

static int refuse_kind(const struct job *job)
{
	switch (job->out.mem.kind) {
	case MRG_MEM_CUDA_MANAGED:
	case MRG_MEM_HIP_MANAGED:
		return base_fail(
			job->gpu->error_owner, -EOPNOTSUPP, "check kind",
			"Allocate the buffer with cudaMalloc() or hipMalloc().",
			"Managed memory moves between host and device, so it has no DMA-BUF.");
	case MRG_MEM_HOST:
	case MRG_MEM_HUGETLB:
	case MRG_MEM_HOST_PINNED:
		return base_fail(job->gpu->error_owner, -EOPNOTSUPP, "check kind",
				 "Register it with mrg_reg().",
				 "The address 0x%" PRIx64 " is %s memory, which needs no DMA-BUF.",
				 job->addr, mrg_mem_kind_name(job->out.mem.kind));
	default:
		return 0;
	}
}

static int refuse_device(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;

	for (size_t i = 0; mem->several_devices && i < mem->count; i++)
		if (mem->chunks[i].device != mem->device)
			return base_fail_piece(
				job->gpu->error_owner, -EXDEV, (int)i, "check device",
				"Export each device's part by itself.",
				"The range lies on device %d, and from 0x%" PRIx64 " on device %d.",
				mem->device, mem->chunks[i].addr, mem->chunks[i].device);
	if (mem->device < 0)
		return base_fail(job->gpu->error_owner, -EOPNOTSUPP, "check device",
				 "Register it with mrg_reg().",
				 "The VMM memory at 0x%" PRIx64 " lies in the host's memory.",
				 job->addr);
	return 0;
}

static int refuse_unflagged(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;

	for (size_t i = 0; i < mem->count; i++)
		if (!mem->chunks[i].rdma && !mem->chunks[i].imported)
			return base_fail_piece(
				job->gpu->error_owner, -EPERM, (int)i, "check RDMA flag",
				"Set allocFlags.gpuDirectRDMACapable at cuMemCreate(): it cannot be set afterwards, and loading nvidia_peermem does not help.",
				"Chunk %zu at 0x%" PRIx64
				" was allocated without the RDMA flag (gpuDirectRDMACapable), or another library imported it.",
				i, mem->chunks[i].addr);
	return base_fail(
		job->gpu->error_owner, -EPERM, "check RDMA flag",
		mem->kind == MRG_MEM_CUDA_POOL ?
			"Allocate the buffer with cudaMalloc(); with PyTorch, do not set backend:cudaMallocAsync." :
			"Register it in the process that allocated it.",
		"The driver reports the %s memory at 0x%" PRIx64 " as not RDMA-capable.",
		mrg_mem_kind_name(mem->kind), job->addr);
}

static int check_flags(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;

	for (size_t i = 0; i < mem->count; i++)
		if (mem->chunks[i].compressed)
			return base_fail_piece(
				job->gpu->error_owner, -EPERM, (int)i, "check format",
				"Allocate without compressionType.",
				"Chunk %zu at 0x%" PRIx64
				" is compressible memory, which no other device can read.",
				i, mem->chunks[i].addr);
	if (mem->rdma == MRG_RDMA_NO && !(job->flags & MRG_EXPORT_UNFLAGGED))
		return refuse_unflagged(job);
	return 0;
}

/*
 * A pool range past its mapped end is not an error in libcuda but a SIGSEGV, so
 * without a bound it is not asked.
 */
static int check_bounds(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;

	if (mem->hole)
		return refuse_hole(job);
	if (mem->base)
		return 0;
	return base_fail(
		job->gpu->error_owner, -ENOTCONN, "check range",
		"Make a context of that device current in this thread, or open with MRG_GPU_CONTEXT.",
		"The driver reports no bounds of the memory at 0x%" PRIx64 ".", job->addr);
}

static int refuse_driver(const struct job *job)
{
	if (job->driver->vendor == GPU_CUDA)
		return base_fail(
			job->gpu->error_owner, -EOPNOTSUPP, "check driver",
			gpu_open_modules() ?
				"Use host memory: this GPU has no GPUDirect RDMA." :
				"Install NVIDIA's open kernel modules (the proprietary ones export no DMA-BUFs), driver 515 or newer.",
			"CUDA device %d reports that it exports no DMA-BUFs (attribute %d is 0).",
			job->out.mem.device, CUDA_DEV_DMABUF);
	return base_fail(job->gpu->error_owner, -EOPNOTSUPP, "check driver",
			 "Use a kernel whose amdgpu driver has KFD 1.12, and ROCm 5.7 or newer.",
			 "This ROCm release exports no DMA-BUFs.");
}

static int check_driver(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;
	bool can;

	if (job->driver->vendor == GPU_HIP)
		can = mem->kind == MRG_MEM_HIP_VMM ||
		      (gpu_hip_dmabuf(job->driver) &&
		       (job->driver->c.dmabuf || job->driver->hsa.export_dmabuf));
	else
		can = job->driver->c.dmabuf &&
		      gpu_cuda_attribute(job->driver, mem->device, CUDA_DEV_DMABUF);
	if (!can)
		return refuse_driver(job);
	if (mem->kind == MRG_MEM_CUDA_VMM && !(job->flags & MRG_EXPORT_UNFLAGGED) &&
	    !gpu_cuda_attribute(job->driver, mem->device, CUDA_DEV_VMM_RDMA))
		return base_fail(
			job->gpu->error_owner, -EPERM, "check RDMA flag",
			"Allocate the buffer with cudaMalloc().",
			"CUDA device %d does not support RDMA to VMM memory (attribute %d is 0).",
			mem->device, CUDA_DEV_VMM_RDMA);
	return 0;
}

/* A coherent GPU is reached through the CPU's memory bus, not through BAR1. */
static int check_bar(const struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;
	uint64_t bar;

	if (job->driver->vendor == GPU_CUDA &&
	    gpu_cuda_attribute(job->driver, mem->device, CUDA_DEV_HOST_PAGE_TABLES))
		return 0;
	bar = gpu_bar_size(job->gpu, mem->pci);
	if (!bar || job->length <= bar)
		return 0;
	return base_fail(
		job->gpu->error_owner, -ENOSPC, "check BAR",
		"Enable Above 4G Decoding and Resizable BAR in the firmware, or register less at a time.",
		"The range has %" PRIu64 " bytes, and other devices reach only %" PRIu64
		" bytes of GPU %s at a time (its BAR).",
		job->length, bar, mem->pci);
}

static int vet(struct job *job)
{
	int ret;

	if (job->out.mem.kind == MRG_MEM_UNKNOWN)
		return refuse_hole(job);
	ret = refuse_kind(job);
	if (ret)
		return ret;
	job->driver = gpu_peek(job->gpu, job->out.mem.kind >= MRG_MEM_HIP ? GPU_HIP : GPU_CUDA);
	ret = refuse_device(job);
	if (!ret)
		ret = check_bounds(job);
	if (!ret)
		ret = check_flags(job);
	if (!ret)
		ret = check_driver(job);
	return ret ? ret : check_bar(job);
}

/* ---- exporting ---- */

static int reserve(struct job *job, size_t count)
{
	job->out.pieces = calloc(count, sizeof(*job->out.pieces));
	if (!job->out.pieces)
		return base_fail(job->gpu->error_owner, -ENOMEM, "export", "",
				 "No memory is left for %zu pieces.", count);
	return 0;
}

static void close_all(struct gpu_driver *driver, struct mrg_export *out)
{
	for (size_t i = 0; i < out->count; i++) {
		int fd = out->pieces[i].buf.fd;

		if (driver && driver->vendor == GPU_HIP && driver->hsa.close_dmabuf)
			driver->hsa.close_dmabuf(fd);
		else
			close(fd);
	}
	out->count = 0;
}

/*
 * Take @fd over as the next piece.  ibv_reg_dmabuf_mr() answers a range that
 * ends past the DMA-BUF with EINVAL alone; the cause here has both figures.
 */
static int keep(struct job *job, int fd, uint64_t base, uint64_t offset, uint64_t addr,
		uint64_t length)
{
	struct mrg_export_piece *piece = &job->out.pieces[job->out.count];
	off_t size = lseek(fd, 0, SEEK_END);

	piece->buf.fd = fd;
	piece->buf.base = base;
	piece->buf.offset = offset;
	piece->addr = addr;
	piece->length = length;
	piece->size = size < 0 ? 0 : (uint64_t)size;
	job->out.count++;
	if (piece->size >= offset + (addr - base) + length)
		return 0;
	return base_fail(job->gpu->error_owner, -EIO, "check size",
			 "Report it with the driver's version.",
			 "The call %s() made a DMA-BUF of %" PRIu64
			 " bytes, and the range ends at its byte %" PRIu64 ".",
			 job->out.source, piece->size, offset + (addr - base) + length);
}

static uint64_t page_down(const struct job *job, uint64_t addr)
{
	return addr & ~(job->gpu->page_size - 1);
}

static uint64_t page_up(const struct job *job, uint64_t addr)
{
	return page_down(job, addr + job->gpu->page_size - 1);
}

static int dmabuf_call(struct job *job, uint64_t base, uint64_t size, int *fd)
{
	unsigned long long flags = job->out.pcie ? GPU_DMABUF_PCIE : 0;
	int result;

	*fd = -1;
	result = job->driver->c.dmabuf(fd, base, size, GPU_DMABUF_FD, flags);
	if (result == GPU_NOT_SUPPORTED && flags) {
		job->out.pcie = false;
		result = job->driver->c.dmabuf(fd, base, size, GPU_DMABUF_FD, 0);
	}
	if (!result && *fd < 0)
		result = GPU_UNKNOWN;
	return result;
}

/* A part of the range, rounded outward. */
static int export_part(struct job *job, uint64_t addr, uint64_t length)
{
	uint64_t base = page_down(job, addr);
	int result, fd;

	job->out.source = gpu_call_name(job->driver, "MemGetHandleForAddressRange");
	result = dmabuf_call(job, base, page_up(job, addr + length) - base, &fd);
	if (result)
		return gpu_fail_call(job->gpu, job->driver, "export", job->out.source, result);
	return keep(job, fd, base, 0, addr, length);
}

static int export_chunk(struct job *job, const struct mrg_mem_chunk *chunk, uint64_t addr,
			uint64_t length)
{
	struct gpu_driver *driver = job->driver;
	uint64_t handle;
	int result, fd = -1;

	if (driver->vendor == GPU_CUDA)
		return export_part(job, addr, length);
	/* ROCm: the shareable handle of a chunk is its DMA-BUF. */
	job->out.source = "hipMemExportToShareableHandle";
	result = driver->c.retain(&handle, chunk->addr);
	if (!result) {
		result = driver->c.export_handle(&fd, handle, GPU_HANDLE_POSIX_FD, 0);
		driver->c.release(handle);
	}
	if (result)
		return gpu_fail_call(job->gpu, driver, "export chunk", job->out.source, result);
	return keep(job, fd, chunk->addr, 0, addr, length);
}

static int export_chunks(struct job *job)
{
	uint64_t end = job->addr + job->length;
	int ret = reserve(job, job->out.mem.count);

	for (size_t i = 0; !ret && i < job->out.mem.count; i++) {
		const struct mrg_mem_chunk *c = &job->out.mem.chunks[i];
		uint64_t from = c->addr > job->addr ? c->addr : job->addr;
		uint64_t to = c->addr + c->size < end ? c->addr + c->size : end;

		ret = export_chunk(job, c, from, to - from);
	}
	return ret;
}

/* One DMA-BUF over all of it: 200 chunks of an H200 take 0.8 ms, and libcuda
 * has no limit at 128. */
static int export_cuda(struct job *job)
{
	int ret;

	if (job->flags & MRG_EXPORT_PCIE)
		job->out.pcie = gpu_cuda_attribute(job->driver, job->out.mem.device,
						   CUDA_DEV_HOST_PAGE_TABLES);
	ret = reserve(job, 1);
	if (!ret)
		ret = export_part(job, job->addr, job->length);
	if (!ret || ret == -EMFILE || job->out.mem.count < 2)
		return ret;
	close_all(job->driver, &job->out);
	free(job->out.pieces);
	return export_chunks(job);
}

/*
 * hipMemGetHandleForAddressRange() gives no offset: it is right only where the
 * DMA-BUF is as large as the allocation, and so starts with it.
 */
static int export_hip_range(struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;
	uint64_t size = page_up(job, mem->size);
	int fd;

	job->out.source = "hipMemGetHandleForAddressRange";
	if (mem->base != page_down(job, mem->base) || dmabuf_call(job, mem->base, size, &fd))
		return -EAGAIN;
	if (lseek(fd, 0, SEEK_END) != (off_t)size) {
		close(fd);
		return -EAGAIN;
	}
	return keep(job, fd, mem->base, 0, job->addr, job->length);
}

static int export_hsa(struct job *job)
{
	const struct mrg_mem *mem = &job->out.mem;
	uint64_t offset = 0;
	int fd = -1, result;

	job->out.source = "hsa_amd_portable_export_dmabuf";
	if (!job->driver->hsa.export_dmabuf)
		return base_fail(
			job->gpu->error_owner, -EOPNOTSUPP, "export", "Install ROCm 5.7 or newer.",
			"The call hipMemGetHandleForAddressRange() made no DMA-BUF of the allocation, and libhsa-runtime64 has no %s().",
			job->out.source);
	result = job->driver->hsa.export_dmabuf((void *)(uintptr_t)mem->base, mem->size, &fd,
						&offset);
	if (result || fd < 0)
		return base_fail(job->gpu->error_owner, gpu_out_of_fds() ? -EMFILE : -EIO, "export",
				 "", "The call %s() failed with status 0x%x.", job->out.source,
				 (unsigned int)result);
	return keep(job, fd, mem->base, offset, job->addr, job->length);
}

static int export_hip(struct job *job)
{
	int ret = -EAGAIN;

	if (job->out.mem.kind == MRG_MEM_HIP_VMM)
		return export_chunks(job);
	if (reserve(job, 1))
		return -ENOMEM;
	if (job->driver->c.dmabuf)
		ret = export_hip_range(job);
	return ret == -EAGAIN ? export_hsa(job) : ret;
}

static int export_all(struct job *job)
{
	struct gpu_scope scope;
	int ret = gpu_enter_at(job->gpu, job->driver, job->out.mem.device, job->addr, &scope);

	if (ret)
		return ret;
	ret = job->driver->vendor == GPU_CUDA ? export_cuda(job) : export_hip(job);
	gpu_leave(&scope);
	return ret;
}

int mrg_gpu_export(struct mrg_gpu *gpu, uint64_t addr, uint64_t length,
		   const struct mrg_export_opts *opts, struct mrg_export *out)
{
	struct job job = { .gpu = gpu, .addr = addr, .length = length };
	struct mrg_export_opts o;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts) ||
	    o.flags & ~(uint32_t)(MRG_EXPORT_PCIE | MRG_EXPORT_UNFLAGGED) || o.reserved)
		return base_fail(
			gpu->error_owner, -EINVAL, "check options",
			"Zero the options, set their size, and use flags of this release.",
			"The options have a flag or a size that this release does not know.");
	job.flags = o.flags;
	ret = mrg_gpu_classify(gpu, addr, length, &job.out.mem);
	if (ret)
		return ret;
	ret = vet(&job);
	if (!ret)
		ret = export_all(&job);
	if (ret) {
		close_all(job.driver, &job.out);
		free(job.out.pieces);
		mrg_mem_release(&job.out.mem);
		return ret;
	}
	*out = job.out;
	return 0;
}

void mrg_gpu_export_release(struct mrg_gpu *gpu, struct mrg_export *out)
{
	bool hip = out->mem.kind >= MRG_MEM_HIP;

	close_all(gpu_peek(gpu, hip ? GPU_HIP : GPU_CUDA), out);
	free(out->pieces);
	out->pieces = NULL;
	mrg_mem_release(&out->mem);
}
