/* SPDX-License-Identifier: MIT */
/* Little-endian values out of bytes that may be cut short anywhere. */
#ifndef BASE_LE_READER_H
#define BASE_LE_READER_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left.  Once @bad, it stays so, and reads give zeros. */
struct base_le_reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static inline void base_le_bytes(struct base_le_reader *r, void *to, size_t length)
{
	if (r->bad || length > r->left) {
		r->bad = true;
		memset(to, 0, length);
		return;
	}
	memcpy(to, r->at, length);
	r->at += length;
	r->left -= length;
}

/* What was skipped, to be read by itself. */
static inline struct base_le_reader base_le_skip(struct base_le_reader *r, size_t length)
{
	struct base_le_reader skipped = { r->at, length, r->bad || length > r->left };

	r->bad = skipped.bad;
	if (r->bad)
		return skipped;
	r->at += length;
	r->left -= length;
	return skipped;
}

static inline uint8_t base_le_u8(struct base_le_reader *r)
{
	uint8_t value;

	base_le_bytes(r, &value, sizeof(value));
	return value;
}

static inline uint16_t base_le_u16(struct base_le_reader *r)
{
	uint16_t value;

	base_le_bytes(r, &value, sizeof(value));
	return le16toh(value);
}

static inline uint32_t base_le_u32(struct base_le_reader *r)
{
	uint32_t value;

	base_le_bytes(r, &value, sizeof(value));
	return le32toh(value);
}

static inline uint64_t base_le_u64(struct base_le_reader *r)
{
	uint64_t value;

	base_le_bytes(r, &value, sizeof(value));
	return le64toh(value);
}

#endif
