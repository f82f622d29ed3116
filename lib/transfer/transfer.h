/* SPDX-License-Identifier: MIT */
/*
 * The handle: a protection domain that is ready to meet peers.
 *
 * Data goes: submit.c copies a batch into a request and queues it; post.c cuts
 * it into slices (slice.c) and posts them on lanes; complete.c takes
 * completions, and request.c ends requests.  When a lane breaks, remake.c has
 * its queue pair drained and destroyed, tells the peer, and hands its unfinished
 * slices back once the peer's queue pair is gone as well: only then can no
 * packet of the old one arrive.
 *
 * The threads that call mrg_submit(), mrg_poll() or mrg_wait() post and poll.
 * The control thread (control.c) does the rest: handshakes, deadlines, broken
 * lanes.
 *
 * Locks: transfer->lock (which endpoints exist) before ep->lock (everything of
 * one endpoint).  The data path takes the latter alone.
 */
#ifndef TRANSFER_TRANSFER_H
#define TRANSFER_TRANSFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <mrguard/transfer.h>

#include "base/error.h"
#include "transfer/message.h"
#include "transfer/slots.h"
#include "transfer/verbs.h"

/* What the device and the options allow. */
struct transfer_limits {
	uint32_t lanes;
	uint32_t depth;
	uint32_t sges;
	uint32_t inline_bytes;
	uint32_t reads_out; /* READs in flight on a queue pair */
	uint32_t reads_in;
	uint32_t max_cqe;
	uint64_t slice;
};

/* Which GID goes to a peer: asking costs reading the port's table in sysfs. */
struct transfer_gid_answer {
	struct route_gid_peer peers[MESSAGE_GIDS];
	int peer_count;
	struct route_gid own;
	int theirs;
	uint64_t until;
};

struct mrg_transfer {
	const struct transfer_ops *ops;
	struct ibv_pd *pd;
	struct ibv_context *verbs;
	struct mrg_transfer_opts opts;
	struct transfer_limits limits;
	uint64_t error_owner;
	char name[MESSAGE_NAME];

	pthread_mutex_t lock; /* guards what follows */
	struct transfer_slots slots;
	struct transfer_gid_answer answer;
	bool stop;

	pthread_t thread;
	int kick; /* eventfd */
	_Atomic uint64_t wakes_at; /* when the thread looks again */
};

int transfer_open(struct mrg_transfer **out, struct ibv_pd *pd,
		  const struct mrg_transfer_opts *opts, const struct transfer_ops *ops);

/* Keeps the calling thread's failure.  Returns its code. */
#define transfer_fail(transfer, ...) base_fail((transfer)->error_owner, __VA_ARGS__)
#define transfer_fail_with(transfer, error) mrg_private_error_keep((transfer)->error_owner, error)

/* The control thread. */

int transfer_control_start(struct mrg_transfer *transfer);
void transfer_control_stop(struct mrg_transfer *transfer);

#endif
