/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/wire.h"

#define SMALLEST_PAGE 4096
#define MESSAGE_MAGIC 0x4d524773 /* "MRGs" */

static const char magic[8] = "MRGSHARE";

/* The descriptor's fixed part; the runs follow. */
struct wire_descriptor {
	char magic[8];
	uint16_t version;
	uint16_t head;
	uint32_t bytes;
	uint32_t check;
	uint32_t kind;
	uint64_t generation;
	uint8_t token[SHARE_TOKEN];
	uint8_t boot[16];
	uint8_t device[16];
	uint64_t netns;
	uint64_t addr;
	uint64_t skip;
	uint64_t length;
	uint32_t run_count;
	uint32_t name_length;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uint32_t reserved;
};

/* CRC-32 (IEEE 802.3): finds damage; against forgery there is the token. */
static uint32_t crc32(uint32_t crc, const void *bytes, size_t length)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < length; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

static uint32_t checksum(const struct wire_descriptor *wire, const void *runs, size_t run_bytes)
{
	struct wire_descriptor copy = *wire;

	copy.check = 0;
	return ~crc32(crc32(~0u, &copy, sizeof(copy)), runs, run_bytes);
}

ssize_t share_encode(const struct share_descriptor *desc, void **bytes)
{
	size_t run_bytes = desc->run_count * sizeof(*desc->runs);
	struct wire_descriptor wire = {
		.version = SHARE_VERSION,
		.head = sizeof(wire),
		.bytes = (uint32_t)(sizeof(wire) + run_bytes),
		.kind = desc->kind,
		.generation = desc->generation,
		.netns = desc->netns,
		.addr = desc->addr,
		.skip = desc->skip,
		.length = desc->length,
		.run_count = (uint32_t)desc->run_count,
		.name_length = (uint32_t)desc->name_length,
	};
	char *out = malloc(sizeof(wire) + run_bytes);

	if (!out)
		return -ENOMEM;
	memcpy(wire.magic, magic, sizeof(magic));
	memcpy(wire.token, desc->token, sizeof(wire.token));
	memcpy(wire.boot, desc->boot, sizeof(wire.boot));
	memcpy(wire.device, desc->device, sizeof(wire.device));
	memcpy(wire.name, desc->name, desc->name_length);
	wire.check = checksum(&wire, desc->runs, run_bytes);
	memcpy(out, &wire, sizeof(wire));
	memcpy(out + sizeof(wire), desc->runs, run_bytes);
	*bytes = out;
	return (ssize_t)(sizeof(wire) + run_bytes);
}

__attribute__((format(printf, 4, 5))) static int refuse(struct mrg_error *error, int code,
							const char *remedy, const char *format, ...)
{
	va_list args;

	memset(error, 0, sizeof(*error));
	error->code = code;
	error->piece = -1;
	snprintf(error->stage, sizeof(error->stage), "read descriptor");
	snprintf(error->remedy, sizeof(error->remedy), "%s", remedy);
	va_start(args, format);
	vsnprintf(error->cause, sizeof(error->cause), format, args);
	va_end(args);
	return code;
}

static int damaged(struct mrg_error *error, const char *what)
{
	return refuse(error, -EBADMSG, "pass the bytes on as they are",
		      "the descriptor is damaged: %s", what);
}

/* Before any other field is believed: whose bytes, and of which version. */
static int check_envelope(const void *bytes, size_t length, struct wire_descriptor *wire,
			  struct mrg_error *error)
{
	if (length < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)))
		return refuse(error, -EBADMSG, "check that both sides mean the same kind of buffer",
			      "the %zu bytes are no descriptor of mrguard", length);
	memset(wire, 0, sizeof(*wire));
	memcpy(wire, bytes, length < sizeof(*wire) ? length : sizeof(*wire));
	if (length >= offsetof(struct wire_descriptor, head) && wire->version != SHARE_VERSION)
		return refuse(error, -EPROTONOSUPPORT,
			      "run the same version of libmrguard in both processes",
			      "the descriptor has version %u, and this library knows version %u",
			      wire->version, SHARE_VERSION);
	if (length < sizeof(*wire) || wire->head != sizeof(*wire) || wire->bytes != length)
		return refuse(error, -EBADMSG, "pass the bytes on as they are",
			      "the descriptor is cut: it has %zu bytes", length);
	return 0;
}

static bool good_name(const struct wire_descriptor *wire)
{
	size_t length = wire->name_length;

	if (length < 2 || length > sizeof(wire->name))
		return false;
	for (size_t i = length; i < sizeof(wire->name); i++)
		if (wire->name[i])
			return false;
	if (!wire->name[0])
		return true;
	return wire->name[0] == '/' && strnlen(wire->name, length) == length - 1;
}

static bool good_run(const struct share_run *run, enum share_kind kind)
{
	if (!run->size || !run->count || run->size > SHARE_MAX_BYTES ||
	    run->count > SHARE_MAX_CHUNKS)
		return false;
	return share_is_ipc(kind) || run->size % SMALLEST_PAGE == 0;
}

