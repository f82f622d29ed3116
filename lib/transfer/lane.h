/* SPDX-License-Identifier: MIT */
/* Lanes: the queue pairs of an endpoint, and what is posted on them. */
#ifndef TRANSFER_LANE_H
#define TRANSFER_LANE_H

#include <stdbool.h>

#include "transfer/message.h"
#include "transfer/slice.h"

#define LANES_MAX MESSAGE_LANES

struct mrg_ep;

/*
 * UP -> DRAINING (the queue pair is in error, completions come back) ->
 * DOWN (it is destroyed) -> on the side that connected: OFFERED (a new one,
 * sent to the peer); on the side that listened: ANSWERED (the same in answer)
 * -> UP.
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
	uint32_t breaks; /* since the last success */
	uint32_t local_psn;
	uint64_t due; /* when its state has lasted too long */
	bool offered; /* @offer waits for the drain */
	bool reported; /* MESSAGE_BROKEN was sent */
	struct transfer_message_offer offer;
};

/* All with ep->lock held. */

/* A queue pair in INIT for @lane.  0 or -errno. */
int transfer_lane_make(struct mrg_ep *ep, struct transfer_lane *lane);
int transfer_lane_connect(struct mrg_ep *ep, struct transfer_lane *lane,
			  const struct transfer_message_port *peer,
			  const struct transfer_message_lane *other);
/* Its queue pair goes into error; the control thread takes it from there. */
void transfer_lane_break(struct mrg_ep *ep, struct transfer_lane *lane);
void transfer_lane_destroy(struct mrg_ep *ep, struct transfer_lane *lane);

int transfer_lanes_create(struct mrg_ep *ep, uint32_t count, struct transfer_message_hello *hello);
int transfer_lanes_connect(struct mrg_ep *ep, const struct transfer_message_hello *hello);
bool transfer_lanes_quiet(const struct mrg_ep *ep);
/* Nothing is posted any more, or nothing waits for it. */
void transfer_lanes_destroy(struct mrg_ep *ep);

/* remake.c: broken lanes, made again */

void transfer_remake_tick(struct mrg_ep *ep, struct transfer_lane *lane, uint64_t now);
int transfer_remake_message(struct mrg_ep *ep, const struct transfer_message *message);

#endif
