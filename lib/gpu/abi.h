/* SPDX-License-Identifier: MIT */
/*
 * Our own declarations of what is used of CUDA's driver API, HIP and ROCr, so
 * that none of their headers is needed.  tests/gpu/headers holds them against
 * the real ones.
 *
 * HIP's virtual-memory and IPC calls mirror CUDA's argument by argument, with
 * pointers where CUDA has 64-bit integers; on the 64-bit ABIs that both run on
 * these are the same, so one table, struct gpu_calls, serves both.
 */
#ifndef GPU_ABI_H
#define GPU_ABI_H

#include <stddef.h>
#include <stdint.h>

/* CUresult and hipError_t: the values that both have are equal. */
enum gpu_result {
	GPU_SUCCESS = 0,
	GPU_INVALID_VALUE = 1,
	GPU_OUT_OF_MEMORY = 2,
	GPU_NOT_INITIALIZED = 3,
	GPU_DEINITIALIZED = 4,
	GPU_STUB_LIBRARY = 34,
	GPU_NO_DEVICE = 100,
	GPU_INVALID_DEVICE = 101,
	GPU_INVALID_CONTEXT = 201,
	GPU_OPERATING_SYSTEM = 304,
	GPU_NOT_FOUND = 500,
	GPU_NOT_PERMITTED = 800,
	GPU_NOT_SUPPORTED = 801,
	GPU_SYSTEM_NOT_READY = 802,
	GPU_SYSTEM_DRIVER_MISMATCH = 803,
	GPU_COMPAT_NOT_SUPPORTED = 804,
	GPU_MPS_CONNECTION_FAILED = 805,
	GPU_MPS_SERVER_NOT_READY = 807,
	GPU_UNKNOWN = 999,
};

/* CU_POINTER_ATTRIBUTE_*, HIP_POINTER_ATTRIBUTE_* (the same numbers to 17) */
enum gpu_attribute {
	GPU_ATTR_CONTEXT = 1,
	GPU_ATTR_MEMORY_TYPE = 2,
	GPU_ATTR_BUFFER_ID = 7,
	GPU_ATTR_IS_MANAGED = 8,
	GPU_ATTR_DEVICE_ORDINAL = 9,
	GPU_ATTR_RANGE_START = 11,
	GPU_ATTR_RANGE_SIZE = 12,
	GPU_ATTR_RDMA_CAPABLE = 15,
	GPU_ATTR_MEMPOOL = 17,
	GPU_ATTR_MAPPING_SIZE = 18,
	GPU_ATTR_MAPPING_BASE = 19,
};

enum gpu_cuda_memory_type {
	CUDA_MEMORY_HOST = 1,
	CUDA_MEMORY_DEVICE = 2,
};

#define GPU_LOCATION_DEVICE 1
#define GPU_HANDLE_POSIX_FD 1
#define GPU_ALLOCATION_PINNED 1
#define GPU_ACCESS_READ_WRITE 3
#define GPU_GRANULARITY_MIN 0
#define GPU_DMABUF_FD 1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define GPU_DMABUF_PCIE 1 /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */
#define GPU_IPC_LAZY_PEER 1 /* CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS; HIP since 6.0 */
#define HIP5_IPC_LAZY_PEER 0
#define GPU_IPC_BYTES 64

/* CU_DEVICE_ATTRIBUTE_* */
enum gpu_cuda_device_attribute {
	CUDA_DEV_HOST_PAGE_TABLES = 100,
	CUDA_DEV_POSIX_FD = 103,
	CUDA_DEV_VMM_RDMA = 110,
	CUDA_DEV_DMABUF = 124,
	CUDA_DEV_FABRIC = 128,
};

struct gpu_location {
	int type;
	int id;
};

struct gpu_prop {
	int type;
	int handle_types;
	struct gpu_location location;
	void *win32;
	struct {
		unsigned char compression;
		unsigned char rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};

struct gpu_access {
	struct gpu_location location;
	int flags;
};

struct gpu_ipc_handle {
	char bytes[GPU_IPC_BYTES];
};

struct gpu_uuid {
	uint8_t bytes[16];
};

/* hipPointerAttribute_t */
struct gpu_hip_pointer {
	int type;
	int device;
	void *device_pointer;
	void *host_pointer;
	int is_managed;
	unsigned int flags;
};

/* hipMemoryType, ROCm 5 and ROCm 6 on */
enum gpu_hip5_memory { HIP5_HOST = 0, HIP5_DEVICE = 1, HIP5_MANAGED = 4 };
enum gpu_hip6_memory { HIP6_HOST = 1, HIP6_DEVICE = 2, HIP6_MANAGED = 3 };

#define HSA_SYSTEM_DMABUF 0x204 /* HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED */

/* What both vendors have.  @device is an ordinal: a CUdevice is one as well. */
struct gpu_calls {
	int (*error_name)(int result, const char **name);
	int (*attribute)(void *data, int attribute, uint64_t ptr);
	int (*address_range)(uint64_t *base, size_t *size, uint64_t ptr);
	int (*dmabuf)(void *fd, uint64_t ptr, size_t size, int type, unsigned long long flags);
	int (*ipc_get)(struct gpu_ipc_handle *handle, uint64_t ptr);
	int (*ipc_open)(uint64_t *ptr, struct gpu_ipc_handle handle, unsigned int flags);
	int (*ipc_close)(uint64_t ptr);
	int (*retain)(uint64_t *handle, uint64_t addr);
	int (*release)(uint64_t handle);
	int (*properties)(struct gpu_prop *prop, uint64_t handle);
	int (*granularity)(size_t *granularity, const struct gpu_prop *prop, int option);
	int (*export_handle)(void *out, uint64_t handle, int type, unsigned long long flags);
	int (*import_handle)(uint64_t *handle, void *os_handle, int type);
	int (*reserve)(uint64_t *ptr, size_t size, size_t alignment, uint64_t hint,
		       unsigned long long flags);
	int (*address_free)(uint64_t ptr, size_t size);
	int (*map)(uint64_t ptr, size_t size, size_t offset, uint64_t handle,
		   unsigned long long flags);
	int (*unmap)(uint64_t ptr, size_t size);
	int (*set_access)(uint64_t ptr, size_t size, const struct gpu_access *desc, size_t count);
	int (*can_access_peer)(int *can, int device, int peer);
	int (*device_count)(int *count);
	int (*device_name)(char *name, int length, int device);
	int (*device_uuid)(struct gpu_uuid *uuid, int device);
	int (*device_memory)(size_t *bytes, int device);
	int (*device_pci)(char *bdf, int length, int device);
	int (*init)(unsigned int flags);
	int (*version)(int *version);
};

struct gpu_cuda_calls {
	int (*attributes)(unsigned int count, int *attributes, void **data, uint64_t ptr);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*ctx_current)(void **ctx);
	int (*ctx_device)(int *device);
	int (*ctx_push)(void *ctx);
	int (*ctx_pop)(void **ctx);
	int (*primary_state)(int device, unsigned int *flags, int *active);
	int (*primary_retain)(void **ctx, int device);
	int (*primary_release)(int device);
};

struct gpu_hip_calls {
	int (*pointer)(struct gpu_hip_pointer *attributes, const void *ptr);
	int (*get_device)(int *device);
	int (*set_device)(int device);
	int (*last_error)(void);
	int (*peek_error)(void);
	const char *(*error_name)(int result);
};

struct gpu_hsa_calls {
	int (*export_dmabuf)(const void *ptr, size_t size, int *fd, uint64_t *offset);
	int (*close_dmabuf)(int fd);
	int (*system_info)(int attribute, void *value);
};

#endif
