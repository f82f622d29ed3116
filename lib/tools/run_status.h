/* SPDX-License-Identifier: MIT */
/* The report of a guarded process that runs. */
#ifndef TOOLS_RUN_STATUS_H
#define TOOLS_RUN_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/** run_status() - print it.  Return: the exit status; EXIT_FINDING where a
 *  registration was refused, or let pass although it would wrap */
int run_status(pid_t pid, bool json);

#endif
