/* SPDX-License-Identifier: MIT */
/* The plan in words, for the person who has to act on it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "model/planner.h"

void model_say(struct mrg_plan *plan, const char *format, ...)
{
	size_t used = strlen(plan->reason);
	va_list args;

	if (used && used + 1 < sizeof(plan->reason)) {
		plan->reason[used++] = ' ';
		plan->reason[used] = '\0';
	}
	va_start(args, format);
	vsnprintf(plan->reason + used, sizeof(plan->reason) - used, format, args);
	va_end(args);
}

static const char *walk_words(const struct model_planner *p)
{
	switch (p->walk) {
	case MRG_WALK_EXACT:
		return "exact";
	case MRG_WALK_PER_ENTRY:
	case MRG_WALK_PER_ENTRY_NARROW:
		return "per-entry";
	default:
		return "truncating";
	}
}

static const char *blind_words(const struct model_planner *p)
{
	if (p->opts.flags & MRG_PLAN_TRANSLATED)
		return "behind a translating IOMMU the addresses seen are not those that the MR will get";
	if (p->opts.flags & MRG_PLAN_MOVES)
		return "its exporter can move the memory, so the addresses seen need not be those that the MR will get";
	return "the DMA addresses are not known";
}

static void explain_blind(struct model_planner *p)
{
	const char *why = blind_words(p);

	if (p->plan->single.verdict != MRG_SAFE)
		model_say(p->plan, "It is unknown what one MR would do: %s.", why);
	else if (p->walk == MRG_WALK_EXACT)
		model_say(
			p->plan,
			"One MR is safe whatever its addresses (%s): this kernel's walk is exact.",
			why);
	else if (p->safety == MRG_ANY_PIECE && model_cap_matters(p))
		model_say(
			p->plan,
			"One MR is safe whatever its addresses (%s): the cap keeps this kernel from picking a page above 2 GiB.",
			why);
	else if (p->safety == MRG_ANY_PIECE)
		model_say(
			p->plan,
			"One MR is safe whatever its addresses (%s): the device's largest page is 2^%u, and every walk handles pages up to 2^31.",
			why, p->opts.max_page_shift);
	else
		model_say(
			p->plan,
			"One MR is safe whatever its addresses (%s): it lies within one 2 GiB window of the iova, so its page cannot exceed 2^31.",
			why);
}

static void explain_known(struct model_planner *p)
{
	const struct mrg_outcome *o = &p->plan->single;

	switch (o->verdict) {
	case MRG_WRAPS:
		model_say(
			p->plan,
			"One MR would wrap: in pages of 0x%llx (2^%u) the kernel's %s walk repeats a block; wrong: %llu of %llu blocks, from offset 0x%llx on.",
			MODEL_X(1ULL << o->page_shift), o->page_shift, walk_words(p),
			MODEL_X(o->wrong_blocks), MODEL_X(o->blocks), MODEL_X(o->first_bad_offset));
		break;
	case MRG_HANGS:
		model_say(
			p->plan,
			"One MR would hang the kernel: in pages of 0x%llx (2^%u) its %s walk never ends.",
			MODEL_X(1ULL << o->page_shift), o->page_shift, walk_words(p));
		break;
	default:
		model_say(
			p->plan,
			"One MR is safe: in pages of 0x%llx (2^%u) the kernel's %s walk gives every block its right address (blocks: %llu).",
			MODEL_X(1ULL << o->page_shift), o->page_shift, walk_words(p),
			MODEL_X(o->blocks));
	}
	if (o->verdict == MRG_SAFE && !p->strict)
		model_say(
			p->plan,
			"But it may rest on pages of 4 GiB or more, which the plan does without.");
}

/* What was not known, and what was taken for it. */
static void explain_assumptions(struct model_planner *p)
{
	if (p->opts.walk == MRG_WALK_UNKNOWN)
		model_say(
			p->plan,
			"Assumed, since this kernel's walk is not known: it truncates block offsets to 32 bits.");
	if (model_cap_matters(p) && p->layout_known)
		model_say(p->plan, "The cap keeps this kernel from picking a page above 2 GiB.");
	if (model_limit_known(p) || !p->layout_known || model_cap_matters(p))
		return;
	if (p->limit_matters)
		model_say(
			p->plan,
			"Assumed, since the device's largest page is not known: 2^%u, the worst of 2^%d to 2^%d.",
			p->worst_limit, MODEL_MIN_LIMIT, MRG_MAX_PAGE_SHIFT);
	else
		model_say(
			p->plan,
			"The device's largest page is not known, and makes no difference from 2^%d to 2^%d.",
			MODEL_MIN_LIMIT, MRG_MAX_PAGE_SHIFT);
}

