/* SPDX-License-Identifier: MIT */
/*
 * RDMA devices that tests make up, on a network that they can spoil.
 *
 * Work requests become packets, which a thread carries out one after the other
 * for a queue pair, and in any order between queue pairs.  A WRITE is carried
 * out by the peer's queue pair: a packet that is late is so even where its
 * sender's queue pair is gone, as long as the receiver's is there.  A READ
 * writes only while its own queue pair is.
 */
#ifndef UNIT_TRANSFER_FAKE_H
#define UNIT_TRANSFER_FAKE_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "region/mr.h"
#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/listener.h"
#include "transfer/slice.h"
#include "transfer/transfer.h"

#define of_member(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

#define NICS 4
#define KEYS 4096
#define QPS 8192
#define SGES_MAX 16

struct packet {
	struct packet *next;
	uint64_t wr_id;
	uint32_t number; /* in its queue */
	enum ibv_wr_opcode opcode;
	bool signalled;
	uint64_t due;
	uint32_t sges;
	struct ibv_sge sge[SGES_MAX];
	uint64_t remote;
	uint32_t rkey;
	uint64_t length;
	uint8_t *inlined;
};

struct fake_cq {
	struct ibv_cq cq; /* first: verbs hands this out */
	struct ibv_wc *ring;
	uint32_t *numbers; /* of the packets */
	uint32_t room, head, tail;
	bool armed;
};

struct fake_qp {
	struct ibv_qp qp; /* first */
	struct fake_nic *nic;
	struct fake_cq *cq;
	enum ibv_qp_state state;
	struct ibv_qp_cap cap;
	uint32_t peer, sq_psn, rq_psn, rd_atomic, dest_rd_atomic;
	int mtu;
	uint32_t posted, retired; /* between them, places are taken */
	struct packet *first, *last;
};

struct fake_key {
	bool valid;
	struct fake_nic *nic;
	uint64_t wire, length;
	uint8_t *bytes;
	int access;
};

struct fake_nic {
	struct ibv_device device;
	struct ibv_context context;
	struct ibv_pd pd;
	struct ibv_device_attr attr;
	struct route_gid gids[4];
	int gid_count;
	_Atomic bool port_down;
};

/* What goes wrong, for whoever sets it. */
static struct {
	_Atomic int fail_after; /* packets; then one with @status; -1: none */
	_Atomic int status;
	_Atomic int vendor;
	_Atomic uint32_t delay_us; /* of each packet */
	_Atomic bool cut; /* nothing arrives */
	_Atomic bool lose_flushes;
	_Atomic int lose_first; /* flushes of a queue pair, before others */
	_Atomic bool late_packets; /* of queue pairs that are gone go on */
	_Atomic uint32_t sq_room; /* less than was promised; 0: not */
	_Atomic bool no_inline;
	_Atomic int fail_create; /* queue pairs until one cannot be made; -1 */
	_Atomic int no_route; /* connections until one has no way; -1 */
} faults;

static struct {
	struct fake_nic nics[NICS];
	struct fake_key keys[KEYS];
	uint32_t key_count;
	struct fake_qp *qps[QPS];
	uint32_t qp_count, live_qps, live_cqs;
	struct packet *ghosts; /* their queue pair is gone */
	uint32_t ghost_peer[64];
	uint64_t packets, writes, overruns, stray, late;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	bool stop;
	unsigned int random;
} net;

static uint64_t fake_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- keys ---- */

static uint8_t *key_bytes(struct fake_nic *nic, uint32_t key, uint64_t wire, uint64_t length,
			  int access)
{
	struct fake_key *k = &net.keys[(key >> 8) % KEYS];

	if (!k->valid || k->nic != nic || (k->access & access) != access || wire < k->wire ||
	    wire - k->wire > k->length || length > k->length - (wire - k->wire))
		return NULL;
	return k->bytes + (wire - k->wire);
}

static inline uint32_t add_key(struct fake_nic *nic, uint8_t *bytes, uint64_t wire, uint64_t length)
{
	uint32_t index;

	pthread_mutex_lock(&net.lock);
	index = ++net.key_count;
	assert_true(index < KEYS);
	net.keys[index] = (struct fake_key){
		true,  nic,
		wire,  length,
		bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
	};
	pthread_mutex_unlock(&net.lock);
	return index << 8 | 0x5a;
}

