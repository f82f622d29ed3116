/* SPDX-License-Identifier: MIT */
/*
 * Compiles where our declarations fit the real headers, and nowhere else:
 * sizes, offsets, values, and for each call the number of arguments and how
 * each travels.  -DWITH_CUDA or -DWITH_HIP says whose headers these are.
 */
#include <cstddef>
#include <type_traits>

#include <mrguard/gpu.h>

#include "gpu/abi.h"

/* Integers, enums and pointers go in integer registers: the same size is the
 * same ABI.  Structures must be of one size. */
template <class A, class B> constexpr bool same_value()
{
	constexpr bool a = std::is_class<A>::value, b = std::is_class<B>::value;

	return sizeof(A) == sizeof(B) && a == b &&
	       !std::is_floating_point<A>::value && !std::is_floating_point<B>::value;
}

template <class F, class G> struct same_call : std::false_type {};

template <class R, class... A, class S, class... B>
struct same_call<R (*)(A...), S (*)(B...)> {
	template <bool count, class = void> struct all : std::false_type {};
	template <class Dummy> struct all<true, Dummy> {
		static constexpr bool value = same_value<R, S>() &&
			(same_value<A, B>() && ...);
	};
	static constexpr bool value = all<sizeof...(A) == sizeof...(B)>::value;
};

