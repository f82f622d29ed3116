/* SPDX-License-Identifier: MIT */
/*
 * What endpoints consist of.  Internal to lib/transfer.
 *
 * Data goes: request.c copies a batch and queues it; post.c cuts it into slices
 * (slice.c) and posts them on lanes; complete.c takes completions and ends
 * requests.  When a lane breaks, lane.c has its queue pair drained and destroyed,
 * tells the peer, and hands its unfinished slices back once the peer's queue
 * pair is gone as well: only then can no packet of the old one arrive.
 *
 * Whoever calls mrg_submit(), mrg_poll() or mrg_wait() posts and polls.  All
 * else (handshakes, deadlines, broken lanes) is the control thread's
 * (control.c, handshake.c).
 *
 * Locks: transfer->lock (who exists) before ep->lock (everything of one
 * endpoint).  The data path takes the latter alone.
 */
#ifndef TRANSFER_TRANSFER_H
#define TRANSFER_TRANSFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include <mrguard/gid.h>
#include <mrguard/transfer.h>

#include "transfer/message.h"

#define LANES_MAX MESSAGE_LANES
#define OWN_GIDS 256 /* of a port, at most */
#define NEVER UINT64_MAX
#define MS 1000000ULL /* in ns */

struct transfer_gid {
	union ibv_gid gid;
	uint32_t index;
	uint32_t type; /* enum ibv_gid_type */
};

/*
 * What the engine asks of verbs.  transfer_ops_verbs is the real one; unit tests
 * have a device of their own behind it.
 */
struct transfer_ops {
	int (*query_device)(struct ibv_context *verbs, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr);
	/* GIDs of a port, the most wanted first; their number or -errno. */
	int (*list_gids)(struct ibv_context *verbs, uint8_t port, struct transfer_gid *gids,
			 int cap);
	/* Which of @own reaches which of @peers; 0 or -errno. */
	int (*choose_gid)(struct ibv_context *verbs, uint8_t port, const struct transfer_gid *own,
			  int own_count, const struct transfer_message_gid *peers, int peer_count,
			  int *mine, int *theirs, struct mrg_error *error);
	struct ibv_comp_channel *(*create_channel)(struct ibv_context *verbs);
	int (*destroy_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *verbs, int cqe,
				    struct ibv_comp_channel *channel);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
	int (*notify_cq)(struct ibv_cq *cq);
	/* Takes what the channel has, without blocking. */
	void (*clear_channel)(struct ibv_comp_channel *channel, struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
};

extern const struct transfer_ops transfer_ops_verbs;

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

/* An endpoint or a listener, known to the control thread by index and serial:
 * an event that was fetched before its end finds nobody. */
struct transfer_slot {
	uint32_t serial;
	struct mrg_ep *ep;
	struct mrg_listener *listener;
};

/* Which GID goes to a peer: asking costs reading the port's table in sysfs. */
struct transfer_gid_answer {
	struct transfer_message_gid peers[MESSAGE_GIDS];
	int peer_count;
	struct transfer_gid own;
	int theirs;
	uint64_t until; /* ns */
};

struct mrg_transfer {
	const struct transfer_ops *ops;
	struct ibv_pd *pd;
	struct ibv_context *verbs;
	struct mrg_transfer_opts opts;
	struct transfer_limits limits;
	uint64_t serial; /* tells handles apart in kept errors */
	char name[MESSAGE_NAME];

	pthread_mutex_t lock; /* guards what follows */
	struct transfer_slot *slots;
	size_t slot_count;
	struct transfer_gid_answer answer;
	bool stop;

