/* SPDX-License-Identifier: MIT */
/* The guard's lines on standard error while the program runs. */
#ifndef GUARD_MESSAGE_H
#define GUARD_MESSAGE_H

#include "guard/process.h"
#include "guard/request.h"

/** guard_message() - one line; the format is that of guard_sigsafe_print() */
void guard_message(const struct guard_process *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** guard_message_finding() - a registration with its verdict
 *  @done: "Refused", "Allowed" or "Observed" */
void guard_message_finding(const struct guard_process *p, const char *done,
			   const struct guard_request *req, const struct guard_finding *finding,
			   const char *remedy);

#endif
