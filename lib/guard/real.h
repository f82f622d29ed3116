/* SPDX-License-Identifier: MIT */
/*
 * The functions that the guard stands before.
 *
 * A process can hold several libraries that have them.  Library 0 is the one
 * that the program's own symbols would have been bound to; the others were met
 * by the audit library, when a program asked for a symbol of one by name, and
 * each gets entries of its own, so that a call reaches the library it was meant
 * for.
 */
#ifndef GUARD_REAL_H
#define GUARD_REAL_H

#include <infiniband/verbs.h>

#define REAL_LIBRARIES 4

/* rdma-core's since 1.15; this header need not be that new.  The guard reads
 * these fields as far as the mask says that they are there. */
struct guard_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
};
#define GUARD_MASK_IOVA (1u << 0)
#define GUARD_MASK_ADDR (1u << 1)
#define GUARD_MASK_FD (1u << 2)
#define GUARD_MASK_FD_OFFSET (1u << 3)

typedef struct ibv_mr *real_reg_mr(struct ibv_pd *, void *, size_t, int);
typedef struct ibv_mr *real_reg_mr_iova(struct ibv_pd *, void *, size_t, uint64_t, int);
typedef struct ibv_mr *real_reg_mr_iova2(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
typedef struct ibv_mr *real_reg_dmabuf_mr(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef struct ibv_mr *real_reg_mr_ex(struct ibv_pd *, struct guard_mr_init_attr *);
typedef struct ibv_mr *real_mlx5_reg_dmabuf_mr(struct ibv_pd *, uint64_t, size_t, uint64_t, int,
					       int, int);
typedef int real_rereg_mr(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);
typedef int real_dereg_mr(struct ibv_mr *);
typedef int real_fork_init(void);
typedef int real_query_device(struct ibv_context *, struct ibv_device_attr *);
typedef enum ibv_fork_status real_is_fork_initialized(void);
typedef int real_fork_range(void *, size_t);

/* Those up to REAL_GUARDED have an entry; the rest are called for libmrguard.a. */
enum guard_real_fn {
	REAL_REG_MR,
	REAL_REG_MR_IOVA,
	REAL_REG_MR_IOVA2,
	REAL_REG_DMABUF_MR,
	REAL_REG_MR_EX,
	REAL_MLX5_REG_DMABUF_MR,
	REAL_REREG_MR,
	REAL_DEREG_MR,
	REAL_FORK_INIT,
	REAL_GUARDED,
	REAL_QUERY_DEVICE = REAL_GUARDED,
	REAL_IS_FORK_INITIALIZED,
	REAL_DONTFORK_RANGE,
	REAL_DOFORK_RANGE,
	REAL_FNS,
};

/** guard_real() - the function of library @lib; NULL where there is none (yet).
 *  Keeps the library from being unloaded. */
void *guard_real(unsigned int lib, enum guard_real_fn fn);

/** guard_real_entries() - the guard's functions for library @lib, by enum guard_real_fn */
extern void *const guard_real_entries[REAL_LIBRARIES][REAL_GUARDED];

#endif
