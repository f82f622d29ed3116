/* SPDX-License-Identifier: MIT */
/* What was decided for a range: made once, and shared by handles of one DMA-BUF. */
#include <stdlib.h>

#include "region/mr.h"

struct region_decision *region_decision_new(const struct mrg_plan_opts *opts)
{
	struct region_decision *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->opts = *opts;
	atomic_init(&d->refs, 1);
	return d;
}

struct mrg_plan *region_decision_plan(struct region_decision *decision)
{
	struct mrg_plan *plan = atomic_load(&decision->plan), *made;

	if (plan || mrg_plan_make(NULL, 0, &decision->opts, &made))
		return plan;
	/* Another thread may have been first. */
	if (atomic_compare_exchange_strong(&decision->plan, &plan, made))
		return made;
	mrg_plan_free(made);
	return plan;
}

void region_decision_put(struct region_decision *decision)
{
	bool shared;

	if (!decision)
		return;
	shared = atomic_load(&decision->refs);
	if (shared && atomic_fetch_sub(&decision->refs, 1) > 1)
		return;
	mrg_plan_free(atomic_load(&decision->plan));
	if (shared)
		free(decision);
}
