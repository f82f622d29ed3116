/* SPDX-License-Identifier: MIT */
/* The one call of zlib that lib/share uses, for machines without zlib's header. */
#ifndef ZLIB_ZLIB_H
#define ZLIB_ZLIB_H

#include <stddef.h>

typedef unsigned char Bytef;
typedef unsigned long uLong;

uLong crc32_z(uLong crc, const Bytef *bytes, size_t length);

#endif
