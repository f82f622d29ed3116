/* SPDX-License-Identifier: MIT */
#ifndef HOST_VMA_VERDICT_H
#define HOST_VMA_VERDICT_H

#include <mrguard/vma.h>

/** host_vma_judge() - fill in state, fork_pieces, verdict and remedy */
void host_vma_judge(struct mrg_vma_report *report);

/* A number as people read it: "65,530". */
struct host_grouped {
	char text[32];
};
struct host_grouped host_grouped(uint64_t value);

#endif
