/* SPDX-License-Identifier: MIT */
/* The facts that a check reads, and how it reports.  Each check is one small file. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <mrguard/check.h>
#include <mrguard/host.h>

#include "base/error.h"
#include "host/tree.h"

#define CHECK_MAX_DEVICES 256

/* A PCI function that a check cares about. */
struct check_pci {
	char addr[16]; /* 0000:01:00.0 */
	char real[256]; /* /sys/devices/pci0000:00/... */
	char driver[32];
	unsigned int vendor, device;
};

struct check_rdma {
	char name[64];
	char netdev[32];
	bool has_pci;
	struct check_pci pci;
	const struct check_pci *data_direct; /* function that does the DMA to GPUs; NULL: its own */
	bool data_direct_untold; /* there are such functions, and nothing says which is its */
	char foreign[256]; /* where a driver comes from that is not the kernel's; "" = it is */
};

enum check_walk {
	CHECK_WALK_UNKNOWN,
	CHECK_WALK_EXACT,
	CHECK_WALK_AFFECTED,
	CHECK_WALK_CAPPED, /* affected, and mrguard_cap.ko was seen to cap the pick */
};

/* Facts that several checks share, read once. */
struct check_host {
	char release[128]; /* uname -r */
	char version[256]; /* /proc/version */
	unsigned int kernel[3]; /* upstream version, the distribution's package first */
	const char *kernel_from; /* the file that stated it */
	bool kernel_follows; /* the third number counts upstream's stable fixes */
	char arch[32];
	unsigned long page_size;
	bool vendor_core; /* ib_core is not the kernel's own */
	char vendor_path[256];
	char *local_ipv4, *local_ipv6; /* /proc/net/fib_trie, if_inet6; "" likewise */
	char *modules_dep; /* the text of that file, "" where it was not readable */
	bool modules_visible; /* /lib/modules of this kernel; not so in a container */
	char soc[64]; /* SMCCC SoC id, "" where there is none */
	bool coherent; /* GPU memory is on the CPU's bus (GH200, GB200) */
	bool coherence_untold; /* an Arm host of NVIDIA's whose kind is not known */
	enum check_walk walk;
	const char *walk_asked; /* how ib_core was asked; NULL: the version decides */
	char walk_why[200]; /* why its file was not, or did not tell; "" */
	enum mrg_cap cap; /* OFF where the module did not tell */
	unsigned long long uncapped; /* picks that could not be capped */
	struct check_rdma *rdma;
	size_t rdma_count;
	struct check_pci *gpus;
	size_t gpu_count;
	struct check_pci *data_direct; /* functions bound to mlx5_data_direct */
	size_t data_direct_count;
};

struct check_ctx {
	struct mrg_tree *tree;
	const struct mrg_check_opts *opts;
	struct check_host host;
	const char *id; /* of the check that runs */
	enum mrg_check_basis basis; /* of the lines that follow; NONE counts as inferred */
	bool lost; /* a fact, for want of memory */
	struct mrg_check_report *report;
};

/* One for each check, in a file of its name; the table of them is in check.c. */
void check_walk(struct check_ctx *ctx);
void check_cap(struct check_ctx *ctx); /* of "walk" */
void check_vendor_stack(struct check_ctx *ctx);
void check_page_size(struct check_ctx *ctx);
void check_rdma_core(struct check_ctx *ctx);
void check_dmabuf(struct check_ctx *ctx);
void check_peermem(struct check_ctx *ctx);
void check_platform(struct check_ctx *ctx);
void check_bar1(struct check_ctx *ctx);
void check_data_direct(struct check_ctx *ctx);
void check_fork(struct check_ctx *ctx);
void check_map_count(struct check_ctx *ctx);
void check_memlock(struct check_ctx *ctx);
void check_fds(struct check_ctx *ctx);
void check_subnet(struct check_ctx *ctx);
void check_module(struct check_ctx *ctx);
void check_tested(struct check_ctx *ctx);
/* And those of each RDMA device.  Return: whether the check applies to @rdma. */
bool check_device_pages(struct check_ctx *ctx, const struct check_rdma *rdma);
bool check_iommu(struct check_ctx *ctx, const struct check_rdma *rdma);
bool check_acs(struct check_ctx *ctx, const struct check_rdma *rdma);
bool check_pci_path(struct check_ctx *ctx, const struct check_rdma *rdma);
bool check_gid(struct check_ctx *ctx, const struct check_rdma *rdma);
bool check_mtu(struct check_ctx *ctx, const struct check_rdma *rdma);

