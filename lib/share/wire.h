/* SPDX-License-Identifier: MIT */
/*
 * What goes between processes: the descriptor, and the messages on the socket.
 * Both ends run on one machine, so numbers are in its byte order; the magic
 * words tell foreign bytes.  Decoding is pure: it checks, it never acts.
 */
#ifndef SHARE_WIRE_H
#define SHARE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include <mrguard/common.h>

#define SHARE_VERSION 1
#define SHARE_MAX_CHUNKS (1u << 20)
#define SHARE_MAX_BYTES (1ull << 46)
#define SHARE_MAX_FDS 128 /* a message; the kernel takes 253 */
#define SHARE_TOKEN 16
#define SHARE_IPC 64
#define SHARE_TEXT 160

enum share_kind {
	SHARE_HOST = 1,
	SHARE_CUDA_VMM = 2,
	SHARE_HIP_VMM = 3,
	SHARE_CUDA_IPC = 4,
	SHARE_HIP_IPC = 5,
};

static inline bool share_is_vmm(enum share_kind kind)
{
	return kind == SHARE_CUDA_VMM || kind == SHARE_HIP_VMM;
}

static inline bool share_is_ipc(enum share_kind kind)
{
	return kind == SHARE_CUDA_IPC || kind == SHARE_HIP_IPC;
}

/* @count chunks of @size bytes each */
struct share_run {
	uint64_t size;
	uint64_t count;
};

/**
 * struct share_descriptor - a published range
 * @generation, @token: name it; the token is secret
 * @boot:	the machine's boot id; zeros = not known
 * @device:	see mrg_gpu_device_key(); zeros for host memory
 * @netns:	the owner's network namespace; 0 = not known
 * @addr:	where the owner has it, for messages alone
 * @skip:	where in the first chunk the range starts
 * @length:	of the range
 * @name, @name_length: the server's address
 * @runs, @run_count: the chunks
 * @chunks, @bytes: their number and sum, worked out when decoding
 */
struct share_descriptor {
	enum share_kind kind;
	uint64_t generation;
	uint8_t token[SHARE_TOKEN];
	uint8_t boot[16];
	uint8_t device[16];
	uint64_t netns;
	uint64_t addr;
	uint64_t skip;
	uint64_t length;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	size_t name_length;
	struct share_run *runs;
	size_t run_count;
	uint64_t chunks;
	uint64_t bytes;
};

/** share_encode() - to bytes, which are to be freed.  Their number or
 *  -ENOMEM. */
ssize_t share_encode(const struct share_descriptor *desc, void **bytes);

/**
 * share_decode() - from bytes that may be anything
 * @desc: OUT; @desc->runs is to be freed
 * @error: OUT cause and remedy, when it fails
 *
 * Return: 0; -EBADMSG, -EPROTONOSUPPORT, -ENOMEM.
 */
int share_decode(const void *bytes, size_t length, struct share_descriptor *desc,
		 struct mrg_error *error);

/* ---- messages ---- */

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
	uint8_t token[SHARE_TOKEN];
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
};

void share_head(struct share_head *head, enum share_type type);
/** share_message_bytes() - a message's length; SHARE_CHUNKS: with @count */
size_t share_message_bytes(enum share_type type, uint32_t count);
/**
 * share_check_message() - is it one that @to_server may get
 * @message: @length bytes of it are valid; texts are ended with a zero
 * Return: its type; -EPROTO; -EPROTONOSUPPORT.
 */
int share_check_message(union share_message *message, size_t length, bool to_server);

#endif
