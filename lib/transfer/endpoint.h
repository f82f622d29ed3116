/* SPDX-License-Identifier: MIT */
/* An endpoint: the connection to one peer. */
#ifndef TRANSFER_ENDPOINT_H
#define TRANSFER_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <mrguard/transfer.h>

#include "base/error.h"
#include "transfer/lane.h"
#include "transfer/message.h"
#include "transfer/note.h"
#include "transfer/request.h"
#include "transfer/revoked.h"
#include "transfer/slice.h"
#include "transfer/socket.h"
#include "transfer/transfer.h"

enum transfer_ep_state {
	EP_DIALING, /* TCP connects */
	EP_GREETING, /* waits for HELLO or WELCOME */
	EP_CONFIRMING, /* waits for READY */
	EP_OPEN,
	EP_FAILED,
};

struct mrg_ep {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const struct transfer_ops *ops;
	struct mrg_transfer *transfer;

	/* posting and polling */
	struct ibv_cq *cq;
	struct transfer_lane lanes[LANES_MAX];
	uint32_t lane_count;
	uint32_t next_lane;
	uint32_t inline_bytes;
	struct transfer_request_queue queue; /* to be cut */
	struct transfer_slice_queue repeat;
	struct transfer_request_list active; /* all that are not done */
	struct transfer_request_list done;
	struct transfer_request_table requests;
	uint64_t ops_out; /* operations not done */
	struct mrg_ep_stats stats;

	/* sleeping */
	struct ibv_comp_channel *channel;
	int fd; /* epoll of the next two */
	int event; /* eventfd */
	bool armed;
	bool sleeper; /* a thread sleeps on fd for all that wait */
	unsigned int waiters;

	/* the peer */
	enum transfer_ep_state state;
	bool dialed; /* this side connected */
	bool settled; /* the peer's queue pairs are gone */
	struct mrg_error error;
	struct transfer_socket socket;
	size_t slot;
	struct mrg_listener *listener; /* until it is open */
	bool orphan; /* its listener is closed: the control thread frees it */
	STAILQ_ENTRY(mrg_ep) next_open; /* of the listener */
	char peer[160];
	struct route_gid gid;
	struct route_gid offered[MESSAGE_GIDS]; /* own, in HELLO */
	uint32_t offered_count;
	struct transfer_message_port port; /* own */
	struct transfer_message_port peer_port;
	uint64_t peer_abilities; /* MESSAGE_ABLE_* */
	_Atomic uint64_t due; /* when the control thread must look; set with the lock held */
	uint64_t greet_by; /* end of the handshake's time */
	struct transfer_notes notes;
	struct transfer_revoked revoked;
};

struct mrg_ep *transfer_ep_new(struct mrg_transfer *transfer, int fd, const char *peer);
/* What it sleeps on and is completed through.  0 or -errno, with ep->error set. */
int transfer_ep_equip(struct mrg_ep *ep);
/* Nothing knows it any more, and nothing is posted. */
void transfer_ep_free(struct mrg_ep *ep);

/* The rest with ep->lock held. */

/* It is of no use any more. */
void transfer_ep_fail(struct mrg_ep *ep, int code, const char *stage, const char *remedy,
		      const char *cause, ...) BASE_PRINTF(5, 6);
void transfer_ep_fail_with(struct mrg_ep *ep, const struct mrg_error *error);

#endif
