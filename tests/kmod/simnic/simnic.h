/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * simnic: an RDMA device for tests, on QEMU's edu function.
 *
 * It does what a NIC does with a memory region: it keeps the list of DMA
 * blocks that the kernel made of it and moves bytes through that list alone.
 * Towards user space it speaks the ABI of rdma_rxe, so the stock librxe
 * provider drives it.
 *
 * Lock order: sq_lock of one QP, then rq_lock of one QP, then the spinlock of
 * a CQ.  Nobody holds two sq_locks or two rq_locks.
 */
#ifndef SIMNIC_H
#define SIMNIC_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/rdma_user_rxe.h>

#include "simnic_compat.h"

#define SIMNIC_MAX_SGE 32
#define SIMNIC_MAX_INLINE (SIMNIC_MAX_SGE * sizeof(struct rxe_sge))
#define SIMNIC_MAX_WR 16384
#define SIMNIC_MAX_CQE ((1U << 17) - 1)
#define SIMNIC_MAX_MSG (1U << 31)
#define SIMNIC_MAX_RD_ATOMIC 16
#define SIMNIC_PORT 1
#define SIMNIC_GIDS 32

/* Counters, read in debugfs as "stats"; names in simnic_debugfs.c. */
enum simnic_stat {
	SIMNIC_MRS_LIVE,
	SIMNIC_MRS_TOTAL,
	SIMNIC_MRS_FAILED,
	SIMNIC_PDS_LIVE,
	SIMNIC_CQS_LIVE,
	SIMNIC_QPS_LIVE,
	SIMNIC_CONTEXTS_LIVE,
	SIMNIC_WRS,
	SIMNIC_WR_ERRORS,
	SIMNIC_BYTES,
	SIMNIC_RNRS,
	SIMNIC_NO_REPLIES,
	SIMNIC_STRAYS,
	SIMNIC_CQ_OVERRUNS,
	SIMNIC_MOVES,
	SIMNIC_STATS
};

/* What to spoil, set in debugfs.  A count of 0 is off; 1 is the next one. */
struct simnic_faults {
	u64 reg_nth; /* this registration fails */
	u64 reg_from; /* this one and all later ones fail */
	u32 reg_errno;
	u32 reg_delay_ms;
	u64 wr_nth; /* this send work request fails */
	u32 wr_status; /* with this enum ib_wc_status */
	u32 wr_delay_us;
};

struct simnic_dev {
	struct ib_device ib; /* first: ib_alloc_device() wants it */
	struct pci_dev *pdev;
	struct list_head node; /* on simnic_devices */
	int index;
	bool roce; /* else the port is an InfiniBand one */
	struct net_device *netdev;
	bool netdev_up;
	struct iommu_domain *domain; /* NULL: DMA addresses are physical ones */
	struct xarray mrs; /* by key >> SIMNIC_KEY_SHIFT */
	u32 mr_next;
	/* Settings and faults; debugfs writes them at any time. */
	u32 max_page_shift;
	u64 max_mr_size;
	bool absorb;
	bool follow_moves; /* DMA-BUF regions from now on are dynamic importers' */
	spinlock_t fault_lock;
	struct simnic_faults faults;
	atomic64_t stats[SIMNIC_STATS];
	struct dentry *debugfs;
	struct dentry *debugfs_mrs;
};

struct simnic_ucontext {
	struct ib_ucontext ib;
};

struct simnic_pd {
	struct ib_pd ib;
};

/*
 * A queue that kernel and user space share.  @own is the index of the side
 * that belongs to the kernel; what the shared page says about it is a copy.
 */
struct simnic_ring {
	struct rdma_user_mmap_entry entry;
	struct rxe_queue_buf *buf;
	u32 mask;
	u32 shift;
	u32 own;
};

struct simnic_cq {
	struct ib_cq ib;
	struct simnic_ring *ring;
	spinlock_t lock;
	unsigned int armed; /* IB_CQ_SOLICITED, IB_CQ_NEXT_COMP or 0 */
	bool overrun;
};

/* DMA addresses that belong to a memory region: [start, end). */
struct simnic_run {
	u64 start;
	u64 end;
};

struct simnic_mr {
	struct ib_mr ib;
	struct simnic_dev *dev;
	struct ib_pd *pd;
	struct ib_umem *umem;
	u64 iova;
	u64 length;
	int access;
	u32 key;
	unsigned int page_shift;
	u64 *blocks; /* exactly what the kernel's walk gave */
	size_t nblocks;
	struct simnic_run *runs; /* what is really there, in order */
	size_t nruns;
	bool has_pages;
	bool follows; /* its memory may move */
	bool mapped; /* written under simnic_moves: its blocks are those of its memory */
	refcount_t refs;
	struct completion idle;
	struct dentry *debugfs;
};

/* A piece of a work request: of a memory region, or of a kernel buffer. */
struct simnic_seg {
	struct simnic_mr *mr;
	void *buf;
	u64 addr;
	u64 len;
};

struct simnic_sglist {
	unsigned int count;
	u64 length;
	/* The requester's status if an address of it leads nowhere. */
	enum ib_wc_status stray;
	struct simnic_seg seg[SIMNIC_MAX_SGE];
};

struct simnic_qp {
	struct ib_qp ib;
	struct simnic_dev *dev;
	refcount_t refs;
	struct completion idle;
	atomic_t state; /* enum ib_qp_state */
	bool sig_all;
	struct ib_qp_cap cap;
	struct ib_qp_attr attr;
	int dest_index; /* device that the address names, or -1 */

