/* SPDX-License-Identifier: MIT */
/* Inside lib/share: a process's end, what it published, what it imported. */
#ifndef SHARE_HANDLE_H
#define SHARE_HANDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <mrguard/share.h>

#include "gpu/vmm.h"
#include "share/socket.h"

/* One chunk of a published range. */
struct share_piece {
	uint64_t addr; /* GPU */
	uint64_t size;
	uint64_t id; /* GPU: the driver's, see struct mrg_mem_chunk */
	int fd; /* memfd; HIP: kept once exported; or -1 */
	uint64_t offset; /* in the memfd */
};

/*
 * Locking: struct mrg_share.lock is for the lists and counts; struct
 * mrg_range.lock is held while the memory is touched, so that unpublishing
 * waits for it.  The first is never taken under the second.
 */
struct mrg_range {
	SLIST_ENTRY(mrg_range) next;
	struct mrg_share *share;
	unsigned int published; /* share.lock */
	unsigned int clients; /* share.lock: the server's references */
	pthread_mutex_t lock;
	bool withdrawn; /* lock */
	enum share_kind kind;
	int device;
	uint64_t addr, length, skip;
	struct share_piece *pieces;
	size_t count;
	uint64_t generation;
	uint8_t secret[SHARE_SECRET];
	void *token;
	size_t token_bytes;
};

struct share_server;
struct share_mapping;

struct mrg_share {
	uint64_t error_owner;
	pid_t pid;
	uint32_t timeout_ms;
	struct mrg_gpu *gpu;
	bool no_vmm;
	char *dir;
	uint8_t boot[16];
	uint64_t netns;
	pthread_mutex_t lock; /* what follows */
	pthread_cond_t imported;
	struct share_server *server;
	struct share_owner owner; /* this process, since it serves */
	SLIST_HEAD(, mrg_range) ranges;
	SLIST_HEAD(, share_mapping) mappings;
};

/* handle.c */

/** share_check() - -ECHILD in a child after fork */
int share_check(const struct mrg_share *share);
static inline enum gpu_vendor share_vendor(enum share_kind kind)
{
	return kind == SHARE_HIP_VMM || kind == SHARE_HIP_IPC ? GPU_HIP : GPU_CUDA;
}

/* server.c */

/** share_serve() - start the server, if there is none yet; under the lock.
 *  0 or -errno. */
int share_serve(struct mrg_share *share);
const struct share_address *share_served_at(const struct mrg_share *share);
void share_stop(struct mrg_share *share);
/** share_abandon() - in a child after fork: close what it has inherited */
void share_abandon(struct mrg_share *share);

/* range.c */

/** share_range_new() - a range of @count empty pieces, published once; NULL:
 *  no memory */
struct mrg_range *share_range_new(struct mrg_share *share, size_t count);
void share_range_free(struct mrg_range *range);
/** share_range_find() - the range with that name, and a reference; or NULL */
struct mrg_range *share_range_find(struct mrg_share *share, uint64_t generation,
				   const uint8_t secret[SHARE_SECRET]);
void share_range_put(struct mrg_share *share, struct mrg_range *range);
/** share_range_export() - new file descriptors for chunks from @first on
 *  @fds: OUT @count of them; Return: how many, at least 1, or -errno */
int share_range_export(struct mrg_range *range, uint32_t first, uint32_t count, int *fds);
int share_range_handle(struct mrg_range *range, struct gpu_ipc_handle *handle);
void share_range_drop_all(struct mrg_share *share);

/* fetch.c: the client's side of the protocol */

/* Where chunks go. */
struct share_sink {
	/** takes @fd over; 0 or -errno, with the failure kept for @share */
	int (*chunk)(void *to, int fd, uint64_t size, uint64_t offset);
	/** a message's chunks are all in; 0 or -errno; NULL: nothing is to be done */
	int (*settle)(void *to);
	int (*handle)(void *to, const uint8_t handle[SHARE_IPC]);
	void *to;
};

/** share_fetch() - ask @token's owner for its chunks
 *  @uid: that the owner must have, as it is seen here; NULL: that of the token.
 *  Return: 0 or -errno. */
int share_fetch(struct mrg_share *share, const struct share_token *token, const uid_t *uid,
		const struct share_sink *sink);

#endif
