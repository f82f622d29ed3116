/* SPDX-License-Identifier: MIT */
/* Deregistration, of a handle's own MRs or of its parts. */
#include "region/mr.h"

/* From the last to the first; stops at one that does not let go. */
static int dereg_parts(struct mrg_mr *mr)
{
	int ret;

	mr->length = 0;
	while (mr->part_count) {
		struct mrg_mr *part = mr->parts[mr->part_count - 1];
		size_t before = part->count;

		ret = region_own_dereg(part);
		if (ret) {
			mr->count -= before - part->count;
			return ret;
		}
		mr->count -= before;
		mr->part_count--;
	}
	region_join_free(mr);
	return 0;
}

int mrg_dereg(struct mrg_mr *mr)
{
	if (!mr)
		return 0;
	return mr->parts ? dereg_parts(mr) : region_own_dereg(mr);
}

void region_mr_undo(struct mrg_mr *mr)
{
	if (!mr->parts) {
		region_own_undo(mr);
		return;
	}
	while (mr->part_count)
		region_own_undo(mr->parts[--mr->part_count]);
	region_join_free(mr);
}
