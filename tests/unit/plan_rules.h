/* SPDX-License-Identifier: MIT */
/*
 * What must hold of every plan, whatever it was made from.  For the property
 * tests and the fuzzer; works out itself, entry by entry, what page an MR gets.
 */
#ifndef TESTS_PLAN_RULES_H
#define TESTS_PLAN_RULES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <mrguard/plan.h>
#include "model/model.h"

struct plan_input {
	const struct mrg_sg *sg; /* NULL: not known */
	size_t count;
	struct mrg_plan_opts opts; /* page_size given */
};

static inline uint64_t input_bytes(const struct plan_input *in)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < in->count; i++)
		sum += in->sg[i].len;
	return sum;
}

static inline uint64_t input_length(const struct plan_input *in)
{
	return in->opts.length ? in->opts.length : input_bytes(in) - in->opts.offset;
}

static inline bool input_knows_layout(const struct plan_input *in)
{
	return in->sg && !(in->opts.flags & (MRG_PLAN_TRANSLATED | MRG_PLAN_MOVES));
}

/* The device's largest page as the pick is offered it: all smaller ones are there too. */
static inline unsigned int rule_limit(const struct plan_input *in, unsigned int limit)
{
	return in->opts.flags & MRG_PLAN_CAPPED && limit > 31 ? 31 : limit;
}

/*
 * log2 of the largest page that ib_umem_find_best_pgsz() could pick for bytes
 * [offset, offset + length) of the list, on a device that takes every size up
 * to 1 << limit; 0 where it refuses.
 */
static inline unsigned int rule_page_shift(const struct plan_input *in, uint64_t offset,
					   uint64_t length, uint64_t iova, unsigned int limit)
{
	uint64_t page = in->opts.page_size, pos = 0, va, from, to, mask = 0;
	uint64_t spread = iova ^ (iova + length - 1), next = 0;
	bool whole = in->opts.walk == MRG_WALK_TRUNCATING_UNBOUNDED ||
		     in->opts.walk == MRG_WALK_PER_ENTRY_NARROW;
	unsigned int shift = rule_limit(in, limit), least = whole ? __builtin_ctzll(page) : 12;
	bool entries = model_walk_per_entry(in->opts.walk), first = true, over = false;
	size_t i;

	offset += in->opts.offset;
	from = offset & ~(page - 1);
	to = (offset + length + page - 1) & ~(page - 1);
	for (i = 0; i < in->count && pos < to; pos += in->sg[i++].len) {
		uint64_t skip = pos < from ? from - pos : 0;

		if (skip >= in->sg[i].len)
			continue;
		va = iova - (offset - from) + (pos + skip - from);
		if (first || entries || over || in->sg[i].addr != next)
			mask |= ((in->sg[i].addr + skip) ^ va) | (first ? 0 : va);
		over = __builtin_add_overflow(in->sg[i].addr, in->sg[i].len, &next);
		first = false;
	}
	while (shift && (mask & ((1ULL << shift) - 1)))
		shift--;
	while (shift > least && spread >> (shift - 1) == 0)
		shift--;
	return shift < least ? 0 : shift;
}

static inline bool rule_in_window(uint64_t iova, uint64_t length)
{
	return iova >> 31 == (iova + length - 1) >> 31;
}

static inline bool rule_walk_is_exact(const struct plan_input *in)
{
	return in->opts.walk == MRG_WALK_EXACT;
}

/* Nothing about this piece can go wrong, and it rests on no wide page. */
static inline const char *rule_piece_safe(const struct plan_input *in,
					  const struct mrg_piece *piece)
{
	bool capped = in->opts.flags & MRG_PLAN_CAPPED;
	unsigned int limit = in->opts.max_page_shift, low, high, shift;
	struct model_mr mr = { in->sg,	      in->count,   in->opts.offset + piece->offset,
			       piece->length, piece->iova, in->opts.page_size };
	struct mrg_outcome out;

	if (piece->outcome.verdict != MRG_SAFE)
		return "a piece is not called safe";
	if (!input_knows_layout(in)) {
		if (rule_walk_is_exact(in) || rule_in_window(piece->iova, piece->length) ||
		    ((capped || (limit && limit < 32)) &&
		     in->opts.walk != MRG_WALK_PER_ENTRY_NARROW))
			return NULL;
		return "a piece of unknown addresses spans windows";
	}
	low = limit ? limit : 31;
	high = limit ? limit : 63;
	for (; low <= high; low++) {
		shift = rule_page_shift(in, piece->offset, piece->length, piece->iova, low);
		if (!shift)
			return "a piece gets no page";
		if (shift > 31 && !rule_walk_is_exact(in))
			return "a piece may get a page above 2 GiB";
		model_mr_judge(&mr, model_pages_up_to(rule_limit(in, low)),
			       in->opts.walk == MRG_WALK_UNKNOWN ? MRG_WALK_TRUNCATING :
								   in->opts.walk,
			       &out);
		if (out.verdict != MRG_SAFE)
			return "a piece is not safe by the model";
		if (out.page_shift != shift)
			return "model and rule differ about a page";
	}
	return NULL;
}

