/* SPDX-License-Identifier: MIT */
/*
 * GPU memory: what an address range is, and DMA-BUFs for exactly that range.
 * See mrg_gpu(3).
 *
 * CUDA (12 and 13) and HIP (ROCm 5.7 to 7.x) are opened with dlopen(3) when a
 * question first needs them; without them every call here still gives its
 * documented answer.  A process has GPU pointers only once it has set up CUDA
 * or HIP itself, so classifying and exporting look at copies that the process
 * has loaded already and never initialise a driver.  The calling thread's
 * current context or device is the same after a call as before it.
 */
#ifndef MRGUARD_GPU_H
#define MRGUARD_GPU_H

#include <stdbool.h>
#include <sys/types.h>
#include <mrguard/common.h>
#include <mrguard/region.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mrg_gpu;

#define MRG_GPU_NO_CUDA (1u << 0) /* leave CUDA alone */
#define MRG_GPU_NO_HIP (1u << 1) /* leave HIP alone */
#define MRG_GPU_CONTEXT (1u << 2) /* may activate a device's primary context */

/**
 * struct mrg_gpu_opts - how to open
 * @size:	sizeof(struct mrg_gpu_opts)
 * @flags:	MRG_GPU_*.  Without MRG_GPU_CONTEXT a call that needs a CUDA
 *		context on a device that has none fails with -ENOTCONN: a
 *		primary context costs some 500 MiB of device memory and 0.1 s
 *		(H200).  With it, the context is kept until mrg_gpu_close().
 * @page_size:	host page in bytes, a power of two; 0 = of the running host
 * @sysfs:	NULL = "/sys"; not copied
 */
struct mrg_gpu_opts {
	size_t size;
	uint32_t flags;
	uint32_t reserved; /* 0 */
	uint64_t page_size;
	const char *sysfs;
};

/**
 * mrg_gpu_open() - get a handle; opens no driver yet
 * @gpu: OUT, to be closed with mrg_gpu_close()
 * @opts: NULL for defaults
 *
 * Return: 0; -EINVAL (unknown flag, non-zero unknown tail, page size that is
 * not a power of two); -ENOMEM.  A handle may be used by any number of threads at once, and
 * not in a child after fork(2): each call there fails with -ECHILD, since
 * neither CUDA nor HIP survives it.
 */
MRG_API int mrg_gpu_open(struct mrg_gpu **gpu, const struct mrg_gpu_opts *opts);
/** mrg_gpu_close() - close; NULL is allowed.  Exports and imports of the handle
 *  must be released before. */
MRG_API void mrg_gpu_close(struct mrg_gpu *gpu);

/**
 * mrg_gpu_last_error() - why the calling thread's last failed call failed
 *
 * Return: 0; -ENODATA (no failure of this thread on this handle is kept).
 */
MRG_API int mrg_gpu_last_error(const struct mrg_gpu *gpu, struct mrg_error *error);

/**
 * enum mrg_mem_kind - what memory is
 * @MRG_MEM_UNKNOWN:	mapped neither for the CPU nor on a GPU
 * @MRG_MEM_HOST:	ordinary memory, registered with mrg_reg()
 * @MRG_MEM_HUGETLB:	the same in huge pages
 * @MRG_MEM_HOST_PINNED: host memory that CUDA or HIP pinned or registered
 * @MRG_MEM_CUDA:	cudaMalloc()
 * @MRG_MEM_CUDA_VMM:	cuMemCreate() and cuMemMap(): a list of chunks
 * @MRG_MEM_CUDA_POOL:	cudaMallocAsync()
 * @MRG_MEM_CUDA_MANAGED: cudaMallocManaged(); pages move, so never registered
 * @MRG_MEM_HIP, @MRG_MEM_HIP_VMM, @MRG_MEM_HIP_MANAGED: likewise
 */
