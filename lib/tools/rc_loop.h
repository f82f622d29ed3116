/* SPDX-License-Identifier: MIT */
/*
 * Reliable connections for tests with real bytes: one queue pair an end, one
 * request after the other.  For speed there is the transfer library.
 */
#ifndef TOOLS_RC_LOOP_H
#define TOOLS_RC_LOOP_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include <mrguard/region.h>

/* What an end must know of the other one. */
struct rc_addr {
	uint32_t qpn;
	uint32_t lid;
	union ibv_gid gid;
};

struct rc_end {
	struct ibv_context *verbs; /* the caller's */
	struct ibv_pd *pd; /* the caller's */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	enum ibv_mtu mtu;
	bool ethernet;
	int gid_index;
	struct rc_addr addr;
	char fault[160]; /* what went wrong last, for people */
};

/** rc_device_open() - the RDMA device @name; NULL with errno set (ENODEV) */
struct ibv_context *rc_device_open(const char *name);

/** rc_open() - make an end on port 1.  Return: 0 or -errno, @end->fault set. */
int rc_open(struct rc_end *end, struct ibv_context *verbs, struct ibv_pd *pd);
void rc_close(struct rc_end *end);

/** rc_connect() - connect with the end at @peer, which does the same */
int rc_connect(struct rc_end *end, const struct rc_addr *peer);

/**
 * rc_transfer() - carry out READs or WRITEs, and wait for the end of each
 * @opcode: IBV_WR_RDMA_READ or IBV_WR_RDMA_WRITE
 *
 * Return: 0; -EIO (a completion with an error, named in @end->fault: the queue
 * pair is unusable then); -ETIMEDOUT (none within ten seconds); -errno of
 * ibv_post_send().
 */
int rc_transfer(struct rc_end *end, enum ibv_wr_opcode opcode, const struct mrg_seg_pair *pairs,
		size_t count);

#endif
