/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "guard/sigsafe.h"

void guard_sigsafe_begin(struct guard_sigsafe *t, int fd)
{
	t->fd = fd;
	t->wait_ms = -1;
	t->failed = false;
	t->comma = false;
	t->used = 0;
}

/* A pipe that poll() calls writable takes a buffer of ours at once. */
static bool may_write(const struct guard_sigsafe *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLOUT };

	return t->wait_ms < 0 || poll(&p, 1, t->wait_ms) > 0;
}

static void flush(struct guard_sigsafe *t)
{
	size_t done = 0;

	while (t->fd >= 0 && done < t->used && !t->failed) {
		ssize_t n;

		if (!may_write(t)) {
			t->failed = true;
			break;
		}
		n = write(t->fd, t->buf + done, t->used - done);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			t->failed = true;
	}
	t->used = 0;
}

int guard_sigsafe_end(struct guard_sigsafe *t)
{
	flush(t);
	return t->failed ? -EIO : 0;
}

static void put(struct guard_sigsafe *t, char c)
{
	if (t->used == sizeof(t->buf)) {
		if (t->fd < 0)
			return;
		flush(t);
	}
	t->buf[t->used++] = c;
}

/* Names of programs and devices can hold anything; JSON must be UTF-8, and a
 * terminal acts on control characters. */
static char plain(char c)
{
	return c < 0x20 || c >= 0x7f ? '?' : c;
}

static void put_text(struct guard_sigsafe *t, const char *s, size_t width)
{
	size_t length = strlen(s);

	while (*s)
		put(t, plain(*s++));
	for (; length < width; length++)
		put(t, ' ');
}

/* Returns the number of digits; @digits is not terminated. */
static size_t to_digits(uint64_t n, unsigned int base, char *digits)
{
	char reverse[20];
	size_t count = 0;

	do {
		reverse[count++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	for (size_t i = 0; i < count; i++)
		digits[i] = reverse[count - 1 - i];
	return count;
}

static void put_number(struct guard_sigsafe *t, uint64_t n, unsigned int base)
{
	char digits[20];
	size_t count = to_digits(n, base, digits);

	for (size_t i = 0; i < count; i++)
		put(t, digits[i]);
}

static void put_signed(struct guard_sigsafe *t, int64_t n)
{
	if (n < 0)
		put(t, '-');
	put_number(t, n < 0 ? -(uint64_t)n : (uint64_t)n, 10);
}

static void put_hex(struct guard_sigsafe *t, uint64_t n)
{
	put_text(t, "0x", 0);
	put_number(t, n, 16);
}

/* Writes one argument; @format is behind the '%'.  Returns what follows. */
static const char *put_argument(struct guard_sigsafe *t, const char *format, va_list *args)
{
	size_t width = 0;
	bool wide = false;

	for (; *format && strchr("-#0123456789l", *format); format++) {
		if (*format >= '0' && *format <= '9')
			width = width * 10 + (size_t)(*format - '0');
		wide |= *format == 'l';
	}
	if (*format == 's')
		put_text(t, va_arg(*args, const char *), width);
	else if (*format == 'd')
		put_signed(t, va_arg(*args, int));
	else if (*format == 'x')
		put_hex(t, wide ? va_arg(*args, unsigned long) : va_arg(*args, unsigned int));
	else
		put_number(t, wide ? va_arg(*args, unsigned long) : va_arg(*args, unsigned int),
			   10);
	return format + 1;
}

void guard_sigsafe_vprint(struct guard_sigsafe *t, const char *format, va_list args)
{
	va_list rest;

	va_copy(rest, args);
	while (*format) {
		char c = *format++;

		if (c == '%')
			format = put_argument(t, format, &rest);
		else
			put(t, c);
	}
	va_end(rest);
}

void guard_sigsafe_print(struct guard_sigsafe *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	guard_sigsafe_vprint(t, format, args);
	va_end(args);
}

struct guard_size guard_size(uint64_t bytes)
{
	static const char units[][5] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	struct guard_size size;
	size_t unit = 0, used;
	uint64_t tenths = 0;

	while (bytes >= 1024) {
		tenths = (bytes & 1023) * 10 / 1024;
		bytes >>= 10;
		unit++;
	}
	used = to_digits(bytes, 10, size.text);
	if (tenths) {
		size.text[used++] = '.';
		size.text[used++] = (char)('0' + tenths);
	}
	memcpy(size.text + used, units[unit], sizeof(units[unit]));
	return size;
}

static void put_quoted(struct guard_sigsafe *t, const char *s)
{
	put(t, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			put(t, '\\');
		put(t, plain(*s));
	}
	put(t, '"');
}

static void begin_value(struct guard_sigsafe *t, const char *key)
{
	if (t->comma)
		put(t, ',');
	t->comma = true;
	if (!key)
		return;
	put_quoted(t, key);
	put(t, ':');
}

void guard_sigsafe_open(struct guard_sigsafe *t, const char *key, char bracket)
{
	begin_value(t, key);
	put(t, bracket);
	t->comma = false;
}

void guard_sigsafe_close(struct guard_sigsafe *t, char bracket)
{
	put(t, bracket);
	t->comma = true;
}

void guard_sigsafe_json_str(struct guard_sigsafe *t, const char *key, const char *s)
{
	begin_value(t, key);
	put_quoted(t, s);
}

void guard_sigsafe_json_u64(struct guard_sigsafe *t, const char *key, uint64_t n)
{
	begin_value(t, key);
	put_number(t, n, 10);
}

void guard_sigsafe_json_int(struct guard_sigsafe *t, const char *key, int64_t n)
{
	begin_value(t, key);
	put_signed(t, n);
}

void guard_sigsafe_json_hex(struct guard_sigsafe *t, const char *key, uint64_t n)
{
	begin_value(t, key);
	put(t, '"');
	put_hex(t, n);
	put(t, '"');
}
