/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/term.h"

#define DEFAULT_WIDTH 80
#define MIN_WIDTH 20
#define MAX_WIDTH 500

static unsigned int find_width(int fd, bool tty)
{
	const char *columns = getenv("COLUMNS");
	unsigned long width = 0;
	struct winsize size;

	if (tty && !ioctl(fd, TIOCGWINSZ, &size))
		width = size.ws_col;
	if (!width && columns)
		width = strtoul(columns, NULL, 10);
	if (!width)
		return DEFAULT_WIDTH;
	if (width < MIN_WIDTH)
		return MIN_WIDTH;
	return width > MAX_WIDTH ? MAX_WIDTH : (unsigned int)width;
}

static bool wants_colour(bool tty)
{
	const char *off = getenv("NO_COLOR"), *name = getenv("TERM");

	return tty && !(off && off[0]) && name && strcmp(name, "dumb");
}

void term_init(struct term *term, FILE *out, enum term_colour colour)
{
	term->out = out;
	term->tty = isatty(fileno(out));
	term->colour = colour == TERM_COLOUR_ALWAYS ||
		       (colour == TERM_COLOUR_AUTO && wants_colour(term->tty));
	term->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	term->width = find_width(fileno(out), term->tty);
}

int term_parse_colour(const char *word, enum term_colour *colour)
{
	static const char *const words[] = {
		[TERM_COLOUR_AUTO] = "auto",
		[TERM_COLOUR_ALWAYS] = "always",
		[TERM_COLOUR_NEVER] = "never",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word))
			continue;
		*colour = (enum term_colour)i;
		return 0;
	}
	return -EINVAL;
}

const char *term_style(const struct term *term, enum term_style style)
{
	static const char *const codes[] = {
		[TERM_PLAIN] = "\033[0m", [TERM_STRONG] = "\033[1m", [TERM_FAINT] = "\033[2m",
		[TERM_GOOD] = "\033[32m", [TERM_BAD] = "\033[1;31m", [TERM_WARN] = "\033[33m",
	};

	return term->colour ? codes[style] : "";
}

void term_print(const struct term *term, enum term_style style, const char *format, ...)
{
	va_list args;

	fputs(term_style(term, style), term->out);
	va_start(args, format);
	vfprintf(term->out, format, args);
	va_end(args);
	fputs(term_style(term, TERM_PLAIN), term->out);
}

static void wrap(const struct term *term, unsigned int indent, const char *text)
{
	unsigned int column = indent;

	while (*text) {
		size_t len = strcspn(text, " \n");

		if (column > indent && column + 1 + len > term->width) {
			fprintf(term->out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', term->out);
			column++;
		}
		fwrite(text, 1, len, term->out);
		column += (unsigned int)len;
		text += len;
		text += strspn(text, " \n");
	}
}

void term_wrap(const struct term *term, unsigned int indent, const char *text)
{
	fprintf(term->out, "%*s", (int)indent, "");
	wrap(term, indent, text);
	fputc('\n', term->out);
}

void term_paragraph(const struct term *term, enum term_style style, const char *label,
		    const char *text)
{
	int gap = TERM_LABEL - (int)strlen(label);

	term_print(term, style, "%s", label);
	fprintf(term->out, "%*s", gap > 0 ? gap : 1, "");
	if (term->tty)
		wrap(term, TERM_LABEL, text);
	else
		fputs(text, term->out);
	fputc('\n', term->out);
}

void term_names_add(struct term_names *names, const char *name, const char *subject)
{
	size_t room = sizeof(names->text) - names->length;
	int n = snprintf(names->text + names->length, room, "%s%s%s%s", names->length ? ", " : "",
			 name, subject[0] ? " " : "", subject);

	if (n > 0 && (size_t)n < room)
		names->length += (size_t)n;
	else
		names->text[names->length] = '\0';
}

/* The largest unit not above @bytes, as the exponent of 1024. */
static unsigned int unit_of(uint64_t bytes)
{
	return bytes ? (63 - (unsigned int)__builtin_clzll(bytes)) / 10 : 0;
}

struct term_size term_size(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int unit = unit_of(bytes);
	uint64_t one = 1ULL << (10 * unit);
	struct term_size size;

	if (bytes % one == 0)
		snprintf(size.text, sizeof(size.text), "%" PRIu64 " %s", bytes / one, units[unit]);
	else
		snprintf(size.text, sizeof(size.text), "%.2f %s", (double)bytes / (double)one,
			 units[unit]);
	return size;
}

struct term_size term_exact(uint64_t bytes)
{
	struct term_size size;

	if (bytes % (1ULL << (10 * unit_of(bytes))) == 0)
		return term_size(bytes);
	snprintf(size.text, sizeof(size.text), "0x%" PRIx64, bytes);
	return size;
}
