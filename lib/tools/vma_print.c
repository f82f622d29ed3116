/* SPDX-License-Identifier: MIT */
/* The report on VMAs, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/vma_output.h"

#define BAR_MAX 60
#define SHARE_BAR 12
#define LISTED 8

struct vma_text vma_number(uint64_t value)
{
	struct vma_text out;
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	char *to = out.text;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return out;
}
#define NUMBER(value) (vma_number(value).text)

struct vma_text vma_duration(double seconds)
{
	struct vma_text out;
	uint64_t whole = seconds < 1e15 ? (uint64_t)seconds : (uint64_t)1e15;
	uint64_t days = whole / 86400, hours = whole / 3600 % 24;
	uint64_t minutes = whole / 60 % 60;

	if (days >= 365)
		snprintf(out.text, sizeof(out.text), "more than a year");
	else if (days)
		snprintf(out.text, sizeof(out.text), "%" PRIu64 " d %" PRIu64 " h", days, hours);
	else if (hours)
		snprintf(out.text, sizeof(out.text), "%" PRIu64 " h %02" PRIu64 " min", hours,
			 minutes);
	else if (minutes)
		snprintf(out.text, sizeof(out.text), "%" PRIu64 " min %02" PRIu64 " s", minutes,
			 whole % 60);
	else
		snprintf(out.text, sizeof(out.text), "%" PRIu64 " s", whole);
	return out;
}

struct vma_text vma_rate(double per_minute)
{
	double size = per_minute < 0 ? -per_minute : per_minute;
	struct vma_text out;

	if (size < 100)
		snprintf(out.text, sizeof(out.text), "%+.1f a minute", per_minute);
	else
		snprintf(out.text, sizeof(out.text), "%c%.31s a minute", per_minute < 0 ? '-' : '+',
			 NUMBER((uint64_t)size));
	return out;
}

enum term_style vma_style(enum mrg_vma_state state)
{
	switch (state) {
	case MRG_VMA_NEAR:
		return TERM_BAD;
	case MRG_VMA_HIGH:
		return TERM_WARN;
	case MRG_VMA_FAR:
		break;
	}
	return TERM_GOOD;
}

/* Eighths of a column, so that a bar of few columns still tells apart. */
static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };

void vma_bar(const struct term *term, enum term_style style, double part, double whole,
	     unsigned int width)
{
	double filled = whole > 0 ? part / whole * width : 0;
	unsigned int full, rest, used;

	if (filled > width)
		filled = width;
	full = (unsigned int)filled;
	rest = (unsigned int)((filled - full) * 8);
	fputs(term_style(term, style), term->out);
	for (unsigned int i = 0; i < full; i++)
		fputs(term->utf8 ? "█" : "#", term->out);
	used = full;
	if (term->utf8 && rest && used < width) {
		fputs(eighths[rest], term->out);
		used++;
	}
	fputs(term_style(term, TERM_PLAIN), term->out);
	fputs(term_style(term, TERM_FAINT), term->out);
	for (; used < width; used++)
		fputs(term->utf8 ? "·" : ".", term->out);
	fputs(term_style(term, TERM_PLAIN), term->out);
}

static unsigned int bar_width(const struct term *term)
{
	unsigned int width = term->width > 30 ? term->width - 20 : 10;

	return width < BAR_MAX ? width : BAR_MAX;
}

static void print_head(const struct term *term, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;

	term_print(term, TERM_STRONG, "%s VMAs", NUMBER(report->count));
	if (report->limit)
		fprintf(term->out, " of %s", NUMBER(report->limit));
	fprintf(term->out, "  %s\n", output->source);
	if (!report->limit)
		return;
	vma_bar(term, vma_style(report->state), (double)report->count, (double)report->limit,
		bar_width(term));
	fprintf(term->out, " %.1f%% ", (double)report->count * 100 / (double)report->limit);
	term_print(term, vma_style(report->state), "%s\n", mrg_vma_state_name(report->state));
}

bool vma_forecast_of(const struct vma_output *output, struct mrg_vma_forecast *forecast)
{
	return output->trend && output->report->limit &&
	       !mrg_vma_forecast(output->trend->samples, output->trend->count,
				 output->report->limit, forecast);
}

