/* SPDX-License-Identifier: MIT */
/*
 * Calls of the real functions: for the program, and for internal.a.  The guard
 * is not linked with libibverbs: a program without verbs must not get them
 * because it is guarded.
 */
#include <errno.h>

#include "guard/real.h"

typedef struct ibv_mr *reg_mr_fn(struct ibv_pd *, void *, size_t, int);
typedef struct ibv_mr *reg_mr_iova_fn(struct ibv_pd *, void *, size_t, uint64_t, int);
typedef struct ibv_mr *reg_mr_iova2_fn(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
typedef struct ibv_mr *reg_dmabuf_mr_fn(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef struct ibv_mr *reg_mr_ex_fn(struct ibv_pd *, struct guard_mr_init_attr *);
typedef struct ibv_mr *mlx5_reg_dmabuf_mr_fn(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int,
					     int);
typedef int query_device_fn(struct ibv_context *, struct ibv_device_attr *);
typedef enum ibv_fork_status is_fork_initialized_fn(void);
typedef int fork_range_fn(void *, size_t);

/* @missing: the value where the library has no such function */
#define CALL(type, lib, call, missing, ...)                   \
	({                                                    \
		type *function_ = guard_real(lib, call);      \
		function_ ? function_(__VA_ARGS__) : missing; \
	})

static struct ibv_mr *no_function(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_mr *guard_real_register(const struct guard_request *r)
{
	void *addr = (void *)(uintptr_t)r->addr;
	int access = (int)r->access;

	switch (r->call) {
	case GUARD_REG_MR:
		return CALL(reg_mr_fn, r->lib, r->call, no_function(), r->pd, addr, r->length,
			    access);
	case GUARD_REG_MR_IOVA:
		return CALL(reg_mr_iova_fn, r->lib, r->call, no_function(), r->pd, addr, r->length,
			    r->iova, access);
	case GUARD_REG_MR_IOVA2:
		return CALL(reg_mr_iova2_fn, r->lib, r->call, no_function(), r->pd, addr, r->length,
			    r->iova, r->access);
	case GUARD_REG_DMABUF_MR:
		return CALL(reg_dmabuf_mr_fn, r->lib, r->call, no_function(), r->pd, r->offset,
			    r->length, r->iova, r->fd, access);
	case GUARD_REG_MR_EX:
		return CALL(reg_mr_ex_fn, r->lib, r->call, no_function(), r->pd, r->attr);
	case GUARD_MLX5_REG_DMABUF_MR:
		return CALL(mlx5_reg_dmabuf_mr_fn, r->lib, r->call, no_function(), r->pd, r->offset,
			    r->length, r->iova, r->fd, access, r->mlx5_access);
	default:
		return no_function();
	}
}

struct ibv_mr *guard_real_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access)
{
	return CALL(reg_dmabuf_mr_fn, 0, GUARD_REG_DMABUF_MR, no_function(), pd, offset, length,
		    iova, fd, access);
}

int guard_real_dereg(struct ibv_mr *mr)
{
	return CALL(guard_dereg_mr_fn, 0, GUARD_DEREG_MR, ENOSYS, mr);
}

/* internal.a calls these by their names in libibverbs. */
const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return CALL(query_device_fn, 0, GUARD_QUERY_DEVICE, ENOSYS, context, attr);
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return CALL(is_fork_initialized_fn, 0, GUARD_IS_FORK_INITIALIZED, IBV_FORK_DISABLED);
}

/* No installed header declares them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
	return CALL(fork_range_fn, 0, GUARD_DONTFORK_RANGE, ENOSYS, base, size);
}

int ibv_dofork_range(void *base, size_t size)
{
	return CALL(fork_range_fn, 0, GUARD_DOFORK_RANGE, ENOSYS, base, size);
}
