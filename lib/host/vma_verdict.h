/* SPDX-License-Identifier: MIT */
#ifndef HOST_VMA_VERDICT_H
#define HOST_VMA_VERDICT_H

#include <mrguard/vma.h>

/** mrg_vma_judge() - fill in state, fork_pieces, verdict and remedy */
void mrg_vma_judge(struct mrg_vma_report *report);

/* A number as people read it: "65,530". */
struct mrg_grouped {
	char text[32];
};
struct mrg_grouped mrg_grouped(uint64_t value);

#endif
