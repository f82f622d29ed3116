/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tools/near.h"

#define LONGEST 32
#define MOST 2 /* letters that differ, are missing or too many */

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Levenshtein's distance, row by row. */
bool near_word(const char *word, const char *meant)
{
	size_t length = strlen(meant);
	unsigned int row[LONGEST + 1];

	if (length > LONGEST || strlen(word) > LONGEST)
		return false;
	for (unsigned int i = 0; i <= length; i++)
		row[i] = i;
	for (; *word; word++) {
		unsigned int before = row[0]++;

		for (size_t i = 0; i < length; i++) {
			unsigned int swap = before + (*word != meant[i]);

			before = row[i + 1];
			row[i + 1] = least(swap, least(before, row[i]) + 1);
		}
	}
	return row[length] <= MOST && row[length] < length;
}
