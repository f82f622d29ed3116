/* SPDX-License-Identifier: MIT */
#ifndef HOST_VMA_KIND_H
#define HOST_VMA_KIND_H

#include "host/maps.h"
#include "host/tally.h"

/** mrg_vma_kind_name() - see struct mrg_vma_kind */
void mrg_vma_kind_name(const struct mrg_maps_vma *vma, char *kind, size_t size);

#endif
