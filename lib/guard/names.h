/* SPDX-License-Identifier: MIT */
/* Names and sentences, for the report and the lines; "?" for a number that has none. */
#ifndef GUARD_NAMES_H
#define GUARD_NAMES_H

#include "guard/state.h"

const char *guard_call_name(uint32_t call);
const char *guard_path_name(uint32_t path);
const char *guard_event_name(uint32_t kind);
const char *guard_action_name(uint32_t action);
const char *guard_fork_name(uint32_t fork);
const char *guard_grounds_sentence(uint32_t grounds);

/** guard_action_parse() - "observe", "refuse", "allow"; false for others */
bool guard_action_parse(const char *word, enum guard_action *action);

#endif
