/* SPDX-License-Identifier: MIT */
/* Signs in /sys that a peer-memory module serves the RDMA core. */
#ifndef HOST_PEERMEM_H
#define HOST_PEERMEM_H

#include <stdbool.h>

/* Below "/sys"; both lists end with NULL.  A client that registered itself has an
 * entry; a module that uses the core's peer symbols is one of its holders. */
extern const char *const host_peermem_entries[];
extern const char *const host_peermem_holders[];

/** host_peermem_nvidia() - whether a sign of NVIDIA's module is there.  None is no
 *  proof of its absence.  @sys: "/sys", or a copy */
bool host_peermem_nvidia(const char *sys);
/** host_peermem_amd() - the same, of the AMD driver's own client */
bool host_peermem_amd(const char *sys);
/** host_peermem_loaded() - NVIDIA's module is loaded, whatever it does */
bool host_peermem_loaded(const char *sys);

#endif