enum mrg_mem_kind {
	MRG_MEM_UNKNOWN,
	MRG_MEM_HOST,
	MRG_MEM_HUGETLB,
	MRG_MEM_HOST_PINNED,
	MRG_MEM_CUDA,
	MRG_MEM_CUDA_VMM,
	MRG_MEM_CUDA_POOL,
	MRG_MEM_CUDA_MANAGED,
	MRG_MEM_HIP,
	MRG_MEM_HIP_VMM,
	MRG_MEM_HIP_MANAGED,
};
/** mrg_mem_kind_name() - "host", "CUDA VMM", ... */
MRG_API const char *mrg_mem_kind_name(enum mrg_mem_kind kind);

/**
 * enum mrg_rdma_able - whether the driver lets an RDMA device at the memory
 * @MRG_RDMA_UNKNOWN: the driver does not report it: imported memory does not
 *	carry the flag
 */
enum mrg_rdma_able { MRG_RDMA_UNKNOWN, MRG_RDMA_NO, MRG_RDMA_YES };

#define MRG_HANDLE_POSIX_FD (1u << 0) /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
#define MRG_HANDLE_FABRIC (1u << 3) /* CU_MEM_HANDLE_TYPE_FABRIC */

/**
 * struct mrg_mem_chunk - one mapping of VMM memory
 * @addr, @size: where it is mapped, bytes
 * @id:		the driver's id of this mapping, never used again in the
 *		process; 0 where the driver has none
 * @handle_types: MRG_HANDLE_* asked for at its creation
 * @device:	ordinal; -1 for memory of the host
 * @rdma:	gpuDirectRDMACapable was asked for and granted
 * @compressed:	in a compressible format, which no other device can read
 * @imported:	made by mrg_share_import() in this process
 */
