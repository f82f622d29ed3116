/* SPDX-License-Identifier: MIT */
/* Chunked GPU memory costs one descriptor a chunk while it is shared. */
#include <errno.h>
#include <inttypes.h>

#include "check/check.h"

void check_fds(struct check_ctx *ctx)
{
	char target[128];
	uint64_t limit;
	int rc = check_limits_of_target(ctx, "Max open files", &limit, target, sizeof(target));
	bool low;

	if (rc == -ENOENT) {
		check_add(ctx, MRG_CHECK_SKIP, "", "",
			  "Name one: 'mrguard check PID', or '--unit NAME.service'.",
			  "no process named");
		return;
	}
	if (rc) {
		check_limits_add_unknown(ctx, target, rc);
		return;
	}
	low = limit < 4096;
	check_add(
		ctx, low ? MRG_CHECK_WARN : MRG_CHECK_OK, "",
		low ? "Engines that keep one descriptor for each 2 MiB chunk run out below 2 GiB." :
		      "The limit is high enough.",
		low ? "Run 'systemctl edit UNIT' and set [Service] LimitNOFILE=65536." : "",
		"%s: %" PRIu64 " open files (limits, soft)", target, limit);
}
