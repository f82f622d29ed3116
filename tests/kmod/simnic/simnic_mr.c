// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions: registration as a NIC driver does it, with the kernel's own
 * page-size pick and block walk, and the way from an address to a byte.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "simnic.h"

/*
 * A key is an index, shifted so that no neighbour of a valid key is valid.
 * Indices are handed out in turn, so a stale key stays stale for long.
 */
#define SIMNIC_KEY_SHIFT 8
#define SIMNIC_KEY_INDEX_MAX (U32_MAX >> SIMNIC_KEY_SHIFT)

#define SIMNIC_ACCESS                                                             \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_OPTIONAL)

struct simnic_mr *simnic_mr_get(struct simnic_dev *dev, u32 key)
{
	struct simnic_mr *mr;

	xa_lock(&dev->mrs);
	mr = xa_load(&dev->mrs, key >> SIMNIC_KEY_SHIFT);
	if (mr && (mr->key != key || !refcount_inc_not_zero(&mr->refs)))
		mr = NULL;
	xa_unlock(&dev->mrs);
	return mr;
}

void simnic_mr_put(struct simnic_mr *mr)
{
	if (refcount_dec_and_test(&mr->refs))
		complete(&mr->idle);
}

bool simnic_mr_allows(const struct simnic_mr *mr, const struct ib_pd *pd, u64 addr, u64 len,
		      int access)
{
	return mr->pd == pd && (mr->access & access) == access && addr >= mr->iova &&
	       len <= mr->length && addr - mr->iova <= mr->length - len;
}

/* The run that holds @dma, or NULL. */
static const struct simnic_run *mr_run(const struct simnic_mr *mr, u64 dma)
{
	size_t low = 0, high = mr->nruns;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (dma < mr->runs[mid].start)
			high = mid;
		else if (dma >= mr->runs[mid].end)
			low = mid + 1;
		else
			return &mr->runs[mid];
	}
	return NULL;
}

/*
 * Hardware would follow a block to wherever it points.  Here a byte is
 * reached if it lies in a page of the region or in reserved memory, which
 * holds nothing but test buffers; a block that leads elsewhere is a stray.
 * Addresses that an exporter has no pages for are its word alone, and are
 * believed only where the memory is reserved.
 */
static void *dma_map(struct simnic_mr *mr, u64 dma, u64 *len)
{
	const struct simnic_run *run = mr_run(mr, dma);
	u64 phys = dma;
	void *ptr;

	if (mr->dev->domain) {
		*len = min_t(u64, *len, PAGE_SIZE - offset_in_page(dma));
		phys = iommu_iova_to_phys(mr->dev->domain, dma);
		if (!phys)
			return NULL;
	}
	ptr = simnic_window(phys, len);
	if (ptr || !run || !mr->has_pages || !pfn_valid(PHYS_PFN(phys)))
		return ptr;
	*len = min_t(u64, *len, run->end - dma);
	return phys_to_virt(phys);
}

void *simnic_mr_map(struct simnic_mr *mr, u64 addr, u64 *len)
{
	u64 page = BIT_ULL(mr->page_shift);
	u64 block = (addr - ALIGN_DOWN(mr->iova, page)) >> mr->page_shift;
	u64 offset = addr & (page - 1);
	void *ptr = NULL;

	*len = min_t(u64, *len, page - offset);
	if (block < mr->nblocks)
		ptr = dma_map(mr, mr->blocks[block] + offset, len);
	/* The next page of a stray may well be there. */
	if (!ptr)
		*len = min_t(u64, *len, PAGE_SIZE - offset_in_page(addr));
	return ptr;
}

static int run_cmp(const void *a, const void *b)
{
	const struct simnic_run *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorts runs and joins those that touch; returns how many are left. */
static size_t runs_join(struct simnic_run *runs, size_t n)
{
	size_t i, out = 0;

	sort(runs, n, sizeof(*runs), run_cmp, NULL);
	for (i = 1; i < n; i++) {
		if (runs[i].start <= runs[out].end)
			runs[out].end = max(runs[out].end, runs[i].end);
		else
			runs[++out] = runs[i];
	}
	return n ? out + 1 : 0;
}

static int mr_find_runs(struct simnic_mr *mr)
{
	struct sg_table *sgt = &mr->umem->sgt_append.sgt;
	struct scatterlist *sg;
	size_t n = 0;
	int i;

	mr->runs = kvmalloc_array(sgt->nents, sizeof(*mr->runs), GFP_KERNEL_ACCOUNT);
	if (!mr->runs)
		return -ENOMEM;
	mr->has_pages = true;
	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 start = sg_dma_address(sg);

		mr->has_pages &= !!sg_page(sg);
		/* Most lists have their neighbours side by side already. */
		if (n && start == mr->runs[n - 1].end)
			mr->runs[n - 1].end += sg_dma_len(sg);
		else
			mr->runs[n++] = (struct simnic_run){ start, start + sg_dma_len(sg) };
	}
	mr->nruns = runs_join(mr->runs, n);
	return 0;
}

