/* SPDX-License-Identifier: MIT */
/* Whether the loader will take a library into a program. */
#ifndef TOOLS_RUN_PROGRAM_H
#define TOOLS_RUN_PROGRAM_H

/** run_unguarded() - why the guard will not be in @command (looked for in PATH):
 *  a clause for people; NULL where it will be, or where that cannot be seen */
const char *run_unguarded(const char *command);

#endif
