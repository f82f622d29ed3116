/* SPDX-License-Identifier: MIT */
/*
 * A context, and the outside world that it asks.  Internal to lib/region.
 */
#ifndef REGION_CONTEXT_H
#define REGION_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <infiniband/verbs.h>

#include <mrguard/host.h>
#include <mrguard/region.h>
#include <mrguard/walk.h>

#include "base/error.h"
#include "region/vma_guard.h"

struct explain_pin_facts;
struct mrg_gpu;

/* Which DMA-BUF it is: never the same for two of them. */
struct region_dmabuf_id {
	uint64_t inode;
	uint64_t created_ns;
};

/*
 * What registration asks of verbs, of the module and of the host's files.
 * region_env_host is the real one; unit tests put their own in its place.
 */
struct region_env {
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length, int access);
	struct ibv_mr *(*reg_dmabuf)(struct ibv_pd *pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access);
	int (*dereg)(struct ibv_mr *mr);
	int (*query_device)(struct ibv_context *verbs, struct ibv_device_attr *attr);
	/* Asks the kernel past the provider: -errno for fd -1. */
	int (*kernel_probe)(struct ibv_pd *pd);
	/* Size of a DMA-BUF, or -errno. */
	int64_t (*dmabuf_size)(int fd);
	bool (*is_dmabuf)(int fd);
	bool (*dmabuf_id)(int fd, struct region_dmabuf_id *id);
	/* Asks the GPU drivers that the process has loaded; NULL: there are none. */
	void (*ask_drivers)(struct explain_pin_facts *facts);

	int (*dev_open)(struct mrg_dev **dev);
	void (*dev_close)(struct mrg_dev *dev);
	int (*dev_info)(struct mrg_dev *dev, struct mrg_dev_info *info);
	/* Asks the walk of ib_core's file; NULL: nobody does. */
	int (*walk_ask)(struct mrg_walk_answer *answer);
	int (*dev_layout)(struct mrg_dev *dev, int fd, const struct mrg_pci_addr *importer,
			  uint64_t iova, uint64_t offset, uint64_t length, uint32_t flags,
			  struct mrg_layout *layout);
	void (*layout_release)(struct mrg_layout *layout);

	const char *sys;
	const char *proc;
	bool guards_vmas; /* addresses are this process's own */
};

extern const struct region_env region_env_host;

/* What is known of one RDMA device.  Never changes once it is listed. */
struct region_device {
	struct region_device *next;
	struct ibv_context *verbs;
	char name[64];
	char pci_driver[32]; /* "mlx5_core"; "": not known */
	bool has_pci;
	struct mrg_pci_addr pci;
	enum mrg_iommu iommu;
	uint64_t max_mr_size; /* 0: no limit */
	enum mrg_pick pick; /* whether the kernel's cap holds for its MRs */
	uint32_t page_shift_bound; /* no page above it, by driver; 0: not known */
};

struct mrg_ctx {
	const struct region_env *env;
	struct mrg_dev *dev; /* NULL: no module */
	int dev_error; /* why not; 0 where it was not wanted */
	struct mrg_dev_info dev_info;
	struct mrg_vma_guard *guard; /* NULL: addresses are made up */
	uint32_t max_page_shift;
	uint64_t page_size; /* of the host */
	uint64_t error_owner; /* see base/error.h */
	/* Grows at its head, under @lock; whoever reads it needs none. */
	struct region_device *_Atomic devices;
	atomic_uint users; /* the caller, until it closes it, and each handle */
	bool keeps_dev; /* an MR that counts on the cap cannot be deregistered any more */
	/* Handles of roll-backs that met an MR which would not go. */
	struct mrg_mr *_Atomic stuck;
	pthread_mutex_t lock; /* also guards what follows */
	struct region_layout_cache *layout_cache;
	struct mrg_gpu *gpu; /* made by the first mrg_reg_any() without one */
};

int region_open(struct mrg_ctx **out, struct ibv_context *device, const struct mrg_open_opts *opts,
		const struct region_env *env);

/* Frees the context with its last user. */
void region_ctx_put(struct mrg_ctx *ctx);

/* The facts of an opened device, read when it is first asked about.  Returns 0,
 * or -errno with the failure kept for mrg_last_error(). */
int region_device_get(struct mrg_ctx *ctx, struct ibv_context *verbs,
		      const struct region_device **device);

/* The facts of a device that is not opened; what only verbs tells stays 0. */
void region_device_read(const struct region_env *env, const char *name,
			struct region_device *device);

#endif
