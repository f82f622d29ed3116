/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/le_reader.h"
#include "base/le_writer.h"
#include "base/text.h"
#include "transfer/message.h"

#define MAGIC 0x5847524dU /* "MRGX" */
#define MAX_QPN 0xffffffU /* of 24 bits, as PSNs are */

/* A text fills its place; what a terminal would obey is taken out. */
static void get_text(struct base_le_reader *r, char *text, size_t size)
{
	base_le_bytes(r, text, size);
	text[size - 1] = '\0';
	base_make_plain(text);
}

/* ---- bodies ---- */

static void put_lane(uint8_t **at, const struct transfer_message_lane *lane)
{
	base_put_u32(at, lane->qpn);
	base_put_u32(at, lane->psn);
}

static void get_lane(struct base_le_reader *r, struct transfer_message_lane *lane)
{
	lane->qpn = base_le_u32(r);
	lane->psn = base_le_u32(r);
	if (lane->qpn > MAX_QPN || lane->psn > MAX_QPN)
		r->bad = true;
}

static void put_port(uint8_t **at, const struct transfer_message_port *port)
{
	base_put_bytes(at, port->gid, sizeof(port->gid));
	base_put_u32(at, port->lid);
	base_put_u8(at, port->ethernet);
	base_put_u8(at, port->gid_type);
	base_put_u8(at, port->mtu);
	base_put_u8(at, port->reads);
}

static void get_port(struct base_le_reader *r, struct transfer_message_port *port)
{
	base_le_bytes(r, port->gid, sizeof(port->gid));
	port->lid = base_le_u32(r);
	port->ethernet = base_le_u8(r);
	port->gid_type = base_le_u8(r);
	port->mtu = base_le_u8(r);
	port->reads = base_le_u8(r);
	if (port->lid > UINT16_MAX || port->ethernet > 1 || port->gid_type > IBV_GID_TYPE_ROCE_V2 ||
	    port->mtu < IBV_MTU_256 || port->mtu > IBV_MTU_4096)
		r->bad = true;
}

static void put_hello(uint8_t **at, const struct transfer_message_hello *hello)
{
	put_port(at, &hello->port);
	base_put_u32(at, hello->gids);
	for (uint32_t i = 0; i < hello->gids; i++) {
		base_put_bytes(at, hello->gid[i].gid, sizeof(hello->gid[i].gid));
		base_put_u8(at, hello->gid[i].type);
	}
	base_put_u32(at, hello->taken);
	base_put_bytes(at, hello->name, sizeof(hello->name));
	base_put_u32(at, hello->lanes);
	for (uint32_t i = 0; i < hello->lanes; i++)
		put_lane(at, &hello->lane[i]);
	base_put_u64(at, hello->abilities);
	base_put_bytes(at, hello->parts.bytes, hello->parts.length);
}

static void get_gids(struct base_le_reader *r, struct transfer_message_hello *hello)
{
	hello->gids = base_le_u32(r);
	if (hello->gids > MESSAGE_GIDS) {
		r->bad = true;
		return;
	}
	for (uint32_t i = 0; i < hello->gids; i++) {
		base_le_bytes(r, hello->gid[i].gid, sizeof(hello->gid[i].gid));
		hello->gid[i].type = base_le_u8(r);
		if (hello->gid[i].type > IBV_GID_TYPE_ROCE_V2)
			r->bad = true;
	}
}

/* This version knows no part: it skips those that it may. */
static void get_parts(struct base_le_reader *r, struct transfer_message_hello *hello)
{
	hello->parts = (struct transfer_message_bytes){ r->at, r->left };
	hello->unknown = 0;
	r->bad |= r->left > MESSAGE_PARTS;
	while (r->left && !r->bad) {
		uint16_t type = base_le_u16(r), length = base_le_u16(r);

		base_le_skip(r, length);
		if (type & MESSAGE_PART_MUST && !hello->unknown)
			hello->unknown = type;
	}
}

static void get_hello(struct base_le_reader *r, struct transfer_message_hello *hello)
{
	get_port(r, &hello->port);
	get_gids(r, hello);
	hello->taken = base_le_u32(r);
	if (hello->taken >= MESSAGE_GIDS)
		r->bad = true;
	if (r->bad)
		return;
	get_text(r, hello->name, sizeof(hello->name));
	hello->lanes = base_le_u32(r);
	if (!hello->lanes || hello->lanes > MESSAGE_LANES) {
		r->bad = true;
		return;
	}
	for (uint32_t i = 0; i < hello->lanes; i++)
		get_lane(r, &hello->lane[i]);
	hello->abilities = base_le_u64(r);
	get_parts(r, hello);
}

static void get_step(struct base_le_reader *r, struct transfer_message_offer *offer)
{
	memset(offer, 0, sizeof(*offer));
	offer->index = base_le_u32(r);
	offer->epoch = base_le_u32(r);
	if (offer->index >= MESSAGE_LANES)
		r->bad = true;
}

