/* SPDX-License-Identifier: MIT */
/* Names that others chose (of files, of processes) as they may be shown. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A terminal acts on control characters, and whoever may start a process, or
 * has recorded a host, may put them into a name: white space becomes a space,
 * the rest "?".  UTF-8 has 32 more of them, 0xc2 0x80 to 0xc2 0x9f.
 */
static inline void base_make_plain(char *text)
{
	for (; *text; text++) {
		if (*text >= '\t' && *text <= '\r')
			*text = ' ';
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
		else if ((unsigned char)text[0] == 0xc2 && (unsigned char)text[1] >= 0x80 &&
			 (unsigned char)text[1] < 0xa0)
			text[0] = text[1] = '?';
	}
}

/* Whether all of it is visible ASCII; a space is not visible. */
static inline bool base_is_visible(const char *text, size_t length)
{
	while (length && text[length - 1] > ' ' && text[length - 1] <= '~')
		length--;
	return !length;
}

#endif