#define SAME_CALL(theirs, ours) \
	static_assert(same_call<theirs, decltype(ours)>::value, #theirs)
#define SAME_SIZE(theirs, ours) \
	static_assert(sizeof(theirs) == sizeof(ours), #theirs)
#define SAME_FIELD(theirs, field, ours, our_field) \
	static_assert(offsetof(theirs, field) == offsetof(ours, our_field) && \
		      sizeof(theirs::field) == sizeof(ours::our_field), #theirs "." #field)
#define SAME_NUMBER(theirs, ours) \
	static_assert(static_cast<long>(theirs) == static_cast<long>(ours), #theirs)

[[maybe_unused]] static gpu_calls c;
[[maybe_unused]] static gpu_cuda_calls cuda;
[[maybe_unused]] static gpu_hip_calls hip;
[[maybe_unused]] static gpu_hsa_calls hsa;

#ifdef WITH_CUDA
#include <cuda.h>
#include <cudaTypedefs.h>

/* A typedef of that name exists for the version that brought the form: these
 * are the versions which lib/gpu/cuda.c asks for. */
SAME_CALL(PFN_cuInit_v2000, c.init);
SAME_CALL(PFN_cuDriverGetVersion_v2020, c.version);
SAME_CALL(PFN_cuGetErrorName_v6000, c.error_name);
SAME_CALL(PFN_cuDeviceGetCount_v2000, c.device_count);
SAME_CALL(PFN_cuDeviceGetName_v2000, c.device_name);
SAME_CALL(PFN_cuDeviceGetUuid_v11040, c.device_uuid);
SAME_CALL(PFN_cuDeviceTotalMem_v3020, c.device_memory);
SAME_CALL(PFN_cuDeviceGetPCIBusId_v4010, c.device_pci);
SAME_CALL(PFN_cuDeviceCanAccessPeer_v4000, c.can_access_peer);
SAME_CALL(PFN_cuPointerGetAttribute_v4000, c.attribute);
SAME_CALL(PFN_cuMemGetAddressRange_v3020, c.address_range);
SAME_CALL(PFN_cuMemGetHandleForAddressRange_v11070, c.dmabuf);
SAME_CALL(PFN_cuIpcGetMemHandle_v4010, c.ipc_get);
SAME_CALL(PFN_cuIpcOpenMemHandle_v11000, c.ipc_open);
SAME_CALL(PFN_cuIpcCloseMemHandle_v4010, c.ipc_close);
SAME_CALL(PFN_cuMemRetainAllocationHandle_v11000, c.retain);
SAME_CALL(PFN_cuMemRelease_v10020, c.release);
SAME_CALL(PFN_cuMemGetAllocationPropertiesFromHandle_v10020, c.properties);
SAME_CALL(PFN_cuMemGetAllocationGranularity_v10020, c.granularity);
SAME_CALL(PFN_cuMemExportToShareableHandle_v10020, c.export_handle);
SAME_CALL(PFN_cuMemImportFromShareableHandle_v10020, c.import_handle);
SAME_CALL(PFN_cuMemAddressReserve_v10020, c.reserve);
SAME_CALL(PFN_cuMemAddressFree_v10020, c.address_free);
SAME_CALL(PFN_cuMemMap_v10020, c.map);
SAME_CALL(PFN_cuMemUnmap_v10020, c.unmap);
SAME_CALL(PFN_cuMemSetAccess_v10020, c.set_access);
SAME_CALL(PFN_cuPointerGetAttributes_v7000, cuda.attributes);
SAME_CALL(PFN_cuDeviceGetAttribute_v2000, cuda.device_attribute);
SAME_CALL(PFN_cuCtxGetCurrent_v4000, cuda.ctx_current);
SAME_CALL(PFN_cuCtxGetDevice_v2000, cuda.ctx_device);
SAME_CALL(PFN_cuCtxPushCurrent_v4000, cuda.ctx_push);
SAME_CALL(PFN_cuCtxPopCurrent_v4000, cuda.ctx_pop);
SAME_CALL(PFN_cuDevicePrimaryCtxGetState_v7000, cuda.primary_state);
SAME_CALL(PFN_cuDevicePrimaryCtxRetain_v7000, cuda.primary_retain);
SAME_CALL(PFN_cuDevicePrimaryCtxRelease_v11000, cuda.primary_release);

SAME_SIZE(CUmemAllocationProp, gpu_prop);
SAME_FIELD(CUmemAllocationProp, type, gpu_prop, type);
SAME_FIELD(CUmemAllocationProp, requestedHandleTypes, gpu_prop, handle_types);
SAME_FIELD(CUmemAllocationProp, location, gpu_prop, location);
SAME_FIELD(CUmemAllocationProp, allocFlags.compressionType, gpu_prop, flags.compression);
SAME_FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable, gpu_prop, flags.rdma);
SAME_SIZE(CUmemAccessDesc, gpu_access);
SAME_FIELD(CUmemAccessDesc, flags, gpu_access, flags);
SAME_SIZE(CUipcMemHandle, gpu_ipc_handle);
SAME_SIZE(CUuuid, gpu_uuid);

SAME_NUMBER(CUDA_ERROR_INVALID_VALUE, GPU_INVALID_VALUE);
SAME_NUMBER(CUDA_ERROR_OUT_OF_MEMORY, GPU_OUT_OF_MEMORY);
SAME_NUMBER(CUDA_ERROR_NOT_INITIALIZED, GPU_NOT_INITIALIZED);
SAME_NUMBER(CUDA_ERROR_DEINITIALIZED, GPU_DEINITIALIZED);
SAME_NUMBER(CUDA_ERROR_STUB_LIBRARY, GPU_STUB_LIBRARY);
SAME_NUMBER(CUDA_ERROR_NO_DEVICE, GPU_NO_DEVICE);
SAME_NUMBER(CUDA_ERROR_INVALID_DEVICE, GPU_INVALID_DEVICE);
SAME_NUMBER(CUDA_ERROR_INVALID_CONTEXT, GPU_INVALID_CONTEXT);
SAME_NUMBER(CUDA_ERROR_OPERATING_SYSTEM, GPU_OPERATING_SYSTEM);
SAME_NUMBER(CUDA_ERROR_NOT_FOUND, GPU_NOT_FOUND);
SAME_NUMBER(CUDA_ERROR_NOT_PERMITTED, GPU_NOT_PERMITTED);
SAME_NUMBER(CUDA_ERROR_NOT_SUPPORTED, GPU_NOT_SUPPORTED);
SAME_NUMBER(CUDA_ERROR_SYSTEM_NOT_READY, GPU_SYSTEM_NOT_READY);
SAME_NUMBER(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, GPU_SYSTEM_DRIVER_MISMATCH);
SAME_NUMBER(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, GPU_COMPAT_NOT_SUPPORTED);
SAME_NUMBER(CUDA_ERROR_MPS_CONNECTION_FAILED, GPU_MPS_CONNECTION_FAILED);
SAME_NUMBER(CUDA_ERROR_MPS_SERVER_NOT_READY, GPU_MPS_SERVER_NOT_READY);
SAME_NUMBER(CUDA_ERROR_UNKNOWN, GPU_UNKNOWN);

SAME_NUMBER(CU_POINTER_ATTRIBUTE_CONTEXT, GPU_ATTR_CONTEXT);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, GPU_ATTR_MEMORY_TYPE);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_BUFFER_ID, GPU_ATTR_BUFFER_ID);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_IS_MANAGED, GPU_ATTR_IS_MANAGED);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, GPU_ATTR_DEVICE_ORDINAL);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, GPU_ATTR_RANGE_START);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_RANGE_SIZE, GPU_ATTR_RANGE_SIZE);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, GPU_ATTR_RDMA_CAPABLE);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, GPU_ATTR_MEMPOOL);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, GPU_ATTR_MAPPING_SIZE);
SAME_NUMBER(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, GPU_ATTR_MAPPING_BASE);
SAME_NUMBER(CU_MEMORYTYPE_HOST, CUDA_MEMORY_HOST);
SAME_NUMBER(CU_MEMORYTYPE_DEVICE, CUDA_MEMORY_DEVICE);
SAME_NUMBER(CU_MEM_LOCATION_TYPE_DEVICE, GPU_LOCATION_DEVICE);
SAME_NUMBER(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, GPU_HANDLE_POSIX_FD);
SAME_NUMBER(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, MRG_HANDLE_POSIX_FD);
SAME_NUMBER(CU_MEM_HANDLE_TYPE_FABRIC, MRG_HANDLE_FABRIC);
SAME_NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED, GPU_ALLOCATION_PINNED);
SAME_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, GPU_ACCESS_READ_WRITE);
SAME_NUMBER(CU_MEM_ALLOC_GRANULARITY_MINIMUM, GPU_GRANULARITY_MIN);
SAME_NUMBER(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, GPU_DMABUF_FD);
#if CUDA_VERSION >= 12080
SAME_NUMBER(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, GPU_DMABUF_PCIE);
#endif
SAME_NUMBER(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, GPU_IPC_LAZY_PEER);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
	    CUDA_DEV_HOST_PAGE_TABLES);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
	    CUDA_DEV_POSIX_FD);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, CUDA_DEV_VMM_RDMA);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CUDA_DEV_DMABUF);
