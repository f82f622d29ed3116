// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reliably connected queue pairs: their life, their states, their peer.
 */
#include <linux/slab.h>

#include "simnic.h"

/*
 * One number space for all devices: a QP is found by its number, and then held
 * against the address that was asked for.  0 and 1 are special on a port.
 */
#define SIMNIC_QPN_LIMIT XA_LIMIT(16, (1U << 24) - 1)
static DEFINE_XARRAY_ALLOC(qps);
static u32 qp_next;

void simnic_unused(refcount_t *refs, struct completion *idle)
{
	if (!refcount_dec_and_test(refs))
		wait_for_completion(idle);
}

void simnic_qp_put(struct simnic_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		complete(&qp->idle);
}

/*
 * A packet to a QP that is not ready, not at that address or connected to
 * another is dropped by hardware, so the requester sees silence.
 */
static bool qp_answers(const struct simnic_qp *peer, const struct simnic_qp *qp)
{
	int state = atomic_read_acquire(&peer->state);

	return (state == IB_QPS_RTR || state == IB_QPS_RTS) && peer->dev->index == qp->dest_index &&
	       peer->attr.dest_qp_num == qp->ib.qp_num;
}

struct simnic_qp *simnic_qp_peer(struct simnic_qp *qp)
{
	struct simnic_qp *peer;

	xa_lock(&qps);
	peer = xa_load(&qps, qp->attr.dest_qp_num);
	if (peer && (!qp_answers(peer, qp) || !refcount_inc_not_zero(&peer->refs)))
		peer = NULL;
	xa_unlock(&qps);
	return peer;
}

void simnic_qp_fail(struct simnic_qp *qp, int event)
{
	struct ib_event ib_event = {
		.device = qp->ib.device,
		.event = event,
		.element.qp = &qp->ib,
	};
	int state = atomic_read(&qp->state);

	do {
		if (state == IB_QPS_RESET || state == IB_QPS_ERR)
			return;
	} while (!atomic_try_cmpxchg(&qp->state, &state, IB_QPS_ERR));

	mod_delayed_work(simnic_wq, &qp->work, 0);
	if (event >= 0 && qp->ib.event_handler)
		qp->ib.event_handler(&ib_event, qp->ib.qp_context);
}

static int qp_check_init(const struct ib_qp_init_attr *init, const struct ib_udata *udata)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (!udata || init->qp_type != IB_QPT_RC || init->srq || init->create_flags)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq || udata->outlen < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	if (cap->max_send_wr > SIMNIC_MAX_WR || cap->max_recv_wr > SIMNIC_MAX_WR ||
	    cap->max_send_sge > SIMNIC_MAX_SGE || cap->max_recv_sge > SIMNIC_MAX_SGE ||
	    cap->max_inline_data > SIMNIC_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/*
 * librxe lays its elements out by the capacities that come back, so these say
 * what the rounded-up elements really hold.
 */
static int qp_create_rings(struct simnic_qp *qp, struct ib_qp_cap *cap, struct ib_udata *udata,
			   struct rxe_create_qp_resp *resp)
{
	size_t payload =
		max_t(size_t, cap->max_send_sge * sizeof(struct rxe_sge), cap->max_inline_data);

	qp->sq = simnic_ring_create(udata, cap->max_send_wr, sizeof(struct rxe_send_wqe) + payload,
				    &resp->sq_mi);
	if (IS_ERR(qp->sq))
		return PTR_ERR(qp->sq);
	qp->rq = simnic_ring_create(udata, cap->max_recv_wr,
				    sizeof(struct rxe_recv_wqe) +
					    cap->max_recv_sge * sizeof(struct rxe_sge),
				    &resp->rq_mi);
	if (IS_ERR(qp->rq)) {
		simnic_ring_destroy(qp->sq);
		return PTR_ERR(qp->rq);
	}
	cap->max_send_wr = qp->sq->mask;
	cap->max_recv_wr = qp->rq->mask;
	cap->max_send_sge = payload / sizeof(struct rxe_sge);
	cap->max_inline_data = payload;
	return 0;
}

static void qp_destroy_rings(struct simnic_qp *qp)
{
	simnic_ring_destroy(qp->sq);
	simnic_ring_destroy(qp->rq);
}

static void qp_free_copies(struct simnic_qp *qp)
{
	kfree(qp->swqe);
	kfree(qp->rwqe);
}

static int qp_alloc_copies(struct simnic_qp *qp)
{
	qp->swqe = kzalloc(sizeof(*qp->swqe) + SIMNIC_MAX_INLINE, GFP_KERNEL);
	qp->rwqe = kzalloc(sizeof(*qp->rwqe) + SIMNIC_MAX_INLINE, GFP_KERNEL);
	if (qp->swqe && qp->rwqe)
		return 0;
	qp_free_copies(qp);
	return -ENOMEM;
}

static void qp_init(struct simnic_qp *qp, const struct ib_qp_init_attr *init)
{
	qp->dev = to_dev(qp->ib.device);
	qp->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->cap = init->cap;
	qp->dest_index = -1;
	refcount_set(&qp->refs, 1);
	init_completion(&qp->idle);
	atomic_set(&qp->state, IB_QPS_RESET);
	mutex_init(&qp->sq_lock);
	mutex_init(&qp->rq_lock);
	INIT_DELAYED_WORK(&qp->work, simnic_qp_work);
}

/* From here on others find the QP. */
static int qp_publish(struct simnic_qp *qp)
{
	int err = xa_alloc_cyclic(&qps, &qp->ib.qp_num, qp, SIMNIC_QPN_LIMIT, &qp_next, GFP_KERNEL);

	if (err < 0)
		return err;
	simnic_count(qp->dev, SIMNIC_QPS_LIVE, 1);
	return 0;
}

static int simnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
			    struct ib_udata *udata)
{
	struct simnic_qp *qp = to_qp(ibqp);
	struct rxe_create_qp_resp resp = {};
	int err = qp_check_init(init, udata);

