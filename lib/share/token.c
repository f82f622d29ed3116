/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "share/parts.h"
#include "share/token.h"

#define SMALLEST_PAGE 4096
#define STAGE "read token"

static const char magic[8] = "MRGSHARE";

struct token_head {
	char magic[8];
	uint16_t version;
	uint16_t reserved; /* 0 */
	uint32_t bytes; /* all of them */
	uint32_t check; /* CRC-32 of all bytes, with 0 here */
	uint32_t reserved2; /* 0 */
};

enum part_type {
	PART_RANGE = SHARE_PART_MUST | 1,
	PART_SERVER = SHARE_PART_MUST | 2, /* the address */
	PART_RUNS = SHARE_PART_MUST | 3,
	PART_HOST = 4,
	PART_OWNER = SHARE_PART_MUST | 5,
};

struct part_range {
	uint32_t kind;
	uint32_t reserved; /* 0 */
	uint64_t generation;
	uint8_t secret[SHARE_SECRET];
	uint8_t device[16];
	uint64_t addr;
	uint64_t skip;
	uint64_t length;
};

struct part_host {
	uint8_t boot[16];
	uint64_t netns;
};

/* It finds damage; against forgery there is the secret. */
static uint32_t checksum(const void *bytes, size_t length)
{
	static const uint8_t zeros[sizeof(uint32_t)];
	const size_t at = offsetof(struct token_head, check), after = at + sizeof(zeros);
	uLong sum = crc32_z(0, bytes, at);

	sum = crc32_z(sum, zeros, sizeof(zeros));
	return (uint32_t)crc32_z(sum, (const Bytef *)bytes + after, length - after);
}

static char *put_part(char *at, uint32_t type, const void *value, size_t bytes)
{
	struct share_part part = { type, (uint32_t)bytes };

	memcpy(at, &part, sizeof(part));
	if (bytes)
		memcpy(at + sizeof(part), value, bytes);
	return at + share_part_bytes(bytes);
}

ssize_t share_token_encode(const struct share_token *token, void **bytes)
{
	size_t run_bytes = token->run_count * sizeof(*token->runs);
	struct part_range range = {
		.kind = token->kind,
		.generation = token->generation,
		.addr = token->addr,
		.skip = token->skip,
		.length = token->length,
	};
	struct part_host host = { .netns = token->netns };
	struct token_head head = { .version = SHARE_VERSION };
	size_t length = sizeof(head) + share_part_bytes(sizeof(range)) +
			share_part_bytes(token->name_length) + share_part_bytes(run_bytes) +
			share_part_bytes(sizeof(token->owner)) + share_part_bytes(sizeof(host));
	char *out = calloc(1, length), *at;

	if (!out)
		return -ENOMEM;
	memcpy(head.magic, magic, sizeof(magic));
	memcpy(range.secret, token->secret, sizeof(range.secret));
	memcpy(range.device, token->device, sizeof(range.device));
	memcpy(host.boot, token->boot, sizeof(host.boot));
	at = put_part(out + sizeof(head), PART_RANGE, &range, sizeof(range));
	at = put_part(at, PART_SERVER, token->name, token->name_length);
	at = put_part(at, PART_RUNS, token->runs, run_bytes);
	at = put_part(at, PART_OWNER, &token->owner, sizeof(token->owner));
	put_part(at, PART_HOST, &host, sizeof(host));
	head.bytes = (uint32_t)length;
	memcpy(out, &head, sizeof(head));
	head.check = checksum(out, length);
	memcpy(out, &head, sizeof(head));
	*bytes = out;
	return (ssize_t)length;
}

static int damaged(struct mrg_error *error, const char *what)
{
	return base_error_set(error, -EBADMSG, STAGE, "Pass the bytes on as they are.",
			      "The token is damaged: %s.", what);
}

/* Before any other field is believed: whose bytes, and of which version. */
static int check_head(const void *bytes, size_t length, struct mrg_error *error)
{
	struct token_head head = { 0 };

	if (length < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)))
		return base_error_set(error, -EBADMSG, STAGE,
				      "Check that both sides mean the same kind of buffer.",
				      "The %zu bytes are not a token of mrguard.", length);
	memcpy(&head, bytes, length < sizeof(head) ? length : sizeof(head));
	if (length >= offsetof(struct token_head, reserved) && head.version != SHARE_VERSION)
		return share_bad_version(head.version, STAGE, "token", error);
	if (length < sizeof(head) || head.bytes != length)
		return base_error_set(
			error, -EBADMSG, STAGE, "Pass the bytes on as they are.",
			"The token is cut or too long: it has %zu bytes, and says %u.", length,
			head.bytes);
	if (head.check != checksum(bytes, length))
		return damaged(error, "its checksum is wrong");
	return head.reserved || head.reserved2 ? damaged(error, "its head is not zero") : 0;
}

