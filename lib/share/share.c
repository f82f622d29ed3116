/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "share/handle.h"

#define TIMEOUT_MS 5000

static int choose_dir(struct mrg_share *share, const char *dir)
{
	struct share_address probe;

	if (!dir)
		dir = secure_getenv("MRGUARD_SHARE_DIR");
	if (!dir || !*dir)
		return 0;
	if (*dir != '/')
		return -EINVAL;
	share->dir = strdup(dir);
	if (!share->dir)
		return -ENOMEM;
	return share_name(share->dir, &probe);
}

int mrg_share_open(struct mrg_share **out, const struct mrg_share_opts *opts)
{
	struct mrg_share_opts o;
	struct mrg_share *share;
	const char *vmm;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts) || o.reserved)
		return -EINVAL;
	share = calloc(1, sizeof(*share));
	if (!share)
		return -ENOMEM;
	ret = choose_dir(share, o.dir);
	if (ret) {
		free(share->dir);
		free(share);
		return ret;
	}
	share->error_owner = mrg_private_error_owner();
	share->pid = getpid();
	share->timeout_ms = o.timeout_ms ? o.timeout_ms : TIMEOUT_MS;
	share->gpu = o.gpu;
	vmm = secure_getenv("MRGUARD_SHARE_VMM");
	share->no_vmm = vmm && !strcmp(vmm, "0");
	share->netns = share_netns();
	share_boot_id(share->boot);
	pthread_mutex_init(&share->lock, NULL);
	pthread_cond_init(&share->imported, NULL);
	*out = share;
	return 0;
}

/* In a child, locks may be held by threads that it has not: none is taken. */
void mrg_share_close(struct mrg_share *share)
{
	if (!share)
		return;
	if (share->pid == getpid()) {
		share_stop(share);
		share_range_drop_all(share);
		pthread_mutex_destroy(&share->lock);
		pthread_cond_destroy(&share->imported);
	} else {
		share_abandon(share);
	}
	free(share->dir);
	free(share);
}
