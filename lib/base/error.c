/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#ifdef BASE_CHECK_SENTENCES
#include <stdlib.h>

static void check_sentence(const char *what, const char *text, size_t room)
{
	size_t length = strlen(text);

	/* A text that was cut has lost its end. */
	if (!length || length + 1 == room)
		return;
	if ((text[0] >= 'a' && text[0] <= 'z') || !strchr(".?!", text[length - 1])) {
		fprintf(stderr, "a %s that is not a sentence: \"%s\"\n", what, text);
		abort();
	}
}
#else
static void check_sentence(const char *what, const char *text, size_t room)
{
	(void)what;
	(void)text;
	(void)room;
}
#endif

int base_error_vset(struct mrg_error *error, int code, int piece, const char *stage,
		    const char *remedy, const char *cause, va_list args)
{
	struct mrg_error whole = { .code = code, .piece = piece };
	int saved = errno;

	if (!error)
		return code;
	snprintf(whole.stage, sizeof(whole.stage), "%s", stage);
	snprintf(whole.remedy, sizeof(whole.remedy), "%s", remedy);
	vsnprintf(whole.cause, sizeof(whole.cause), cause, args);
	base_make_plain(whole.cause);
	base_make_plain(whole.remedy);
	check_sentence("cause", whole.cause, sizeof(whole.cause));
	check_sentence("remedy", whole.remedy, sizeof(whole.remedy));
	*error = whole;
	errno = saved;
	return code;
}

int base_error_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
		   const char *cause, ...)
{
	va_list args;

	va_start(args, cause);
	base_error_vset(error, code, -1, stage, remedy, cause, args);
	va_end(args);
	return code;
}

int base_error_set_piece(struct mrg_error *error, int code, int piece, const char *stage,
			 const char *remedy, const char *cause, ...)
{
	va_list args;

	va_start(args, cause);
	base_error_vset(error, code, piece, stage, remedy, cause, args);
	va_end(args);
	return code;
}
