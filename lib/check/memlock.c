/* SPDX-License-Identifier: MIT */
/*
 * Pinned memory counts against the limit of the process that registers, so
 * the checker's own limit, or a login shell's, says nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "check/limits.h"

#define ENOUGH (64ull << 30)

static void run(struct check_ctx *ctx)
{
	char who[128], evidence[256];
	uint64_t bytes;
	int rc = check_limits_of_target(ctx, "Max locked memory", &bytes, who, sizeof(who));

	if (rc == -ENOENT) {
		check_add(ctx, MRG_CHECK_SKIP, "", "no process named",
			  "The limit that counts is that of the process that registers.",
			  "mrguard check --pid PID, or --unit NAME.service");
		return;
	}
	if (rc) {
		check_limits_add_unknown(ctx, who, rc);
		return;
	}
	if (bytes == UINT64_MAX) {
		snprintf(evidence, sizeof(evidence), "%s: unlimited", who);
		check_add(ctx, MRG_CHECK_OK, "", evidence, "It may pin all it wants.", "");
		return;
	}
	if (check_limits_target_may_lock(ctx)) {
		snprintf(evidence, sizeof(evidence),
			 "%s: %" PRIu64 " bytes (limits, soft), and CAP_IPC_LOCK (status)", who,
			 bytes);
		check_add(ctx, MRG_CHECK_OK, "", evidence,
			  "With this capability the limit is not applied.", "");
		return;
	}
	snprintf(evidence, sizeof(evidence), "%s: %" PRIu64 " bytes (limits, soft)", who, bytes);
	if (bytes <= 64u << 10)
		check_add(
			ctx, MRG_CHECK_FAIL, "", evidence,
			"Too little for even one completion queue.",
			"systemctl edit UNIT: [Service] LimitMEMLOCK=infinity (containers: --ulimit memlock=-1)");
	else
		check_add(
			ctx, bytes < ENOUGH ? MRG_CHECK_WARN : MRG_CHECK_OK, "", evidence,
			bytes < ENOUGH ?
				"Registrations beyond it fail with ENOMEM, counted once for each NIC." :
				"Counted once for each NIC that the memory is registered on.",
			bytes < ENOUGH ?
				"systemctl edit UNIT: [Service] LimitMEMLOCK=infinity (containers: --ulimit memlock=-1)" :
				"");
}

const struct check_item check_memlock = { "memlock", run };
