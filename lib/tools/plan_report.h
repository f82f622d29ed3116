/* SPDX-License-Identifier: MIT */
/* A finished plan, and the two ways to show it. */
#ifndef TOOLS_PLAN_REPORT_H
#define TOOLS_PLAN_REPORT_H

#include <mrguard/host.h>
#include <mrguard/plan.h>

#include "tools/term.h"

/* What the running kernel's own functions made of the same MR. */
struct kernel_answer {
	enum mrg_walk walk;
	struct mrg_kernel_blocks said;
	struct mrg_outcome model; /* under the kernel's own walk */
	bool capped; /* its pick, by mrguard_cap */
	bool agrees;
};

struct plan_report {
	const char *source; /* where the addresses come from */
	const char *walk_source; /* where the walk comes from */
	uint64_t entries; /* of the scatter list as mapped */
	uint64_t length; /* of the range */
	const struct mrg_plan_opts *opts;
	const struct mrg_plan *plan;
	const struct kernel_answer *kernel; /* NULL: not asked */
	bool all; /* list every piece, even on a terminal */
};

void plan_print_text(const struct term *term, const struct plan_report *report);
/** plan_print_json() - Return: 0 or -ENOMEM. */
int plan_print_json(const struct plan_report *report);

#endif
