/* SPDX-License-Identifier: MIT */
/* The result of a driver's call, in words and as -errno. */
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gpu/driver.h"

static const char *result_name(const struct gpu_driver *driver, int result)
{
	const char *name = NULL;

	if (driver->vendor == GPU_HIP)
		return driver->hip.error_name ? driver->hip.error_name(result) : NULL;
	if (driver->c.error_name && driver->c.error_name(result, &name))
		return NULL;
	return name;
}

struct gpu_text gpu_result(const struct gpu_driver *driver, int result)
{
	const char *name = result_name(driver, result);
	struct gpu_text text;

	snprintf(text.text, sizeof(text.text), "%.48s (%d)", name ? name : "error", result);
	return text;
}

int gpu_errno(int result)
{
	switch (result) {
	case GPU_SUCCESS:
		return 0;
	case GPU_INVALID_VALUE:
		return -EINVAL;
	case GPU_OUT_OF_MEMORY:
		return -ENOMEM;
	case GPU_NO_DEVICE:
	case GPU_INVALID_DEVICE:
		return -ENODEV;
	case GPU_INVALID_CONTEXT:
		return -ENOTCONN;
	case GPU_NOT_PERMITTED:
		return -EPERM;
	case GPU_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

bool gpu_out_of_fds(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd >= 0) {
		close(fd);
		return false;
	}
	return errno == EMFILE || errno == ENFILE;
}

int gpu_fail_call(const struct mrg_gpu *gpu, const struct gpu_driver *driver, const char *stage,
		  const char *call, int result)
{
	if (result != GPU_INVALID_VALUE && gpu_out_of_fds())
		return base_fail(
			gpu->error_owner, -EMFILE, stage,
			"Raise the limit (ulimit -n): file descriptors ran out, GPU memory did not.",
			"The call %s() failed with %s, and this process can open no more files.",
			call, gpu_result(driver, result).text);
	return base_fail(gpu->error_owner, gpu_errno(result), stage, "",
			 "The call %s() failed with %s.", call, gpu_result(driver, result).text);
}
