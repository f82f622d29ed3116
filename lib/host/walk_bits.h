/* SPDX-License-Identifier: MIT */
#ifndef HOST_WALK_BITS_H
#define HOST_WALK_BITS_H

#include <mrguard/plan.h>

/** host_walk_of_bits() - the walk that has these MRG_WALK_INFO_* */
enum mrg_walk host_walk_of_bits(uint32_t bits);

#endif