static void print_rate(const struct term *term, const struct vma_output *output)
{
	struct mrg_vma_forecast forecast;

	if (!vma_forecast_of(output, &forecast))
		return;
	fputs(vma_rate(forecast.per_minute).text, term->out);
	if (forecast.seconds_left < 0)
		fprintf(term->out, ": not rising\n");
	else
		fprintf(term->out, ": the limit is %s away\n",
			vma_duration(forecast.seconds_left).text);
}

static void print_pair_line(const struct term *term, uint64_t count, const char *text)
{
	if (count)
		fprintf(term->out, "%10s  %s\n", NUMBER(count), text);
}

/* Pieces: how many are marked, which merge again, and which never will. */
static void print_pieces(const struct term *term, const struct mrg_vma_report *report)
{
	if (!report->flags_known) {
		fprintf(term->out, "\nPieces\n");
		print_pair_line(
			term, report->alike,
			"lie beside one that looks the same; without smaps it is unknown which ones merge");
		return;
	}
	fprintf(term->out, "\nPieces%s\n",
		report->exact ? "" : " (from smaps; the module would see each anon_vma)");
	fprintf(term->out, "%10s  marked VM_DONTCOPY\n", NUMBER(report->dontcopy));
	print_pair_line(
		term, report->joinable,
		report->exact ?
			"cuts that heal once the mark goes" :
			"cuts that heal once the mark goes, if both sides share an anon_vma");
	print_pair_line(term, report->stuck_anon,
			"cuts that never heal: both sides were written while apart");
	print_pair_line(term, report->stuck_special,
			"cuts that never heal: special memory (device, hugetlb)");
	print_pair_line(term, report->stuck_file,
			"neighbours that never were one: file or offset do not continue");
	print_pair_line(term, report->stuck_other,
			"cuts that do not heal: memory policy, name or userfaultfd");
}

/* Columns before the kind: count, size, marked, permissions. */
#define BEFORE_KIND (10 + 2 + 26 + 2 + 8 + 2 + 5 + 1)

/* On a terminal the start of a long name goes; its end says more. */
static void print_kind(const struct term *term, const char *kind, unsigned int before)
{
	size_t len = strlen(kind), room = term->width - before;

	if (!term->tty || term->width < before + 8 || len <= room)
		fprintf(term->out, "%s\n", kind);
	else
		fprintf(term->out, "...%s\n", kind + len - room + 3);
}

static void print_families(const struct term *term, const struct mrg_vma_report *report)
{
	size_t count = report->nfamilies < LISTED ? report->nfamilies : LISTED;
	uint64_t shown = 0;

	fprintf(term->out, "\n%10s  %-26s  %8s  perms kind\n", "Families", "exact size", "marked");
	for (size_t i = 0; i < count; i++) {
		const struct mrg_vma_family *family = &report->families[i];
		char size[128];

		snprintf(size, sizeof(size), "%s (%s)", NUMBER(family->length),
			 term_size(family->length).text);
		fprintf(term->out, "%10s  %-26s  %8s  %-5s ", NUMBER(family->count), size,
			family->dontcopy ? NUMBER(family->dontcopy) : "-", family->perms);
		print_kind(term, family->kind, BEFORE_KIND);
		shown += family->count;
	}
	if (report->count > shown)
		fprintf(term->out, "%10s  others\n", NUMBER(report->count - shown));
}

static void print_kinds(const struct term *term, const struct mrg_vma_report *report)
{
	size_t count = report->nkinds < LISTED ? report->nkinds : LISTED;

	fprintf(term->out, "\n%10s  %-12s  %-12s  kind\n", "Kinds", "bytes", "share");
	for (size_t i = 0; i < count; i++) {
		const struct mrg_vma_kind *kind = &report->kinds[i];

		fprintf(term->out, "%10s  %-12s  ", NUMBER(kind->count),
			term_size(kind->bytes).text);
		vma_bar(term, TERM_PLAIN, (double)kind->count, (double)report->count, SHARE_BAR);
		fputs("  ", term->out);
		print_kind(term, kind->kind, 10 + 2 + 12 + 2 + SHARE_BAR + 2);
	}
}

void vma_print(const struct term *term, const struct vma_output *output)
{
	const struct mrg_vma_report *report = output->report;

	print_head(term, output);
	print_rate(term, output);
	fputc('\n', term->out);
	term_paragraph(term, vma_style(report->state), "so", report->verdict);
	if (report->remedy[0])
		term_paragraph(term, TERM_STRONG, "do", report->remedy);
	print_pieces(term, report);
	print_families(term, report);
	print_kinds(term, report);
}
