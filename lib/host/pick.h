/* SPDX-License-Identifier: MIT */
/* Whose function picks the page of an RDMA device's MRs. */
#ifndef HOST_PICK_H
#define HOST_PICK_H

#include <mrguard/host.h>

/**
 * host_pick_read() - by the modules that drive the device
 * @sysfs: "/sys"
 * @name: of the RDMA device
 */
enum mrg_pick host_pick_read(const char *sysfs, const char *name);

#endif
