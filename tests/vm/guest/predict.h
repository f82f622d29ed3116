/* SPDX-License-Identifier: MIT */
/*
 * Which bytes of an MR the model says will land wrong: those for which the
 * address that the walk gives is not the one that the buffer has there.
 */
#ifndef GUEST_PREDICT_H
#define GUEST_PREDICT_H

#include <unistd.h>

#include "model/model.h"
#include "tools/verify.h"

struct prediction {
	struct model_mr mr; /* the model's: list, iova, length */
	enum mrg_walk walk;
	struct mrg_outcome outcome;
};

static inline void predict(struct prediction *p, const struct mrg_sg *sg, size_t count,
			   uint64_t offset, uint64_t length, uint64_t iova, uint32_t max_page_shift,
			   bool truncating)
{
	*p = (struct prediction){
		.mr = { .sg = sg,
			.count = count,
			.offset = offset,
			.length = length,
			.iova = iova,
			.page_size = (uint64_t)sysconf(_SC_PAGESIZE) },
		.walk = truncating ? MRG_WALK_TRUNCATING : MRG_WALK_EXACT,
	};
	model_mr_judge(&p->mr, model_pages_up_to(max_page_shift), p->walk, &p->outcome);
}

/* Where byte @at of the list really is, and how many follow it there. */
static inline uint64_t true_address(const struct prediction *p, uint64_t at, uint64_t *run)
{
	const struct mrg_sg *sg = p->mr.sg;

	while (at >= sg->len)
		at -= sg++->len;
	*run = sg->len - at;
	return sg->addr + at;
}

/* Where the walk says byte @at of the MR is. */
static inline uint64_t walked_address(const struct prediction *p, uint64_t at, uint64_t *run)
{
	uint32_t shift = p->outcome.page_shift;
	uint64_t page = 1ULL << shift, iova = p->mr.iova + at, addr = 0;
	uint64_t block = (iova >> shift) - (p->mr.iova >> shift);

	model_mr_blocks(&p->mr, p->walk, shift, block, &addr, 1);
	*run = page - (iova & (page - 1));
	return addr + (iova & (page - 1));
}

/* Wrong bytes of [at, at + length) of the MR, and the first of them. */
static inline uint64_t predict_bad(const struct prediction *p, uint64_t at, uint64_t length,
				   uint64_t *first)
{
	uint64_t bad = 0, a, b;

	while (length) {
		uint64_t right = true_address(p, p->mr.offset + at, &a);
		uint64_t walked = walked_address(p, at, &b);
		uint64_t n = a < b ? a : b;

		if (n > length)
			n = length;
		if (right != walked) {
			if (!bad)
				*first = at;
			bad += n;
		}
		at += n;
		length -= n;
	}
	return bad;
}

/* Faults of less than a word can be right by chance. */
static inline bool as_predicted(const struct prediction *p, const struct verify_span *span,
				uint64_t first, uint64_t bad)
{
	uint64_t want_first = 0;
	uint64_t want = predict_bad(p, span->offset, span->length, &want_first);

	if (want < 8 || bad < 8)
		return (want < 8) == (bad < 8);
	return want == bad && want_first == first;
}

#endif
