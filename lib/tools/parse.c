/* SPDX-License-Identifier: MIT */
/*
 * Lists can have tens of millions of lines and come from anywhere, so lines
 * are cut out of one fixed buffer, and numbers are read without the C library.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/parse.h"

/* A stretch of a line; lists may hold any byte, NUL included. */
struct span {
	const char *at;
	const char *end;
};

static unsigned int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned int)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned int)(c - 'A') + 10;
	return 16;
}

static unsigned int take_base(struct span *text)
{
	if (text->end - text->at < 2 || text->at[0] != '0')
		return 10;
	if (text->at[1] != 'x' && text->at[1] != 'X')
		return 8;
	text->at += 2;
	return 16;
}

static int take_digits(struct span *text, uint64_t *value)
{
	unsigned int base = take_base(text);
	const char *first = text->at;
	uint64_t sum = 0;
	bool over = false;

	for (; text->at < text->end; text->at++) {
		unsigned int digit = digit_value(*text->at);

		if (digit >= base)
			break;
		over |= __builtin_mul_overflow(sum, base, &sum);
		over |= __builtin_add_overflow(sum, digit, &sum);
	}
	if (text->at == first)
		return -EINVAL;
	*value = sum;
	return over ? -ERANGE : 0;
}

/* "", "K", "KiB" and so on; -1 for anything else. */
static int suffix_shift(const struct span *text)
{
	static const char units[] = "KkMmGgTt";
	size_t len = (size_t)(text->end - text->at);
	const char *unit;

	if (!len)
		return 0;
	unit = memchr(units, text->at[0], sizeof(units) - 1);
	if (!unit || (len != 1 && len != 3))
		return -1;
	if (len == 3 && memcmp(text->at + 1, "iB", 2))
		return -1;
	return 10 * (int)((unit - units) / 2 + 1);
}

static int parse_word(struct span word, uint64_t *value)
{
	uint64_t number = 0;
	int ret = take_digits(&word, &number);
	int shift = suffix_shift(&word);

	if (ret == -EINVAL || shift < 0)
		return -EINVAL;
	if (ret || number > UINT64_MAX >> shift)
		return -ERANGE;
	*value = number << shift;
	return 0;
}

int parse_size(const char *text, uint64_t *value)
{
	return parse_word((struct span){ text, text + strlen(text) }, value);
}

struct reader {
	FILE *file;
	const char *name;
	size_t line;
	struct mrg_error *error;
	size_t start; /* of what is left in @buffer */
	size_t end;
	bool at_end;
	char buffer[PARSE_MAX_LINE];
};

/* The clause says what is wrong with the line, or with the whole list. */
static int fail(struct reader *reader, int code, const char *remedy, const char *clause, ...)
	BASE_PRINTF(4, 5);

static int fail(struct reader *reader, int code, const char *remedy, const char *clause, ...)
{
	char place[32] = "The list", text[200];
	va_list args;

	if (reader->line)
		snprintf(place, sizeof(place), "Line %zu of", reader->line);
	va_start(args, clause);
	vsnprintf(text, sizeof(text), clause, args);
	va_end(args);
	return base_error_set(reader->error, code, "read list", remedy, "%s %.100s %s.", place,
			      reader->name, text);
}

#define WRITE_ENTRIES "Write each entry as two numbers, such as 0x1000200000 2M."
#define WRITE_NUMBERS "Numbers are written as 4096, 0x1000 or 4K."

/* A word as it can be shown on a terminal: cut, other bytes as \xNN. */
struct shown {
	char text[96];
};

static struct shown show(struct span word)
{
	const char *limit = word.at + 20;
	struct shown shown;
	size_t used = 0;

	for (; word.at < word.end && word.at < limit; word.at++) {
		unsigned char c = (unsigned char)*word.at;

		used += (size_t)snprintf(shown.text + used, sizeof(shown.text) - used,
					 c > ' ' && c < 0x7f ? "%c" : "\\x%02x", c);
	}
	snprintf(shown.text + used, sizeof(shown.text) - used, "%s",
		 word.at < word.end ? "..." : "");
	return shown;
}

/* Moves what is left to the front, and reads on behind it. */
static int refill(struct reader *reader)
{
	size_t left = reader->end - reader->start;
	size_t room = sizeof(reader->buffer) - left;
	size_t got;

	memmove(reader->buffer, reader->buffer + reader->start, left);
	reader->start = 0;
	reader->end = left;
	if (!room) {
		reader->line++;
		return fail(reader, -E2BIG, WRITE_ENTRIES, "has %d bytes or more", PARSE_MAX_LINE);
	}
	errno = 0;
	got = fread(reader->buffer + left, 1, room, reader->file);
	if (got < room && ferror(reader->file)) {
		int code = errno ? -errno : -EIO;

		return fail(reader, code, "", "cannot be read: %s", strerror(-code));
	}
	reader->end += got;
	reader->at_end = got < room;
	return 0;
}

