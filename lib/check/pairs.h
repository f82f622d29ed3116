/* SPDX-License-Identifier: MIT */
/* What lies between a NIC and a GPU on PCI. */
#ifndef CHECK_PAIRS_H
#define CHECK_PAIRS_H

#include "check/check.h"

enum check_pair_path { PAIR_SWITCH, PAIR_ROOT_COMPLEX, PAIR_NUMA };

/* How far apart the two are: below one switch, under one host bridge, or not. */
enum check_pair_path pair_path(const struct check_pci *a, const struct check_pci *b);
/* The GPU nearest to @nic; NULL where there is none. */
const struct check_pci *pair_nearest_gpu(const struct check_host *host,
					 const struct check_pci *nic);
/* Calls @fn for every bridge on the way between them, by sysfs path.  Stops at
 * the first that returns non-zero, and returns that. */
int check_pair_for_each_bridge(const struct check_pci *a, const struct check_pci *b,
			       int (*fn)(void *arg, const char *bridge), void *arg);

#endif