	struct mutex sq_lock;
	struct simnic_ring *sq;
	struct rxe_send_wqe *swqe; /* copy of the one being executed */
	struct simnic_sglist local;
	struct simnic_sglist remote;
	u8 retries; /* left, for the request at the head */
	u8 rnr_retries;
	bool waiting; /* until @retry_at */
	unsigned long retry_at;
	unsigned long backoff; /* jiffies, set by who asks for a retry */

	struct mutex rq_lock;
	struct simnic_ring *rq;
	struct rxe_recv_wqe *rwqe;
	struct simnic_sglist recv;

	struct delayed_work work; /* retries, and flushing after an error */
};

#define simnic_to(type, from)                                               \
	static inline struct simnic_##type *to_##type(struct ib_##from *ib) \
	{                                                                   \
		return container_of(ib, struct simnic_##type, ib);          \
	}
simnic_to(dev, device) simnic_to(cq, cq) simnic_to(mr, mr) simnic_to(qp, qp)
#undef simnic_to

	static inline void simnic_count(struct simnic_dev *dev, enum simnic_stat stat, s64 n)
{
	atomic64_add(n, &dev->stats[stat]);
}

/* simnic_main.c */
extern struct workqueue_struct *simnic_wq;
/* The CPU's view of reserved memory at @phys, *len cut to fit; NULL: not there. */
void *simnic_window(u64 phys, u64 *len);

/* simnic_port.c */
extern const struct ib_device_ops simnic_port_ops;
int simnic_port_init(struct simnic_dev *dev, const char *netdev);
void simnic_port_exit(struct simnic_dev *dev);
int simnic_ports_init(void);
void simnic_ports_exit(void);
/* The index of the device that an address names, -1 where there is none. */
int simnic_find_device(struct simnic_dev *dev, const struct rdma_ah_attr *ah);

/* simnic_ring.c */
struct simnic_ring *simnic_ring_create(struct ib_udata *udata, u32 entries, size_t elem,
				       struct mminfo *mi);
void simnic_ring_destroy(struct simnic_ring *ring);
/* The next element for the kernel to consume, or NULL. */
const void *simnic_ring_peek(struct simnic_ring *ring);
void simnic_ring_consumed(struct simnic_ring *ring);
void simnic_ring_drop(struct simnic_ring *ring);
/* The next element for the kernel to fill, or NULL where the ring is full. */
void *simnic_ring_room(struct simnic_ring *ring);
void simnic_ring_produced(struct simnic_ring *ring);
int simnic_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void simnic_mmap_free(struct rdma_user_mmap_entry *entry);

/* simnic_cq.c */
extern const struct ib_device_ops simnic_cq_ops;
void simnic_cq_add(struct ib_cq *ibcq, const struct ib_uverbs_wc *wc, bool solicited);

/* simnic_mr.c */
extern const struct ib_device_ops simnic_mr_ops;
/*
 * For reading where blocks are used: memory that moves waits.  For writing under
 * a DMA-BUF's reservation lock, where they change.
 */
extern struct rw_semaphore simnic_moves;
/* Where the memory has moved, maps it and picks its page anew; 0, or -errno. */
int simnic_mr_follow(struct simnic_mr *mr);
struct simnic_mr *simnic_mr_get(struct simnic_dev *dev, u32 key);
void simnic_mr_put(struct simnic_mr *mr);
bool simnic_mr_allows(const struct simnic_mr *mr, const struct ib_pd *pd, u64 addr, u64 len,
		      int access);
/*
 * Where byte @addr of the region is by its block list: the CPU's view of it,
 * or NULL where the list leads outside of all that is the region's or
 * reserved.  *len is cut to what is contiguous there.
 */
void *simnic_mr_map(struct simnic_mr *mr, u64 addr, u64 *len);

/* simnic_qp.c */
extern const struct ib_device_ops simnic_qp_ops;
/* The QP that @qp is connected to, with a reference; NULL: it would not answer. */
struct simnic_qp *simnic_qp_peer(struct simnic_qp *qp);
void simnic_qp_put(struct simnic_qp *qp);
/* To the error state; @event is an enum ib_event_type, or -1 for none. */
void simnic_qp_fail(struct simnic_qp *qp, int event);
/* For destroying what others may hold: waits until the last one let go. */
void simnic_unused(refcount_t *refs, struct completion *idle);

/* simnic_wr.c */
int simnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad);
void simnic_qp_work(struct work_struct *work);
void simnic_sq_run(struct simnic_qp *qp);

/* simnic_data.c */
void simnic_sglist_init(struct simnic_sglist *list, enum ib_wc_status stray);
/* Returns 0, or -EACCES where key, PD, bounds or access forbid it. */
int simnic_sglist_add(struct simnic_sglist *list, struct simnic_qp *qp, u32 key, u64 addr, u64 len,
		      int access);
void simnic_sglist_add_buf(struct simnic_sglist *list, void *buf, u64 len);
void simnic_sglist_put(struct simnic_sglist *list);
/* Copies all of @src to the start of @dst; returns an enum ib_wc_status. */
int simnic_copy(struct simnic_dev *dev, const struct simnic_sglist *dst,
		const struct simnic_sglist *src);
int simnic_atomic(struct simnic_dev *dev, const struct simnic_sglist *remote,
		  const struct rxe_send_wr *wr, u64 *old);

/* simnic_debugfs.c */
void simnic_debugfs_init(void);
void simnic_debugfs_exit(void);
void simnic_debugfs_add(struct simnic_dev *dev);
void simnic_debugfs_remove(struct simnic_dev *dev);
void simnic_debugfs_add_mr(struct simnic_mr *mr);
void simnic_debugfs_remove_mr(struct simnic_mr *mr);

#endif /* SIMNIC_H */