#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002
#define VENDOR_MELLANOX 0x15b3

/*
 * Adds a line.  @meaning and @remedy are full sentences, or ""; the evidence is
 * a value and where it stands.  All are copied.  The line rests on ctx->basis: "ok"
 * becomes "likely" where that is inferred, and what a record holds was read.
 */
void check_add(struct check_ctx *ctx, enum mrg_check_verdict verdict, const char *subject,
	       const char *meaning, const char *remedy, const char *evidence, ...)
	BASE_PRINTF(6, 7);
/* Room for a file of HOST_TREE_MAX_FILE bytes, to be freed.  NULL: the check's
 * lines are then replaced by "unknown", so the check may add any. */
char *check_buffer(struct check_ctx *ctx);
/* "needs root", "not there" and the rest, in words. */
const char *check_why(int err);
/* A kernel at least as new as this. */
bool check_kernel_at_least(const struct check_host *host, unsigned int a, unsigned int b,
			   unsigned int c);
/* The value of CONFIG_@name: 'y', 'm', 'n', or 0 where the configuration was
 * not readable. */
char check_config(struct check_ctx *ctx, const char *name);
/* Whether a module of ours is built for the kernel that runs. */
bool check_module_is_installed(struct check_ctx *ctx, const char *name);
/* What the module says of itself: "version V", "abi N", "walk W", "cap C", a line each. */
ssize_t check_module_fact(struct check_ctx *ctx, char *buf, size_t cap);
void check_read_facts(struct check_ctx *ctx);
void check_free_facts(struct check_host *host);

/* The lines of a report. */

struct mrg_check_report {
	struct mrg_check_result *results;
	size_t count, room;
	bool out_of_memory;
};

/* limits.c: the limits of the process or unit that the check is asked about */

/* Soft limit named as in /proc/PID/limits; UINT64_MAX is unlimited.  @target gets
 * "pid 4242" or "unit foo.service (pid 4242)".  -ENOENT: no process was named. */
int check_limits_of_target(struct check_ctx *ctx, const char *name, uint64_t *value, char *target,
			   size_t cap);
/* The line for a limit that check_limits_of_target() did not get. */
void check_limits_add_unknown(struct check_ctx *ctx, const char *target, int rc);
/* The target has CAP_IPC_LOCK where the kernel asks for it, in the initial
 * user namespace: ib_umem_get() then applies no limit to pinned memory. */
bool check_limits_target_may_lock(struct check_ctx *ctx);

/* pairs.c: what lies between a NIC and a GPU on PCI */

enum check_distance {
	CHECK_DISTANCE_SWITCH,
	CHECK_DISTANCE_ROOT_COMPLEX,
	CHECK_DISTANCE_NUMA,
};

/* How far apart the two are: below one switch, under one host bridge, or not. */
enum check_distance check_pair_distance(const struct check_pci *a, const struct check_pci *b);
/* The function of @rdma that reaches into GPUs; NULL: @rdma is not on PCI. */
const struct check_pci *check_dma_function(const struct check_rdma *rdma);
/* The GPU nearest to that function; NULL: there is none. */
const struct check_pci *check_nearest_gpu(const struct check_host *host,
					  const struct check_rdma *rdma);
/* Calls @fn for every bridge on the way between them, by sysfs path.  Stops at
 * the first that returns non-zero, and returns that. */
int check_pair_for_each_bridge(const struct check_pci *a, const struct check_pci *b,
			       int (*fn)(void *arg, const char *bridge), void *arg);

#endif
