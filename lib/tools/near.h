/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_NEAR_H
#define TOOLS_NEAR_H

#include <stdbool.h>

/** near_word() - whether @word is @meant, but for at most two letters */
bool near_word(const char *word, const char *meant);

#endif
