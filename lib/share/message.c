/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/error.h"
#include "base/text.h"
#include "share/message.h"

#define MESSAGE_MAGIC 0x4d524773 /* "MRGs" */

void share_head(struct share_head *head, enum share_type type)
{
	head->magic = MESSAGE_MAGIC;
	head->version = SHARE_VERSION;
	head->type = (uint16_t)type;
}

size_t share_message_bytes(enum share_type type, uint32_t count)
{
	switch (type) {
	case SHARE_REQUEST:
		return sizeof(struct share_request);
	case SHARE_ACK:
		return sizeof(struct share_ack);
	case SHARE_CHUNKS:
		return offsetof(struct share_chunks, chunks) + count * sizeof(struct share_chunk);
	case SHARE_HANDLE:
		return sizeof(struct share_handle);
	case SHARE_ERROR:
		return sizeof(struct share_failure);
	}
	return 0;
}

/* The length of the body, or 0: it does not fit in @length. */
static size_t body_bytes(const union share_message *message, size_t length)
{
	enum share_type type = (enum share_type)message->head.type;
	uint32_t count = 0;
	size_t bytes;

	if (type == SHARE_CHUNKS) {
		count = message->chunks.count;
		if (length < offsetof(struct share_chunks, chunks) || !count ||
		    count > SHARE_MAX_FDS)
			return 0;
	}
	bytes = share_message_bytes(type, count);
	return bytes <= length ? bytes : 0;
}

static void end_text(char text[SHARE_TEXT])
{
	text[SHARE_TEXT - 1] = '\0';
	base_make_plain(text);
}

static bool good_values(union share_message *message)
{
	switch (message->head.type) {
	case SHARE_REQUEST:
		return message->request.batch && message->request.batch <= SHARE_MAX_FDS;
	case SHARE_ERROR:
		end_text(message->failure.cause);
		end_text(message->failure.remedy);
		return message->failure.code < 0 && message->failure.code > -4096;
	}
	return true;
}

static int refuse(struct mrg_error *error, const char *cause)
{
	return base_error_set(error, -EPROTO, "read message",
			      "Run the same release of libmrguard in both processes.", "%s", cause);
}

static int check_parts(const char *at, size_t left, struct mrg_error *error)
{
	struct share_parts parts = { at, left };
	struct share_part part;
	const char *value;
	int ret;

	while ((ret = share_part_next(&parts, &part, &value)) == 1) {
		ret = share_part_unknown(&part, "read message", "message", error);
		if (ret)
			return ret;
	}
	return ret ? refuse(error, "A part of the message is cut.") : 0;
}

int share_check_message(union share_message *message, size_t length, bool to_server,
			struct mrg_error *error)
{
	const struct share_head *head = &message->head;
	size_t body;
	int ret;

	if (length < sizeof(*head) || head->magic != MESSAGE_MAGIC)
		return refuse(error, "The message is not one of mrguard.");
	if (head->version != SHARE_VERSION)
		return share_bad_version(head->version, "read message", "message", error);
	if (head->type < SHARE_REQUEST || head->type > SHARE_ERROR)
		return refuse(error, "The message is of a type that this release does not know.");
	if ((head->type == SHARE_REQUEST || head->type == SHARE_ACK) != to_server)
		return refuse(error, "The message is one that goes the other way.");
	body = body_bytes(message, length);
	if (!body || !good_values(message))
		return refuse(error, "The message has a length or values that its type forbids.");
	ret = check_parts((const char *)message + body, length - body, error);
	return ret ? ret : head->type;
}
