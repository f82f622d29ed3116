/* SPDX-License-Identifier: MIT */
/* The report of a guarded process: made of its state, in it or from outside. */
#ifndef GUARD_REPORT_H
#define GUARD_REPORT_H

#include "guard/state.h"
#include "guard/text.h"

/* When it is made. */
enum guard_moment { GUARD_AT_END, GUARD_AT_SIGNAL, GUARD_LIVE };

void guard_report_text(struct guard_text *t, const struct guard_state *s, enum guard_moment moment);
/** guard_report_json() - one object on one line, keys in fixed order */
void guard_report_json(struct guard_text *t, const struct guard_state *s, enum guard_moment moment);

const char *guard_call_name(uint32_t call);
const char *guard_path_name(uint32_t path);
const char *guard_grounds_words(uint32_t grounds);

#endif
