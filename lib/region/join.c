/* SPDX-License-Identifier: MIT */
/* One handle over several that follow one another, with look-up over all of them. */
#include <errno.h>
#include <stdlib.h>

#include "region/mr.h"

void region_join_free(struct mrg_mr *mr)
{
	struct mrg_ctx *ctx = mr->ctx;

	free(mr->parts);
	free(mr->pieces);
	free(mr->verbs);
	free(mr);
	region_ctx_put(ctx);
}

static size_t leaf_count(const struct mrg_mr *part)
{
	return part->parts ? part->part_count : 1;
}

static int alloc_all(struct mrg_mr *mr, struct mrg_mr **parts, size_t count)
{
	size_t leaves = 0;

	for (size_t i = 0; i < count; i++) {
		mr->count += parts[i]->count;
		leaves += leaf_count(parts[i]);
	}
	mr->parts = calloc(leaves, sizeof(*mr->parts));
	mr->pieces = calloc(mr->count, sizeof(*mr->pieces));
	mr->verbs = calloc(mr->count, sizeof(*mr->verbs));
	return mr->parts && mr->pieces && mr->verbs ? 0 : -ENOMEM;
}

/* The part's MRs, from number @at on; the next number. */
static size_t take_pieces(struct mrg_mr *mr, const struct mrg_mr *part, size_t at)
{
	for (size_t i = 0; i < part->count; i++, at++) {
		mr->verbs[at] = part->verbs[i];
		mr->pieces[at] = part->pieces[i];
		mr->pieces[at].start += mr->length;
		mr->pieces[at].delta -= mr->length;
	}
	mr->length += part->length;
	return at;
}

static void take_leaves(struct mrg_mr *mr, struct mrg_mr *part)
{
	if (!part->parts) {
		mr->parts[mr->part_count++] = part;
		return;
	}
	for (size_t i = 0; i < part->part_count; i++)
		mr->parts[mr->part_count++] = part->parts[i];
	region_join_free(part);
}

int region_join(struct mrg_ctx *ctx, struct mrg_mr **parts, size_t count, struct mrg_mr **out)
{
	struct mrg_mr *mr = calloc(1, sizeof(*mr));
	size_t at = 0;

	if (mr) {
		mr->ctx = ctx;
		atomic_fetch_add_explicit(&ctx->users, 1, memory_order_relaxed);
	}
	if (!mr || alloc_all(mr, parts, count)) {
		if (mr)
			region_join_free(mr);
		return base_fail(ctx->error_owner, -ENOMEM, "register",
				 "Free memory, or raise its limit.",
				 "There is no memory for a handle of %zu parts.", count);
	}
	mr->addr = parts[0]->addr;
	for (size_t i = 0; i < count; i++) {
		at = take_pieces(mr, parts[i], at);
		take_leaves(mr, parts[i]);
	}
	region_mr_index(mr);
	*out = mr;
	return 0;
}
