/* SPDX-License-Identifier: MIT */
/* The engine's verbs as they are. */
#include <fcntl.h>

#include "transfer/verbs.h"

static int query_port(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr)
{
	return ibv_query_port(verbs, port, attr);
}

/* Without blocking: the descriptor is polled next to others. */
static struct ibv_comp_channel *create_channel(struct ibv_context *verbs)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(verbs);
	int flags;

	if (!channel)
		return NULL;
	flags = fcntl(channel->fd, F_GETFL);
	if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK)) {
		ibv_destroy_comp_channel(channel);
		return NULL;
	}
	return channel;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe,
				struct ibv_comp_channel *channel)
{
	return ibv_create_cq(verbs, cqe, NULL, channel, 0);
}

static int notify_cq(struct ibv_cq *cq)
{
	return ibv_req_notify_cq(cq, 0);
}

static void clear_channel(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	unsigned int events = 0;
	struct ibv_cq *from;
	void *context;

	while (!ibv_get_cq_event(channel, &from, &context))
		events++;
	if (events)
		ibv_ack_cq_events(cq, events);
}

const struct transfer_ops transfer_ops_verbs = {
	.query_device = ibv_query_device,
	.query_port = query_port,
	.list_gids = route_gid_list,
	.pair_gids = route_gid_pair,
	.create_channel = create_channel,
	.destroy_channel = ibv_destroy_comp_channel,
	.create_cq = create_cq,
	.destroy_cq = ibv_destroy_cq,
	.poll_cq = ibv_poll_cq,
	.notify_cq = notify_cq,
	.clear_channel = clear_channel,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.destroy_qp = ibv_destroy_qp,
	.post_send = ibv_post_send,
};
