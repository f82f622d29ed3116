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
 * region_own_marks_enter() - a range will be registered
 * @dontcopy: some of it is VM_DONTCOPY
 *
 * Return: 0; -EBUSY (a marked device mapping reaches beyond the range: it would
 * be cut for good); -ENOMEM; -errno of reading smaps.
 */
int region_own_marks_enter(struct region_range range, bool dontcopy);
/** region_own_marks_leave() - it was deregistered, or its registration failed
 *  @still_marked: the deregistration could not unmark it for want of VMAs;
 *  region_own_marks_retry() tries again.  Allocates nothing, so nothing is forgotten. */
void region_own_marks_leave(struct region_range range, bool still_marked);
void region_own_marks_retry(void);

#endif
