/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "host/peermem.h"

const char *const host_peermem_entries[] = { "kernel/mm/memory_peers/nv_mem/version",
					     "kernel/mm/memory_peers/nvidia-peermem/version",
					     NULL };

const char *const host_peermem_holders[] = { "module/ib_core/holders/nvidia_peermem",
					     "module/ib_core/holders/nv_peer_mem",
					     "module/ib_uverbs/holders/nvidia_peermem",
					     "module/ib_uverbs/holders/nv_peer_mem", NULL };

static bool is_there(const char *sys, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", sys, name);
	return !access(path, F_OK);
}

static bool any_is_there(const char *sys, const char *const *names)
{
	while (*names && !is_there(sys, *names))
		names++;
	return *names;
}

bool host_peermem_nvidia(const char *sys)
{
	return any_is_there(sys, host_peermem_entries) || any_is_there(sys, host_peermem_holders);
}

bool host_peermem_amd(const char *sys)
{
	return is_there(sys, "kernel/mm/memory_peers/amdkfd/version");
}

bool host_peermem_loaded(const char *sys)
{
	return is_there(sys, "module/nvidia_peermem") || is_there(sys, "module/nv_peer_mem");
}
