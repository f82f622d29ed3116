/* SPDX-License-Identifier: MIT */
/* The program's answer: lines of a word and a value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/walk_bits.h"
#include "walkfile/walkfile.h"

bool walkfile_value(const char *text, const char *word, char *value, size_t room)
{
	size_t length = strlen(word);

	while (text && *text) {
		if (!strncmp(text, word, length) && (text[length] == ' ' || text[length] == '\n')) {
			text += length + (text[length] == ' ');
			snprintf(value, room, "%.*s", (int)strcspn(text, "\n"), text);
			return true;
		}
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return false;
}

/* Damage in the file may be in what the program says of it. */
static void read_sentence(const char *text, const char *word, char *value, size_t room)
{
	value[0] = 0;
	if (!walkfile_value(text, word, value, room))
		walkfile_value(text, "unknown", value, room);
	for (char *c = value; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

bool walkfile_read(const char *text, struct mrg_walk_answer *answer)
{
	char value[64];

	if (!walkfile_value(text, "mrguard-kernelcode", value, sizeof(value)) ||
	    strcmp(value, MRG_VERSION_STRING) || !walkfile_value(text, "end", value, sizeof(value)))
		return false;
	walkfile_value(text, "build-id", answer->build_id, sizeof(answer->build_id));
	answer->recorded = walkfile_value(text, "recorded", value, sizeof(value)) &&
			   value[0] == '1';
	if (walkfile_value(text, "pick", value, sizeof(value)))
		answer->pick_shift = (uint32_t)strtoul(value, NULL, 10) & 63;
	if (walkfile_value(text, "walk", value, sizeof(value)))
		answer->walk = host_walk_of_bits((uint32_t)strtoul(value, NULL, 16));
	if (answer->walk != MRG_WALK_UNKNOWN)
		return true;
	read_sentence(text, "walk-unknown", answer->why, sizeof(answer->why));
	if (!answer->why[0])
		strcpy(answer->why, "The file has no block walk.");
	return true;
}
