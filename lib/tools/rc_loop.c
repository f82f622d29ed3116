/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/rc_loop.h"

#define PORT 1
#define WAIT_SECONDS 10
#define LARGEST_REQUEST (1ULL << 30) /* RC carries 2 GiB at most */

struct ibv_context *rc_device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;
	int saved = ENODEV;

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		verbs = ibv_open_device(list[i]);
		saved = errno;
	}
	if (list)
		ibv_free_device_list(list);
	errno = saved;
	return verbs;
}

static int fail(struct rc_end *end, const char *what, int err)
{
	snprintf(end->fault, sizeof(end->fault), "%s: %s", what, strerror(err));
	return -err;
}

static bool zero_gid(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* Both ends sit on this host: the first GID that is set reaches them. */
static int find_gid(struct rc_end *end, const struct ibv_port_attr *port)
{
	for (int i = 0; i < port->gid_tbl_len; i++)
		if (!ibv_query_gid(end->verbs, PORT, i, &end->addr.gid) &&
		    !zero_gid(&end->addr.gid)) {
			end->gid_index = i;
			return 0;
		}
	return end->ethernet ? fail(end, "port 1 has no GID; give its netdev an address", ENODEV) :
			       0;
}

static int query_port(struct rc_end *end)
{
	struct ibv_port_attr port;
	int err = ibv_query_port(end->verbs, PORT, &port);

	if (err)
		return fail(end, "ibv_query_port", err);
	if (port.state != IBV_PORT_ACTIVE)
		return fail(end, "port 1 is not active", ENETDOWN);
	end->mtu = port.active_mtu;
	end->addr.lid = port.lid;
	end->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	return find_gid(end, &port);
}

static int to_init(struct rc_end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int err =
		ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return err ? fail(end, "queue pair to INIT", err) : 0;
}

int rc_open(struct rc_end *end, struct ibv_context *verbs, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int ret;

	*end = (struct rc_end){ .verbs = verbs, .pd = pd };
	ret = query_port(end);
	if (ret)
		return ret;
	end->cq = ibv_create_cq(verbs, 8, NULL, NULL, 0);
	if (!end->cq)
		return fail(end, "ibv_create_cq", errno);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(pd, &init);
	ret = end->qp ? to_init(end) : fail(end, "ibv_create_qp", errno);
	if (ret) {
		rc_close(end);
		return ret;
	}
	end->addr.qpn = end->qp->qp_num;
	return 0;
}

void rc_close(struct rc_end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	end->qp = NULL;
	end->cq = NULL;
}

static int to_rtr(struct rc_end *end, const struct rc_addr *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->mtu,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = (uint16_t)peer->lid, .port_num = PORT },
	};
	int err;

	if (end->ethernet) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = (uint8_t)end->gid_index;
		attr.ah_attr.grh.hop_limit = 1;
	}
	err = ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	return err ? fail(end, "queue pair to RTR", err) : 0;
}

int rc_connect(struct rc_end *end, const struct rc_addr *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int ret = to_rtr(end, peer), err;

	if (ret)
		return ret;
	err = ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return err ? fail(end, "queue pair to RTS", err) : 0;
}

static int wait_one(struct rc_end *end)
{
	struct timespec start, now;
	struct ibv_wc wc;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		n = ibv_poll_cq(end->cq, 1, &wc);
		if (n)
			break;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < WAIT_SECONDS);
	if (n < 0)
		return fail(end, "ibv_poll_cq", EIO);
	if (!n)
		return fail(end, "no completion came", ETIMEDOUT);
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	snprintf(end->fault, sizeof(end->fault), "completion with status %d, %s (vendor 0x%x)",
		 wc.status, ibv_wc_status_str(wc.status), wc.vendor_err);
	return -EIO;
}

static int transfer_one(struct rc_end *end, enum ibv_wr_opcode opcode, const struct mrg_seg *local,
			const struct mrg_seg *remote, uint64_t from, uint32_t length)
{
	struct ibv_sge sge = { .addr = local->wire + from, .length = length, .lkey = local->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = remote->wire + from, .rkey = remote->rkey },
	};
	int err = ibv_post_send(end->qp, &wr, &bad);

	return err ? fail(end, "ibv_post_send", err) : wait_one(end);
}

static int transfer_pair(struct rc_end *end, enum ibv_wr_opcode opcode,
			 const struct mrg_seg_pair *pair)
{
	uint64_t length = pair->local.length, n;
	int ret = 0;

	for (uint64_t from = 0; from < length && !ret; from += n) {
		n = length - from;
		if (n > LARGEST_REQUEST)
			n = LARGEST_REQUEST;
		ret = transfer_one(end, opcode, &pair->local, &pair->remote, from, (uint32_t)n);
	}
	return ret;
}

int rc_transfer(struct rc_end *end, enum ibv_wr_opcode opcode, const struct mrg_seg_pair *pairs,
		size_t count)
{
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++)
		ret = transfer_pair(end, opcode, &pairs[i]);
	return ret;
}