/* ---- completions ---- */

static void push_wc(struct fake_qp *qp, const struct packet *packet, enum ibv_wc_status status)
{
	struct fake_cq *cq = qp->cq;
	struct ibv_wc *wc = &cq->ring[cq->head % cq->room];
	uint64_t one = 1;

	if (cq->head - cq->tail == cq->room) {
		net.overruns++;
		return;
	}
	*wc = (struct ibv_wc){ .wr_id = packet->wr_id,
			       .status = status,
			       .qp_num = qp->qp.qp_num,
			       .vendor_err = status ? (uint32_t)faults.vendor : 0 };
	cq->numbers[cq->head++ % cq->room] = packet->number;
	if (cq->armed) {
		cq->armed = false;
		if (write(cq->cq.channel->fd, &one, sizeof(one)) < 0)
			net.stray++;
	}
}

static struct packet *pop(struct fake_qp *qp)
{
	struct packet *packet = qp->first;

	qp->first = packet->next;
	if (!qp->first)
		qp->last = NULL;
	return packet;
}

static void free_packet(struct packet *packet)
{
	free(packet->inlined);
	free(packet);
}

static void make_ghost(struct fake_qp *qp, struct packet *packet)
{
	if (!faults.late_packets || packet->opcode != IBV_WR_RDMA_WRITE) {
		free_packet(packet);
		return;
	}
	packet->wr_id = qp->peer; /* where it goes */
	packet->next = net.ghosts;
	net.ghosts = packet;
}

static void flush_qp(struct fake_qp *qp)
{
	qp->state = IBV_QPS_ERR;
	while (qp->first) {
		struct packet *packet = pop(qp);

		if (faults.lose_first > 0)
			faults.lose_first--;
		else if (!faults.lose_flushes)
			push_wc(qp, packet, IBV_WC_WR_FLUSH_ERR);
		make_ghost(qp, packet);
	}
}

/* ---- the network ---- */

static struct fake_qp *find_qp(uint32_t qpn)
{
	return qpn < QPS ? net.qps[qpn] : NULL;
}

static void move_bytes(const struct packet *packet, uint8_t *remote, uint8_t **local)
{
	for (uint32_t i = 0; i < packet->sges; i++) {
		uint32_t n = packet->sge[i].length;

		if (packet->opcode == IBV_WR_RDMA_READ)
			memcpy(local[i], remote, n);
		else
			memcpy(remote, local[i], n);
		remote += n;
	}
}

static enum ibv_wc_status carry_out(struct fake_qp *qp, struct packet *packet)
{
	struct fake_qp *peer = find_qp(qp->peer);
	bool read = packet->opcode == IBV_WR_RDMA_READ;
	uint8_t *local[SGES_MAX], *remote;

