/* SPDX-License-Identifier: MIT */
/* The lines of a report. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "check/check.h"

struct mrg_check_report {
	struct mrg_check_result *results;
	size_t count, room;
	bool out_of_memory;
};

#endif
