/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "tools/check_publish.h"

static int priority_of(enum mrg_check_verdict verdict)
{
	switch (verdict) {
	case MRG_CHECK_FAIL:
		return LOG_ERR;
	case MRG_CHECK_WARN:
		return LOG_WARNING;
	default:
		return LOG_INFO;
	}
}

void publish_journal(const struct mrg_check_report *report, const char *name)
{
	size_t count;
	const struct mrg_check_result *r = mrg_check_results(report, &count);
	const char *worst = mrg_check_verdict_name(mrg_check_worst(report));

	for (size_t i = 0; i < count; i++) {
		if (r[i].verdict == MRG_CHECK_OK || r[i].verdict == MRG_CHECK_SKIP)
			continue;
		sd_journal_send("MESSAGE=%s %s%s%s: %s %s", mrg_check_verdict_name(r[i].verdict),
				r[i].id, r[i].subject[0] ? " " : "", r[i].subject, r[i].meaning,
				r[i].remedy, "PRIORITY=%d", priority_of(r[i].verdict),
				"MRGUARD_CHECK=%s", r[i].id, "MRGUARD_SUBJECT=%s", r[i].subject,
				"MRGUARD_VERDICT=%s", mrg_check_verdict_name(r[i].verdict),
				"MRGUARD_EVIDENCE=%s", r[i].evidence, NULL);
	}
	sd_journal_send("MESSAGE=%s: %s", name, worst, "PRIORITY=%d",
			priority_of(mrg_check_worst(report)), "MRGUARD_CHECK=all",
			"MRGUARD_SUBJECT=%s", name, "MRGUARD_VERDICT=%s", worst, NULL);
}

void publish_gone(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), PUBLISH_DIR "/%.80s.json", name);
	unlink(path);
}

int publish_file(json_t *json, const char *name)
{
	char path[128], temporary[160];
	int rc = 0;

	snprintf(path, sizeof(path), PUBLISH_DIR "/%.80s.json", name);
	snprintf(temporary, sizeof(temporary), "%s.%d", path, getpid());
	if (!json)
		return -ENOMEM;
	if (json_dump_file(json, temporary, JSON_COMPACT) || rename(temporary, path))
		rc = errno ? -errno : -EIO;
	if (rc)
		unlink(temporary);
	json_decref(json);
	return rc;
}