struct mrg_mem_chunk {
	uint64_t addr;
	uint64_t size;
	uint64_t id;
	uint32_t handle_types;
	int32_t device;
	bool rdma;
	bool compressed;
	bool imported;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_mem - what a range is
 * @kind:	of its first byte
 * @source:	the call or file that the answer is from, "cuMemRetainAllocationHandle",
 *		"/proc/self/maps"; a string that lives for ever
 * @device:	CUDA or HIP ordinal in this process; -1 for the host
 * @several_devices: chunks of the range lie on different devices
 * @rdma:	see enum mrg_rdma_able; MRG_RDMA_YES for host memory
 * @base, @size: the allocation, or the unbroken run of chunks or mappings that
 *		the range starts in, as far as the range goes.  Not the reserved
 *		range, which for PyTorch's segments exceeds the GPU's memory.
 * @page_size:	of host memory, bytes; 0 for others
 * @hole:	first address of the range that is not mapped, or not part of
 *		the allocation; 0 if there is none
 * @id:		the driver's id of the allocation (first chunk); 0 = none
 * @handle_types: MRG_HANDLE_* that every chunk has
 * @uuid:	the device's; zeros for the host
 * @pci:	the device's address, "0000:1b:00.0", or ""
 * @chunks, @count: of VMM memory, those that the range touches, in order;
 *		owned by this structure
 */
struct mrg_mem {
	enum mrg_mem_kind kind;
	int32_t device;
	const char *source;
	enum mrg_rdma_able rdma;
	bool several_devices;
	uint64_t base;
	uint64_t size;
	uint64_t page_size;
	uint64_t hole;
	uint64_t id;
	uint32_t handle_types;
	uint8_t uuid[16];
	char pci[16];
	struct mrg_mem_chunk *chunks;
	size_t count;
	uint64_t reserved[4]; /* 0 */
};

/**
 * mrg_gpu_classify() - what an address range is
 * @gpu: the handle
 * @addr: first byte
 * @length: bytes, not 0
 * @mem: OUT, to be released with mrg_mem_release()
 *
 * The owner must keep the memory mapped as it is during the call.  A range
 * with a hole is described up to it: 0 is returned and @mem->hole is set.
 *
 * Return: 0; -EINVAL (length 0, or the range overflows); -ENOMEM; -ECHILD;
 * -ENOTCONN (only where the driver demands a context: see MRG_GPU_CONTEXT);
 * -E2BIG (more than 2^20 chunks); -EIO (the driver failed: see
 * mrg_gpu_last_error()).  Source: the answers of cuPointerGetAttributes(),
 * cuMemRetainAllocationHandle() and cuMemGetAddressRange() and of their HIP
 * counterparts, as measured on an H200 with driver 580.
 */
MRG_API int mrg_gpu_classify(struct mrg_gpu *gpu, uint64_t addr, uint64_t length,
			     struct mrg_mem *mem);
/** mrg_mem_release() - free what @mem owns */
MRG_API void mrg_mem_release(struct mrg_mem *mem);

/**
 * struct mrg_export_piece - a DMA-BUF and the part of the range that is in it
 * @buf:	fd, and the address of its first byte: for mrg_reg_dmabuf()
 * @addr, @length: the part of the range, bytes
 * @size:	of the DMA-BUF, bytes: lseek(2) gave it
 */
struct mrg_export_piece {
	struct mrg_dmabuf buf;
	uint64_t addr;
	uint64_t length;
	uint64_t size;
	uint64_t reserved[2]; /* 0 */
};

/**
 * struct mrg_export - DMA-BUFs that together are a range
 * @mem:	what the range is
 * @pieces, @count: in order; more than one only for VMM memory whose chunks
 *		the driver does not put into one DMA-BUF
 * @pcie:	mapped by way of PCIe, as MRG_EXPORT_PCIE asked for
 * @source:	the call that made them
 */
struct mrg_export {
	struct mrg_mem mem;
	struct mrg_export_piece *pieces;
	size_t count;
	bool pcie;
	const char *source;
	uint64_t reserved[4]; /* 0 */
};

#define MRG_EXPORT_PCIE (1u << 0) /* for an importer that reaches the GPU by PCIe alone */
#define MRG_EXPORT_UNFLAGGED (1u << 1) /* try memory that the driver calls not RDMA-capable */

/**
 * struct mrg_export_opts - how to export
 * @size:	sizeof(struct mrg_export_opts)
 * @flags:	MRG_EXPORT_*.  MRG_EXPORT_PCIE is for a NIC with a data path of
 *		its own (data direct) on a machine whose CPU and GPU share
 *		memory.  Any other GPU refuses that mapping, so it is asked for
 *		on coherent GPUs only, and given up where the driver refuses.
 */
struct mrg_export_opts {
	size_t size;
	uint32_t flags;
	uint32_t reserved; /* 0 */
};

/**
 * mrg_gpu_export() - DMA-BUFs for a range
 * @gpu: the handle
 * @addr, @length: the range
 * @opts: NULL for defaults
 * @out: OUT, to be released with mrg_gpu_export_release()
 *
 * The range is rounded outward to host pages, since drivers take nothing else:
 * a DMA-BUF may hold neighbours' bytes, so keep it from processes that must not
 * see them.  Exporting happens in this call and in no other.  An open DMA-BUF
 * keeps the GPU memory in use, also after it was freed: release the export as
 * soon as its MRs are made.
 *
 * Return: 0, or
 * -EINVAL: as mrg_gpu_classify(), malformed options, or the driver returned
 *	"invalid value"
 * -EFAULT: not all of the range is mapped; the cause has the hole's address
 * -ERANGE: the range ends outside its allocation (neighbouring allocations
 *	are not one buffer, whatever libcuda says)
 * -EXDEV: memory of several devices
 * -EPERM: made without gpuDirectRDMACapable, or a pool: see
 *	MRG_EXPORT_UNFLAGGED
 * -EOPNOTSUPP: managed or host memory; or this driver exports no DMA-BUFs (on
 *	NVIDIA: the open kernel modules are needed)
 * -ENOSPC: BAR1 is smaller than the range
 * -EMFILE: no file descriptors are left (memory is)
 * -ENOTCONN: no CUDA context on the device: see MRG_GPU_CONTEXT
 * -EIO: the driver failed, or made a DMA-BUF of another size
 * -E2BIG, -ENOMEM, -ECHILD
 *
 * Source of the rules: cuda.h on cuMemGetHandleForAddressRange(); what it does
 * outside its contract was measured (H200, driver 580), and is refused here
 * before the call where it ends in a crash.
 */
MRG_API int mrg_gpu_export(struct mrg_gpu *gpu, uint64_t addr, uint64_t length,
			   const struct mrg_export_opts *opts, struct mrg_export *out);
/** mrg_gpu_export_release() - close the DMA-BUFs and free what @out owns */
MRG_API void mrg_gpu_export_release(struct mrg_gpu *gpu, struct mrg_export *out);

/** struct mrg_gpu_cap - whether a GPU can do a thing
 *  @why: where it cannot: the reason, and a remedy where there is one; else "" */
struct mrg_gpu_cap {
	bool yes;
	uint8_t reserved[7]; /* 0 */
	char why[160];
};

/**
 * struct mrg_gpu_device - a GPU of this host
 * @vendor:	"CUDA", "HIP", or "none": found on the PCI bus alone
 * @ordinal:	in this process; -1 where no runtime shows it
 * @name, @pci, @uuid: zeros where not known
 * @driver:	of the PCI function, such as "nvidia"; "" = none bound
 * @memory, @bar: bytes: device memory, and what the CPU and other PCI devices
 *		can reach of it; 0 where not known
 * @dmabuf:	exports DMA-BUFs
 * @vmm_rdma:	VMM memory may be gpuDirectRDMACapable
 * @share_fd:	VMM memory can go to other processes by file descriptor
 * @fabric:	VMM memory can go to other hosts' processes by fabric handle
 * @coherent:	CPU and GPU share page tables (ATS)
 */
struct mrg_gpu_device {
	char vendor[8];
	int32_t ordinal;
	char name[96];
	char pci[16];
	char driver[32];
	uint8_t uuid[16];
	uint64_t memory;
	uint64_t bar;
	struct mrg_gpu_cap dmabuf;
	struct mrg_gpu_cap vmm_rdma;
	struct mrg_gpu_cap share_fd;
	struct mrg_gpu_cap fabric;
	struct mrg_gpu_cap coherent;
	uint64_t reserved[48]; /* 0: room for two abilities */
};

/** struct mrg_gpu_runtime - a driver library: "CUDA" or "HIP" */
struct mrg_gpu_runtime {
	char vendor[8];
	bool usable;
	int32_t version; /* as the library counts; 0 = not known */
	char kernel[64]; /* kernel driver's version, "" = not known */
	char why[192]; /* why it is not usable */
	uint64_t reserved[4]; /* 0 */
};

struct mrg_gpu_list {
	struct mrg_gpu_runtime runtimes[2]; /* CUDA, HIP */
	struct mrg_gpu_device *devices;
	size_t count;
	uint64_t reserved[4]; /* 0 */
};

/**
 * mrg_gpu_devices() - the GPUs of this host
 * @list: OUT, to be released with mrg_gpu_list_release()
 *
 * The one call that initialises CUDA and HIP (cuInit(), hipInit()); no context
 * is made.  On a host without their device nodes it does not: cuInit() would
 * fork nvidia-modprobe.
 *
 * Return: 0 (also where there is none); -ENOMEM; -ECHILD.
 */
MRG_API int mrg_gpu_devices(struct mrg_gpu *gpu, struct mrg_gpu_list *list);
MRG_API void mrg_gpu_list_release(struct mrg_gpu_list *list);

#ifdef __cplusplus
}
#endif
#endif /* MRGUARD_GPU_H */
