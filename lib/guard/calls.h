/* SPDX-License-Identifier: MIT */
/* The functions of libibverbs and libmlx5 that the guard calls or replaces, in one order. */
#ifndef GUARD_CALLS_H
#define GUARD_CALLS_H

enum guard_call {
	/* Registrations: these are judged, counted and reported. */
	GUARD_REG_MR,
	GUARD_REG_MR_IOVA,
	GUARD_REG_MR_IOVA2,
	GUARD_REG_DMABUF_MR,
	GUARD_REG_MR_EX,
	GUARD_MLX5_REG_DMABUF_MR,
	GUARD_REREG_MR,
	GUARD_REGISTRATIONS,
	/* The others that the guard replaces. */
	GUARD_DEREG_MR = GUARD_REGISTRATIONS,
	GUARD_FORK_INIT,
	GUARD_REPLACED,
	/* Those that it only calls, for internal.a. */
	GUARD_QUERY_DEVICE = GUARD_REPLACED,
	GUARD_IS_FORK_INITIALIZED,
	GUARD_DONTFORK_RANGE,
	GUARD_DOFORK_RANGE,
	GUARD_CALLS,
};

static const char *const guard_calls[GUARD_CALLS] = {
	[GUARD_REG_MR] = "ibv_reg_mr",
	[GUARD_REG_MR_IOVA] = "ibv_reg_mr_iova",
	[GUARD_REG_MR_IOVA2] = "ibv_reg_mr_iova2",
	[GUARD_REG_DMABUF_MR] = "ibv_reg_dmabuf_mr",
	[GUARD_REG_MR_EX] = "ibv_reg_mr_ex",
	[GUARD_MLX5_REG_DMABUF_MR] = "mlx5dv_reg_dmabuf_mr",
	[GUARD_REREG_MR] = "ibv_rereg_mr",
	[GUARD_DEREG_MR] = "ibv_dereg_mr",
	[GUARD_FORK_INIT] = "ibv_fork_init",
	[GUARD_QUERY_DEVICE] = "ibv_query_device",
	[GUARD_IS_FORK_INITIALIZED] = "ibv_is_fork_initialized",
	[GUARD_DONTFORK_RANGE] = "ibv_dontfork_range",
	[GUARD_DOFORK_RANGE] = "ibv_dofork_range",
};

#endif
