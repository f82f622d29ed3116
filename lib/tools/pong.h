/* SPDX-License-Identifier: MIT */
/*
 * Ping-pong: each side WRITEs into the other's memory and watches its own for
 * the answer.  Half a round trip is what one message takes from memory to
 * memory, and what ib_write_lat(1) calls latency.
 */
#ifndef TOOLS_PONG_H
#define TOOLS_PONG_H

#include "tools/fabric.h"

/** pong_serve() - answers @order, {"do": "pong", "size": N, "count": N}: plays
 *  against the client, whose offer follows.  0, or -errno as of a dead peer;
 *  @reply is to be sent. */
int pong_serve(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_buffer *buffer,
	       json_t *order, json_t **reply);

/**
 * pong_measure() - plays @count rounds, and notes half of each round's time
 * @us: OUT, microseconds, room for @count
 */
int pong_measure(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_offer *offer,
		 const struct fabric_buffer *buffer, uint64_t size, uint64_t count, double *us);

#endif
