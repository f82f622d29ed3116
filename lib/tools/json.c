/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/json.h"

json_t *json_hex(uint64_t value)
{
	return json_sprintf("0x%" PRIx64, value);
}

json_t *json_text(const char *text)
{
	json_t *whole = json_string(text);
	char *copy, *at;

	if (whole)
		return whole;
	copy = strdup(text);
	if (!copy)
		return NULL;
	for (at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	whole = json_string(copy);
	free(copy);
	return whole;
}

json_t *json_count(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

void json_put(json_t **object, const char *key, json_t *value)
{
	if (!*object || !json_object_set_new(*object, key, value))
		return;
	json_decref(*object);
	*object = NULL;
}

int json_print(json_t *root)
{
	int ret = root ? json_dumpf(root, stdout, JSON_COMPACT) : -1;

	json_decref(root);
	if (ret) {
		fail_say("", "There is no memory for the JSON output.");
		return -ENOMEM;
	}
	putchar('\n');
	return 0;
}