	if (faults.cut || !peer || peer->peer != qp->qp.qp_num || peer->state < IBV_QPS_RTR ||
	    peer->state == IBV_QPS_ERR || peer->rq_psn != qp->sq_psn || peer->mtu != qp->mtu ||
	    qp->nic->port_down || peer->nic->port_down)
		return IBV_WC_RETRY_EXC_ERR;
	for (uint32_t i = 0; i < packet->sges; i++) {
		local[i] = packet->inlined ? packet->inlined :
					     key_bytes(qp->nic, packet->sge[i].lkey,
						       packet->sge[i].addr, packet->sge[i].length,
						       read ? IBV_ACCESS_LOCAL_WRITE : 0);
		if (!local[i])
			return IBV_WC_LOC_PROT_ERR;
	}
	remote = key_bytes(peer->nic, packet->rkey, packet->remote, packet->length,
			   read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
	if (!remote)
		return IBV_WC_REM_ACCESS_ERR;
	move_bytes(packet, remote, local);
	net.writes++;
	return IBV_WC_SUCCESS;
}

static bool is_to_fail(void)
{
	int left = faults.fail_after;

	if (left < 0)
		return false;
	faults.fail_after = left - 1;
	return left == 0;
}

static void deliver(struct fake_qp *qp)
{
	struct packet *packet = qp->first;
	enum ibv_wc_status status;

	net.packets++;
	status = is_to_fail() ? (enum ibv_wc_status)faults.status : carry_out(qp, packet);
	packet = pop(qp);
	if (status != IBV_WC_SUCCESS || packet->signalled)
		push_wc(qp, packet, status);
	free_packet(packet);
	if (status != IBV_WC_SUCCESS)
		flush_qp(qp);
}

/* A late packet still finds its receiver, if that is the same one. */
static void deliver_ghost(struct packet *packet)
{
	struct fake_qp *peer = find_qp((uint32_t)packet->wr_id);
	uint8_t *local[SGES_MAX], *remote = NULL;

	if (peer && peer->state >= IBV_QPS_RTR && peer->state != IBV_QPS_ERR)
		remote = key_bytes(peer->nic, packet->rkey, packet->remote, packet->length,
				   IBV_ACCESS_REMOTE_WRITE);
	for (uint32_t i = 0; i < packet->sges && remote; i++) {
		struct fake_key *k = &net.keys[(packet->sge[i].lkey >> 8) % KEYS];

		local[i] = packet->inlined ? packet->inlined :
					     k->bytes + (packet->sge[i].addr - k->wire);
	}
	if (remote) {
		move_bytes(packet, remote, local);
		net.late++;
	}
	free_packet(packet);
}

static bool due_ghost(uint64_t now, uint64_t *next)
{
	for (struct packet **at = &net.ghosts; *at; at = &(*at)->next) {
		struct packet *packet = *at;

		if (packet->due > now) {
			*next = packet->due < *next ? packet->due : *next;
			continue;
		}
		*at = packet->next;
		deliver_ghost(packet);
		return true;
	}
	return false;
}

/* Some queue pair's oldest packet. */
static bool due_packet(uint64_t now, uint64_t *next)
{
	uint32_t start = (uint32_t)rand_r(&net.random) % (net.qp_count + 1);

	for (uint32_t i = 0; i <= net.qp_count; i++) {
		struct fake_qp *qp = net.qps[(start + i) % (net.qp_count + 1)];

		if (!qp || !qp->first)
			continue;
		if (qp->first->due <= now) {
			deliver(qp);
			return true;
		}
		*next = qp->first->due < *next ? qp->first->due : *next;
	}
	return false;
}

static void *network(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&net.lock);
	while (!net.stop) {
		uint64_t now = fake_now(), next = UINT64_MAX;
		struct timespec at;

		if (due_ghost(now, &next) || due_packet(now, &next))
			continue;
		if (next == UINT64_MAX) {
			pthread_cond_wait(&net.work, &net.lock);
			continue;
		}
		at = (struct timespec){ (time_t)(next / 1000000000), (long)(next % 1000000000) };
		pthread_cond_timedwait(&net.work, &net.lock, &at);
	}
	pthread_mutex_unlock(&net.lock);
	return NULL;
}

/* ---- verbs ---- */

static int fake_query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	*attr = of_member(verbs, struct fake_nic, context)->attr;
	return 0;
}

static int fake_query_port(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr)
{
	struct fake_nic *nic = of_member(verbs, struct fake_nic, context);

	if (port != 1)
		return EINVAL;
	*attr = (struct ibv_port_attr){ .state = nic->port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
					.active_mtu = IBV_MTU_4096,
					.max_msg_sz = 1u << 30,
					.link_layer = IBV_LINK_LAYER_ETHERNET,
					.gid_tbl_len = 4 };
	return 0;
}

static int fake_list_gids(struct ibv_context *verbs, uint8_t port, struct route_gid *gids, int cap)
{
	struct fake_nic *nic = of_member(verbs, struct fake_nic, context);

	(void)port;
	for (int i = 0; i < nic->gid_count && i < cap; i++)
		gids[i] = nic->gids[i];
	return nic->gid_count;
}

static struct ibv_comp_channel *fake_create_channel(struct ibv_context *verbs)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->context = verbs;
	channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return channel;
}

static int fake_destroy_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *verbs, int cqe,
				     struct ibv_comp_channel *channel)
{
	struct fake_cq *cq = calloc(1, sizeof(*cq));
	void *ring = calloc((size_t)cqe, sizeof(*cq->ring));
	void *numbers = calloc((size_t)cqe, sizeof(*cq->numbers));

	if (!cq || !ring || !numbers) {
		free(cq);
		free(ring);
		free(numbers);
		return NULL;
	}
	cq->cq.context = verbs;
	cq->cq.channel = channel;
	cq->room = (uint32_t)cqe;
	cq->ring = ring;
	cq->numbers = numbers;
	pthread_mutex_lock(&net.lock);
	net.live_cqs++;
	pthread_mutex_unlock(&net.lock);
	return &cq->cq;
}

