/* SPDX-License-Identifier: MIT */
/*
 * Parts, each with its type and length: a token is made of them, and a message
 * may end with some.  A later release may add a part.  A release that does not
 * know a part refuses it where SHARE_PART_MUST is set in its type, and skips it
 * where it is not.
 *
 * Both ends run on one machine, so numbers are in its byte order.
 */
#ifndef SHARE_PARTS_H
#define SHARE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include <mrguard/common.h>

#define SHARE_VERSION 2 /* of tokens and of messages */
#define SHARE_PART_MUST (1u << 31)

/* @bytes of value follow, and zeros up to a multiple of SHARE_PART_ALIGN. */
struct share_part {
	uint32_t type;
	uint32_t bytes;
};
#define SHARE_PART_ALIGN 8

/* What is left to be read. */
struct share_parts {
	const char *at;
	size_t left;
};

/** share_part_bytes() - of a part with a value of @bytes, in all */
static inline size_t share_part_bytes(size_t bytes)
{
	return sizeof(struct share_part) +
	       (bytes + SHARE_PART_ALIGN - 1) / SHARE_PART_ALIGN * SHARE_PART_ALIGN;
}

/** share_part_next() - the next part and where its value is.  Return: 1; 0 at
 *  the end; -EBADMSG: it is cut. */
int share_part_next(struct share_parts *parts, struct share_part *part, const char **value);

/**
 * share_part_unknown() - a part that the reader does not know
 * @stage: of @error
 * @what: "token", "message"
 * Return: 0: skip it; -EPROTONOSUPPORT, with @error: it must not be skipped.
 */
int share_part_unknown(const struct share_part *part, const char *stage, const char *what,
		       struct mrg_error *error);
/** share_bad_version() - fill in @error.  Return: -EPROTONOSUPPORT. */
int share_bad_version(unsigned int version, const char *stage, const char *what,
		      struct mrg_error *error);

#endif