	pthread_t thread;
	int epoll;
	int kick; /* eventfd */
	_Atomic uint64_t wakes_at; /* when the thread looks again, ns */
};

struct mrg_listener {
	struct mrg_transfer *transfer;
	int fd;
	size_t slot;
	unsigned int port;
	pthread_cond_t came; /* with transfer->lock */
	struct mrg_ep *first, *last; /* open, not accepted */
	size_t unaccepted;
	size_t greeting;
};

/* ---- requests ---- */

struct transfer_request_op {
	enum mrg_op_code code;
	uint32_t local_count;
	const struct mrg_local *local;
	const struct mrg_remote *remote;
	uint64_t remote_addr;
	uint64_t length;
};

/* Where the next slice is cut from. */
struct transfer_cursor {
	uint32_t op;
	uint32_t range; /* of the operation's local ones */
	uint64_t in_range;
	uint64_t in_op;
};

struct mrg_request {
	struct mrg_ep *ep;
	struct mrg_request *next_queued;
	struct mrg_request *next, *prev; /* of those not done */
	void *user;
	uint64_t left; /* bytes not confirmed */
	struct transfer_cursor cursor;
	uint32_t in_flight; /* slices posted, or in a broken lane */
	uint32_t waiting; /* slices to be repeated */
	uint32_t op_count;
	uint32_t range_count; /* of all operations together */
	bool queued;
	bool done;
	bool holds; /* buffers of a registry */
	bool waited; /* by mrg_wait(): not for mrg_poll() */
	struct mrg_result result;
	uint64_t total;
	uint64_t deadline; /* ns, NEVER */
	uint64_t abort_at; /* when its lanes are broken for it, NEVER */
	size_t bytes; /* of this allocation */
	struct transfer_request_op ops[];
};

/* A work request: part of an operation. */
struct transfer_slice {
	struct mrg_request *request;
	uint64_t offset; /* in the operation */
	uint32_t op;
	uint32_t length;
	uint32_t tries;
	uint32_t reserved;
};

/* Slices to be repeated, first in first out. */
struct transfer_slice_queue {
	struct transfer_slice *slices;
	size_t first, count, room;
};

/* ---- lanes ---- */

/*
 * UP -> DRAINING (the queue pair is in error, completions come back) ->
 * DOWN (it is destroyed) -> who connected: OFFERED (a new one, told to the
 * peer); who listened: ANSWERED (the same in answer) -> UP.
 */
enum transfer_lane_state {
	LANE_NONE,
	LANE_UP,
	LANE_DRAINING,
	LANE_DOWN,
	LANE_OFFERED,
	LANE_ANSWERED,
};

struct transfer_lane {
	enum transfer_lane_state state;
	struct ibv_qp *qp;
	struct transfer_slice *ring; /* of what is posted */
	uint32_t mask;
	uint32_t head; /* next to be posted */
	uint32_t tail; /* oldest not completed */
	uint32_t flushed; /* completed in error up to here */
	uint32_t depth; /* may shrink below the limit */
	uint32_t epoch;
	uint32_t barren; /* breaks since the last success */
	uint32_t local_psn;
	uint64_t due; /* when its state has lasted too long */
	bool offered; /* @offer waits for the drain */
	bool told; /* MESSAGE_BROKEN was sent */
	struct transfer_message_offer offer;
};

/* ---- endpoints ---- */

enum transfer_ep_state {
	EP_DIALING, /* TCP connects */
	EP_GREETING, /* waits for HELLO or WELCOME */
	EP_CONFIRMING, /* waits for READY */
	EP_OPEN,
	EP_FAILED,
};

struct transfer_note {
	struct transfer_note *next;
	size_t length;
	uint8_t bytes[];
};

struct transfer_revocation {
	struct transfer_revocation *next;
	uint64_t generation;
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
	struct mrg_request *queue_first, *queue_last; /* to be cut */
	struct transfer_slice_queue repeat;
	struct mrg_request *active; /* all that are not done */
	struct mrg_request *done_first, *done_last;
	struct mrg_request *spare; /* small ones, to be used again */
	size_t spare_count;
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
	bool closing;
	bool settled; /* the peer's queue pairs are gone */
	struct mrg_error error;
	int socket;
	size_t slot;
	uint64_t key; /* of the slot, in the thread's events */
	struct mrg_listener *listener; /* until it is open */
	bool orphan; /* of a listener that is closed: the thread's */
	struct mrg_ep *next_open; /* of the listener */
	char peer[160];
	struct transfer_gid gid;
	struct transfer_gid offered[MESSAGE_GIDS]; /* own, in HELLO */
	uint32_t offered_count;
	struct transfer_message_port port; /* own */
	struct transfer_message_port peer_port;
	_Atomic uint64_t due; /* when the control thread must look; set with the lock held */
	uint64_t greet_by; /* end of the handshake's time */
	uint8_t *rx;
	size_t rx_length, rx_room;
	uint8_t *tx;
	size_t tx_length, tx_room;
	bool tx_watched;
	struct transfer_note *note_first, *note_last;
	size_t note_bytes; /* with their heads: an empty note takes memory too */

