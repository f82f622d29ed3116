/* SPDX-License-Identifier: MIT */
/* Buffers of the peer, by their pieces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/slice.h"

static int check_pieces(uint64_t addr, const struct mrg_desc_piece *pieces, size_t count,
			uint64_t *length)
{
	*length = 0;
	for (size_t i = 0; i < count; i++) {
		const struct mrg_desc_piece *p = &pieces[i];

		if (!p->length || p->start != *length)
			return -EINVAL;
		if (__builtin_add_overflow(*length, p->length, length) ||
		    p->wire + (p->length - 1) < p->wire)
			return -ERANGE;
	}
	if (!count)
		return -EINVAL;
	return addr + (*length - 1) < addr ? -ERANGE : 0;
}

int mrg_remote_make(uint64_t addr, const struct mrg_desc_piece *pieces, size_t count,
		    uint64_t generation, struct mrg_remote **out)
{
	struct mrg_remote *remote;
	uint64_t length;
	int ret = check_pieces(addr, pieces, count, &length);

	if (ret)
		return ret;
	remote = malloc(sizeof(*remote) + count * sizeof(*pieces));
	if (!remote)
		return -ENOMEM;
	remote->addr = addr;
	remote->length = length;
	remote->generation = generation;
	remote->count = count;
	memcpy(remote->pieces, pieces, count * sizeof(*pieces));
	*out = remote;
	return 0;
}

void mrg_remote_free(struct mrg_remote *remote)
{
	free(remote);
}

uint64_t mrg_remote_addr(const struct mrg_remote *remote)
{
	return remote->addr;
}

uint64_t mrg_remote_length(const struct mrg_remote *remote)
{
	return remote->length;
}

size_t mrg_remote_pieces(const struct mrg_mr *mr, struct mrg_desc_piece *pieces, size_t cap)
{
	size_t count = mrg_mr_count(mr);
	uint64_t addr = mrg_mr_addr(mr), length = mrg_mr_length(mr), start = 0;
	struct mrg_seg *segs;

	if (count > cap)
		return count;
	segs = calloc(count, sizeof(*segs));
	if (!segs || mrg_keys(mr, addr, length, segs, count) != (ssize_t)count) {
		free(segs);
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		pieces[i] = (struct mrg_desc_piece){ .start = start,
						     .length = segs[i].length,
						     .wire = segs[i].wire,
						     .rkey = segs[i].rkey };
		start += segs[i].length;
	}
	free(segs);
	return count;
}