static bool good_name(const struct share_token *token)
{
	size_t length = token->name_length;

	if (length < 2 || length > sizeof(token->name))
		return false;
	for (size_t i = length; i < sizeof(token->name); i++)
		if (token->name[i])
			return false;
	if (!token->name[0])
		return true;
	return token->name[0] == '/' && strnlen(token->name, length) == length - 1;
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
static bool add_up(struct share_token *token)
{
	for (size_t i = 0; i < token->run_count; i++) {
		const struct share_run *run = &token->runs[i];

		if (!good_run(run, token->kind) ||
		    run->count > (SHARE_MAX_BYTES - token->bytes) / run->size)
			return false;
		token->chunks += run->count;
		token->bytes += run->size * run->count;
		if (token->chunks > SHARE_MAX_CHUNKS)
			return false;
	}
	return token->chunks && (!share_is_ipc(token->kind) || token->chunks == 1);
}

static bool good_range(const struct share_token *token)
{
	return token->length && token->skip < token->runs[0].size &&
	       token->length <= token->bytes && token->skip <= token->bytes - token->length;
}

/* ---- its parts ---- */

static int take_range(const char *value, size_t bytes, struct share_token *token,
		      struct mrg_error *error)
{
	struct part_range range;

	if (bytes != sizeof(range))
		return damaged(error, "the range has another length");
	memcpy(&range, value, sizeof(range));
	if (range.kind < SHARE_HOST || range.kind > SHARE_HIP_IPC || range.reserved)
		return base_error_set(error, -EPROTONOSUPPORT, STAGE,
				      "Run the same release of libmrguard in both processes.",
				      "The token is of kind %u, which this release does not know.",
				      range.kind);
	token->kind = (enum share_kind)range.kind;
	token->generation = range.generation;
	memcpy(token->secret, range.secret, sizeof(token->secret));
	memcpy(token->device, range.device, sizeof(token->device));
	token->addr = range.addr;
	token->skip = range.skip;
	token->length = range.length;
	return 0;
}

static int take_server(const char *value, size_t bytes, struct share_token *token,
		       struct mrg_error *error)
{
	if (bytes > sizeof(token->name))
		return damaged(error, "its server's address is too long");
	memcpy(token->name, value, bytes);
	token->name_length = bytes;
	return good_name(token) ? 0 : damaged(error, "its server's address is not one");
}

static int take_runs(const char *value, size_t bytes, struct share_token *token,
		     struct mrg_error *error)
{
	if (!bytes || bytes % sizeof(*token->runs))
		return damaged(error, "its list of chunks has another length");
	token->runs = malloc(bytes);
	if (!token->runs)
		return base_error_set(error, -ENOMEM, STAGE, "",
				      "No memory is left for a list of %zu bytes.", bytes);
	memcpy(token->runs, value, bytes);
	token->run_count = bytes / sizeof(*token->runs);
	return 0;
}

static int take_host(const char *value, size_t bytes, struct share_token *token,
		     struct mrg_error *error)
{
	struct part_host host;

	if (bytes != sizeof(host))
		return damaged(error, "its host has another length");
	memcpy(&host, value, sizeof(host));
	memcpy(token->boot, host.boot, sizeof(token->boot));
	token->netns = host.netns;
	return 0;
}

static int take_owner(const char *value, size_t bytes, struct share_token *token,
		      struct mrg_error *error)
{
	if (bytes != sizeof(token->owner))
		return damaged(error, "its owner has another length");
	memcpy(&token->owner, value, sizeof(token->owner));
	return token->owner.reserved ? damaged(error, "a reserved word is not zero") : 0;
}

static const struct known_part {
	uint32_t type;
	int (*take)(const char *value, size_t bytes, struct share_token *token,
		    struct mrg_error *error);
} known_parts[] = {
	{ PART_RANGE, take_range }, { PART_SERVER, take_server }, { PART_RUNS, take_runs },
	{ PART_HOST, take_host },   { PART_OWNER, take_owner },
};
#define KNOWN_PARTS (sizeof(known_parts) / sizeof(known_parts[0]))

static int take_part(const struct share_part *part, const char *value, unsigned int *taken,
		     struct share_token *token, struct mrg_error *error)
{
	for (size_t i = 0; i < KNOWN_PARTS; i++) {
		if (known_parts[i].type != part->type)
			continue;
		if (*taken & 1u << i)
			return damaged(error, "it has a part twice");
		*taken |= 1u << i;
		return known_parts[i].take(value, part->bytes, token, error);
	}
	return share_part_unknown(part, STAGE, "token", error);
}

static int take_parts(struct share_parts parts, struct share_token *token, struct mrg_error *error)
{
	struct share_part part;
	unsigned int taken = 0;
	const char *value;
	int ret;

	while ((ret = share_part_next(&parts, &part, &value)) == 1) {
		ret = take_part(&part, value, &taken, token, error);
		if (ret)
			return ret;
	}
	if (ret)
		return damaged(error, "a part is cut");
	for (size_t i = 0; i < KNOWN_PARTS; i++)
		if (known_parts[i].type & SHARE_PART_MUST && !(taken & 1u << i))
			return damaged(error, "it lacks a part");
	if (!add_up(token) || !good_range(token))
		return damaged(error, "its chunks do not hold its range");
	return 0;
}

int share_token_decode(const void *bytes, size_t length, struct share_token *token,
		       struct mrg_error *error)
{
	struct share_token found = { 0 };
	struct share_parts parts;
	int ret = check_head(bytes, length, error);

	if (ret)
		return ret;
	parts.at = (const char *)bytes + sizeof(struct token_head);
	parts.left = length - sizeof(struct token_head);
	ret = take_parts(parts, &found, error);
	if (ret)
		free(found.runs);
	else
		*token = found;
	return ret;
}
