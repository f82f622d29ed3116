/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "guard/names.h"

static const char *const paths[] = {
	[GUARD_HOST] = "host",
	[GUARD_PEERMEM] = "peermem",
	[GUARD_HOST_OR_PEERMEM] = "host or peermem",
	[GUARD_DMABUF] = "DMA-BUF",
};

static const char *const events[] = {
	[GUARD_EVENT_REFUSED] = "refused",
	[GUARD_EVENT_ALLOWED] = "allowed",
	[GUARD_EVENT_NO_VMAS] = "no-vmas",
	[GUARD_EVENT_FAILED] = "failed",
};

static const char *const actions[] = {
	[GUARD_OBSERVE] = "observe",
	[GUARD_REFUSE] = "refuse",
	[GUARD_ALLOW] = "allow",
};

static const char *const forks[] = {
	[GUARD_FORK_NOT_ASKED] = "not-asked",
	[GUARD_FORK_SKIPPED] = "skipped",
	[GUARD_FORK_PASSED_ON] = "passed-on",
};

static const char *const grounds[] = {
	[GUARD_WALK_EXACT] = "The kernel's walk is exact.",
	[GUARD_ONE_WINDOW] =
		"The range lies within one 2 GiB window of the iova, so no page exceeds 2 GiB.",
	[GUARD_ON_DEMAND] = "On-demand memory has small pages.",
	[GUARD_SMALL_PAGES] = "The device or the iova keeps pages at 2 GiB or below.",
	[GUARD_SCATTERED] = "No IOMMU joins its ordinary pages to runs of 4 GiB.",
	[GUARD_MAY_JOIN] =
		"An IOMMU or huge pages can join its pages to runs of 4 GiB, and the walk is affected or unknown.",
	[GUARD_DEVICE_MEMORY] =
		"It is device memory pinned by its address, and its DMA addresses are unknown.",
	[GUARD_LAYOUT] = "The module showed its DMA addresses.",
	[GUARD_LAYOUT_CHANGES] =
		"The module showed its DMA addresses, but the IOMMU or the exporter can change them.",
	[GUARD_NO_MODULE] = "Its DMA addresses are unknown: /dev/mrguard cannot be used.",
	[GUARD_NO_FEATURE] = "Its DMA addresses are unknown: the module cannot show layouts.",
	[GUARD_NO_IMPORTER] = "Its DMA addresses are unknown: the device has no PCI function.",
	[GUARD_LAYOUT_FAILED] = "Its DMA addresses are unknown: the module could not map it.",
	[GUARD_KERNEL_REFUSES] = "The kernel refuses this range.",
	[GUARD_CAPPED] = "The cap keeps this kernel from picking a page above 2 GiB.",
	[GUARD_NOT_JUDGED] =
		"It was not judged: memory was short, or a signal handler interrupted the guard.",
};

#define NAME(names, i) ((i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : "?")

const char *guard_call_name(uint32_t call)
{
	return NAME(guard_calls, call);
}

const char *guard_path_name(uint32_t path)
{
	return NAME(paths, path);
}

const char *guard_event_name(uint32_t kind)
{
	return NAME(events, kind);
}

const char *guard_action_name(uint32_t action)
{
	return NAME(actions, action);
}

const char *guard_fork_name(uint32_t fork)
{
	return NAME(forks, fork);
}

const char *guard_grounds_sentence(uint32_t i)
{
	return NAME(grounds, i);
}

bool guard_action_parse(const char *word, enum guard_action *action)
{
	for (uint32_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(word, actions[i]))
			continue;
		*action = (enum guard_action)i;
		return true;
	}
	return false;
}