static int fake_destroy_cq(struct ibv_cq *verbs_cq)
{
	struct fake_cq *cq = (struct fake_cq *)verbs_cq;

	pthread_mutex_lock(&net.lock);
	net.live_cqs--;
	pthread_mutex_unlock(&net.lock);
	free(cq->ring);
	free(cq->numbers);
	free(cq);
	return 0;
}

static int fake_poll_cq(struct ibv_cq *verbs_cq, int count, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)verbs_cq;
	int n = 0;

	pthread_mutex_lock(&net.lock);
	for (; n < count && cq->tail != cq->head; n++) {
		uint32_t at = cq->tail++ % cq->room;
		struct fake_qp *qp = find_qp(cq->ring[at].qp_num);

		wc[n] = cq->ring[at];
		/* A completion frees the places of all before it. */
		if (qp)
			qp->retired = cq->numbers[at] + 1;
	}
	pthread_mutex_unlock(&net.lock);
	return n;
}

static int fake_notify_cq(struct ibv_cq *verbs_cq)
{
	struct fake_cq *cq = (struct fake_cq *)verbs_cq;

	pthread_mutex_lock(&net.lock);
	cq->armed = true;
	pthread_mutex_unlock(&net.lock);
	return 0;
}

static void fake_clear_channel(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	uint64_t count;

	(void)cq;
	while (read(channel->fd, &count, sizeof(count)) > 0)
		;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;

	if (faults.no_inline && init->cap.max_inline_data) {
		errno = EINVAL;
		return NULL;
	}
	if (faults.fail_create >= 0 && faults.fail_create-- == 0) {
		errno = ENOMEM;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->nic = of_member(pd, struct fake_nic, pd);
	qp->cq = (struct fake_cq *)init->send_cq;
	qp->cap = init->cap;
	qp->state = IBV_QPS_RESET;
	pthread_mutex_lock(&net.lock);
	qp->qp.qp_num = ++net.qp_count;
	assert_true(net.qp_count < QPS - 1);
	net.qps[qp->qp.qp_num] = qp;
	net.live_qps++;
	pthread_mutex_unlock(&net.lock);
	return &qp->qp;
}

static int fake_modify_qp(struct ibv_qp *verbs_qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)verbs_qp;

	(void)mask;
	if (attr->qp_state == IBV_QPS_RTR && faults.no_route >= 0 && faults.no_route-- == 0)
		return ENETUNREACH;
	pthread_mutex_lock(&net.lock);
	switch (attr->qp_state) {
	case IBV_QPS_RTR:
		qp->peer = attr->dest_qp_num;
		qp->rq_psn = attr->rq_psn;
		qp->mtu = attr->path_mtu;
		qp->dest_rd_atomic = attr->max_dest_rd_atomic;
		break;
	case IBV_QPS_RTS:
		qp->sq_psn = attr->sq_psn;
		qp->rd_atomic = attr->max_rd_atomic;
		break;
	case IBV_QPS_ERR:
		flush_qp(qp);
		break;
	default:
		break;
	}
	qp->state = attr->qp_state;
	pthread_mutex_unlock(&net.lock);
	return 0;
}

static int fake_destroy_qp(struct ibv_qp *verbs_qp)
{
	struct fake_qp *qp = (struct fake_qp *)verbs_qp;

	pthread_mutex_lock(&net.lock);
	while (qp->first)
		make_ghost(qp, pop(qp));
	net.qps[qp->qp.qp_num] = NULL;
	net.live_qps--;
	pthread_mutex_unlock(&net.lock);
	free(qp);
	return 0;
}

static struct packet *make_packet(const struct ibv_send_wr *wr)
{
	struct packet *packet = calloc(1, sizeof(*packet));

	if (!packet)
		return NULL;
	packet->wr_id = wr->wr_id;
	packet->opcode = wr->opcode;
	packet->signalled = wr->send_flags & IBV_SEND_SIGNALED;
	packet->due = fake_now() + faults.delay_us * 1000ull;
	packet->sges = (uint32_t)wr->num_sge;
	memcpy(packet->sge, wr->sg_list, packet->sges * sizeof(*packet->sge));
	packet->remote = wr->wr.rdma.remote_addr;
	packet->rkey = wr->wr.rdma.rkey;
	for (uint32_t i = 0; i < packet->sges; i++)
		packet->length += packet->sge[i].length;
	return packet;
}

