/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_PLAN_TABLE_H
#define TOOLS_PLAN_TABLE_H

#include "tools/plan_report.h"

/** plan_print_table() - the plan's MRs, one a line; on a terminal long stretches
 *  of like ones are cut short */
void plan_print_table(const struct term *term, const struct plan_report *report);

#endif