/* Return: 1 and the next line without its end, 0 at the end, or -errno. */
static int next_line(struct reader *reader, struct span *line)
{
	for (;;) {
		const char *at = reader->buffer + reader->start;
		size_t left = reader->end - reader->start;
		const char *newline = memchr(at, '\n', left);
		int ret;

		if (!newline && !reader->at_end) {
			ret = refill(reader);
			if (ret)
				return ret;
			continue;
		}
		if (!newline && !left)
			return 0;
		line->at = at;
		line->end = newline ? newline : at + left;
		reader->start += (size_t)(line->end - at) + (newline ? 1 : 0);
		reader->line++;
		return 1;
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the next word off @line; it is empty where none is left. */
static struct span take_word(struct span *line)
{
	struct span word;

	while (line->at < line->end && is_blank(*line->at))
		line->at++;
	word.at = line->at;
	if (line->at < line->end && *line->at == '#')
		line->end = line->at;
	while (line->at < line->end && !is_blank(*line->at) && *line->at != '#')
		line->at++;
	word.end = line->at;
	return word;
}

static int take_number(struct reader *reader, struct span *line, const char *what, uint64_t *value)
{
	struct span word = take_word(line);
	int ret;

	if (word.at == word.end)
		return fail(reader, -EINVAL, WRITE_ENTRIES, "ends where %s is expected", what);
	ret = parse_word(word, value);
	if (ret == -ERANGE)
		return fail(reader, ret, WRITE_NUMBERS,
			    "has \"%2$s\" where %1$s of at most 64 bits is expected", what,
			    show(word).text);
	if (ret)
		return fail(reader, ret, WRITE_NUMBERS, "has \"%2$s\" where %1$s is expected", what,
			    show(word).text);
	return 0;
}

/* Return: 1 and an entry, 0 where the line has none, or -errno. */
static int parse_entry(struct reader *reader, struct span line, struct mrg_sg *entry)
{
	struct span rest = line, word = take_word(&rest);
	int ret;

	if (word.at == word.end)
		return 0;
	ret = take_number(reader, &line, "a DMA address", &entry->addr);
	if (!ret)
		ret = take_number(reader, &line, "a length", &entry->len);
	if (ret)
		return ret;
	word = take_word(&line);
	if (word.at != word.end)
		return fail(reader, -EINVAL, WRITE_ENTRIES, "has \"%s\" where its end is expected",
			    show(word).text);
	if (!entry->len)
		return fail(reader, -EINVAL, WRITE_ENTRIES,
			    "has a length of 0, but the least is 1");
	if (entry->addr + entry->len - 1 < entry->addr)
		return fail(reader, -ERANGE, WRITE_ENTRIES,
			    "has 0x%llx bytes at 0x%llx, which reach beyond 64 bits",
			    (unsigned long long)entry->len, (unsigned long long)entry->addr);
	return 1;
}

struct list {
	struct mrg_sg *sg;
	size_t count;
	size_t room;
	uint64_t bytes;
};

static int append(struct reader *reader, struct list *list, const struct mrg_sg *entry)
{
	if (__builtin_add_overflow(list->bytes, entry->len, &list->bytes) ||
	    list->bytes > 1ULL << 63)
		return fail(reader, -ERANGE, "Give a shorter list.", "has more than 2^63 bytes");
	if (list->count == PARSE_MAX_ENTRIES)
		return fail(reader, -E2BIG, "Join contiguous entries.",
			    "has more than %llu entries", PARSE_MAX_ENTRIES);
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 256;
		struct mrg_sg *sg = reallocarray(list->sg, room, sizeof(*sg));

		if (!sg)
			return fail(reader, -ENOMEM, "Join contiguous entries.",
				    "needs more memory than there is, for %zu entries", room);
		list->sg = sg;
		list->room = room;
	}
	list->sg[list->count++] = *entry;
	return 0;
}

/* The one comment that matters; see struct parse_note. */
static void take_note(struct span line, struct parse_note *note)
{
	size_t mark = strlen(PARSE_NOTE);
	uint64_t iova;

	if ((size_t)(line.end - line.at) <= mark || memcmp(line.at, PARSE_NOTE, mark))
		return;
	line.at += mark;
	if (!parse_word(take_word(&line), &iova))
		*note = (struct parse_note){ true, iova };
}

static int read_list(struct reader *reader, struct list *list, struct parse_note *note)
{
	struct mrg_sg entry;
	struct span line;
	int ret;

	while ((ret = next_line(reader, &line)) > 0) {
		if (*line.at == '#')
			take_note(line, note);
		ret = parse_entry(reader, line, &entry);
		if (ret > 0)
			ret = append(reader, list, &entry);
		if (ret < 0)
			return ret;
	}
	reader->line = 0;
	if (!ret && !list->count)
		return fail(reader, -EINVAL, WRITE_ENTRIES, "has no entry, but needs at least one");
	return ret;
}

int parse_list_note(FILE *file, const char *name, struct mrg_sg **sg, size_t *count,
		    struct parse_note *note, struct mrg_error *error)
{
	struct reader reader = { .file = file, .name = name, .error = error };
	struct parse_note found = { false, 0 };
	struct list list = { 0 };
	int ret;

	ret = read_list(&reader, &list, &found);
	if (ret) {
		free(list.sg);
		return ret;
	}
	*sg = list.sg;
	*count = list.count;
	*note = found;
	return 0;
}

int parse_list(FILE *file, const char *name, struct mrg_sg **sg, size_t *count,
	       struct mrg_error *error)
{
	struct parse_note note;

	return parse_list_note(file, name, sg, count, &note, error);
}
