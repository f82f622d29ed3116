// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues: a ring of struct ib_uverbs_wc, and an event when armed.
 */
#include "simnic.h"

static int simnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			    SIMNIC_CQ_UDATA *from)
{
	struct simnic_cq *cq = to_cq(ibcq);
	struct ib_udata *udata = simnic_cq_udata(from);
	struct rxe_create_cq_resp resp = {};
	struct simnic_ring *ring;
	int err;

	if (!udata || attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > SIMNIC_MAX_CQE || udata->outlen < sizeof(resp))
		return -EINVAL;

	ring = simnic_ring_create(udata, attr->cqe, sizeof(struct ib_uverbs_wc), &resp.mi);
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err) {
		simnic_ring_destroy(ring);
		return err;
	}
	cq->ring = ring;
	spin_lock_init(&cq->lock);
	ibcq->cqe = ring->mask;
	simnic_count(to_dev(ibcq->device), SIMNIC_CQS_LIVE, 1);
	return 0;
}

static int simnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	simnic_ring_destroy(to_cq(ibcq)->ring);
	simnic_count(to_dev(ibcq->device), SIMNIC_CQS_LIVE, -1);
	return 0;
}

static int simnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct simnic_cq *cq = to_cq(ibcq);

	spin_lock(&cq->lock);
	/* A request for every completion is not narrowed by a later one. */
	if (cq->armed != IB_CQ_NEXT_COMP)
		cq->armed = flags & IB_CQ_SOLICITED_MASK;
	spin_unlock(&cq->lock);
	return 0;
}

static void cq_overrun(struct simnic_cq *cq)
{
	struct ib_event event = {
		.device = cq->ib.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ib,
	};

	simnic_count(to_dev(cq->ib.device), SIMNIC_CQ_OVERRUNS, 1);
	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

void simnic_cq_add(struct ib_cq *ibcq, const struct ib_uverbs_wc *wc, bool solicited)
{
	struct simnic_cq *cq = to_cq(ibcq);
	struct ib_uverbs_wc *slot;
	bool fire = false, overran = false;

	spin_lock(&cq->lock);
	slot = cq->overrun ? NULL : simnic_ring_room(cq->ring);
	if (slot) {
		*slot = *wc;
		simnic_ring_produced(cq->ring);
		fire = cq->armed == IB_CQ_NEXT_COMP || (cq->armed && solicited);
		if (fire)
			cq->armed = 0;
	} else if (!cq->overrun) {
		cq->overrun = overran = true;
	}
	spin_unlock(&cq->lock);

	if (fire && ibcq->comp_handler)
		ibcq->comp_handler(ibcq, ibcq->cq_context);
	if (overran)
		cq_overrun(cq);
}

const struct ib_device_ops simnic_cq_ops = {
	.create_cq = simnic_create_cq,
	.destroy_cq = simnic_destroy_cq,
	.req_notify_cq = simnic_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, simnic_cq, ib),
};
