/* SPDX-License-Identifier: MIT */
/*
 * Pinned memory counts against the limit of the process that registers, so
 * the checker's own limit, or a login shell's, says nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "check/check.h"

#define ENOUGH (64ull << 30)

static const char unlimit[] =
	"Run 'systemctl edit UNIT' and set [Service] LimitMEMLOCK=infinity (containers: --ulimit memlock=-1).";

static void judge(struct check_ctx *ctx, uint64_t bytes, const char *target)
{
	bool tiny = bytes <= 64u << 10, low = bytes < ENOUGH;

	check_add(
		ctx,
		tiny ? MRG_CHECK_FAIL :
		low  ? MRG_CHECK_WARN :
		       MRG_CHECK_OK,
		"",
		tiny ? "The limit is too little for even one completion queue." :
		low ? "Registrations beyond the limit fail with ENOMEM; memory counts once for each NIC." :
		      "Memory counts once for each NIC that it is registered on.",
		low ? unlimit : "", "%s: %" PRIu64 " bytes (limits, soft)", target, bytes);
}

void check_memlock(struct check_ctx *ctx)
{
	char target[128];
	uint64_t bytes;
	int rc = check_limits_of_target(ctx, "Max locked memory", &bytes, target, sizeof(target));

	if (rc == -ENOENT)
		check_add(ctx, MRG_CHECK_SKIP, "",
			  "The limit that counts is that of the process that registers.",
			  "Name it: 'mrguard check PID', or '--unit NAME.service'.",
			  "no process named");
	else if (rc)
		check_limits_add_unknown(ctx, target, rc);
	else if (bytes == UINT64_MAX)
		check_add(ctx, MRG_CHECK_OK, "", "The process may pin any amount of memory.", "",
			  "%s: unlimited", target);
	else if (check_limits_target_may_lock(ctx))
		check_add(ctx, MRG_CHECK_OK, "", "With this capability the limit is not applied.",
			  "", "%s: %" PRIu64 " bytes (limits, soft), and CAP_IPC_LOCK (status)",
			  target, bytes);
	else
		judge(ctx, bytes, target);
}
