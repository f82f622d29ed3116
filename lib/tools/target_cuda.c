/* SPDX-License-Identifier: MIT */
/* GPU memory for the self-test: allocated here, exported by the library. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/gpu.h>

#include "base/error.h"
#include "tools/fail.h"
#include "tools/parse.h"
#include "tools/target.h"

#define STAGE "make buffer"

/* The driver API's own types, as cuda.h has them. */
typedef int cu_result;
typedef unsigned long long cu_ptr;

struct cuda {
	void *library;
	cu_result (*init)(unsigned int flags);
	cu_result (*retain)(void **context, int device);
	cu_result (*release)(int device);
	cu_result (*set_current)(void *context);
	cu_result (*alloc)(cu_ptr *addr, size_t bytes);
	cu_result (*free)(cu_ptr addr);
	cu_result (*sync_memops)(const void *value, int attribute, cu_ptr addr);
};

#define DEVICE 0
#define POINTER_SYNC_MEMOPS 6 /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */

struct gpu_buffer {
	struct cuda cuda;
	bool has_context;
	cu_ptr addr;
	struct mrg_gpu *gpu;
	struct mrg_export export;
};

static void give_back(void *owned)
{
	struct gpu_buffer *gpu = owned;

	if (gpu->export.pieces)
		mrg_gpu_export_release(gpu->gpu, &gpu->export);
	mrg_gpu_close(gpu->gpu);
	if (gpu->addr)
		gpu->cuda.free(gpu->addr);
	if (gpu->has_context)
		gpu->cuda.release(DEVICE);
	if (gpu->cuda.library)
		dlclose(gpu->cuda.library);
	free(gpu);
}

static bool load(struct cuda *cuda)
{
	const struct {
		const char *name;
		void *function;
	} symbols[] = {
		{ "cuInit", &cuda->init },
		{ "cuDevicePrimaryCtxRetain", &cuda->retain },
		{ "cuDevicePrimaryCtxRelease_v2", &cuda->release },
		{ "cuCtxSetCurrent", &cuda->set_current },
		{ "cuMemAlloc_v2", &cuda->alloc },
		{ "cuMemFree_v2", &cuda->free },
		{ "cuPointerSetAttribute", &cuda->sync_memops },
	};

	cuda->library = dlopen("libcuda.so.1", RTLD_NOW);
	for (size_t i = 0; cuda->library && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *at = dlsym(cuda->library, symbols[i].name);

		if (!at)
			return false;
		memcpy(symbols[i].function, &at, sizeof(at));
	}
	return cuda->library;
}

/* What the NIC wrote must be seen by kernels that come after it. */
static cu_result allocate(struct gpu_buffer *gpu, uint64_t size)
{
	struct cuda *cuda = &gpu->cuda;
	unsigned int on = 1;
	void *context;
	cu_result ret = cuda->init(0);

	if (!ret)
		ret = cuda->retain(&context, DEVICE);
	if (ret)
		return ret;
	gpu->has_context = true;
	ret = cuda->set_current(context);
	if (!ret)
		ret = cuda->alloc(&gpu->addr, size);
	return ret ? ret : cuda->sync_memops(&on, POINTER_SYNC_MEMOPS, gpu->addr);
}

static int export(struct gpu_buffer *gpu, uint64_t size, struct mrg_error *error)
{
	int ret = mrg_gpu_open(&gpu->gpu, NULL);

	if (ret)
		return base_error_set(error, ret, STAGE, "",
				      "The GPU library cannot be opened: %s.", strerror(-ret));
	ret = mrg_gpu_export(gpu->gpu, gpu->addr, size, NULL, &gpu->export);
	if (ret && mrg_gpu_last_error(gpu->gpu, error))
		return base_error_set(error, ret, STAGE, "",
				      "The GPU memory cannot be exported: %s.", strerror(-ret));
	return ret;
}

int target_cuda(struct target *target, const char *size, struct mrg_error *error)
{
	struct gpu_buffer *gpu;
	cu_result result;

	if (parse_size(size, &target->size) || !target->size)
		return base_error_set(error, -EINVAL, STAGE,
				      "Sizes are written as 4096, 0x1000 or 4K.",
				      "The size of CUDA memory is \"%s\", which is no size.", size);
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return base_error_set(error, -ENOMEM, STAGE, "",
				      "There is no memory for the buffer.");
	target->owned = gpu;
	target->give_back = give_back;
	if (!load(&gpu->cuda))
		return base_error_set(error, -ENOENT, STAGE, "Install the GPU's driver.",
				      "CUDA's libcuda.so.1 cannot be used.");
	result = allocate(gpu, target->size);
	if (result)
		return base_error_set(error, -EIO, STAGE, "See `mrguard gpu'.",
				      "The CUDA driver refused %s bytes (error %d).", size, result);
	target->addr = gpu->addr;
	if (export(gpu, target->size, error))
		return error->code;
	target->buf = gpu->export.pieces[0].buf;
	return 0;
}
