/* SPDX-License-Identifier: MIT */
/*
 * The messages on the socket between an owner and a peer: a head, a body of a
 * length that the type gives, and parts (share/parts.h), of which this release
 * has none.  Checking is pure: it never acts.
 */
#ifndef SHARE_MESSAGE_H
#define SHARE_MESSAGE_H

#include <stdbool.h>

#include "share/parts.h"
#include "share/token.h"

#define SHARE_MAX_FDS 128 /* a message; the kernel takes 253 */
#define SHARE_MAX_MESSAGE 4096 /* bytes, with its parts */
#define SHARE_IPC 64
#define SHARE_TEXT sizeof(((struct mrg_error *)0)->cause)

enum share_type {
	SHARE_REQUEST = 1, /* to the server */
	SHARE_ACK = 2,
	SHARE_CHUNKS = 3, /* to the client; descriptors come with it */
	SHARE_HANDLE = 4,
	SHARE_ERROR = 5,
};

struct share_head {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
};

/* Chunks from @first on, at most @batch a message. */
struct share_request {
	struct share_head head;
	uint64_t generation;
	uint8_t secret[SHARE_SECRET];
	uint32_t first;
	uint32_t batch;
};

/* All chunks below @next are mapped, and their descriptors closed. */
struct share_ack {
	struct share_head head;
	uint32_t next;
	uint32_t reserved;
};

struct share_chunk {
	uint64_t size;
	uint64_t offset; /* in the file behind the descriptor */
};

struct share_chunks {
	struct share_head head;
	uint32_t first;
	uint32_t count;
	struct share_chunk chunks[SHARE_MAX_FDS];
};

struct share_handle {
	struct share_head head;
	uint8_t handle[SHARE_IPC];
};

struct share_failure {
	struct share_head head;
	int32_t code;
	uint32_t reserved;
	char cause[SHARE_TEXT];
	char remedy[SHARE_TEXT];
};

union share_message {
	struct share_head head;
	struct share_request request;
	struct share_ack ack;
	struct share_chunks chunks;
	struct share_handle handle;
	struct share_failure failure;
	char room[SHARE_MAX_MESSAGE];
};

void share_head(struct share_head *head, enum share_type type);
/** share_message_bytes() - of a message without parts; SHARE_CHUNKS: with
 *  @count */
size_t share_message_bytes(enum share_type type, uint32_t count);
/**
 * share_check_message() - is it one that @to_server may get
 * @message: @length bytes of it are valid; texts are ended with a zero, and
 *	control characters in them replaced
 * @error: OUT cause and remedy, when it fails
 * Return: its type; -EPROTO; -EPROTONOSUPPORT.
 */
int share_check_message(union share_message *message, size_t length, bool to_server,
			struct mrg_error *error);

#endif
