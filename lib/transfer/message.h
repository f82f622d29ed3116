/* SPDX-License-Identifier: MIT */
/*
 * What two endpoints say to each other over TCP.  Encoding and decoding are
 * pure: they check bytes that may be anything, and never act.
 *
 * A message is a head of 12 bytes (magic, version, type, length of the body)
 * and a body; numbers are little-endian.  MESSAGE_REFUSED keeps its form in all
 * versions, so that peers of two versions can still tell each other.
 *
 * Additions that need no new version: a message of a type from MESSAGE_OPTIONAL
 * on is skipped if it is unknown, and so is a part of HELLO and WELCOME, unless
 * it has MESSAGE_PART_MUST: then the handshake fails.  A part is its type (16
 * bits), its length (16 bits) and that many bytes.
 */
#ifndef TRANSFER_MESSAGE_H
#define TRANSFER_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <mrguard/transfer.h>

#include "route/gid_pair.h"

#define MESSAGE_VERSION 2
#define MESSAGE_HEAD 12
#define MESSAGE_BODY MRG_NOTE_MAX
#define MESSAGE_LANES 16
#define MESSAGE_GIDS ROUTE_PEERS_MAX
#define MESSAGE_NAME 64
#define MESSAGE_TEXT 192
#define MESSAGE_PARTS 1024 /* bytes of them */
#define MESSAGE_PART_MUST 0x8000u /* in its type: the reader must know it */
#define MESSAGE_ABLE_REVOKE (1u << 0) /* takes MESSAGE_REVOKE */

enum transfer_message_type {
	MESSAGE_HELLO = 1, /* the side that connects: its queue pairs */
	MESSAGE_WELCOME, /* the side that listens: its own */
	MESSAGE_READY, /* the side that connects: they are up */
	MESSAGE_REFUSED, /* either: why it is over */
	MESSAGE_BYE, /* either: my queue pairs are gone */
	MESSAGE_BROKEN, /* the side that listened: a lane of mine broke */
	MESSAGE_OFFER, /* the side that connected: a new queue pair for a lane */
	MESSAGE_ANSWER, /* the side that listened: its own for it */
	MESSAGE_RESUME, /* the side that connected: it is up */
	MESSAGE_NOTE, /* the application's */
	MESSAGE_REVOKE, /* forget a buffer */
	MESSAGE_REVOKED, /* forgotten */
	MESSAGE_TYPES,
	MESSAGE_OPTIONAL = 0x8000 /* and beyond: skipped if unknown */
};

/* Where a queue pair can be reached. */
struct transfer_message_lane {
	uint32_t qpn;
	uint32_t psn;
};

/* How a port is reached, and what it takes. */
struct transfer_message_port {
	uint8_t gid[16];
	uint32_t lid;
	uint8_t ethernet;
	uint8_t gid_type; /* enum ibv_gid_type */
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t reads; /* READs that it serves at a time */
};

struct transfer_message_bytes {
	const uint8_t *bytes; /* in what was decoded */
	size_t length;
};

/* The side that connects offers GIDs; the other one knows the routes, and takes one. */
struct transfer_message_hello {
	struct transfer_message_port port;
	uint32_t gids;
	struct route_gid_peer gid[MESSAGE_GIDS];
	uint32_t taken; /* WELCOME: which of them */
	uint32_t lanes;
	struct transfer_message_lane lane[MESSAGE_LANES];
	char name[MESSAGE_NAME]; /* device and host, for people */
	uint64_t abilities; /* MESSAGE_ABLE_* */
	struct transfer_message_bytes parts;
	uint32_t unknown; /* decoded: a part that must be known, and is not; 0: none */
};

struct transfer_message_offer {
	struct transfer_message_port port;
	uint32_t index;
	uint32_t epoch;
	struct transfer_message_lane lane;
};

struct transfer_message_refusal {
	int32_t code;
	char cause[MESSAGE_TEXT];
	char remedy[MESSAGE_TEXT];
};

struct transfer_message {
	enum transfer_message_type type;
	union {
		struct transfer_message_hello hello; /* HELLO, WELCOME */
		struct transfer_message_offer offer; /* OFFER, ANSWER; index and epoch
						 * alone: BROKEN, RESUME */
		struct transfer_message_refusal refusal;
		struct transfer_message_bytes note;
		uint64_t generation; /* REVOKE, REVOKED */
	};
};

/* Bytes that any message but a note fits in. */
#define MESSAGE_SMALL 1536

/**
 * transfer_message_encode() - to bytes
 * @out: room for MESSAGE_SMALL bytes, or head and body of a note
 * Return: their number.
 */
size_t transfer_message_encode(const struct transfer_message *message, uint8_t *out);

/**
 * transfer_message_length() - how long the message that starts with @bytes is
 * Return: head and body; 0 (less than a head is there); -EPROTO; -EMSGSIZE;
 * -EPROTONOSUPPORT (another version, and no MESSAGE_REFUSED).
 */
ssize_t transfer_message_length(const uint8_t *bytes, size_t length);

/**
 * transfer_message_decode() - from bytes, as many as transfer_message_length() says
 * @message: OUT; a note points into @bytes
 * Return: 0; -EPROTO; -EPROTONOSUPPORT; -EMSGSIZE.
 */
int transfer_message_decode(const uint8_t *bytes, size_t length, struct transfer_message *message);

#endif
