/* SPDX-License-Identifier: MIT */
/* Bars of cells; each cell stands for an equal part of the range. */
#include <string.h>

#include "tools/plan_picture.h"

#define MAX_CELLS 500
#define MIN_CELLS 10

/* Neighbours take turns between A and B, so that a reader can distinguish them. */
enum cell { RIGHT_A, RIGHT_B, WRONG_A, WRONG_B, NOT_KNOWN };

static const struct {
	const char *utf8;
	const char *ascii;
	enum term_style style;
} glyphs[] = {
	[RIGHT_A] = { "█", "=", TERM_GOOD },   [RIGHT_B] = { "▓", "-", TERM_GOOD },
	[WRONG_A] = { "▒", "X", TERM_BAD },    [WRONG_B] = { "░", "x", TERM_BAD },
	[NOT_KNOWN] = { "?", "?", TERM_WARN },
};

struct picture {
	const struct term *term;
	const struct mrg_outcome *single;
	const struct mrg_piece *pieces;
	size_t count;
	uint64_t length;
	unsigned int cells;
};

static uint64_t cell_start(const struct picture *picture, unsigned int cell)
{
	return (uint64_t)((unsigned __int128)picture->length * cell / picture->cells);
}

static unsigned int cell_of(const struct picture *picture, uint64_t offset)
{
	return (unsigned int)((unsigned __int128)offset * picture->cells / picture->length);
}

/* Parts of less than two cells would only flicker. */
static bool wide_enough(const struct picture *picture, uint64_t part)
{
	return part / 2 >= picture->length / picture->cells;
}

static const char *glyph(const struct term *term, enum cell cell)
{
	return term->utf8 ? glyphs[cell].utf8 : glyphs[cell].ascii;
}

static void draw_bar(const struct picture *picture, const char *label, const enum cell *cells)
{
	const struct term *term = picture->term;
	enum term_style style = TERM_PLAIN;

	fprintf(term->out, "%-*s", TERM_LABEL, label);
	for (unsigned int i = 0; i < picture->cells; i++) {
		if (glyphs[cells[i]].style != style) {
			style = glyphs[cells[i]].style;
			fprintf(term->out, "%s%s", term_style(term, TERM_PLAIN),
				term_style(term, style));
		}
		fputs(glyph(term, cells[i]), term->out);
	}
	fprintf(term->out, "%s\n", term_style(term, TERM_PLAIN));
}

/* A cell that is wrong in part is shown as wrong. */
static enum cell single_cell(const struct picture *picture, unsigned int cell)
{
	const struct mrg_outcome *single = picture->single;
	uint64_t last = cell_start(picture, cell + 1) - 1;
	uint64_t bad = single->first_bad_offset;

	if (single->verdict != MRG_SAFE && single->verdict != MRG_WRAPS)
		return NOT_KNOWN;
	if (bad == MRG_NO_OFFSET || last < bad)
		return RIGHT_A;
	if (!single->period || !wide_enough(picture, single->period))
		return WRONG_A;
	return (last - bad) / single->period % 2 ? WRONG_B : WRONG_A;
}

static void draw_single(const struct picture *picture)
{
	enum cell cells[MAX_CELLS];

	for (unsigned int i = 0; i < picture->cells; i++)
		cells[i] = single_cell(picture, i);
	draw_bar(picture, "one MR", cells);
}

/* Whether neighbouring MRs are wide enough to distinguish them by their shade. */
static bool pieces_apart(const struct picture *picture)
{
	return picture->count > 1 && wide_enough(picture, picture->length / picture->count);
}

static void draw_pieces(const struct picture *picture)
{
	bool apart = pieces_apart(picture);
	enum cell cells[MAX_CELLS];
	size_t at = 0;

	for (unsigned int i = 0; i < picture->cells; i++) {
		uint64_t start = cell_start(picture, i);

		while (at + 1 < picture->count && picture->pieces[at + 1].offset <= start)
			at++;
		cells[i] = apart && at % 2 ? RIGHT_B : RIGHT_A;
	}
	draw_bar(picture, "plan", cells);
}

/* Where it goes wrong, unless the label would touch another one. */
static void put_mark(const struct picture *picture, char *line, size_t end)
{
	uint64_t bad = picture->single->first_bad_offset;
	struct term_size mark = term_size(bad);
	size_t len = strlen(mark.text), at;

	if (picture->single->verdict != MRG_WRAPS || bad >= picture->length)
		return;
	at = cell_of(picture, bad);
	if (at > 1 && at + len < end)
		memcpy(line + at, mark.text, len);
}

static void draw_scale(const struct picture *picture)
{
	struct term_size size = term_size(picture->length);
	size_t len = strlen(size.text), end;
	char line[MAX_CELLS + 1];

	end = picture->cells > len + 1 ? picture->cells - len : picture->cells;
	memset(line, ' ', picture->cells);
	line[picture->cells] = '\0';
	memcpy(line + end, size.text, picture->cells - end);
	line[0] = '0';
	put_mark(picture, line, end);
	fprintf(picture->term->out, "%*s", TERM_LABEL, "");
	term_print(picture->term, TERM_FAINT, "%s", line);
	fputc('\n', picture->term->out);
}

/* The second shade of a pair is named where it stands in the picture. */
static void draw_legend(const struct picture *picture, bool apart)
{
	const struct term *term = picture->term;

	fprintf(term->out, "%*s%s%s right%s\n", TERM_LABEL, "", glyph(term, RIGHT_A),
		apart ? glyph(term, RIGHT_B) : "", apart ? ", MR by MR" : "");
	fprintf(term->out, "%*s%s%s lands wrong, wrap by wrap\n", TERM_LABEL, "",
		glyph(term, WRONG_A), glyph(term, WRONG_B));
}

void plan_draw(const struct term *term, const struct plan_report *report)
{
	struct picture picture = {
		.term = term,
		.single = mrg_plan_single(report->plan),
		.length = report->length,
		.cells = term->width - TERM_LABEL - 1,
	};

	picture.pieces = mrg_plan_pieces(report->plan, &picture.count);
	if (picture.cells > MAX_CELLS)
		picture.cells = MAX_CELLS;
	if (!picture.length || !picture.count || picture.cells < MIN_CELLS) {
		fputc('\n', term->out);
		return;
	}
	fputc('\n', term->out);
	draw_scale(&picture);
	if (picture.single->verdict != MRG_REFUSED)
		draw_single(&picture);
	if (mrg_plan_strategy(report->plan) != MRG_STRATEGY_NONE)
		draw_pieces(&picture);
	if (picture.single->verdict == MRG_WRAPS)
		draw_legend(&picture, pieces_apart(&picture));
	fputc('\n', term->out);
}
