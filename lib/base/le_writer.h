/* SPDX-License-Identifier: MIT */
/* Values as little-endian bytes.  The caller has made room. */
#ifndef BASE_LE_WRITER_H
#define BASE_LE_WRITER_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each moves *@at on behind what it wrote. */

static inline void base_put_bytes(uint8_t **at, const void *bytes, size_t length)
{
	if (length)
		memcpy(*at, bytes, length);
	*at += length;
}

static inline void base_put_u8(uint8_t **at, uint8_t value)
{
	*(*at)++ = value;
}

static inline void base_put_u16(uint8_t **at, uint16_t value)
{
	value = htole16(value);
	base_put_bytes(at, &value, sizeof(value));
}

static inline void base_put_u32(uint8_t **at, uint32_t value)
{
	value = htole32(value);
	base_put_bytes(at, &value, sizeof(value));
}

static inline void base_put_u64(uint8_t **at, uint64_t value)
{
	value = htole64(value);
	base_put_bytes(at, &value, sizeof(value));
}

#endif
