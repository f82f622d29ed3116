/* SPDX-License-Identifier: MIT */
/*
 * VMAs left before vm.max_map_count.  A count is kept, and charged for what
 * registrations add, until it is due again: with the module, where it costs one
 * ioctl, after milliseconds, else after at least a hundred times what counting
 * the lines of /proc/self/maps took.
 */
#ifndef REGION_HEADROOM_H
#define REGION_HEADROOM_H

#include <pthread.h>

#include <mrguard/host.h>
#include <mrguard/vma.h>

#define HEADROOM_SAMPLES 64

struct region_headroom {
	struct mrg_dev *dev; /* NULL: no module */
	uint64_t floor;
	pthread_mutex_t lock; /* guards what follows */
	uint64_t limit;
	uint64_t limit_due; /* CLOCK_MONOTONIC_COARSE, ns */
	uint64_t count; /* as last seen */
	uint64_t charge; /* and what may have been added since */
	uint64_t count_due;
	struct mrg_vma_sample samples[HEADROOM_SAMPLES];
	size_t nsamples;
	uint64_t sample_gap; /* ns between two samples */
};

void region_headroom_init(struct region_headroom *room, struct mrg_dev *dev, uint64_t floor);
void region_headroom_release(struct region_headroom *room);

/**
 * region_headroom_check() - do @need VMAs and the floor fit below the limit?
 *
 * If the count or the limit cannot be read (no /proc), the call passes: nothing shows
 * that the limit is near.
 *
 * Return: 0; -ENOSPC, with @err (may be NULL) filled in.
 */
int region_headroom_check(struct region_headroom *room, uint64_t need, struct mrg_error *err);

/** region_headroom_tight() - fewer than @need VMAs are left, floor not counted */
bool region_headroom_tight(struct region_headroom *room, uint64_t need);

int region_headroom_read(struct region_headroom *room, struct mrg_headroom *out);

#endif
