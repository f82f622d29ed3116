/* SPDX-License-Identifier: MIT */
/* The guard's functions that replace those of libraries met by the audit library. */
#ifndef GUARD_ENTRY_H
#define GUARD_ENTRY_H

#include "guard/real.h"

/* By library, from 1, and enum guard_call. */
extern void *const guard_entries[GUARD_LIBRARIES][GUARD_REPLACED];

#endif
