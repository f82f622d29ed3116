/* SPDX-License-Identifier: MIT */
/* Names, and the values that lie on the server. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "directory/directory.h"

#define VALUE_WORD "mrguard"
#define VALUE_VERSION 2
#define VALUE_DIGITS 20
#define VALUE_HEAD_MAX 512

bool directory_good_name(const char *name)
{
	return *name && strlen(name) <= MRG_DIRECTORY_MAX_NAME &&
	       base_is_visible(name, strlen(name));
}

char *directory_value(uint64_t generation, const void *bytes, size_t length, size_t *total)
{
	char head[64], *value;
	size_t start = (size_t)snprintf(head, sizeof(head), VALUE_WORD "%d %0*" PRIu64 "\n",
					VALUE_VERSION, VALUE_DIGITS, generation);

	value = malloc(start + length);
	if (!value)
		return NULL;
	memcpy(value, head, start);
	if (length)
		memcpy(value + start, bytes, length);
	*total = start + length;
	return value;
}

static int not_an_entry(struct mrg_directory *directory, const char *name)
{
	return directory_fail(directory, -EBADMSG, "Let nothing else write below the prefix.",
			      "The server's value for %s is not an entry.", name);
}

static bool parse_generation(const char *word, uint64_t *generation)
{
	if (!word || strlen(word) != VALUE_DIGITS || strspn(word, "0123456789") != VALUE_DIGITS)
		return false;
	errno = 0;
	*generation = strtoull(word, NULL, 10);
	return !errno;
}

/* @head: the words before the bytes. */
static int parse_head(struct mrg_directory *directory, const char *name, char *head,
		      uint64_t *generation)
{
	static const size_t mark = sizeof(VALUE_WORD) - 1;
	char *rest, *word = strtok_r(head, " ", &rest);

	if (!word || strncmp(word, VALUE_WORD, mark) || !isdigit((unsigned char)word[mark]))
		return not_an_entry(directory, name);
	if (atoi(word + mark) != VALUE_VERSION)
		return directory_fail(directory, -EPROTONOSUPPORT, DIRECTORY_SAME_VERSION,
				      "The entry %s has version %.10s, and this library reads %d.",
				      name, word + mark, VALUE_VERSION);
	if (!parse_generation(strtok_r(NULL, " ", &rest), generation))
		return not_an_entry(directory, name);
	while ((word = strtok_r(NULL, " ", &rest)))
		if (!islower((unsigned char)*word))
			return directory_fail(
				directory, -EPROTONOSUPPORT, DIRECTORY_SAME_VERSION,
				"The entry %s has the field %.32s, which this library must not skip.",
				name, word);
	return 0;
}

int directory_parse(struct mrg_directory *directory, const char *name, const char *value,
		    size_t length, struct mrg_directory_entry *entry)
{
	const char *end = memchr(value, '\n', length < VALUE_HEAD_MAX ? length : VALUE_HEAD_MAX);
	char head[VALUE_HEAD_MAX];
	size_t left;
	int ret;

	if (!end)
		return not_an_entry(directory, name);
	memcpy(head, value, (size_t)(end - value));
	head[end - value] = '\0';
	for (const char *at = head; at < head + (end - value); at++)
		if (*at < ' ' || *at > '~')
			return not_an_entry(directory, name);
	ret = parse_head(directory, name, head, &entry->generation);
	if (ret)
		return ret;
	left = length - (size_t)(end + 1 - value);
	if (left > MRG_DIRECTORY_MAX_BYTES)
		return not_an_entry(directory, name);
	entry->bytes = malloc(left + 1);
	if (!entry->bytes)
		return directory_no_memory(directory);
	memcpy(entry->bytes, end + 1, left);
	entry->length = left;
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	return 0;
}

void mrg_directory_entry_release(struct mrg_directory_entry *entry)
{
	free(entry->bytes);
	memset(entry, 0, sizeof(*entry));
}
