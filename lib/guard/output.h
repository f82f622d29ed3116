/* SPDX-License-Identifier: MIT */
/* What the guard says while the program runs, and the report at its end. */
#ifndef GUARD_OUTPUT_H
#define GUARD_OUTPUT_H

#include "guard/judge.h"
#include "guard/process.h"

/** guard_output_line() - one line on standard error, from strings up to a NULL */
void guard_output_line(const struct guard_process *p, const char *first, ...)
	__attribute__((sentinel));

/** guard_output_listen() - report on SIGUSR1, unless the program has a use for it; one
 *  that installs a handler later takes it over, as from the default */
void guard_output_listen(void);

/** guard_output_finding() - a registration with its verdict, as a line */
void guard_output_finding(const struct guard_process *p, const struct guard_request *req,
			  const struct guard_finding *finding, const char *what,
			  const char *remedy);

#endif