SAME_NUMBER(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CUDA_DEV_FABRIC);
#endif

#ifdef WITH_HIP
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

/* C functions: an address has one type, also where the header overloads. */
#define HIP_CALL(name, ours) SAME_CALL(decltype(&name), ours)

HIP_CALL(hipInit, c.init);
HIP_CALL(hipRuntimeGetVersion, c.version);
HIP_CALL(hipGetDeviceCount, c.device_count);
HIP_CALL(hipDeviceGetName, c.device_name);
HIP_CALL(hipDeviceGetUuid, c.device_uuid);
HIP_CALL(hipPointerGetAttribute, c.attribute);
HIP_CALL(hipDeviceTotalMem, c.device_memory);
HIP_CALL(hipDeviceGetPCIBusId, c.device_pci);
HIP_CALL(hipDeviceCanAccessPeer, c.can_access_peer);
HIP_CALL(hipMemGetAddressRange, c.address_range);
HIP_CALL(hipIpcGetMemHandle, c.ipc_get);
HIP_CALL(hipIpcOpenMemHandle, c.ipc_open);
HIP_CALL(hipIpcCloseMemHandle, c.ipc_close);
HIP_CALL(hipMemRetainAllocationHandle, c.retain);
HIP_CALL(hipMemRelease, c.release);
HIP_CALL(hipMemGetAllocationPropertiesFromHandle, c.properties);
HIP_CALL(hipMemGetAllocationGranularity, c.granularity);
HIP_CALL(hipMemExportToShareableHandle, c.export_handle);
HIP_CALL(hipMemImportFromShareableHandle, c.import_handle);
HIP_CALL(hipMemAddressReserve, c.reserve);
HIP_CALL(hipMemAddressFree, c.address_free);
HIP_CALL(hipMemMap, c.map);
HIP_CALL(hipMemUnmap, c.unmap);
HIP_CALL(hipMemSetAccess, c.set_access);
HIP_CALL(hipPointerGetAttributes, hip.pointer);
HIP_CALL(hipGetDevice, hip.get_device);
HIP_CALL(hipSetDevice, hip.set_device);
HIP_CALL(hipGetLastError, hip.last_error);
HIP_CALL(hipPeekAtLastError, hip.peek_error);
HIP_CALL(hipGetErrorName, hip.error_name);
#if HIP_VERSION >= 70000000
HIP_CALL(hipMemGetHandleForAddressRange, c.dmabuf);
SAME_NUMBER(hipMemRangeHandleTypeDmaBufFd, GPU_DMABUF_FD);
#endif

