/* SPDX-License-Identifier: MIT */
/*
 * What libmrguard.a calls of libibverbs, which the guard is not linked with: a
 * program that uses no verbs must not get them by being guarded.
 */
#include <errno.h>

#include "guard/real.h"

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	real_query_device *call = guard_real(0, REAL_QUERY_DEVICE);

	return call ? call(context, attr) : ENOSYS;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	real_is_fork_initialized *call = guard_real(0, REAL_IS_FORK_INITIALIZED);

	return call ? call() : IBV_FORK_DISABLED;
}

/* Declared in no installed header. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
	real_fork_range *call = guard_real(0, REAL_DONTFORK_RANGE);

	return call ? call(base, size) : ENOSYS;
}

int ibv_dofork_range(void *base, size_t size)
{
	real_fork_range *call = guard_real(0, REAL_DOFORK_RANGE);

	return call ? call(base, size) : ENOSYS;
}
