/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_PLAN_PICTURE_H
#define TOOLS_PLAN_PICTURE_H

#include "tools/plan_report.h"

/** plan_draw() - the range as one MR, with the bytes that would land wrong, and
 *  the plan's MRs under it; nothing where there is neither */
void plan_draw(const struct term *term, const struct plan_report *report);

#endif
