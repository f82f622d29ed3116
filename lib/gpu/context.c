/* SPDX-License-Identifier: MIT */
/*
 * A device is made current for the calls that need it, and the thread is left
 * as it was.  Push and pop, never set: what was current need not be a primary
 * context, and may be nothing.
 */
#include <errno.h>
#include <string.h>

#include "gpu/driver.h"

static bool is_current(const struct gpu_driver *driver, int ordinal)
{
	void *current = NULL;
	int device;

	if (driver->cuda.ctx_current(&current) || !current)
		return false;
	return !driver->cuda.ctx_device(&device) && device == ordinal;
}

/* A context that we activated would end with its last release, so it is held
 * for as long as the handle lives. */
static void hold(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal)
{
	void *ctx;

	pthread_mutex_lock(&gpu->lock);
	if (ordinal < GPU_MAX_DEVICES && !gpu->held[ordinal] &&
	    !driver->cuda.primary_retain(&ctx, ordinal))
		gpu->held[ordinal] = ctx;
	pthread_mutex_unlock(&gpu->lock);
}

static int enter_primary(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal,
			 struct gpu_scope *scope)
{
	unsigned int flags;
	int active = 0, result;
	void *ctx;

	driver->cuda.primary_state(ordinal, &flags, &active);
	if (!active && !(gpu->flags & MRG_GPU_CONTEXT))
		return base_fail(
			gpu->error_owner, -ENOTCONN, "enter context",
			"Make a context of that device current in this thread (cudaSetDevice() and a first call), or open with MRG_GPU_CONTEXT.",
			"CUDA device %d has no context in this process.", ordinal);
	result = driver->cuda.primary_retain(&ctx, ordinal);
	if (result)
		return gpu_fail_call(gpu, driver, "enter context", "cuDevicePrimaryCtxRetain",
				     result);
	scope->retained = true;
	if (!active)
		hold(gpu, driver, ordinal);
	result = driver->cuda.ctx_push(ctx);
	if (result)
		return gpu_fail_call(gpu, driver, "enter context", "cuCtxPushCurrent", result);
	scope->pushed = true;
	return 0;
}

static int enter_cuda(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal, void *ctx,
		      struct gpu_scope *scope)
{
	int ret;

	if (is_current(driver, ordinal))
		return 0;
	if (ctx && !driver->cuda.ctx_push(ctx)) {
		scope->pushed = true;
		return 0;
	}
	ret = enter_primary(gpu, driver, ordinal, scope);
	if (ret)
		gpu_leave(scope);
	return ret;
}

static int enter_hip(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal,
		     struct gpu_scope *scope)
{
	int result;

	scope->hip_error = driver->hip.peek_error();
	scope->before = ordinal;
	if (ordinal < 0)
		return 0;
	result = driver->hip.get_device(&scope->before);
	if (!result && scope->before != ordinal)
		result = driver->hip.set_device(ordinal);
	if (result)
		return gpu_fail_call(gpu, driver, "enter device", "hipSetDevice", result);
	return 0;
}

int gpu_enter(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal, void *ctx,
	      struct gpu_scope *scope)
{
	memset(scope, 0, sizeof(*scope));
	scope->driver = driver;
	scope->ordinal = ordinal;
	if (driver->vendor == GPU_HIP)
		return enter_hip(gpu, driver, ordinal, scope);
	return enter_cuda(gpu, driver, ordinal, ctx, scope);
}

int gpu_enter_at(struct mrg_gpu *gpu, struct gpu_driver *driver, int ordinal, uint64_t addr,
		 struct gpu_scope *scope)
{
	uint64_t ctx = 0;

	if (driver->vendor == GPU_CUDA)
		driver->c.attribute(&ctx, GPU_ATTR_CONTEXT, addr);
	return gpu_enter(gpu, driver, ordinal, (void *)(uintptr_t)ctx, scope);
}

/* A failed HIP call stays the thread's last error until it is read, and an
 * application that checks after its own kernels would take ours for its. */
static void leave_hip(struct gpu_scope *scope)
{
	struct gpu_driver *driver = scope->driver;

	if (scope->before != scope->ordinal)
		driver->hip.set_device(scope->before);
	if (!scope->hip_error)
		driver->hip.last_error();
}

void gpu_leave(struct gpu_scope *scope)
{
	struct gpu_driver *driver = scope->driver;
	int saved = errno;
	void *ctx;

	if (driver->vendor == GPU_HIP)
		leave_hip(scope);
	if (scope->pushed)
		driver->cuda.ctx_pop(&ctx);
	if (scope->retained)
		driver->cuda.primary_release(scope->ordinal);
	scope->pushed = scope->retained = false;
	errno = saved;
}

void gpu_drop_contexts(struct mrg_gpu *gpu)
{
	struct gpu_driver *driver = &gpu->drivers[GPU_CUDA];

	for (int i = 0; i < GPU_MAX_DEVICES; i++)
		if (gpu->held[i])
			driver->cuda.primary_release(i);
}