SAME_SIZE(hipMemAllocationProp, gpu_prop);
SAME_FIELD(hipMemAllocationProp, type, gpu_prop, type);
#if HIP_VERSION < 70000000
SAME_FIELD(hipMemAllocationProp, requestedHandleType, gpu_prop, handle_types);
#endif
SAME_FIELD(hipMemAllocationProp, location, gpu_prop, location);
SAME_SIZE(hipMemAccessDesc, gpu_access);
SAME_FIELD(hipMemAccessDesc, flags, gpu_access, flags);
SAME_SIZE(hipIpcMemHandle_t, gpu_ipc_handle);
SAME_SIZE(hipUUID, gpu_uuid);
SAME_SIZE(hipPointerAttribute_t, gpu_hip_pointer);
SAME_FIELD(hipPointerAttribute_t, device, gpu_hip_pointer, device);
SAME_FIELD(hipPointerAttribute_t, isManaged, gpu_hip_pointer, is_managed);

SAME_NUMBER(hipErrorInvalidValue, GPU_INVALID_VALUE);
SAME_NUMBER(hipErrorOutOfMemory, GPU_OUT_OF_MEMORY);
SAME_NUMBER(hipErrorNotInitialized, GPU_NOT_INITIALIZED);
SAME_NUMBER(hipErrorNoDevice, GPU_NO_DEVICE);
SAME_NUMBER(hipErrorInvalidDevice, GPU_INVALID_DEVICE);
SAME_NUMBER(hipErrorNotFound, GPU_NOT_FOUND);
SAME_NUMBER(hipErrorNotSupported, GPU_NOT_SUPPORTED);

#if HIP_VERSION >= 60000000
SAME_NUMBER(hipMemoryTypeHost, HIP6_HOST);
SAME_NUMBER(hipMemoryTypeDevice, HIP6_DEVICE);
SAME_NUMBER(hipMemoryTypeManaged, HIP6_MANAGED);
#else
SAME_NUMBER(hipMemoryTypeHost, HIP5_HOST);
SAME_NUMBER(hipMemoryTypeDevice, HIP5_DEVICE);
SAME_NUMBER(hipMemoryTypeManaged, HIP5_MANAGED);
#endif
SAME_NUMBER(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, GPU_ATTR_MEMORY_TYPE);
SAME_NUMBER(HIP_POINTER_ATTRIBUTE_BUFFER_ID, GPU_ATTR_BUFFER_ID);
SAME_NUMBER(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, GPU_ATTR_RANGE_START);
SAME_NUMBER(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, GPU_ATTR_RANGE_SIZE);
SAME_NUMBER(hipMemLocationTypeDevice, GPU_LOCATION_DEVICE);
SAME_NUMBER(hipMemHandleTypePosixFileDescriptor, GPU_HANDLE_POSIX_FD);
SAME_NUMBER(hipMemAllocationTypePinned, GPU_ALLOCATION_PINNED);
SAME_NUMBER(hipMemAccessFlagsProtReadWrite, GPU_ACCESS_READ_WRITE);
SAME_NUMBER(hipMemAllocationGranularityMinimum, GPU_GRANULARITY_MIN);
#if HIP_VERSION >= 60000000
SAME_NUMBER(hipIpcMemLazyEnablePeerAccess, GPU_IPC_LAZY_PEER);
#else
SAME_NUMBER(hipIpcMemLazyEnablePeerAccess, HIP5_IPC_LAZY_PEER);
#endif

SAME_CALL(decltype(&hsa_system_get_info), hsa.system_info);
#ifdef WITH_HSA_DMABUF
SAME_CALL(decltype(&hsa_amd_portable_export_dmabuf), hsa.export_dmabuf);
SAME_CALL(decltype(&hsa_amd_portable_close_dmabuf), hsa.close_dmabuf);
SAME_NUMBER(HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED, HSA_SYSTEM_DMABUF);
#endif
#endif

#ifdef WITH_CONTROL
/* One argument less, and one of another size. */
SAME_CALL(int (*)(unsigned long long), c.address_free);
SAME_CALL(int (*)(unsigned int, size_t), c.address_free);
#endif

int main()
{
	return 0;
}