/*
 * This is the function that the whole device is for: what mlx5_ib and others
 * do between ib_umem_get() and the command to the firmware.
 */
static int mr_find_blocks(struct simnic_mr *mr)
{
	unsigned int limit = READ_ONCE(mr->dev->max_page_shift);
	struct ib_block_iter biter;
	unsigned long page;
	size_t n;

	page = ib_umem_find_best_pgsz(mr->umem, GENMASK(limit, PAGE_SHIFT), mr->iova);
	if (!page)
		return -EINVAL;
	mr->page_shift = __ffs(page);
	n = ib_umem_num_dma_blocks(mr->umem, page);
	if (n > INT_MAX / sizeof(*mr->blocks))
		return -E2BIG;
	mr->blocks = kvcalloc(n, sizeof(*mr->blocks), GFP_KERNEL_ACCOUNT);
	if (!mr->blocks)
		return -ENOMEM;
	/* Older walks end early on some lists, or not at all. */
	rdma_umem_for_each_dma_block(mr->umem, &biter, page)
	{
		if (mr->nblocks == n)
			break;
		mr->blocks[mr->nblocks++] = rdma_block_iter_dma_address(&biter);
	}
	return 0;
}

static int mr_add(struct simnic_mr *mr)
{
	struct simnic_dev *dev = mr->dev;
	u32 index;
	int err;

	/* Not reachable before its key is in place. */
	err = xa_alloc_cyclic(&dev->mrs, &index, NULL, XA_LIMIT(1, SIMNIC_KEY_INDEX_MAX),
			      &dev->mr_next, GFP_KERNEL);
	if (err < 0)
		return err;
	mr->key = index << SIMNIC_KEY_SHIFT;
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	xa_store(&dev->mrs, index, mr, GFP_KERNEL);
	simnic_debugfs_add_mr(mr);
	simnic_count(dev, SIMNIC_MRS_LIVE, 1);
	return 0;
}

static void mr_free(struct simnic_mr *mr)
{
	/* First, so that no move is reported to it any more. */
	if (!IS_ERR_OR_NULL(mr->umem))
		ib_umem_release(mr->umem);
	kvfree(mr->runs);
	kvfree(mr->blocks);
	kfree(mr);
}

/* What debugfs asked to go wrong; *delay_ms may be set either way. */
static int reg_fault(struct simnic_dev *dev, u32 *delay_ms)
{
	struct simnic_faults *f = &dev->faults;
	bool fail = false;
	int err;

	spin_lock(&dev->fault_lock);
	*delay_ms = f->reg_delay_ms;
	err = -(int)f->reg_errno;
	if (f->reg_nth && !--f->reg_nth)
		fail = true;
	if (f->reg_from == 1)
		fail = true;
	else if (f->reg_from)
		f->reg_from--;
	spin_unlock(&dev->fault_lock);
	return fail ? err : 0;
}

static int reg_check(struct simnic_dev *dev, u64 length, int access)
{
	u32 delay_ms;
	int err = reg_fault(dev, &delay_ms);

	if (delay_ms)
		msleep_interruptible(delay_ms);
	if (fatal_signal_pending(current))
		return -EINTR;
	if (err)
		return err;
	if (access & ~SIMNIC_ACCESS)
		return -EOPNOTSUPP;
	return length && length <= READ_ONCE(dev->max_mr_size) ? 0 : -EINVAL;
}

static struct simnic_mr *mr_new(struct ib_pd *pd, u64 length, u64 iova, int access)
{
	struct simnic_dev *dev = to_dev(pd->device);
	struct simnic_mr *mr;
	int err;

	simnic_count(dev, SIMNIC_MRS_TOTAL, 1);
	err = reg_check(dev, length, access);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->dev = dev;
	mr->pd = pd;
	mr->iova = iova;
	mr->length = length;
	mr->ib.length = length; /* the core fills it in for plain MRs alone */
	mr->access = access;
	refcount_set(&mr->refs, 1);
	init_completion(&mr->idle);
	return mr;
}

/* ---- memory that moves ---------------------------------------------------- */

DECLARE_RWSEM(simnic_moves);

static void mr_forget_blocks(struct simnic_mr *mr)
{
	kvfree(mr->runs);
	kvfree(mr->blocks);
	mr->runs = NULL;
	mr->blocks = NULL;
	mr->nruns = 0;
	mr->nblocks = 0;
}

static int mr_find(struct simnic_mr *mr)
{
	int err = mr_find_blocks(mr);

	if (!err)
		err = mr_find_runs(mr);
	if (err)
		mr_forget_blocks(mr);
	return err;
}

/* The exporter is about to move the memory, with the reservation lock held. */
static void mr_moves(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *dmabuf = attach->importer_priv;
	struct simnic_mr *mr = dmabuf->private;

	/* Told before it is a region at all: registration comes to it later. */
	if (!mr)
		return;
	down_write(&simnic_moves);
	mr->mapped = false;
	up_write(&simnic_moves);
	ib_umem_dmabuf_unmap_pages(dmabuf);
}

