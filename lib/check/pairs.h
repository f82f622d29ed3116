/* SPDX-License-Identifier: MIT */
/* What lies between a NIC and a GPU on PCI. */
#ifndef CHECK_PAIRS_H
#define CHECK_PAIRS_H

#include "check/check.h"

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
