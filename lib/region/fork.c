/* SPDX-License-Identifier: MIT */
/* Fork protection: the policy, and what is in force. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "region/fork_state.h"

/* rdma-core 5a11b68ca: ibv_fork_init() does nothing where the kernel copies. */
#define RDMA_CORE_LEAVES_IT 51

static atomic_bool initialized; /* by this library */

enum mrg_fork_mode mrg_fork_predict(enum mrg_kernel_copies kernel, bool init, bool env_safe,
				    unsigned int rdma_core)
{
	bool asked = init || env_safe;

	if (kernel == MRG_KERNEL_COPIES)
		return asked && rdma_core < RDMA_CORE_LEAVES_IT ? MRG_FORK_MARKED : MRG_FORK_COPIED;
	return asked ? MRG_FORK_MARKED : MRG_FORK_UNPROTECTED;
}

static enum mrg_fork_mode mode_of(const struct mrg_fork_info *info, bool marks)
{
	if (info->observed && marks)
		return MRG_FORK_MARKED;
	if (info->observed)
		return info->kernel == MRG_KERNEL_COPIES ? MRG_FORK_COPIED : MRG_FORK_UNPROTECTED;
	/* Somebody else may have called ibv_fork_init(). */
	return mrg_fork_predict(info->kernel,
				atomic_load(&initialized) ||
					ibv_is_fork_initialized() == IBV_FORK_ENABLED,
				info->env_safe, info->rdma_core);
}

static const char *kernel_words(const struct mrg_fork_info *info, char *room, size_t size)
{
	switch (info->kernel) {
	case MRG_KERNEL_COPIES:
		return "The kernel copies pinned pages at fork";
	case MRG_KERNEL_COPIES_NOT:
		return "The kernel says that it does not copy pinned pages at fork";
	case MRG_KERNEL_SILENT:
		return "The kernel does not know copy-on-fork (before 5.13)";
	case MRG_KERNEL_UNREACHED:
		break;
	}
	snprintf(room, size,
		 "RDMA netlink cannot be reached (%s), so whether the kernel copies is not known",
		 strerror(info->netlink_error));
	return room;
}

static const char *mode_words(const struct mrg_fork_info *info)
{
	switch (info->mode) {
	case MRG_FORK_COPIED:
		return "; nothing is marked, and no VMA is cut.";
	case MRG_FORK_UNPROTECTED:
		return ", and pages are not marked: a fork can part registered memory from the device.";
	case MRG_FORK_MARKED:
		break;
	}
	if (!info->reliable)
		return "; libibverbs marks pages, but its counts are wrong since a call to madvise failed: later registrations may be unprotected.";
	if (info->kernel == MRG_KERNEL_COPIES)
		return ", and yet libibverbs marks registered pages, since it was asked to.";
	return "; libibverbs marks registered pages instead.";
}

int mrg_fork_query(struct mrg_fork_info *info)
{
	char room[128];
	bool marks;

	*info = (struct mrg_fork_info){
		.rdma_core = region_fork_rdma_core(),
		.env_safe = getenv("RDMAV_FORK_SAFE") || getenv("IBV_FORK_SAFE"),
		.env_huge = getenv("RDMAV_HUGEPAGES_SAFE") != NULL,
		.reliable = !region_fork_is_distrusted(),
	};
	info->kernel = region_fork_ask_kernel(&info->netlink_error);
	info->observed = region_fork_was_observed(&marks);
	info->mode = mode_of(info, marks);
	snprintf(info->reason, sizeof(info->reason), "%s%s", kernel_words(info, room, sizeof(room)),
		 mode_words(info));
	return 0;
}

static int switch_on(void)
{
	int err = ibv_fork_init();

	if (err == EINVAL)
		return -EALREADY;
	if (err)
		return -err;
	atomic_store(&initialized, true);
	return 0;
}

static int carry_out(enum mrg_fork_policy policy)
{
	int error;

	switch (policy) {
	case MRG_FORK_NEVER:
		return 0;
	case MRG_FORK_ALWAYS:
		return switch_on();
	case MRG_FORK_AUTO:
		return region_fork_ask_kernel(&error) == MRG_KERNEL_COPIES ? 0 : switch_on();
	}
	return -EINVAL;
}

int mrg_fork_apply(enum mrg_fork_policy policy, struct mrg_fork_info *info)
{
	const char *word = secure_getenv("MRGUARD_FORK");
	int ret = word ? mrg_fork_parse(word, &policy) : 0;

	if (!ret)
		ret = carry_out(policy);
	if (info)
		mrg_fork_query(info);
	return ret;
}

static const char *const policy_names[] = {
	[MRG_FORK_AUTO] = "auto",
	[MRG_FORK_NEVER] = "never",
	[MRG_FORK_ALWAYS] = "always",
};

int mrg_fork_parse(const char *word, enum mrg_fork_policy *policy)
{
	for (size_t i = 0; i < sizeof(policy_names) / sizeof(*policy_names); i++) {
		if (strcmp(word, policy_names[i]))
			continue;
		*policy = (enum mrg_fork_policy)i;
		return 0;
	}
	return -EINVAL;
}

const char *mrg_fork_mode_name(enum mrg_fork_mode mode)
{
	switch (mode) {
	case MRG_FORK_UNPROTECTED:
		return "unprotected";
	case MRG_FORK_COPIED:
		return "copied";
	case MRG_FORK_MARKED:
		return "marked";
	}
	return "unknown";
}