/* Data of an inline request is taken when it is posted. */
static bool take_inline(struct fake_qp *qp, struct packet *packet)
{
	uint8_t *at;

	if (packet->length > qp->cap.max_inline_data) {
		net.stray++;
		return true;
	}
	at = packet->inlined = malloc(packet->length);
	if (!at)
		return false;
	for (uint32_t i = 0; i < packet->sges; i++) {
		memcpy(at,
		       key_bytes(qp->nic, packet->sge[i].lkey, packet->sge[i].addr,
				 packet->sge[i].length, 0),
		       packet->sge[i].length);
		at += packet->sge[i].length;
	}
	packet->sges = 1;
	packet->sge[0].length = (uint32_t)packet->length;
	return true;
}

static int post_one(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t room = faults.sq_room ? faults.sq_room : qp->cap.max_send_wr;
	struct packet *packet;

	if (qp->posted - qp->retired >= room) {
		net.overruns += !faults.sq_room;
		return ENOMEM;
	}
	if (wr->num_sge > (int)qp->cap.max_send_sge ||
	    (wr->opcode == IBV_WR_RDMA_READ && !qp->rd_atomic))
		return EINVAL;
	packet = make_packet(wr);
	if (!packet || (wr->send_flags & IBV_SEND_INLINE && !take_inline(qp, packet))) {
		free(packet);
		return ENOMEM;
	}
	if (qp->last)
		qp->last->next = packet;
	else
		qp->first = packet;
	qp->last = packet;
	packet->number = qp->posted++;
	if (qp->state == IBV_QPS_ERR)
		flush_qp(qp);
	return 0;
}

static int fake_post_send(struct ibv_qp *verbs_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)verbs_qp;
	int err = 0;

	pthread_mutex_lock(&net.lock);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = post_one(qp, wr);
	*bad = err ? wr : NULL;
	pthread_cond_signal(&net.work);
	pthread_mutex_unlock(&net.lock);
	return err;
}

static const struct transfer_ops fake_ops = {
	.query_device = fake_query_device,
	.query_port = fake_query_port,
	.list_gids = fake_list_gids,
	.pair_gids = route_gid_match,
	.create_channel = fake_create_channel,
	.destroy_channel = fake_destroy_channel,
	.create_cq = fake_create_cq,
	.destroy_cq = fake_destroy_cq,
	.poll_cq = fake_poll_cq,
	.notify_cq = fake_notify_cq,
	.clear_channel = fake_clear_channel,
	.create_qp = fake_create_qp,
	.modify_qp = fake_modify_qp,
	.destroy_qp = fake_destroy_qp,
	.post_send = fake_post_send,
};

/* ---- a test's world ---- */

static void fake_no_faults(void)
{
	memset(&faults, 0, sizeof(faults));
	faults.fail_after = faults.fail_create = faults.no_route = -1;
}

static void init_nic(struct fake_nic *nic, int number)
{
	*nic = (struct fake_nic){ .attr = { .max_qp_wr = 4096,
					    .max_sge = 8,
					    .max_cqe = 65536,
					    .max_qp_rd_atom = 16,
					    .max_qp_init_rd_atom = 16 },
				  .gid_count = 1 };
	snprintf(nic->device.name, sizeof(nic->device.name), "fake%d", number);
	nic->context.device = &nic->device;
	nic->pd.context = &nic->context;
	nic->gids[0].type = IBV_GID_TYPE_ROCE_V2;
	memcpy(nic->gids[0].gid.raw,
	       (uint8_t[16]){ [10] = 0xff,
			      [11] = 0xff,
			      [12] = 192,
			      [14] = 2,
			      [15] = (uint8_t)(1 + number) },
	       16);
}

static int fake_setup(void **state)
{
	pthread_condattr_t attr;

	(void)state;
	memset(&net, 0, sizeof(net));
	fake_no_faults();
	net.random = 1;
	for (int i = 0; i < NICS; i++)
		init_nic(&net.nics[i], i);
	pthread_mutex_init(&net.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&net.work, &attr);
	pthread_create(&net.thread, NULL, network, NULL);
	return 0;
}

