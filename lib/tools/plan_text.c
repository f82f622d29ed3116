/* SPDX-License-Identifier: MIT */
/*
 * A plan for people: the verdict, a picture, the reason, the MRs.  The picture
 * is for terminals; other output gets the same in lines.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_picture.h"
#include "tools/plan_report.h"
#include "tools/plan_table.h"

#define TEXT_SIZE 512

static void say(const struct term *term, enum term_style style, const char *label,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

static void say(const struct term *term, enum term_style style, const char *label,
		const char *format, ...)
{
	char text[TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	term_paragraph(term, style, label, text);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_given(const struct term *term, const struct plan_report *report)
{
	const struct mrg_plan_opts *opts = report->opts;
	char page[32] = "of any size", size[64] = "";
	char entries[48] = "addresses not known";

	if (report->entries)
		snprintf(entries, sizeof(entries), "%" PRIu64 " entr%s", report->entries,
			 report->entries == 1 ? "y" : "ies");
	say(term, TERM_STRONG, "buffer", "%s at iova 0x%" PRIx64 ", %s (%s)",
	    term_size(report->length).text, opts->iova, report->source, entries);

	if (opts->max_page_shift)
		snprintf(page, sizeof(page), "up to 2^%u", opts->max_page_shift);
	if (opts->max_mr_size)
		snprintf(size, sizeof(size), ", MRs up to %s", term_size(opts->max_mr_size).text);
	say(term, TERM_STRONG, "limits", "walk %s (%s)%s, pages %s%s", mrg_walk_name(opts->walk),
	    report->walk_source, opts->flags & MRG_PLAN_CAPPED ? ", capped" : "", page, size);
}

static void print_wraps(const struct term *term, const struct mrg_outcome *single)
{
	uint64_t bad = single->first_bad_offset;
	char where[160] = "";

	if (single->period && bad != MRG_NO_OFFSET)
		snprintf(where, sizeof(where),
			 "from %s on, each byte lands where the one %s before "
			 "it belongs; ",
			 term_exact(bad).text, term_size(single->period).text);
	say(term, TERM_BAD, "WRAPS",
	    "as one MR, %" PRIu64 " of %" PRIu64 " blocks would be wrong: "
	    "%severy transfer would still end with status 0",
	    single->wrong_blocks, single->blocks, where);
}

static void print_safe(const struct term *term, const struct mrg_outcome *single)
{
	if (!single->page_shift) {
		say(term, TERM_GOOD, "SAFE", "as one MR, at whatever DMA addresses");
		return;
	}
	say(term, TERM_GOOD, "SAFE", "as one MR: %" PRIu64 " block%s of %s, %sat its right address",
	    single->blocks, plural(single->blocks), term_size(1ULL << single->page_shift).text,
	    single->blocks == 1 ? "" : "each ");
}

static void print_verdict(const struct term *term, const struct mrg_outcome *single)
{
	switch (single->verdict) {
	case MRG_SAFE:
		print_safe(term, single);
		return;
	case MRG_WRAPS:
		print_wraps(term, single);
		return;
	case MRG_HANGS:
		say(term, TERM_BAD, "HANGS",
		    "registering it as one MR would never end: the kernel "
		    "loops");
		return;
	case MRG_REFUSED:
		say(term, TERM_WARN, "REFUSED", "as one MR");
		return;
	default:
		say(term, TERM_WARN, "UNKNOWN", "as one MR: the DMA addresses are not known");
	}
}

static void print_plan(const struct term *term, const struct plan_report *report)
{
	enum mrg_strategy strategy = mrg_plan_strategy(report->plan);
	size_t count;

	mrg_plan_pieces(report->plan, &count);
	if (!count) {
		say(term, TERM_BAD, "plan", "none");
		return;
	}
	if (strategy == MRG_STRATEGY_NONE)
		say(term, TERM_STRONG, "plan", "one MR, as asked for");
	else
		say(term, TERM_STRONG, "plan", "%s: %zu MR%s, %ssafe", mrg_strategy_name(strategy),
		    count, plural(count), count == 1 ? "" : "each ");
	plan_print_table(term, report);
}

struct said {
	char text[160];
};

static struct said in_words(uint64_t page, uint64_t blocks, uint64_t wrong, uint64_t first)
{
	struct said said = { "no page fits" };
	int used;

	if (!page)
		return said;
	used = snprintf(said.text, sizeof(said.text),
			"%" PRIu64 " block%s of %s, %" PRIu64 " wrong", blocks, plural(blocks),
			term_size(page).text, wrong);
	if (first != MRG_NO_OFFSET)
		snprintf(said.text + used, sizeof(said.text) - (size_t)used,
			 " from 0x%" PRIx64 " on", first);
	return said;
}

static void print_kernel(const struct term *term, const struct kernel_answer *kernel)
{
	const struct mrg_kernel_blocks *said = &kernel->said;
	const struct mrg_outcome *model = &kernel->model;
	uint64_t page = model->page_shift ? 1ULL << model->page_shift : 0;
	struct said theirs =
		in_words(said->page_size, said->total_blocks, said->wrong, said->first_wrong);
	struct said ours =
		in_words(page, model->blocks, model->wrong_blocks, model->first_bad_offset);

	fputc('\n', term->out);
	if (kernel->agrees)
		say(term, TERM_GOOD, "kernel", "agrees: its own functions give one MR %s",
		    theirs.text);
	else
		say(term, TERM_BAD, "kernel",
		    "DISAGREES: its own functions give one MR %s, the model "
		    "says %s; please report it with `mrguard layout --dump'",
		    theirs.text, ours.text);
}

void plan_print_text(const struct term *term, const struct plan_report *report)
{
	print_given(term, report);
	fputc('\n', term->out);
	print_verdict(term, mrg_plan_single(report->plan));
	if (term->tty)
		plan_draw(term, report);
	term_paragraph(term, TERM_STRONG, "why", mrg_plan_reason(report->plan));
	fputc('\n', term->out);
	print_plan(term, report);
	if (report->kernel)
		print_kernel(term, report->kernel);
}
