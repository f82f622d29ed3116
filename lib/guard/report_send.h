/* SPDX-License-Identifier: MIT */
/* Sends the report of this process: at SIGUSR1, and when the process ends. */
#ifndef GUARD_REPORT_SEND_H
#define GUARD_REPORT_SEND_H

/** guard_report_listen() - report on SIGUSR1, unless the program has a use for it
 *
 * A handler that the program installs later replaces this one, as it would the
 * default.
 */
void guard_report_listen(void);

#endif
