/* SPDX-License-Identifier: MIT */
/* What a check sees, and how it reports.  Each check is one small file. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <mrguard/check.h>
#include <mrguard/host.h>

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
};

enum check_walk { CHECK_WALK_UNKNOWN, CHECK_WALK_EXACT, CHECK_WALK_AFFECTED };

/* Facts that several checks share, read once. */
struct check_host {
	char release[128]; /* uname -r */
	char version[256]; /* /proc/version */
	unsigned int kernel[3]; /* upstream version, the distribution's package first */
	char arch[32];
	unsigned long page_size;
	bool vendor_core; /* ib_core is not the kernel's own */
	char vendor_path[256];
	bool modules_seen; /* /lib/modules of this kernel: not so in a container */
	bool coherent; /* GPU memory is on the CPU's bus (GH200, GB200) */
	enum check_walk walk;
	bool walk_seen; /* by the module; else by version, "likely" */
	struct check_rdma *rdma;
	size_t rdma_count;
	struct check_pci *gpus;
	size_t gpu_count;
};

struct check_ctx {
	struct mrg_tree *tree;
	const struct mrg_check_opts *opts;
	struct check_host host;
	const char *id; /* of the check that runs */
	bool lost; /* an answer, for want of memory */
	struct mrg_check_report *report;
};

struct check_item {
	const char *id;
	void (*run)(struct check_ctx *ctx);
};

extern const struct check_item check_walk, check_vendor_stack, check_device_pages, check_platform,
	mrg_check_acs, mrg_check_iommu, mrg_check_pci_path, mrg_check_bar1, check_data_direct,
	check_dmabuf, check_peermem, check_fork, check_map_count, check_memlock, check_fds,
	check_page_size, check_rdma_core, check_gid, check_subnet, check_mtu, check_module,
	check_tested;

#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002
#define VENDOR_MELLANOX 0x15b3

/* Adds a line.  @evidence, @meaning and @remedy are copied. */
void check_add(struct check_ctx *ctx, enum mrg_check_verdict verdict, const char *subject,
	       const char *evidence, const char *meaning, const char *remedy);
/* Room for a file of HOST_TREE_MAX_FILE bytes, to be freed.  NULL: what the check
 * says is then replaced by "unknown", so no caller has to. */
char *check_buffer(struct check_ctx *ctx);
/* "needs root", "not there" and the rest, in words. */
const char *check_why(int err);
/* A kernel at least as new as this. */
bool check_kernel_at_least(const struct check_host *host, unsigned int a, unsigned int b,
			   unsigned int c);
/* The value of CONFIG_@name: 'y', 'm', 'n', or 0 where the configuration was
 * not readable. */
char check_config(struct check_ctx *ctx, const char *name);
/* What the module says of itself: "version V abi N walk W". */
ssize_t check_module_fact(struct check_ctx *ctx, char *buf, size_t cap);
void check_read_facts(struct check_ctx *ctx);
void check_free_facts(struct check_host *host);

#endif