static const struct dma_buf_attach_ops mr_attach_ops = {
	.allow_peer2peer = true,
	.simnic_invalidate = mr_moves,
};

/*
 * As mlx5_ib does at a page fault: maps the memory where it is now, and from 6.17
 * on picks the page anew.  Here the pick is anew on each kernel.
 */
static int mr_map_again(struct simnic_mr *mr, struct ib_umem_dmabuf *dmabuf)
{
	int err;

	if (mr->mapped)
		return 0;
	err = ib_umem_dmabuf_map_pages(dmabuf);
	if (err)
		return err;
	down_write(&simnic_moves);
	mr_forget_blocks(mr);
	err = mr_find(mr);
	mr->mapped = !err;
	up_write(&simnic_moves);
	if (err)
		ib_umem_dmabuf_unmap_pages(dmabuf);
	return err;
}

int simnic_mr_follow(struct simnic_mr *mr)
{
	struct ib_umem_dmabuf *dmabuf;
	int err;

	if (!mr->follows || READ_ONCE(mr->mapped))
		return 0;
	dmabuf = to_ib_umem_dmabuf(mr->umem);
	dma_resv_lock(dmabuf->attach->dmabuf->resv, NULL);
	err = mr_map_again(mr, dmabuf);
	dma_resv_unlock(dmabuf->attach->dmabuf->resv);
	/* The first time is the registration. */
	if (!err && mr->key)
		simnic_count(mr->dev, SIMNIC_MOVES, 1);
	return err;
}

/* A dynamic importer's DMA-BUF; nothing of it is mapped yet. */
static void mr_get_following(struct simnic_mr *mr, u64 offset, int fd)
{
	struct ib_umem_dmabuf *dmabuf = ib_umem_dmabuf_get(&mr->dev->ib, offset, mr->length, fd,
							   mr->access, &mr_attach_ops);

	if (IS_ERR(dmabuf)) {
		mr->umem = ERR_CAST(dmabuf);
		return;
	}
	mr->umem = &dmabuf->umem;
	mr->follows = true;
	dmabuf->private = mr;
}

/* The rest of a registration, once the memory is pinned and mapped. */
static int mr_finish(struct simnic_mr *mr)
{
	int err;

	if (IS_ERR(mr->umem))
		return PTR_ERR(mr->umem);
	if (mr->follows) {
		err = simnic_mr_follow(mr);
	} else {
		err = mr_find(mr);
		mr->mapped = true;
	}
	if (!err)
		err = mr_add(mr);
	return err;
}

static struct ib_mr *mr_result(struct simnic_dev *dev, struct simnic_mr *mr)
{
	int err = IS_ERR(mr) ? PTR_ERR(mr) : mr_finish(mr);

	if (!err)
		return &mr->ib;
	simnic_count(dev, SIMNIC_MRS_FAILED, 1);
	if (!IS_ERR(mr))
		mr_free(mr);
	return ERR_PTR(err);
}

static struct ib_mr *simnic_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
					int access, SIMNIC_DMAH struct ib_udata *udata)
{
	struct simnic_mr *mr;

	if (simnic_dmah())
		return ERR_PTR(-EOPNOTSUPP);
	mr = mr_new(pd, length, iova, access);
	if (!IS_ERR(mr))
		mr->umem = simnic_umem_get(pd->device, start, length, access);
	return mr_result(to_dev(pd->device), mr);
}

static struct ib_mr *simnic_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova,
					       int fd, int access,
					       SIMNIC_DMAH SIMNIC_DMABUF_UDATA *from)
{
	struct ib_umem_dmabuf *umem;
	struct simnic_mr *mr;

	if (simnic_dmah())
		return ERR_PTR(-EOPNOTSUPP);
	mr = mr_new(pd, length, iova, access);
	if (!IS_ERR(mr) && READ_ONCE(mr->dev->follow_moves)) {
		mr_get_following(mr, offset, fd);
	} else if (!IS_ERR(mr)) {
		umem = ib_umem_dmabuf_get_pinned(pd->device, offset, length, fd, access);
		mr->umem = IS_ERR(umem) ? ERR_CAST(umem) : &umem->umem;
	}
	return mr_result(to_dev(pd->device), mr);
}

static int simnic_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct simnic_mr *mr = to_mr(ibmr);

	simnic_debugfs_remove_mr(mr);
	xa_erase(&mr->dev->mrs, mr->key >> SIMNIC_KEY_SHIFT);
	simnic_count(mr->dev, SIMNIC_MRS_LIVE, -1);
	/* A transfer that is under way ends first, as a NIC has it. */
	simnic_unused(&mr->refs, &mr->idle);
	mr_free(mr);
	return 0;
}

const struct ib_device_ops simnic_mr_ops = {
	.reg_user_mr = simnic_reg_user_mr,
	.reg_user_mr_dmabuf = simnic_reg_user_mr_dmabuf,
	.dereg_mr = simnic_dereg_mr,
};