/* Nothing of verbs may be left. */
static int fake_teardown(void **state)
{
	bool clean;

	(void)state;
	pthread_mutex_lock(&net.lock);
	net.stop = true;
	clean = !net.live_qps && !net.live_cqs && !net.overruns && !net.stray;
	if (!clean)
		print_error("left: %u queue pairs, %u CQs; %llu overruns, %llu strays\n",
			    net.live_qps, net.live_cqs, (unsigned long long)net.overruns,
			    (unsigned long long)net.stray);
	pthread_cond_signal(&net.work);
	pthread_mutex_unlock(&net.lock);
	pthread_join(net.thread, NULL);
	while (net.ghosts) {
		struct packet *next = net.ghosts->next;

		free_packet(net.ghosts);
		net.ghosts = next;
	}
	return clean ? 0 : -1;
}

#define FAKE_TEST(test) cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)

/* ---- buffers: in MRs of @piece bytes, at wire addresses of their own ---- */

struct fake_buffer {
	struct mrg_mr mr;
	uint8_t *bytes;
	struct mrg_remote *remote;
};

static inline uint64_t piece_length(uint64_t piece, uint64_t at, uint64_t length)
{
	return length - at < piece ? length - at : piece;
}

static inline void buffer_make(struct fake_buffer *b, int nic, uint64_t length, uint64_t piece)
{
	size_t count = (length + piece - 1) / piece;
	struct mrg_desc_piece *pieces = calloc(count, sizeof(*pieces));
	static uint64_t wire = 0x100000000;

	*b = (struct fake_buffer){ .bytes = malloc(length) };
	b->mr.addr = (uintptr_t)b->bytes;
	b->mr.length = length;
	b->mr.count = count;
	b->mr.pieces = calloc(count, sizeof(*b->mr.pieces));
	for (size_t i = 0; i < count; i++) {
		struct region_piece *p = &b->mr.pieces[i];

		p->start = i * piece;
		p->length = piece_length(piece, p->start, length);
		p->delta = wire - p->start;
		p->lkey = p->rkey = add_key(&net.nics[nic], b->bytes + p->start, wire, p->length);
		pieces[i] = (struct mrg_desc_piece){ p->start, p->length, wire, p->rkey, 0 };
		wire += p->length + 0x1000;
	}
	region_mr_index(&b->mr);
	assert_int_equal(mrg_remote_make(b->mr.addr, pieces, count, 1 + net.key_count, &b->remote),
			 0);
	free(pieces);
}

static inline void buffer_free(struct fake_buffer *b)
{
	pthread_mutex_lock(&net.lock);
	for (size_t i = 0; i < b->mr.count; i++)
		net.keys[(b->mr.pieces[i].lkey >> 8) % KEYS].valid = false;
	pthread_mutex_unlock(&net.lock);
	mrg_remote_free(b->remote);
	free(b->mr.pieces);
	free(b->bytes);
}

static inline void buffer_fill(struct fake_buffer *b, uint64_t seed)
{
	for (uint64_t i = 0; i < b->mr.length; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		b->bytes[i] = (uint8_t)(seed >> 56);
	}
}

/* ---- two sides, each with a handle of its own ---- */

struct fake_sides {
	struct mrg_transfer *a, *b;
	struct mrg_listener *listener;
	char port[8];
	struct mrg_ep *ep, *peer; /* of a, of b */
};

static inline void sides_open(struct fake_sides *s, const struct mrg_transfer_opts *opts)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(transfer_open(&s->a, &net.nics[0].pd, opts, &fake_ops), 0);
	assert_int_equal(transfer_open(&s->b, &net.nics[1].pd, opts, &fake_ops), 0);
	assert_int_equal(mrg_listener_open(s->b, "127.0.0.1", NULL, &s->listener), 0);
	snprintf(s->port, sizeof(s->port), "%u", mrg_listener_port(s->listener));
	assert_int_equal(mrg_ep_connect(s->a, "127.0.0.1", s->port, &s->ep), 0);
	assert_int_equal(mrg_listener_accept(s->listener, 5000, &s->peer), 0);
}

static inline void sides_close(struct fake_sides *s)
{
	mrg_ep_close(s->ep);
	mrg_ep_close(s->peer);
	mrg_listener_close(s->listener);
	mrg_transfer_close(s->a);
	mrg_transfer_close(s->b);
}

#endif