	/* buffers that are gone */
	uint64_t *revoked; /* by the peer */
	size_t revoked_count;
	struct transfer_revocation *to_confirm; /* the peer waits for MESSAGE_REVOKED */
	uint64_t *confirmed; /* by the peer, of ours */
	size_t confirmed_count;
};

/* ---- transfer.c ---- */

int transfer_open(struct mrg_transfer **out, struct ibv_pd *pd,
		  const struct mrg_transfer_opts *opts, const struct transfer_ops *ops);
/* Keeps the calling thread's failure; returns @code. */
int transfer_fail(const struct mrg_transfer *transfer, int code, const char *stage,
		  const char *remedy, const char *cause, ...) __attribute__((format(printf, 5, 6)));
int transfer_fail_with(const struct mrg_transfer *transfer, const struct mrg_error *error);
void transfer_error_set(struct mrg_error *error, int code, const char *stage, const char *remedy,
			const char *cause, ...) __attribute__((format(printf, 5, 6)));
uint64_t transfer_now(void);

/* ---- control.c: the thread, and who it knows ---- */

int transfer_control_start(struct mrg_transfer *transfer);
void transfer_control_stop(struct mrg_transfer *transfer);
/* With transfer->lock held.  Sockets are watched for reading (and writing). */
int transfer_control_add_ep(struct mrg_ep *ep, bool writes);
int transfer_control_add_listener(struct mrg_listener *listener);
void transfer_control_remove(struct mrg_transfer *transfer, size_t slot, int fd);
void transfer_control_watch(struct mrg_ep *ep, bool writes);
/* The thread is to look at @ep at @due; with ep->lock held. */
void transfer_control_look(struct mrg_ep *ep, uint64_t due);
/* The time for a handshake begins. */
void transfer_control_greet(struct mrg_ep *ep);

/* ---- socket.c: bytes between the two ---- */

int transfer_socket_listen(struct mrg_transfer *transfer, const char *host, const char *service,
			   unsigned int *port);
int transfer_socket_dial(struct mrg_transfer *transfer, const char *host, const char *service,
			 char peer[80]);
void transfer_socket_prepare(int fd);
void transfer_socket_name(const struct sockaddr *addr, socklen_t length, char name[80]);
/* With ep->lock held.  0 or -errno. */
int transfer_socket_send(struct mrg_ep *ep, const struct transfer_message *message);
int transfer_socket_flush(struct mrg_ep *ep);
/* Reads what is there and hands messages to @take until it fails. */
int transfer_socket_receive(struct mrg_ep *ep,
			    int (*take)(struct mrg_ep *ep, const struct transfer_message *message));

/* ---- handshake.c: all with ep->lock held, by the control thread ---- */

void transfer_handshake_ready(struct mrg_ep *ep, uint32_t events);
void transfer_handshake_tick(struct mrg_ep *ep, uint64_t now);
/* Who connects, before the thread knows it: its queue pairs. */
int transfer_handshake_begin(struct mrg_ep *ep);
/* The port and the GID as they are now, for a peer at @peers. */
int transfer_handshake_port(struct mrg_ep *ep, const struct transfer_message_gid *peers, int count,
			    int *theirs);

/* The port as it is now, and the GID as it was, wherever in the table it is. */
int transfer_handshake_same_port(struct mrg_ep *ep);

/* ---- endpoint.c ---- */

struct mrg_ep *transfer_ep_new(struct mrg_transfer *transfer, int fd, const char *peer);
/* What it sleeps on and is completed through.  0 or -errno, told in ep->error. */
int transfer_ep_equip(struct mrg_ep *ep);
/* Nobody knows it any more, and nothing is posted. */
void transfer_ep_free(struct mrg_ep *ep);
/* With ep->lock held: it is of no use any more. */
void transfer_ep_fail(struct mrg_ep *ep, int code, const char *stage, const char *remedy,
		      const char *cause, ...) __attribute__((format(printf, 5, 6)));
void transfer_ep_fail_with(struct mrg_ep *ep, const struct mrg_error *error);
/* Something changed: whoever sleeps looks again. */
void transfer_ep_wake(struct mrg_ep *ep);
/*
 * Carries on until @holds is true.  With ep->lock held, which is let go while
 * it sleeps.  0 or -EAGAIN.
 */
int transfer_ep_await(struct mrg_ep *ep, bool (*holds)(struct mrg_ep *ep, void *arg), void *arg,
		      int timeout_ms);

/* ---- lane.c: with ep->lock held ---- */

int transfer_lanes_create(struct mrg_ep *ep, uint32_t count, struct transfer_message_hello *hello);
/* A lane that is not up: what can be dropped of failed requests is. */
void transfer_lane_drop_failed(struct mrg_ep *ep, struct transfer_lane *lane);
int transfer_lanes_connect(struct mrg_ep *ep, const struct transfer_message_hello *hello);
void transfer_lane_break(struct mrg_ep *ep, struct transfer_lane *lane);
void transfer_lane_tick(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now);
int transfer_lane_message(struct mrg_ep *ep, const struct transfer_message *message);
bool transfer_lanes_quiet(const struct mrg_ep *ep);
void transfer_lanes_destroy(struct mrg_ep *ep);

/* ---- gid.c ---- */

/* The most wanted first. */
void transfer_gid_sort(struct transfer_gid *gids, int count);

/* By routes; and by what the two have in common alone. */
int transfer_gid_choose(struct ibv_context *verbs, uint8_t port, const struct transfer_gid *own,
			int own_count, const struct transfer_message_gid *peers, int peer_count,
			int *mine, int *theirs, struct mrg_error *error);
int transfer_gid_match(struct ibv_context *verbs, uint8_t port, const struct transfer_gid *own,
		       int own_count, const struct transfer_message_gid *peers, int peer_count,
		       int *mine, int *theirs, struct mrg_error *error);

/* ---- slice.c: pure ---- */

/* Room for the ranges of one work request. */
struct transfer_cut {
	struct ibv_sge *sge;
	uint32_t sges; /* OUT */
	uint64_t wire; /* OUT, the remote side's */
	uint32_t rkey; /* OUT */
	uint32_t length; /* OUT, > 0 */
};

/**
 * transfer_slice_cut() - the next work request of an operation
 * @at: moved on behind it; its op is not looked at
 * @max: bytes, at most
 */
void transfer_slice_cut(const struct transfer_request_op *op, struct transfer_cursor *at,
			uint64_t max, uint32_t max_sges, struct transfer_cut *cut);
/* mrg_keys(), wherever the range is registered. */
ssize_t transfer_slice_keys(const struct mrg_local *local, uint64_t addr, uint64_t length,
			    struct mrg_seg *segs, size_t cap);
/* A cursor for @offset of an operation. */
void transfer_slice_seek(const struct transfer_request_op *op, uint64_t offset,
			 struct transfer_cursor *at);

struct mrg_remote {
	uint64_t addr;
	uint64_t length;
	uint64_t generation;
	size_t count;
	struct mrg_desc_piece pieces[];
};
const struct mrg_desc_piece *transfer_remote_piece(const struct mrg_remote *remote, uint64_t start);

/* ---- post.c, complete.c, request.c: with ep->lock held ---- */

void transfer_post_all(struct mrg_ep *ep);
/* Polls, and posts what there is room for. */
void transfer_ep_progress(struct mrg_ep *ep);
/* Polls alone. */
void transfer_ep_drain(struct mrg_ep *ep);

int transfer_slice_queue_push(struct transfer_slice_queue *queue,
			      const struct transfer_slice *slice);
bool transfer_slice_queue_pop(struct transfer_slice_queue *queue, struct transfer_slice *slice);

/* The first cause counts.  It is done once nothing of it is in flight. */
void transfer_request_fail(struct mrg_request *request, const struct mrg_result *cause);
void transfer_request_fail_all(struct mrg_ep *ep, int status);
/* A slice is no longer in flight, and was not carried out: it will be repeated,
 * or its request is one less from its end. */
void transfer_request_repeat(struct mrg_ep *ep, const struct transfer_slice *slice);
/* A slice was carried out. */
void transfer_request_confirm(struct mrg_request *request, uint32_t length);
void transfer_request_tick(struct mrg_ep *ep, uint64_t now);
bool transfer_request_uses(const struct mrg_request *request, uint64_t generation);

/* ---- revoke.c ---- */

int transfer_revoke_message(struct mrg_ep *ep, const struct transfer_message *message);
void transfer_revoke_confirm(struct mrg_ep *ep);
bool transfer_revoke_names(const struct mrg_ep *ep, uint64_t generation);

/* ---- cause.c: pure ---- */

/* What a completion means: fills in status and side.  True: worth repeating. */
bool transfer_cause_of(const struct ibv_wc *wc, struct mrg_result *result);

#endif