	if (err)
		return err;
	err = qp_alloc_copies(qp);
	if (err)
		return err;
	err = qp_create_rings(qp, &init->cap, udata, &resp);
	if (err)
		goto free_copies;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		goto destroy_rings;
	qp_init(qp, init);
	err = qp_publish(qp);
	if (err)
		goto destroy_rings;
	return 0;

destroy_rings:
	qp_destroy_rings(qp);
free_copies:
	qp_free_copies(qp);
	return err;
}

static int simnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct simnic_qp *qp = to_qp(ibqp);

	xa_erase(&qps, ibqp->qp_num);
	/* Peers may still be delivering, and may then start the work again. */
	simnic_unused(&qp->refs, &qp->idle);
	atomic_set(&qp->state, IB_QPS_RESET);
	cancel_delayed_work_sync(&qp->work);
	qp_destroy_rings(qp);
	qp_free_copies(qp);
	mutex_destroy(&qp->sq_lock);
	mutex_destroy(&qp->rq_lock);
	simnic_count(qp->dev, SIMNIC_QPS_LIVE, -1);
	return 0;
}

static int qp_check_attr(const struct ib_qp_attr *attr, int mask)
{
	if ((mask & IB_QP_PORT && attr->port_num != SIMNIC_PORT) ||
	    (mask & IB_QP_PKEY_INDEX && attr->pkey_index) ||
	    (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > SIMNIC_MAX_RD_ATOMIC) ||
	    (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > SIMNIC_MAX_RD_ATOMIC))
		return -EINVAL;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE))
		return -EOPNOTSUPP;
	return 0;
}

static void qp_take_attr(struct simnic_qp *qp, const struct ib_qp_attr *attr, int mask)
{
#define TAKE(bit, field)                              \
	do {                                          \
		if (mask & (bit))                     \
			qp->attr.field = attr->field; \
	} while (0)
	TAKE(IB_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IB_QP_PKEY_INDEX, pkey_index);
	TAKE(IB_QP_PORT, port_num);
	TAKE(IB_QP_PATH_MTU, path_mtu);
	TAKE(IB_QP_TIMEOUT, timeout);
	TAKE(IB_QP_RETRY_CNT, retry_cnt);
	TAKE(IB_QP_RNR_RETRY, rnr_retry);
	TAKE(IB_QP_RQ_PSN, rq_psn);
	TAKE(IB_QP_SQ_PSN, sq_psn);
	TAKE(IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IB_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IB_QP_DEST_QPN, dest_qp_num);
	TAKE(IB_QP_AV, ah_attr);
#undef TAKE
	if (mask & IB_QP_AV) {
		qp->dest_index = simnic_find_device(qp->dev, &attr->ah_attr);
		/* The core's reference, not ours. */
		qp->attr.ah_attr.grh.sgid_attr = NULL;
	}
	qp->retries = qp->attr.retry_cnt;
	qp->rnr_retries = qp->attr.rnr_retry;
}

static void qp_reset(struct simnic_qp *qp)
{
	qp->waiting = false;
	simnic_ring_drop(qp->sq);
	mutex_lock(&qp->rq_lock);
	simnic_ring_drop(qp->rq);
	mutex_unlock(&qp->rq_lock);
}

/* Under sq_lock, so that nothing is being sent meanwhile. */
static int qp_modify(struct simnic_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	int cur = atomic_read(&qp->state);
	int next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		return -EINVAL;
	if (next == IB_QPS_SQD || next == IB_QPS_SQE)
		return -EOPNOTSUPP;
	if (!ib_modify_qp_is_ok(cur, next, IB_QPT_RC, mask))
		return -EINVAL;

	qp_take_attr(qp, attr, mask);
	/* A peer's failed access may have put the QP into error just now. */
	if (atomic_cmpxchg(&qp->state, cur, next) != cur && next != IB_QPS_RESET &&
	    next != IB_QPS_ERR)
		return -EINVAL;
	if (next == IB_QPS_RESET) {
		atomic_set(&qp->state, next);
		qp_reset(qp);
	}
	if (next == IB_QPS_ERR)
		mod_delayed_work(simnic_wq, &qp->work, 0);
	return 0;
}

static int simnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			    struct ib_udata *udata)
{
	struct simnic_qp *qp = to_qp(ibqp);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = qp_check_attr(attr, mask);
	if (err)
		return err;
	mutex_lock(&qp->sq_lock);
	err = qp_modify(qp, attr, mask);
	mutex_unlock(&qp->sq_lock);
	return err;
}

static int simnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			   struct ib_qp_init_attr *init)
{
	struct simnic_qp *qp = to_qp(ibqp);

	mutex_lock(&qp->sq_lock);
	*attr = qp->attr;
	attr->qp_state = atomic_read(&qp->state);
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;
	mutex_unlock(&qp->sq_lock);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->cap = attr->cap;
	init->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	return 0;
}

const struct ib_device_ops simnic_qp_ops = {
	.create_qp = simnic_create_qp,
	.modify_qp = simnic_modify_qp,
	.query_qp = simnic_query_qp,
	.destroy_qp = simnic_destroy_qp,
	.post_send = simnic_post_send,

	INIT_RDMA_OBJ_SIZE(ib_qp, simnic_qp, ib),
};
