/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guard/text.h"

void guard_text_start(struct guard_text *t, int fd)
{
	t->fd = fd;
	t->failed = false;
	t->comma = false;
	t->used = 0;
}

static void flush(struct guard_text *t)
{
	size_t done = 0;

	while (t->fd >= 0 && done < t->used && !t->failed) {
		ssize_t n = write(t->fd, t->buf + done, t->used - done);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			t->failed = true;
	}
	t->used = 0;
}

int guard_text_end(struct guard_text *t)
{
	flush(t);
	return t->failed ? -EIO : 0;
}

static void put(struct guard_text *t, char c)
{
	if (t->used == sizeof(t->buf)) {
		if (t->fd < 0)
			return;
		flush(t);
	}
	t->buf[t->used++] = c;
}

void guard_text_str(struct guard_text *t, const char *s)
{
	while (*s)
		put(t, *s++);
}

static void put_base(struct guard_text *t, uint64_t n, unsigned int base)
{
	char digits[24];
	size_t count = 0;

	do {
		digits[count++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	while (count)
		put(t, digits[--count]);
}

void guard_text_u64(struct guard_text *t, uint64_t n)
{
	put_base(t, n, 10);
}

void guard_text_int(struct guard_text *t, int64_t n)
{
	if (n < 0)
		put(t, '-');
	put_base(t, n < 0 ? -(uint64_t)n : (uint64_t)n, 10);
}

void guard_text_hex(struct guard_text *t, uint64_t n)
{
	guard_text_str(t, "0x");
	put_base(t, n, 16);
}

void guard_text_size(struct guard_text *t, uint64_t bytes)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	size_t unit = 0;
	uint64_t tenths = 0;

	while (bytes >= 1024) {
		tenths = (bytes & 1023) * 10 / 1024;
		bytes >>= 10;
		unit++;
	}
	put_base(t, bytes, 10);
	if (tenths) {
		put(t, '.');
		put_base(t, tenths, 10);
	}
	guard_text_str(t, units[unit]);
}

void guard_text_pad(struct guard_text *t, const char *s, size_t width)
{
	size_t length = strlen(s);

	guard_text_str(t, s);
	for (; length < width; length++)
		put(t, ' ');
}

/* Names of programs and devices can hold anything; JSON must be UTF-8. */
static void put_escaped(struct guard_text *t, unsigned char c)
{
	if (c == '"' || c == '\\') {
		put(t, '\\');
		put(t, (char)c);
	} else if (c < 0x20 || c >= 0x7f) {
		put(t, '?');
	} else {
		put(t, (char)c);
	}
}

static void put_quoted(struct guard_text *t, const char *s)
{
	put(t, '"');
	while (*s)
		put_escaped(t, (unsigned char)*s++);
	put(t, '"');
}

static void begin(struct guard_text *t, const char *key)
{
	if (t->comma)
		put(t, ',');
	t->comma = true;
	if (!key)
		return;
	put_quoted(t, key);
	put(t, ':');
}

void guard_text_open(struct guard_text *t, const char *key, char bracket)
{
	begin(t, key);
	put(t, bracket);
	t->comma = false;
}

void guard_text_close(struct guard_text *t, char bracket)
{
	put(t, bracket);
	t->comma = true;
}

void guard_text_json_str(struct guard_text *t, const char *key, const char *s)
{
	begin(t, key);
	put_quoted(t, s);
}

void guard_text_json_u64(struct guard_text *t, const char *key, uint64_t n)
{
	begin(t, key);
	guard_text_u64(t, n);
}

void guard_text_json_int(struct guard_text *t, const char *key, int64_t n)
{
	begin(t, key);
	guard_text_int(t, n);
}

void guard_text_json_hex(struct guard_text *t, const char *key, uint64_t n)
{
	begin(t, key);
	put(t, '"');
	guard_text_hex(t, n);
	put(t, '"');
}

void guard_text_json_null(struct guard_text *t, const char *key)
{
	begin(t, key);
	guard_text_str(t, "null");
}
