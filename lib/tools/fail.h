/* SPDX-License-Identifier: MIT */
/* How commands report failures: the cause, and what to do on the next line. */
#ifndef TOOLS_FAIL_H
#define TOOLS_FAIL_H

#include "base/error.h"

/** fail_print() - "mrguard COMMAND: CAUSE", and the remedy, if any, on the next line */
void fail_print(const struct mrg_error *error);

/** fail_say() - the same, of a failure that no structure holds; @remedy may be "" */
void fail_say(const char *remedy, const char *cause, ...) BASE_PRINTF(2, 3);

/** fail_status() - the exit status of a command that returned @code; prints @error
 *  where there is one.  Bytes that are wrong (-EBADMSG) are a finding. */
int fail_status(int code, const struct mrg_error *error);

#endif