static void get_refusal(struct base_le_reader *r, struct transfer_message_refusal *refusal)
{
	refusal->code = (int32_t)base_le_u32(r);
	get_text(r, refusal->cause, sizeof(refusal->cause));
	get_text(r, refusal->remedy, sizeof(refusal->remedy));
	if (refusal->code >= 0 || refusal->code < -4095)
		r->bad = true;
}

static void put_body(uint8_t **at, const struct transfer_message *message)
{
	switch (message->type) {
	case MESSAGE_HELLO:
	case MESSAGE_WELCOME:
		put_hello(at, &message->hello);
		break;
	case MESSAGE_OFFER:
	case MESSAGE_ANSWER:
		base_put_u32(at, message->offer.index);
		base_put_u32(at, message->offer.epoch);
		put_port(at, &message->offer.port);
		put_lane(at, &message->offer.lane);
		break;
	case MESSAGE_BROKEN:
	case MESSAGE_RESUME:
		base_put_u32(at, message->offer.index);
		base_put_u32(at, message->offer.epoch);
		break;
	case MESSAGE_REFUSED:
		base_put_u32(at, (uint32_t)message->refusal.code);
		base_put_bytes(at, message->refusal.cause, sizeof(message->refusal.cause));
		base_put_bytes(at, message->refusal.remedy, sizeof(message->refusal.remedy));
		break;
	case MESSAGE_NOTE:
		base_put_bytes(at, message->note.bytes, message->note.length);
		break;
	case MESSAGE_REVOKE:
	case MESSAGE_REVOKED:
		base_put_u64(at, message->generation);
		break;
	default:
		break;
	}
}

static void get_body(struct base_le_reader *r, struct transfer_message *message)
{
	switch (message->type) {
	case MESSAGE_HELLO:
	case MESSAGE_WELCOME:
		get_hello(r, &message->hello);
		break;
	case MESSAGE_OFFER:
	case MESSAGE_ANSWER:
		get_step(r, &message->offer);
		get_port(r, &message->offer.port);
		get_lane(r, &message->offer.lane);
		break;
	case MESSAGE_BROKEN:
	case MESSAGE_RESUME:
		get_step(r, &message->offer);
		break;
	case MESSAGE_REFUSED:
		get_refusal(r, &message->refusal);
		break;
	case MESSAGE_NOTE:
		message->note = (struct transfer_message_bytes){ r->at, r->left };
		r->bad = !r->left;
		r->left = 0;
		break;
	case MESSAGE_REVOKE:
	case MESSAGE_REVOKED:
		message->generation = base_le_u64(r);
		break;
	case MESSAGE_READY:
	case MESSAGE_BYE:
		break;
	default:
		r->bad = true;
	}
}

/* ---- whole messages ---- */

size_t transfer_message_encode(const struct transfer_message *message, uint8_t *out)
{
	uint8_t *at = out + MESSAGE_HEAD, *head = out;

	put_body(&at, message);
	base_put_u32(&head, MAGIC);
	base_put_u16(&head, MESSAGE_VERSION);
	base_put_u16(&head, (uint16_t)message->type);
	base_put_u32(&head, (uint32_t)(at - out - MESSAGE_HEAD));
	return (size_t)(at - out);
}

static int get_head(struct base_le_reader *r, enum transfer_message_type *type, uint32_t *body)
{
	uint32_t magic = base_le_u32(r);
	uint16_t version = base_le_u16(r), number = base_le_u16(r);

	*body = base_le_u32(r);
	if (magic != MAGIC)
		return -EPROTO;
	if (version != MESSAGE_VERSION && number != MESSAGE_REFUSED)
		return -EPROTONOSUPPORT;
	if (!number || (number >= MESSAGE_TYPES && number < MESSAGE_OPTIONAL))
		return -EPROTO;
	*type = (enum transfer_message_type)number;
	return *body > MESSAGE_BODY ? -EMSGSIZE : 0;
}

ssize_t transfer_message_length(const uint8_t *bytes, size_t length)
{
	struct base_le_reader r = { bytes, length, false };
	enum transfer_message_type type;
	uint32_t body;
	int ret;

	if (length < MESSAGE_HEAD)
		return 0;
	ret = get_head(&r, &type, &body);
	return ret ? ret : (ssize_t)(MESSAGE_HEAD + body);
}

int transfer_message_decode(const uint8_t *bytes, size_t length, struct transfer_message *message)
{
	struct base_le_reader r = { bytes, length, false };
	uint32_t body;
	int ret;

	if (length < MESSAGE_HEAD)
		return -EPROTO;
	ret = get_head(&r, &message->type, &body);
	if (ret)
		return ret;
	if (body != r.left)
		return -EPROTO;
	if (message->type >= MESSAGE_OPTIONAL)
		return 0;
	get_body(&r, message);
	return r.bad || r.left ? -EPROTO : 0;
}
