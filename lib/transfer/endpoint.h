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

/* wake.c: waking the threads that an endpoint concerns */

/* Something changed: all threads that sleep look again. */
void transfer_ep_wake(struct mrg_ep *ep);
/* The control thread is to look at @ep at @due. */
void transfer_ep_look(struct mrg_ep *ep, uint64_t due);
/* The control thread is to look now. */
void transfer_kick(struct mrg_transfer *transfer);

/* await.c: sleeping until something holds */

/*
 * Carries on until @holds is true.  With ep->lock held, which is let go while
 * it sleeps.  0 or -EAGAIN.
 */
int transfer_ep_await(struct mrg_ep *ep, bool (*holds)(struct mrg_ep *ep, void *arg), void *arg,
		      int timeout_ms);

/* complete.c: taking completions */

/* Polls, and posts what there is room for. */
void transfer_ep_progress(struct mrg_ep *ep);
/* Polls alone. */
void transfer_ep_drain(struct mrg_ep *ep);

/* post.c: posting */

void transfer_post_all(struct mrg_ep *ep);

/* port.c: this side's port and GID */

/* Each 0, or -errno with ep->error set. */

/* The port and the GID as they are now, for a peer at @peers. */
int transfer_port_find(struct mrg_ep *ep, const struct route_gid_peer *peers, int count,
		       int *theirs);
/* The port as it is now, and the GID as it was, wherever in the table it is. */
int transfer_port_same(struct mrg_ep *ep);
/* No GID of the peer is known yet: offers this side's. */
int transfer_port_offer(struct mrg_ep *ep, struct transfer_message_hello *hello);
/* Of those that were offered, the one that the peer has taken. */
void transfer_port_take(struct mrg_ep *ep, uint32_t taken);
int transfer_port_fail(struct mrg_ep *ep, int code, const char *remedy, const char *cause);

/* handshake.c: how two endpoints meet */

/* The side that connects, before the control thread knows it: its queue pairs. */
int transfer_handshake_begin(struct mrg_ep *ep);
/* The time for a handshake begins. */
void transfer_handshake_greet(struct mrg_ep *ep);
int transfer_handshake_message(struct mrg_ep *ep, const struct transfer_message *message);
void transfer_handshake_tick(struct mrg_ep *ep, uint64_t now);

/* dispatch.c: messages of the peer, to the files that act on them */

/* The socket has these epoll(7) events. */
void transfer_dispatch_ready(struct mrg_ep *ep, uint32_t events);
/* The endpoint's time has come. */
void transfer_dispatch_tick(struct mrg_ep *ep, uint64_t now);

/* connect.c: the end of an endpoint's use, without the lock */

#define FAREWELL_MS 200 /* for the peer to take in that it is over */

/* True: BYE was sent, and transfer_ep_farewell() waits for its answer. */
bool transfer_ep_end(struct mrg_ep *ep);
/* Waits until the peer has read it, or until @until. */
void transfer_ep_farewell(struct mrg_ep *ep, uint64_t until);

#endif
