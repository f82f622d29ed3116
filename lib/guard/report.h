/* SPDX-License-Identifier: MIT */
/* The report of a guarded process, made from its state: in the process or by the command. */
#ifndef GUARD_REPORT_H
#define GUARD_REPORT_H

#include "guard/sigsafe.h"
#include "guard/state.h"

/* When it is made. */
enum guard_moment { GUARD_AT_END, GUARD_AT_SIGNAL, GUARD_LIVE };

/** guard_report() - as text; @json: as one object on one line, keys in fixed order */
void guard_report(struct guard_sigsafe *t, const struct guard_state *s, enum guard_moment moment,
		  bool json);

#endif
