/* SPDX-License-Identifier: MIT */
/*
 * Pages that were VM_DONTCOPY before a registration came: the caller marked
 * them, or they are a device's.  libibverbs' last deregistration unmarks all
 * that it counts, theirs too; this puts their marks back.
 *
 * One list for the process, as libibverbs' counts are: the registration that
 * goes last need not be of the context that found the mark.
 */
#ifndef REGION_OWN_MARKS_H
#define REGION_OWN_MARKS_H

#include "region/range_facts.h"

/**
 * own_marks_enter() - a range will be registered
 * @dontcopy: some of it is VM_DONTCOPY
 *
 * Return: 0; -EBUSY (a marked device mapping reaches beyond the range: it would
 * be cut for good); -ENOMEM; -errno of reading smaps.
 */
int own_marks_enter(struct range range, bool dontcopy);
/** own_marks_leave() - it was deregistered, or its registration failed */
void own_marks_leave(struct range range);

/** own_marks_left() - a deregistration could not unmark @range for want of VMAs;
 *  own_marks_retry() tries again */
void own_marks_left(struct range range);
void own_marks_retry(void);

#endif