/* Whatever the walk: one that is known would change nothing. */
static bool limit_below_unit(const struct model_planner *p)
{
	return p->opts.max_mr_size && p->opts.max_mr_size < p->opts.cut_align;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void explain_failure(struct model_planner *p)
{
	const struct mrg_plan_opts *o = &p->opts;

	if (p->cut_error == -E2BIG)
		model_say(
			p->plan,
			"No plan: it would need more than %u MRs; raise max_mr_size (0x%llx) or shorten the range.",
			MODEL_MAX_PIECES, MODEL_X(o->max_mr_size));
	else if (limit_below_unit(p))
		model_say(
			p->plan,
			"No plan: the largest MR of %.6g MiB is below the huge page of %.6g MiB, at whose borders MRs must end; use smaller huge pages, or a device or setting with a larger MR.",
			mib(o->max_mr_size), mib(o->cut_align));
	else
		model_say(
			p->plan,
			"No plan: cuts must fall on multiples of 0x%llx in iova, and safe pieces of at most 0x%llx bytes need others; use smaller pages.",
			MODEL_X(o->cut_align),
			MODEL_X(o->max_mr_size && o->max_mr_size < MODEL_WINDOW ? o->max_mr_size :
										  MODEL_WINDOW));
}

static void explain_pieces(struct model_planner *p)
{
	struct mrg_plan *plan = p->plan;

	if (plan->strategy == MRG_STRATEGY_REBASE && plan->count == 1)
		model_say(
			plan,
			"Plan: one MR at iova 0x%llx, which differs from the DMA addresses in bit 31, so no page exceeds 2 GiB.",
			MODEL_X(plan->pieces[0].iova));
	else if (plan->strategy == MRG_STRATEGY_REBASE)
		model_say(
			plan,
			"Plan: %zu MRs of at most 0x%llx bytes, at iovas that differ from the DMA addresses in bit 31 or below, so no page exceeds 2 GiB.",
			plan->count, MODEL_X(p->opts.max_mr_size));
	else if (plan->strategy == MRG_STRATEGY_SPLIT && p->safety == MRG_ANY_PIECE)
		model_say(plan, "Plan: %zu MRs of at most 0x%llx bytes.", plan->count,
			  MODEL_X(p->opts.max_mr_size));
	else if (plan->strategy == MRG_STRATEGY_SPLIT)
		model_say(plan, "Plan: %zu MRs, cut so that no page can exceed 2 GiB.",
			  plan->count);
	if (p->cuts_inside)
		model_say(
			plan,
			"Of its cuts %zu fall inside a unit of 0x%llx bytes; no safe plan has fewer.",
			p->cuts_inside, MODEL_X(p->opts.unit));
}

void model_write_reason(struct model_planner *p)
{
	if (p->opts.max_mr_size && p->opts.length > p->opts.max_mr_size)
		model_say(
			p->plan,
			"One MR is refused: its 0x%llx bytes are above the device's largest MR, 0x%llx.",
			MODEL_X(p->opts.length), MODEL_X(p->opts.max_mr_size));
	else if (p->layout_known)
		explain_known(p);
	else
		explain_blind(p);
	if (!p->cut_error || !limit_below_unit(p))
		explain_assumptions(p);
	if (p->no_rebase)
		model_say(p->plan, "Not rebased: %s.", p->no_rebase);
	if (p->cut_error)
		explain_failure(p);
	else
		explain_pieces(p);
}
