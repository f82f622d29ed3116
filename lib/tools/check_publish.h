/* SPDX-License-Identifier: MIT */
/* Where the unit leaves its verdict: the journal, and /run/mrguard. */
#ifndef TOOLS_CHECK_PUBLISH_H
#define TOOLS_CHECK_PUBLISH_H

#include <jansson.h>
#include <mrguard/check.h>

#define PUBLISH_DIR "/run/mrguard"

/* One journal entry a result that is neither ok nor skipped, and one for the
 * whole, with fields MRGUARD_CHECK, MRGUARD_SUBJECT, MRGUARD_VERDICT. */
void publish_journal(const struct mrg_check_report *report, const char *name);
/* Writes @json to PUBLISH_DIR/@name.json in one step.  Gives @json up. */
int publish_file(json_t *json, const char *name);
/* Takes the file of a device away that is no longer there. */
void publish_gone(const char *name);

#endif