/* No sum can overflow: 2^46 bytes a chunk at most, and they are summed up one
 * run at a time against the limit. */
static bool add_up(struct share_descriptor *desc)
{
	for (size_t i = 0; i < desc->run_count; i++) {
		const struct share_run *run = &desc->runs[i];

		if (!good_run(run, desc->kind) ||
		    run->count > (SHARE_MAX_BYTES - desc->bytes) / run->size)
			return false;
		desc->chunks += run->count;
		desc->bytes += run->size * run->count;
		if (desc->chunks > SHARE_MAX_CHUNKS)
			return false;
	}
	return desc->chunks && (!share_is_ipc(desc->kind) || desc->chunks == 1);
}

static bool good_range(const struct share_descriptor *desc)
{
	return desc->length && desc->skip < desc->runs[0].size && desc->length <= desc->bytes &&
	       desc->skip <= desc->bytes - desc->length;
}

static void take_over(const struct wire_descriptor *wire, struct share_descriptor *desc)
{
	memset(desc, 0, sizeof(*desc));
	desc->kind = (enum share_kind)wire->kind;
	desc->generation = wire->generation;
	memcpy(desc->token, wire->token, sizeof(desc->token));
	memcpy(desc->boot, wire->boot, sizeof(desc->boot));
	memcpy(desc->device, wire->device, sizeof(desc->device));
	desc->netns = wire->netns;
	desc->addr = wire->addr;
	desc->skip = wire->skip;
	desc->length = wire->length;
	memcpy(desc->name, wire->name, sizeof(desc->name));
	desc->name_length = wire->name_length;
	desc->run_count = wire->run_count;
}

static int take_runs(const char *bytes, struct share_descriptor *desc, struct mrg_error *error)
{
	size_t run_bytes = desc->run_count * sizeof(*desc->runs);

	desc->runs = malloc(run_bytes);
	if (!desc->runs)
		return refuse(error, -ENOMEM, "", "no memory for %zu runs", desc->run_count);
	memcpy(desc->runs, bytes, run_bytes);
	if (add_up(desc) && good_range(desc))
		return 0;
	free(desc->runs);
	desc->runs = NULL;
	return damaged(error, "its chunks do not hold its range");
}

int share_decode(const void *bytes, size_t length, struct share_descriptor *desc,
		 struct mrg_error *error)
{
	struct wire_descriptor wire;
	struct share_descriptor found;
	size_t rest;
	int ret;

	ret = check_envelope(bytes, length, &wire, error);
	if (ret)
		return ret;
	rest = length - sizeof(wire);
	if (!wire.run_count || wire.run_count != rest / sizeof(struct share_run) ||
	    rest % sizeof(struct share_run))
		return damaged(error, "its list of chunks has another length");
	if (checksum(&wire, (const char *)bytes + sizeof(wire), rest) != wire.check)
		return damaged(error, "its checksum is wrong");
	if (wire.kind < SHARE_HOST || wire.kind > SHARE_HIP_IPC || wire.reserved)
		return refuse(error, -EPROTONOSUPPORT,
			      "run the same version of libmrguard in both processes",
			      "the descriptor is of kind %u, which this library does not know",
			      wire.kind);
	if (!good_name(&wire))
		return damaged(error, "its server's address is none");
	take_over(&wire, &found);
	ret = take_runs((const char *)bytes + sizeof(wire), &found, error);
	if (!ret)
		*desc = found;
	return ret;
}

/* ---- messages ---- */

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

static bool good_chunks(const struct share_chunks *chunks, size_t length)
{
	return length >= offsetof(struct share_chunks, chunks) && chunks->count &&
	       chunks->count <= SHARE_MAX_FDS &&
	       length == share_message_bytes(SHARE_CHUNKS, chunks->count);
}

static bool good_body(union share_message *message, size_t length)
{
	enum share_type type = (enum share_type)message->head.type;

	if (type == SHARE_CHUNKS)
		return good_chunks(&message->chunks, length);
	if (length != share_message_bytes(type, 0))
		return false;
	if (type == SHARE_REQUEST)
		return message->request.batch && message->request.batch <= SHARE_MAX_FDS;
	if (type == SHARE_ERROR) {
		message->failure.cause[SHARE_TEXT - 1] = '\0';
		message->failure.remedy[SHARE_TEXT - 1] = '\0';
		return message->failure.code < 0 && message->failure.code > -4096;
	}
	return true;
}

int share_check_message(union share_message *message, size_t length, bool to_server)
{
	const struct share_head *head = &message->head;
	bool for_server;

	if (length < sizeof(*head) || head->magic != MESSAGE_MAGIC)
		return -EPROTO;
	if (head->version != SHARE_VERSION)
		return -EPROTONOSUPPORT;
	if (head->type < SHARE_REQUEST || head->type > SHARE_ERROR)
		return -EPROTO;
	for_server = head->type == SHARE_REQUEST || head->type == SHARE_ACK;
	if (for_server != to_server || !good_body(message, length))
		return -EPROTO;
	return head->type;
}
