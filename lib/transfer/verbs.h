/* SPDX-License-Identifier: MIT */
/* What the engine asks of verbs; unit tests have a device of their own behind it. */
#ifndef TRANSFER_VERBS_H
#define TRANSFER_VERBS_H

#include <infiniband/verbs.h>

#include "route/gid_pair.h"

struct transfer_ops {
	int (*query_device)(struct ibv_context *verbs, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr);
	/* As route_gid_list() and route_gid_pair(). */
	int (*list_gids)(struct ibv_context *verbs, uint8_t port, struct route_gid *gids, int cap);
	int (*pair_gids)(struct ibv_context *verbs, uint8_t port, const struct route_gid *own,
			 int own_count, const struct route_gid_peer *peers, int peer_count,
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

#endif
