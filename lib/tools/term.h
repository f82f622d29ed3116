/* SPDX-License-Identifier: MIT */
/* What the output can show: colour, UTF-8, width; and sizes for people. */
#ifndef TOOLS_TERM_H
#define TOOLS_TERM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum term_colour { TERM_COLOUR_AUTO, TERM_COLOUR_ALWAYS, TERM_COLOUR_NEVER };

enum term_style {
	TERM_PLAIN,
	TERM_STRONG,
	TERM_FAINT,
	TERM_GOOD,
	TERM_BAD,
	TERM_WARN,
};

struct term {
	FILE *out;
	bool tty;
	bool colour;
	bool utf8;
	unsigned int width;
};

/**
 * term_init() - find out what @out can show
 *
 * TERM_COLOUR_AUTO gives colour on a terminal only, and none where NO_COLOR is
 * set or TERM is dumb.  The width is the terminal's, else that of COLUMNS,
 * else 80.
 */
void term_init(struct term *term, FILE *out, enum term_colour colour);

/** term_parse_colour() - "auto", "always", "never"; -EINVAL for others */
int term_parse_colour(const char *word, enum term_colour *colour);

/** term_style() - the bytes that switch to @style; "" without colour */
const char *term_style(const struct term *term, enum term_style style);

/** term_print() - print in a style, and switch back */
void term_print(const struct term *term, enum term_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** term_wrap() - print words, broken at the width, each line after @indent */
void term_wrap(const struct term *term, unsigned int indent, const char *text);

#define TERM_LABEL 8 /* columns for the word at the start of a paragraph */

/** term_paragraph() - a word in a style, then text; on a terminal the text is
 *  broken at the width and stays right of the word */
void term_paragraph(const struct term *term, enum term_style style, const char *label,
		    const char *text);

/* Names, separated by commas; those for which there is no room are left out. */
struct term_names {
	char text[4096];
	size_t length;
};

/** term_names_add() - "NAME", or "NAME SUBJECT" where @subject is not "" */
void term_names_add(struct term_names *names, const char *name, const char *subject);

struct term_size {
	char text[40];
};
/** term_size() - "12 GiB", "28 KiB", "4.10 GiB"; rounded where it has decimals */
struct term_size term_size(uint64_t bytes);

/** term_exact() - the same where it is a whole number of units, else "0x..." */
struct term_size term_exact(uint64_t bytes);

#endif
