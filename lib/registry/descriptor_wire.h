/* SPDX-License-Identifier: MIT */
/*
 * A descriptor's bytes.  All numbers are little-endian, and strings are padded
 * with zeros:
 *
 *	at	bytes
 *	0	8	"MRGDESCR"
 *	8	2	version
 *	10	2	0
 *	12	4	bytes in all
 *	16	4	CRC-32 of all bytes, with this field zero
 *	20		parts, up to the end
 *
 *	a part: type (4), length of its content (4), content
 *
 * DESC_BUFFER comes first, and once: address (8), length (8), boot id (16), host
 * name (64), instance (8), generation (8)
 *
 * DESC_DEVICE: name (64), GUID (8, as on the wire), GID (16), GID type (1), link
 * layer (1), port (1), 0 (1), LID (2), 0 (2), access (4); and for each piece wire
 * address (8), length (8), rkey (4)
 *
 * DESC_SHARE: protocol (4), token
 *
 * A reader refuses a part that has DESC_MUST in its type and that it does not
 * know: of an unknown type, or a device or a share of an unknown kind.  Without
 * the bit the reader skips the part, and keeps its bytes for the next writer, who
 * puts such parts last.  So a part must not depend on its place.  A part that is
 * known has exactly the content above; more about a buffer is a part of its own.
 */
#ifndef REGISTRY_DESCRIPTOR_WIRE_H
#define REGISTRY_DESCRIPTOR_WIRE_H

#define DESC_MAGIC "MRGDESCR"
#define DESC_VERSION 2
#define DESC_TOTAL_AT 12
#define DESC_CHECK_AT 16
#define DESC_HEAD 20
#define DESC_PART 8 /* type and length */
#define DESC_NAME 64

#define DESC_MUST (1u << 31)
#define DESC_BUFFER 1u
#define DESC_DEVICE 2u
#define DESC_SHARE 3u

/* Contents, without pieces and tokens. */
#define DESC_BUFFER_BYTES 112
#define DESC_DEVICE_BYTES 100
#define DESC_PIECE_BYTES 20
#define DESC_SHARE_BYTES 4

#endif
