/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <unistd.h>

#include "share/handle.h"

int share_check(const struct mrg_share *share)
{
	if (share->pid == getpid())
		return 0;
	return base_fail(share->error_owner, -ECHILD, "check process",
			 "Open a handle in the child.",
			 "The handle was opened by process %d, and this is its child %d.",
			 (int)share->pid, (int)getpid());
}

int mrg_share_last_error(const struct mrg_share *share, struct mrg_error *error)
{
	return mrg_private_error_read(share->error_owner, error);
}
