// SPDX-License-Identifier: GPL-2.0-only
/*
 * Executing work requests.  All of it happens on the requester's side, in the
 * post_send call where it can: both ends of a connection are in this module.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "simnic.h"

/* What is no completion yet; everything from 0 up is an enum ib_wc_status. */
#define SIMNIC_RNR (-1) /* the peer has no receive posted */
#define SIMNIC_NO_REPLY (-2) /* there is no such peer, or not yet */

/* A count of 7 means without end (IBA 11.2.5.3). */
#define SIMNIC_RNR_FOREVER 7

/*
 * Receives are posted without a system call, so a QP in the error state looks
 * for some to flush from time to time.
 */
#define SIMNIC_FLUSH_INTERVAL msecs_to_jiffies(20)

/* IBA 9.7.5.2.8: the RNR timer field, in units of 10 us. */
static const u32 rnr_delay[32] = { 65536, 1,	2,    3,     4,	    6,	   8,	  12,
				   16,	  24,	32,   48,    64,    96,	   128,	  192,
				   256,	  384,	512,  768,   1024,  1536,  2048,  3072,
				   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

struct wr_op {
	int (*run)(struct simnic_qp *qp, struct simnic_qp *peer);
	enum ib_wc_opcode wc_opcode;
	int local_access;
};

/*
 * The receiving side; all under the peer's rq_lock.
 */

static bool recv_fetch(struct simnic_qp *qp)
{
	const struct rxe_recv_wqe *wqe = simnic_ring_peek(qp->rq);
	struct rxe_recv_wqe *copy = qp->rwqe;

	if (!wqe)
		return false;
	memcpy(copy, wqe, sizeof(*copy));
	copy->dma.num_sge = min(copy->dma.num_sge, qp->cap.max_recv_sge);
	memcpy(copy->dma.sge, wqe->dma.sge, copy->dma.num_sge * sizeof(copy->dma.sge[0]));
	return true;
}

/* Makes the list that @len bytes go to; returns the receive's status. */
static int recv_scatter(struct simnic_qp *qp, u64 len)
{
	const struct rxe_dma_info *dma = &qp->rwqe->dma;
	u32 i;

	simnic_sglist_init(&qp->recv, IB_WC_REM_OP_ERR);
	for (i = 0; i < dma->num_sge; i++) {
		const struct rxe_sge *sge = &dma->sge[i];

		if (simnic_sglist_add(&qp->recv, qp, sge->lkey, sge->addr, sge->length,
				      IB_ACCESS_LOCAL_WRITE))
			return IB_WC_LOC_PROT_ERR;
	}
	return qp->recv.length < len ? IB_WC_LOC_LEN_ERR : IB_WC_SUCCESS;
}

static void recv_complete(struct simnic_qp *qp, const struct simnic_qp *from, int status,
			  u32 opcode)
{
	const struct rxe_send_wr *wr = &from->swqe->wr;
	bool imm = wr->opcode != IB_WR_SEND;
	struct ib_uverbs_wc wc = {
		.wr_id = qp->rwqe->wr_id,
		.status = status,
		.opcode = opcode,
		.byte_len = from->local.length,
		.ex.imm_data = imm ? wr->ex.imm_data : 0,
		.wc_flags = imm ? IB_WC_WITH_IMM : 0,
		.qp_num = qp->ib.qp_num,
		.src_qp = from->ib.qp_num,
		.port_num = SIMNIC_PORT,
	};

	simnic_ring_consumed(qp->rq);
	if (status)
		simnic_qp_fail(qp, -1);
	simnic_cq_add(qp->ib.recv_cq, &wc, status || wr->send_flags & IB_SEND_SOLICITED);
}

static void rq_flush(struct simnic_qp *qp)
{
	mutex_lock(&qp->rq_lock);
	while (atomic_read(&qp->state) == IB_QPS_ERR && recv_fetch(qp)) {
		struct ib_uverbs_wc wc = {
			.wr_id = qp->rwqe->wr_id,
			.status = IB_WC_WR_FLUSH_ERR,
			.opcode = IB_WC_RECV,
			.qp_num = qp->ib.qp_num,
		};

		simnic_ring_consumed(qp->rq);
		simnic_cq_add(qp->ib.recv_cq, &wc, true);
	}
	mutex_unlock(&qp->rq_lock);
}

/*
 * The operations.  Each returns the requester's status.
 */

/* Finds the remote end of an RDMA or atomic operation, as the peer sees it. */
static int wr_remote(struct simnic_qp *qp, struct simnic_qp *peer, u64 addr, u32 rkey, u64 len,
		     int access)
{
	simnic_sglist_init(&qp->remote, IB_WC_REM_OP_ERR);
	if (!(READ_ONCE(peer->attr.qp_access_flags) & access)) {
		simnic_qp_fail(peer, IB_EVENT_QP_REQ_ERR);
		return IB_WC_REM_INV_REQ_ERR;
	}
	if (simnic_sglist_add(&qp->remote, peer, rkey, addr, len, access)) {
		simnic_qp_fail(peer, IB_EVENT_QP_ACCESS_ERR);
		return IB_WC_REM_ACCESS_ERR;
	}
	return IB_WC_SUCCESS;
}

/* READ and atomics need resources for them at both ends. */
static int wr_rd_atomic(struct simnic_qp *qp, struct simnic_qp *peer)
{
	if (!qp->attr.max_rd_atomic)
		return IB_WC_LOC_QP_OP_ERR;
	if (READ_ONCE(peer->attr.max_dest_rd_atomic))
		return IB_WC_SUCCESS;
	simnic_qp_fail(peer, IB_EVENT_QP_REQ_ERR);
	return IB_WC_REM_INV_REQ_ERR;
}

static int run_write(struct simnic_qp *qp, struct simnic_qp *peer)
{
	const struct rxe_send_wr *wr = &qp->swqe->wr;
	int status = wr_remote(qp, peer, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey,
			       qp->local.length, IB_ACCESS_REMOTE_WRITE);

	if (!status)
		status = simnic_copy(qp->dev, &qp->remote, &qp->local);
	simnic_sglist_put(&qp->remote);
	return status;
}

static int run_read(struct simnic_qp *qp, struct simnic_qp *peer)
{
	const struct rxe_send_wr *wr = &qp->swqe->wr;
	int status = wr_rd_atomic(qp, peer);

	if (status)
		return status;
	status = wr_remote(qp, peer, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey, qp->local.length,
			   IB_ACCESS_REMOTE_READ);
	if (!status)
		status = simnic_copy(qp->dev, &qp->local, &qp->remote);
	simnic_sglist_put(&qp->remote);
	return status;
}

/* The requester's status after a receive that ended with @status. */
static int recv_nak(int status)
{
	switch (status) {
	case IB_WC_SUCCESS:
		return IB_WC_SUCCESS;
	case IB_WC_LOC_LEN_ERR:
		return IB_WC_REM_INV_REQ_ERR;
	default:
		return IB_WC_REM_OP_ERR;
	}
}

static int send_to(struct simnic_qp *qp, struct simnic_qp *peer)
{
	int status = recv_scatter(peer, qp->local.length);
	int told;

	if (!status) {
		told = simnic_copy(qp->dev, &peer->recv, &qp->local);
		/* The sender's own trouble: the receive stays posted. */
		if (told == qp->local.stray)
			return told;
		status = told ? IB_WC_LOC_ACCESS_ERR : IB_WC_SUCCESS;
	}
	recv_complete(peer, qp, status, IB_WC_RECV);
	return recv_nak(status);
}

static int run_send(struct simnic_qp *qp, struct simnic_qp *peer)
{
	int status = SIMNIC_RNR;

	mutex_lock(&peer->rq_lock);
	if (recv_fetch(peer)) {
		status = send_to(qp, peer);
		simnic_sglist_put(&peer->recv);
	}
	mutex_unlock(&peer->rq_lock);
	return status;
}

static int run_write_imm(struct simnic_qp *qp, struct simnic_qp *peer)
{
	int status = SIMNIC_RNR;

	mutex_lock(&peer->rq_lock);
	if (recv_fetch(peer)) {
		status = run_write(qp, peer);
		if (!status)
			recv_complete(peer, qp, status, IB_WC_RECV_RDMA_WITH_IMM);
	}
	mutex_unlock(&peer->rq_lock);
	return status;
}

static int run_atomic(struct simnic_qp *qp, struct simnic_qp *peer)
{
	const struct rxe_send_wr *wr = &qp->swqe->wr;
	struct simnic_sglist result;
	u64 old;
	int status = wr_rd_atomic(qp, peer);

	if (status)
		return status;
	if (qp->local.length < sizeof(old))
		return IB_WC_LOC_LEN_ERR;
	if (wr->wr.atomic.remote_addr % sizeof(old)) {
		simnic_qp_fail(peer, IB_EVENT_QP_REQ_ERR);
		return IB_WC_REM_INV_REQ_ERR;
	}
	status = wr_remote(qp, peer, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey, sizeof(old),
			   IB_ACCESS_REMOTE_ATOMIC);
	if (!status)
		status = simnic_atomic(qp->dev, &qp->remote, wr, &old);
	simnic_sglist_put(&qp->remote);
	if (status)
		return status;
	simnic_sglist_init(&result, IB_WC_SUCCESS);
	simnic_sglist_add_buf(&result, &old, sizeof(old));
	return simnic_copy(qp->dev, &qp->local, &result);
}

static const struct wr_op wr_ops[] = {
	[IB_WR_RDMA_WRITE] = { run_write, IB_WC_RDMA_WRITE, 0 },
	[IB_WR_RDMA_WRITE_WITH_IMM] = { run_write_imm, IB_WC_RDMA_WRITE, 0 },
	[IB_WR_SEND] = { run_send, IB_WC_SEND, 0 },
	[IB_WR_SEND_WITH_IMM] = { run_send, IB_WC_SEND, 0 },
	[IB_WR_RDMA_READ] = { run_read, IB_WC_RDMA_READ, IB_ACCESS_LOCAL_WRITE },
	[IB_WR_ATOMIC_CMP_AND_SWP] = { run_atomic, IB_WC_COMP_SWAP, IB_ACCESS_LOCAL_WRITE },
	[IB_WR_ATOMIC_FETCH_AND_ADD] = { run_atomic, IB_WC_FETCH_ADD, IB_ACCESS_LOCAL_WRITE },
};

/*
 * The send queue; all under sq_lock.
 */

static const struct wr_op *wr_op(u32 opcode)
{
	if (opcode >= ARRAY_SIZE(wr_ops) || !wr_ops[opcode].run)
		return NULL;
	return &wr_ops[opcode];
}

/* Copies the request at the head: user space may change what is in the ring. */
static bool sq_fetch(struct simnic_qp *qp)
{
	const struct rxe_send_wqe *wqe = simnic_ring_peek(qp->sq);
	struct rxe_send_wqe *copy = qp->swqe;
	size_t n;

	if (!wqe)
		return false;
	memcpy(copy, wqe, sizeof(*copy));
	if (copy->wr.send_flags & IB_SEND_INLINE)
		n = min(copy->dma.length, qp->cap.max_inline_data);
	else
		n = min(copy->dma.num_sge, qp->cap.max_send_sge) * sizeof(copy->dma.sge[0]);
	memcpy(copy->dma.inline_data, wqe->dma.inline_data, n);
	return true;
}

static int gather_inline(struct simnic_qp *qp, const struct wr_op *op)
{
	struct rxe_dma_info *dma = &qp->swqe->dma;

	if (op->local_access || dma->length > qp->cap.max_inline_data)
		return IB_WC_LOC_QP_OP_ERR;
	simnic_sglist_add_buf(&qp->local, dma->inline_data, dma->length);
	return IB_WC_SUCCESS;
}

static int gather_sges(struct simnic_qp *qp, const struct wr_op *op)
{
	const struct rxe_dma_info *dma = &qp->swqe->dma;
	u32 i;

	if (dma->num_sge > qp->cap.max_send_sge)
		return IB_WC_LOC_QP_OP_ERR;
	for (i = 0; i < dma->num_sge; i++) {
		const struct rxe_sge *sge = &dma->sge[i];

		if (simnic_sglist_add(&qp->local, qp, sge->lkey, sge->addr, sge->length,
				      op->local_access))
			return IB_WC_LOC_PROT_ERR;
	}
	return qp->local.length > SIMNIC_MAX_MSG ? IB_WC_LOC_LEN_ERR : IB_WC_SUCCESS;
}

static int sq_run_op(struct simnic_qp *qp, const struct wr_op *op)
{
	struct simnic_qp *peer;
	int status;

	if (qp->swqe->wr.send_flags & IB_SEND_INLINE)
		status = gather_inline(qp, op);
	else
		status = gather_sges(qp, op);
	if (status)
		return status;

	peer = simnic_qp_peer(qp);
	if (!peer)
		return SIMNIC_NO_REPLY;
	status = op->run(qp, peer);
	if (status == SIMNIC_RNR)
		qp->backoff = usecs_to_jiffies(10 * rnr_delay[peer->attr.min_rnr_timer % 32]);
	/* The peer's memory is not where its block list has it. */
	if (status == IB_WC_REM_OP_ERR)
		simnic_qp_fail(peer, IB_EVENT_QP_FATAL);
	simnic_qp_put(peer);
	return status;
}

/* What debugfs asked to go wrong with this request. */
static int wr_fault(struct simnic_dev *dev)
{
	struct simnic_faults *f = &dev->faults;
	int status = IB_WC_SUCCESS;
	u32 delay_us;

	spin_lock(&dev->fault_lock);
	delay_us = f->wr_delay_us;
	if (f->wr_nth && !--f->wr_nth)
		status = f->wr_status;
	spin_unlock(&dev->fault_lock);
	if (delay_us)
		fsleep(delay_us);
	return status;
}

static int sq_execute(struct simnic_qp *qp)
{
	const struct wr_op *op = wr_op(qp->swqe->wr.opcode);
	int status = wr_fault(qp->dev);

	if (status)
		return status;
	if (!op)
		return IB_WC_LOC_QP_OP_ERR;
	simnic_sglist_init(&qp->local, IB_WC_LOC_ACCESS_ERR);
	status = sq_run_op(qp, op);
	simnic_sglist_put(&qp->local);
	return status;
}

static void sq_complete(struct simnic_qp *qp, int status)
{
	const struct rxe_send_wr *wr = &qp->swqe->wr;
	const struct wr_op *op = wr_op(wr->opcode);
	struct ib_uverbs_wc wc = {
		.wr_id = wr->wr_id,
		.status = status,
		.opcode = op ? op->wc_opcode : 0,
		.byte_len = qp->swqe->dma.length,
		.qp_num = qp->ib.qp_num,
	};

	simnic_ring_consumed(qp->sq);
	qp->retries = qp->attr.retry_cnt;
	qp->rnr_retries = qp->attr.rnr_retry;
	simnic_count(qp->dev, SIMNIC_WRS, 1);
	if (status) {
		simnic_count(qp->dev, SIMNIC_WR_ERRORS, 1);
		simnic_qp_fail(qp, -1);
	}
	if (status || qp->sig_all || wr->send_flags & IB_SEND_SIGNALED)
		simnic_cq_add(qp->ib.send_cq, &wc, status != 0);
}

/* Is there another try?  Counts it; sets the time until then. */
static bool sq_may_retry(struct simnic_qp *qp, int status)
{
	if (status == SIMNIC_RNR) {
		simnic_count(qp->dev, SIMNIC_RNRS, 1);
		if (qp->attr.rnr_retry == SIMNIC_RNR_FOREVER)
			return true;
		return qp->rnr_retries-- > 0;
	}
	simnic_count(qp->dev, SIMNIC_NO_REPLIES, 1);
	/* IBA 9.7.6.1.3: 4.096 us times 2^timeout, where 0 waits for ever. */
	qp->backoff = nsecs_to_jiffies(4096ULL << qp->attr.timeout);
	if (!qp->attr.timeout)
		return true;
	return qp->retries-- > 0;
}

static void sq_wait(struct simnic_qp *qp)
{
	unsigned long delay = max(qp->backoff, 1UL);

	qp->waiting = true;
	qp->retry_at = jiffies + delay;
	mod_delayed_work(simnic_wq, &qp->work, delay);
}

static bool sq_waits(struct simnic_qp *qp)
{
	if (qp->waiting && time_before(jiffies, qp->retry_at))
		return true;
	qp->waiting = false;
	return false;
}

/* Executes, flushes or puts off the request at the head; true: on to the next. */
static bool sq_step(struct simnic_qp *qp)
{
	int state = atomic_read_acquire(&qp->state);
	int status = IB_WC_WR_FLUSH_ERR;

	if ((state != IB_QPS_RTS && state != IB_QPS_ERR) || !sq_fetch(qp))
		return false;
	if (state == IB_QPS_RTS) {
		if (sq_waits(qp))
			return false;
		status = sq_execute(qp);
	}
	if (status < 0) {
		if (sq_may_retry(qp, status)) {
			sq_wait(qp);
			return false;
		}
		status = status == SIMNIC_RNR ? IB_WC_RNR_RETRY_EXC_ERR : IB_WC_RETRY_EXC_ERR;
	}
	sq_complete(qp, status);
	return true;
}

void simnic_sq_run(struct simnic_qp *qp)
{
	mutex_lock(&qp->sq_lock);
	/* One who is being killed need not see the rest through. */
	while (!fatal_signal_pending(current) && sq_step(qp))
		cond_resched();
	mutex_unlock(&qp->sq_lock);
}

void simnic_qp_work(struct work_struct *work)
{
	struct simnic_qp *qp = container_of(to_delayed_work(work), struct simnic_qp, work);

	simnic_sq_run(qp);
	if (atomic_read(&qp->state) != IB_QPS_ERR)
		return;
	rq_flush(qp);
	mod_delayed_work(simnic_wq, &qp->work, SIMNIC_FLUSH_INTERVAL);
}

/* librxe has filled the ring and rings the bell with an empty list. */
int simnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct simnic_qp *qp = to_qp(ibqp);
	int state = atomic_read(&qp->state);

	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	if (state != IB_QPS_RTS && state != IB_QPS_ERR)
		return -EINVAL;
	simnic_sq_run(qp);
	return 0;
}
