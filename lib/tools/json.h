/* SPDX-License-Identifier: MIT */
/* JSON as all commands write it: one object on one line, keys in fixed order. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>

#include <jansson.h>

/** json_hex() - an address or offset: "0x100000000" */
json_t *json_hex(uint64_t value);
/** json_text() - a string from outside; what is no UTF-8 becomes "?" */
json_t *json_text(const char *text);
/** json_count() - a number; those of 2^63 and more are cut to 2^63 - 1 */
json_t *json_count(uint64_t value);
/** json_put() - add a key to @object, and give @value up.  A failure (also a
 *  @value of NULL) is remembered: json_print() then fails. */
void json_put(json_t **object, const char *key, json_t *value);
/** json_print() - print to standard output, and give @root up.
 *  Return: 0 or -ENOMEM (also where @root is NULL). */
int json_print(json_t *root);

#endif
