/* SPDX-License-Identifier: MIT */
/* Chunked GPU memory costs one descriptor a chunk while it is shared. */
#include <errno.h>
#include <inttypes.h>

#include "check/limits.h"

static void run(struct check_ctx *ctx)
{
	char who[128], evidence[256];
	uint64_t limit;
	int rc = check_limits_of_target(ctx, "Max open files", &limit, who, sizeof(who));

	if (rc == -ENOENT) {
		check_add(ctx, MRG_CHECK_SKIP, "", "no process named", "",
			  "mrguard check --pid PID, or --unit NAME.service");
		return;
	}
	if (rc) {
		check_limits_add_unknown(ctx, who, rc);
		return;
	}
	snprintf(evidence, sizeof(evidence), "%s: %" PRIu64 " open files (limits, soft)", who,
		 limit);
	if (limit < 4096)
		check_add(
			ctx, MRG_CHECK_WARN, "", evidence,
			"Engines that keep one descriptor for each 2 MiB chunk run out below 2 GiB.",
			"systemctl edit UNIT: [Service] LimitNOFILE=65536");
	else
		check_add(ctx, MRG_CHECK_OK, "", evidence, "Enough.", "");
}

const struct check_item check_fds = { "fds", run };
