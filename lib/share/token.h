/* SPDX-License-Identifier: MIT */
/* A published range's token: the bytes that its owner hands to a peer.
 * Decoding is pure: it checks, it never acts. */
#ifndef SHARE_TOKEN_H
#define SHARE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include <mrguard/common.h>

#include "share/owner.h"

#define SHARE_MAX_CHUNKS (1u << 20)
#define SHARE_MAX_BYTES (1ull << 46)
#define SHARE_SECRET 16

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
 * struct share_token - a published range
 * @generation, @secret: name it; a peer must show both
 * @boot:	the machine's boot id; zeros = not known
 * @device:	see gpu_device_key(); zeros for host memory
 * @netns:	the owner's network namespace; 0 = not known
 * @owner:	the process that serves it
 * @addr:	where the owner has it, for messages alone
 * @skip:	where in the first chunk the range starts
 * @length:	of the range
 * @name, @name_length: the server's address
 * @runs, @run_count: the chunks
 * @chunks, @bytes: their number and sum, worked out when decoding
 */
struct share_token {
	enum share_kind kind;
	uint64_t generation;
	uint8_t secret[SHARE_SECRET];
	uint8_t boot[16];
	uint8_t device[16];
	uint64_t netns;
	struct share_owner owner;
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

/** share_token_encode() - to bytes, which are to be freed.  Their number or
 *  -ENOMEM. */
ssize_t share_token_encode(const struct share_token *token, void **bytes);

/**
 * share_token_decode() - from bytes that may be anything
 * @token: OUT; @token->runs is to be freed
 * @error: OUT cause and remedy, when it fails
 *
 * Return: 0; -EBADMSG, -EPROTONOSUPPORT, -ENOMEM.
 */
int share_token_decode(const void *bytes, size_t length, struct share_token *token,
		       struct mrg_error *error);

#endif