static inline const char *rule_piece_placed(const struct plan_input *in,
					    const struct mrg_plan *plan,
					    const struct mrg_piece *piece, uint64_t at)
{
	const struct mrg_plan_opts *o = &in->opts;
	uint64_t align = o->cut_align > o->page_size ? o->cut_align : o->page_size;
	uint64_t home = o->iova + piece->offset;
	bool may_move = o->strategy == MRG_STRATEGY_REBASE ||
			(o->strategy == MRG_STRATEGY_AUTO && (o->flags & MRG_PLAN_IOVA_FREE));

	if (piece->offset != at || !piece->length || piece->length > input_length(in) - at)
		return "pieces do not tile the range";
	if (at && (home & (align - 1)))
		return "a cut is not aligned";
	if (o->max_mr_size && piece->length > o->max_mr_size)
		return "a piece exceeds max_mr_size";
	if (piece->iova == home)
		return NULL;
	if (!may_move || mrg_plan_strategy(plan) != MRG_STRATEGY_REBASE)
		return "a piece moved, and must not";
	if (piece->iova != (home ^ (1ULL << 31)))
		return "a piece moved by something else than bit 31";
	return input_knows_layout(in) ? NULL : "a piece moved without known addresses";
}

/* Whether one MR may span [from, to), under what is known. */
static inline bool rule_may_span(const struct plan_input *in, bool moves, uint64_t from,
				 uint64_t to)
{
	const struct mrg_plan_opts *o = &in->opts;
	bool narrow = o->walk == MRG_WALK_PER_ENTRY_NARROW;

	if (o->max_mr_size && to - from > o->max_mr_size)
		return false;
	if (moves || rule_walk_is_exact(in) || rule_in_window(o->iova + from, to - from))
		return true;
	/* What the narrow walk hangs on is the model's to say, not this rule's. */
	if (narrow)
		return false;
	if ((o->flags & MRG_PLAN_CAPPED) || (o->max_page_shift && o->max_page_shift < 32))
		return true;
	return input_knows_layout(in) &&
	       rule_page_shift(in, from, to - from, o->iova + from, 63) < 32;
}

/* A cut inside a unit that could as well be at one of the unit's ends. */
static inline bool rule_cut_avoidable(const struct plan_input *in, bool moves, uint64_t from,
				      uint64_t cut, uint64_t to)
{
	const struct mrg_plan_opts *o = &in->opts;
	uint64_t align = o->cut_align > o->page_size ? o->cut_align : o->page_size;
	uint64_t at = to / o->unit * o->unit;
	int tries;

	if (cut % o->unit == 0)
		return false;
	for (tries = 0; tries < 256 && at > from; tries++, at -= o->unit)
		if (at < to && !((o->iova + at) & (align - 1)) &&
		    rule_may_span(in, moves, from, at) && rule_may_span(in, moves, at, to))
			return true;
	return false;
}

static inline const char *rule_cuts(const struct plan_input *in, const struct mrg_plan *plan)
{
	bool moves = mrg_plan_strategy(plan) == MRG_STRATEGY_REBASE;
	const struct mrg_piece *p;
	size_t count, i;

	p = mrg_plan_pieces(plan, &count);
	for (i = 1; i < count; i++) {
		if (rule_may_span(in, moves, p[i - 1].offset, p[i].offset + p[i].length))
			return "a cut that is not needed";
		if (in->opts.unit && rule_cut_avoidable(in, moves, p[i - 1].offset, p[i].offset,
							p[i].offset + p[i].length))
			return "an avoidable cut inside a unit";
	}
	return NULL;
}

/* NULL, or what is wrong with the plan. */
static inline const char *plan_violation(const struct plan_input *in, const struct mrg_plan *plan)
{
	const struct mrg_outcome *single = mrg_plan_single(plan);
	enum mrg_strategy strategy = mrg_plan_strategy(plan);
	const struct mrg_piece *pieces;
	const char *wrong;
	uint64_t at = 0;
	size_t count, i;

	pieces = mrg_plan_pieces(plan, &count);
	if (!mrg_plan_reason(plan)[0])
		return "no reason given";
	for (i = 0; i < count; at += pieces[i++].length) {
		wrong = rule_piece_placed(in, plan, &pieces[i], at);
		if (!wrong)
			wrong = rule_piece_safe(in, &pieces[i]);
		if (wrong)
			return wrong;
	}
	if (count && at != input_length(in))
		return "pieces do not fill the range";
	if ((strategy == MRG_STRATEGY_NONE) !=
	    (count == 0 || (count == 1 && pieces[0].iova == in->opts.iova)))
		return "strategy and pieces do not fit";
	if (single->verdict == MRG_WRAPS &&
	    (!single->wrong_blocks || !single->period || single->first_bad_offset == MRG_NO_OFFSET))
		return "a wrap without its place";
	if (single->verdict == MRG_SAFE &&
	    (single->wrong_blocks || single->period || single->first_bad_offset != MRG_NO_OFFSET))
		return "a safe MR with a wrap";
	return rule_cuts(in, plan);
}

#endif /* TESTS_PLAN_RULES_H */
