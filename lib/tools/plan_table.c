/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_table.h"

#define MAX_LINES 16 /* on a terminal */
#define TAIL_LINES 4 /* of these, taken from the end */

enum column { NUMBER, OFFSET, LENGTH, IOVA, PAGE, BLOCKS, VERDICT, COLUMNS };

static const char *const titles[COLUMNS] = {
	"#", "offset", "length", "iova", "page", "blocks", "verdict",
};

/* A piece, or that so many pieces between two alike ones are left out. */
struct line {
	size_t piece;
	size_t left_out;
};

struct table {
	const struct term *term;
	const struct mrg_piece *pieces;
	size_t count;
	struct line *lines;
	size_t line_count;
	int width[COLUMNS]; /* 0: not shown */
};

struct field {
	char text[48];
};

static struct field field_of(const struct table *table, size_t index, enum column column)
{
	const struct mrg_piece *piece = &table->pieces[index];
	const struct mrg_outcome *outcome = &piece->outcome;
	struct field field = { "" };

#define PUT(...) snprintf(field.text, sizeof(field.text), __VA_ARGS__)
	switch (column) {
	case NUMBER:
		PUT("%zu", index + 1);
		break;
	case OFFSET:
		PUT("0x%" PRIx64, piece->offset);
		break;
	case LENGTH:
		if (table->term->tty)
			PUT("%s", term_exact(piece->length).text);
		else
			PUT("0x%" PRIx64, piece->length);
		break;
	case IOVA:
		PUT("0x%" PRIx64, piece->iova);
		break;
	case PAGE:
		if (!outcome->page_shift)
			PUT("-");
		else
			PUT("%s", term_size(1ULL << outcome->page_shift).text);
		break;
	case BLOCKS:
		if (!outcome->page_shift)
			PUT("-");
		else
			PUT("%" PRIu64, outcome->blocks);
		break;
	default:
		PUT("%s", mrg_verdict_name(outcome->verdict));
	}
#undef PUT
	return field;
}

static bool alike(const struct mrg_piece *a, const struct mrg_piece *b)
{
	return a->length == b->length && a->outcome.page_shift == b->outcome.page_shift &&
	       a->outcome.blocks == b->outcome.blocks && a->outcome.verdict == b->outcome.verdict;
}

static void add_line(struct table *table, size_t piece, size_t left_out)
{
	table->lines[table->line_count++] = (struct line){ piece, left_out };
}

/* Of more than three alike in a row, the first and the last are shown. */
static void add_stretch(struct table *table, size_t first, size_t last)
{
	if (last - first > 2) {
		add_line(table, first, 0);
		add_line(table, first + 1, last - first - 1);
		first = last;
	}
	for (size_t i = first; i <= last; i++)
		add_line(table, i, 0);
}

static void shorten(struct table *table)
{
	for (size_t first = 0, last; first < table->count; first = last + 1) {
		for (last = first; last + 1 < table->count; last++)
			if (!alike(&table->pieces[first], &table->pieces[last + 1]))
				break;
		add_stretch(table, first, last);
	}
}

/* Cuts lines out of the middle until the rest fits. */
static void cut_middle(struct table *table)
{
	size_t head = MAX_LINES - TAIL_LINES - 1;
	size_t tail = table->line_count - TAIL_LINES;
	size_t next;

	if (table->line_count <= MAX_LINES)
		return;
	next = table->lines[tail].piece;
	table->lines[head].left_out = next - table->lines[head].piece;
	memmove(&table->lines[head + 1], &table->lines[tail], TAIL_LINES * sizeof(*table->lines));
	table->line_count = MAX_LINES;
}

static void measure(struct table *table)
{
	for (int column = 0; column < COLUMNS; column++)
		table->width[column] = (int)strlen(titles[column]);
	for (size_t i = 0; i < table->line_count; i++) {
		for (int column = 0; column < COLUMNS; column++) {
			struct field field =
				field_of(table, table->lines[i].piece, (enum column)column);
			int width = (int)strlen(field.text);

			if (width > table->width[column])
				table->width[column] = width;
		}
	}
}

/* The line above the table says that each is safe, so that goes first. */
static void fit(struct table *table)
{
	static const enum column order[] = { VERDICT, BLOCKS, PAGE, IOVA };
	int total = 0;

	for (int column = 0; column < COLUMNS; column++)
		total += table->width[column] + 2;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (total <= (int)table->term->width)
			return;
		total -= table->width[order[i]] + 2;
		table->width[order[i]] = 0;
	}
}

static void print_title(const struct table *table)
{
	const struct term *term = table->term;

	fputs(term_style(term, TERM_FAINT), term->out);
	for (int column = 0; column < COLUMNS; column++)
		if (table->width[column])
			fprintf(term->out, "  %*s", table->width[column], titles[column]);
	fprintf(term->out, "%s\n", term_style(term, TERM_PLAIN));
}

static void print_line(const struct table *table, const struct line *line)
{
	const struct term *term = table->term;

	if (line->left_out) {
		fprintf(term->out, "  %*s", table->width[NUMBER], "...");
		term_print(term, TERM_FAINT, "  %zu more", line->left_out);
		fputc('\n', term->out);
		return;
	}
	for (int column = 0; column < COLUMNS; column++)
		if (table->width[column])
			fprintf(term->out, "  %*s", table->width[column],
				field_of(table, line->piece, (enum column)column).text);
	fputc('\n', term->out);
}

static void print_lines(struct table *table)
{
	bool short_form = table->line_count < table->count;

	measure(table);
	if (table->term->tty)
		fit(table);
	print_title(table);
	for (size_t i = 0; i < table->line_count; i++)
		print_line(table, &table->lines[i]);
	if (short_form)
		term_print(table->term, TERM_FAINT, "  (--all lists each)\n");
}

void plan_print_table(const struct term *term, const struct plan_report *report)
{
	struct table table = { .term = term };

	table.pieces = mrg_plan_pieces(report->plan, &table.count);
	table.lines = calloc(table.count, sizeof(*table.lines));
	if (!table.lines) {
		fprintf(term->out, "  (no memory to list them)\n");
		return;
	}
	if (term->tty && !report->all && table.count > MAX_LINES) {
		shorten(&table);
		cut_middle(&table);
	} else {
		for (size_t i = 0; i < table.count; i++)
			add_line(&table, i, 0);
	}
	print_lines(&table);
	free(table.lines);
}
