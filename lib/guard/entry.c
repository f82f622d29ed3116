/* SPDX-License-Identifier: MIT */
/*
 * The functions that the loader binds programs to instead of verbs'.  Each brings
 * its call into one form; register.c has what the guard does around it.
 *
 * Each exists once for the library that the program was linked with, and once
 * for each library that the audit library may meet (real.h).
 */
#include <errno.h>

#include "guard/entry.h"
#include "guard/register.h"

#define API __attribute__((visibility("default")))

/* verbs.h has macros of these names, which choose between two symbols. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_mr *register_memory(enum guard_call call, unsigned int lib, struct ibv_pd *pd,
				      void *addr, size_t length, uint64_t iova, unsigned int access)
{
	const struct guard_request r = { .call = call,
					 .lib = lib,
					 .pd = pd,
					 .fd = -1,
					 .addr = (uintptr_t)addr,
					 .iova = iova,
					 .length = length,
					 .access = access };

	return guard_register(&r);
}

static struct ibv_mr *reg_mr(unsigned int lib, struct ibv_pd *pd, void *addr, size_t length,
			     int access)
{
	return register_memory(GUARD_REG_MR, lib, pd, addr, length, (uintptr_t)addr,
			       (unsigned int)access);
}

static struct ibv_mr *reg_mr_iova(unsigned int lib, struct ibv_pd *pd, void *addr, size_t length,
				  uint64_t iova, int access)
{
	return register_memory(GUARD_REG_MR_IOVA, lib, pd, addr, length, iova,
			       (unsigned int)access);
}

static struct ibv_mr *reg_mr_iova2(unsigned int lib, struct ibv_pd *pd, void *addr, size_t length,
				   uint64_t iova, unsigned int access)
{
	return register_memory(GUARD_REG_MR_IOVA2, lib, pd, addr, length, iova, access);
}

/* Programs ask with fd -1 whether DMA-BUF MRs are supported: that goes through. */
static struct ibv_mr *register_dmabuf(enum guard_call call, unsigned int lib, struct ibv_pd *pd,
				      uint64_t offset, size_t length, uint64_t iova, int fd,
				      int access, int mlx5_access)
{
	const struct guard_request r = { .call = call,
					 .lib = lib,
					 .pd = pd,
					 .fd = fd,
					 .offset = offset,
					 .iova = iova,
					 .length = length,
					 .access = (unsigned int)access,
					 .mlx5_access = mlx5_access };

	return fd < 0 ? guard_real_register(&r) : guard_register(&r);
}

static struct ibv_mr *reg_dmabuf_mr(unsigned int lib, struct ibv_pd *pd, uint64_t offset,
				    size_t length, uint64_t iova, int fd, int access)
{
	return register_dmabuf(GUARD_REG_DMABUF_MR, lib, pd, offset, length, iova, fd, access, 0);
}

static struct ibv_mr *mlx5_reg_dmabuf_mr(unsigned int lib, struct ibv_pd *pd, uint64_t offset,
					 size_t length, uint64_t iova, int fd, int access,
					 int mlx5_access)
{
	return register_dmabuf(GUARD_MLX5_REG_DMABUF_MR, lib, pd, offset, length, iova, fd, access,
			       mlx5_access);
}

/* Without address and descriptor in the mask, verbs refuses the call, or knows
 * a field that the guard does not. */
static struct ibv_mr *reg_mr_ex(unsigned int lib, struct ibv_pd *pd,
				struct guard_mr_init_attr *attr)
{
	uint64_t mask = attr->comp_mask;
	struct guard_request r = { .call = GUARD_REG_MR_EX,
				   .lib = lib,
				   .pd = pd,
				   .fd = -1,
				   .length = attr->length,
				   .access = (unsigned int)attr->access,
				   .attr = attr };

	if (mask & GUARD_MASK_ADDR)
		r.addr = r.iova = (uintptr_t)attr->addr;
	if (mask & GUARD_MASK_IOVA)
		r.iova = attr->iova;
	if (mask & GUARD_MASK_FD)
		r.fd = attr->fd;
	if (mask & GUARD_MASK_FD_OFFSET)
		r.offset = attr->fd_offset;
	if (!(mask & (GUARD_MASK_ADDR | GUARD_MASK_FD)) || ((mask & GUARD_MASK_FD) && attr->fd < 0))
		return guard_real_register(&r);
	return guard_register(&r);
}

static int rereg_mr(unsigned int lib, struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		    size_t length, int access)
{
	struct guard_request r = { .call = GUARD_REREG_MR,
				   .lib = lib,
				   .fd = -1,
				   .pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd,
				   .addr = (uintptr_t)addr,
				   .iova = (uintptr_t)addr,
				   .length = length,
				   .access = flags & IBV_REREG_MR_CHANGE_ACCESS ?
						     (unsigned int)access :
						     0 };
	guard_rereg_mr_fn *call = guard_real(lib, GUARD_REREG_MR);
	int ret;

	if (!call) {
		errno = EOPNOTSUPP;
		return IBV_REREG_MR_ERR_CMD;
	}
	/* Other changes leave the pages as they are. */
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		return call(mr, flags, pd, addr, length, access);
	if (!guard_rereg_allowed(&r))
		return IBV_REREG_MR_ERR_INPUT;
	ret = call(mr, flags, pd, addr, length, access);
	if (!ret)
		guard_rereg_done(&r, mr);
	return ret;
}

