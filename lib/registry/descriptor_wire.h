/* SPDX-License-Identifier: MIT */
/*
 * A descriptor's bytes.  All numbers are little-endian, strings are padded
 * with zeros, and there is one way only to write a descriptor:
 *
 *	at	bytes
 *	0	8	"MRGDESCR"
 *	8	2	version
 *	10	2	number of devices
 *	12	4	bytes in all
 *	16	4	CRC-32 of all bytes, with this field zero
 *	20	2	number of shares
 *	22	2	0
 *	24	8 8	address, length
 *	40	16	boot id
 *	56	64	host name
 *	120	8 8	instance, generation
 *	136		devices, then shares
 *
 *	a device: name (64), GUID (8, as on the wire), GID (16), GID type (1),
 *	link layer (1), port (1), 0 (1), LID (2), 0 (2), access (4), number of
 *	pieces (4); and for each piece wire address (8), length (8), rkey (4)
 *
 *	a share: protocol (4), number of bytes (4), bytes
 */
#ifndef REGISTRY_DESCRIPTOR_WIRE_H
#define REGISTRY_DESCRIPTOR_WIRE_H

#define DESC_MAGIC "MRGDESCR"
#define DESC_VERSION 1
#define DESC_HEAD 136
#define DESC_CHECK_AT 16 /* the checksum's place */
#define DESC_DEVICE 104
#define DESC_PIECE 20
#define DESC_SHARE 8
#define DESC_NAME 64

#endif
