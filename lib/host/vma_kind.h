/* SPDX-License-Identifier: MIT */
#ifndef HOST_VMA_KIND_H
#define HOST_VMA_KIND_H

#include "host/maps.h"
#include "host/tally.h"

/** host_vma_kind_name() - see struct mrg_vma_kind */
void host_vma_kind_name(const struct host_maps_vma *vma, char *kind, size_t size);

#endif
