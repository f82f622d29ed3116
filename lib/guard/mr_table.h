/* SPDX-License-Identifier: MIT */
/* The live MRs of a process, by the pointer that verbs gave. */
#ifndef GUARD_MR_TABLE_H
#define GUARD_MR_TABLE_H

#include "guard/state.h"

/**
 * guard_mr_add() - list a new MR
 *
 * A place that @mr still has is taken over: the MR ended with its device.
 *
 * Return: false where no place is left.
 */
bool guard_mr_add(struct guard_state *state, const void *mr, const struct guard_record *record);

/**
 * guard_mr_remove() - take an MR off the list, right before it is deregistered:
 * afterwards another MR may have its pointer
 * @record: OUT
 *
 * Return: its place, or -1.
 */
ssize_t guard_mr_remove(struct guard_state *state, const void *mr, struct guard_record *record);
/** guard_mr_restore() - list it again: verbs failed to deregister it */
void guard_mr_restore(struct guard_state *state, const void *mr, ssize_t place);

/** guard_mr_find() - the record of a live MR, or NULL */
struct guard_record *guard_mr_find(struct guard_state *state, const void *mr);

/** guard_mr_at() - whether a place holds a live MR; @record: OUT a copy */
bool guard_mr_at(const struct guard_state *state, size_t place, struct guard_record *record);

#endif