static int dereg_mr(unsigned int lib, struct ibv_mr *mr)
{
	guard_dereg_mr_fn *call = guard_real(lib, GUARD_DEREG_MR);
	struct guard_dereg dereg;
	int ret;

	if (!call)
		return ENOSYS;
	guard_dereg_begin(mr, &dereg);
	ret = call(mr);
	guard_dereg_end(mr, &dereg, ret);
	return ret;
}

static int fork_init(unsigned int lib)
{
	guard_fork_init_fn *call = guard_real(lib, GUARD_FORK_INIT);

	if (!guard_fork_wanted())
		return 0;
	return call ? call() : ENOSYS;
}

/* Library 0: the loader finds these by name and, from guard.map, version. */
API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(0, pd, addr, length, access);
}

API struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				   int access)
{
	return reg_mr_iova(0, pd, addr, length, iova, access);
}

API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				    unsigned int access)
{
	return reg_mr_iova2(0, pd, addr, length, iova, access);
}

API struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access)
{
	return reg_dmabuf_mr(0, pd, offset, length, iova, fd, access);
}

/* Of rdma-core newer than the headers that this may be built with. */
API struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct guard_mr_init_attr *attr);
API struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access, int mlx5_access);

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct guard_mr_init_attr *attr)
{
	return reg_mr_ex(0, pd, attr);
}

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access)
{
	return mlx5_reg_dmabuf_mr(0, pd, offset, length, iova, fd, access, mlx5_access);
}

API int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		     int access)
{
	return rereg_mr(0, mr, flags, pd, addr, length, access);
}

API int ibv_dereg_mr(struct ibv_mr *mr)
{
	return dereg_mr(0, mr);
}

API int ibv_fork_init(void)
{
	return fork_init(0);
}

#define ENTRIES(n)                                                                                 \
	static struct ibv_mr *reg_mr_##n(struct ibv_pd *pd, void *addr, size_t length, int access) \
	{                                                                                          \
		return reg_mr(n, pd, addr, length, access);                                        \
	}                                                                                          \
	static struct ibv_mr *reg_mr_iova_##n(struct ibv_pd *pd, void *addr, size_t length,        \
					      uint64_t iova, int access)                           \
	{                                                                                          \
		return reg_mr_iova(n, pd, addr, length, iova, access);                             \
	}                                                                                          \
	static struct ibv_mr *reg_mr_iova2_##n(struct ibv_pd *pd, void *addr, size_t length,       \
					       uint64_t iova, unsigned int access)                 \
	{                                                                                          \
		return reg_mr_iova2(n, pd, addr, length, iova, access);                            \
	}                                                                                          \
	static struct ibv_mr *reg_dmabuf_mr_##n(struct ibv_pd *pd, uint64_t offset, size_t length, \
						uint64_t iova, int fd, int access)                 \
	{                                                                                          \
		return reg_dmabuf_mr(n, pd, offset, length, iova, fd, access);                     \
	}                                                                                          \
	static struct ibv_mr *reg_mr_ex_##n(struct ibv_pd *pd, struct guard_mr_init_attr *attr)    \
	{                                                                                          \
		return reg_mr_ex(n, pd, attr);                                                     \
	}                                                                                          \
	static struct ibv_mr *mlx5_reg_##n(struct ibv_pd *pd, uint64_t offset, size_t length,      \
					   uint64_t iova, int fd, int access, int mlx5)            \
	{                                                                                          \
		return mlx5_reg_dmabuf_mr(n, pd, offset, length, iova, fd, access, mlx5);          \
	}                                                                                          \
	static int rereg_mr_##n(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,       \
				size_t length, int access)                                         \
	{                                                                                          \
		return rereg_mr(n, mr, flags, pd, addr, length, access);                           \
	}                                                                                          \
	static int dereg_mr_##n(struct ibv_mr *mr)                                                 \
	{                                                                                          \
		return dereg_mr(n, mr);                                                            \
	}                                                                                          \
	static int fork_init_##n(void)                                                             \
	{                                                                                          \
		return fork_init(n);                                                               \
	}

#define TABLE(n)                                                   \
	[n] = {                                                    \
		[GUARD_REG_MR] = (void *)reg_mr_##n,               \
		[GUARD_REG_MR_IOVA] = (void *)reg_mr_iova_##n,     \
		[GUARD_REG_MR_IOVA2] = (void *)reg_mr_iova2_##n,   \
		[GUARD_REG_DMABUF_MR] = (void *)reg_dmabuf_mr_##n, \
		[GUARD_REG_MR_EX] = (void *)reg_mr_ex_##n,         \
		[GUARD_MLX5_REG_DMABUF_MR] = (void *)mlx5_reg_##n, \
		[GUARD_REREG_MR] = (void *)rereg_mr_##n,           \
		[GUARD_DEREG_MR] = (void *)dereg_mr_##n,           \
		[GUARD_FORK_INIT] = (void *)fork_init_##n,         \
	}

ENTRIES(1)
ENTRIES(2)
ENTRIES(3)

void *const guard_entries[GUARD_LIBRARIES][GUARD_REPLACED] = {
	TABLE(1),
	TABLE(2),
	TABLE(3),
};
