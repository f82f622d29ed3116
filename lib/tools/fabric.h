/* SPDX-License-Identifier: MIT */
/*
 * What `serve', `copy' and `bench' share: a device made ready for transfers,
 * registered memory, and what a server tells its clients about it.
 */
#ifndef TOOLS_FABRIC_H
#define TOOLS_FABRIC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <mrguard/transfer.h>

#include "tools/args.h"

#define FABRIC_PORT "18600" /* TCP, the default */

/* The options of all three, for ARGS_GROUP. */
struct fabric_args {
	const char *device; /* NULL: the first with an active port */
	struct mrg_transfer_opts opts;
};
extern const struct args_option fabric_options[];

struct fabric {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct mrg_ctx *ctx;
	struct mrg_transfer *transfer;
	struct mrg_error error; /* of the last call that failed */
};

struct fabric_buffer {
	unsigned char *bytes;
	uint64_t length;
	struct mrg_mr *mr;
};

/* What a server has, as its client sees it. */
struct fabric_offer {
	char name[256];
	bool writable;
	uint64_t length;
	struct mrg_remote *remote;
};

/** fabric_open() - 0, or -errno with @fabric->error */
int fabric_open(struct fabric *fabric, const struct fabric_args *args);
void fabric_close(struct fabric *fabric);

/** fabric_connect() - to "HOST" or "HOST:PORT" or "[ADDR]:PORT" */
int fabric_connect(struct fabric *fabric, const char *peer, struct mrg_ep **ep);

/** fabric_alloc() - registered memory; @access as for mrg_reg() */
int fabric_alloc(struct fabric *fabric, uint64_t length, int access, struct fabric_buffer *buffer);
void fabric_free(struct fabric_buffer *buffer);

/** fabric_send() - a small object as a note; takes @object over */
int fabric_send(struct fabric *fabric, struct mrg_ep *ep, json_t *object);
/** fabric_receive() - the next object, NULL with @fabric->error */
json_t *fabric_receive(struct fabric *fabric, struct mrg_ep *ep, int timeout_ms);

/** fabric_offer() - tells a client of @buffer */
int fabric_offer(struct fabric *fabric, struct mrg_ep *ep, const struct fabric_buffer *buffer,
		 const char *name, bool writable);
/** fabric_take_offer() - the other end of it; @offer->remote is to be freed */
int fabric_take_offer(struct fabric *fabric, struct mrg_ep *ep, struct fabric_offer *offer);

/** fabric_finish() - waits for a request and frees it.  0, or -errno with
 *  @fabric->error */
int fabric_finish(struct fabric *fabric, struct mrg_ep *ep, uint64_t request);

/* A checksum against damage, not against forgery.  All parts but the last have
 * a multiple of 8 bytes. */
#define FABRIC_SUM_START 0x6d726775617264ULL
uint64_t fabric_sum(uint64_t sum, const void *bytes, uint64_t length);

#endif
