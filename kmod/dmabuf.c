/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MRG_IOC_LAYOUT and MRG_IOC_BLOCKS: a DMA-BUF is attached and mapped for an
 * importer, its scatter list is looked at under the reservation lock, and all
 * is undone before anything is copied to the caller.
 */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iommu.h>
#include <linux/ktime.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "equiv.h"
#include "internal.h"

/* A range of a DMA-BUF, and what was learnt while it was mapped. */
struct mrg_view {
	int fd;
	struct mrg_ioc_importer importer;
	u64 iova;
	u64 offset;
	u64 length;
	u64 dmabuf_size;
	u64 max_seg_size;
	u64 map_ns;
	u32 iommu;
	char exporter[32];
};

/* Looks at the mapped list, under the importer's and the buffer's locks. */
typedef int (*mrg_look_fn)(struct mrg_view *view, struct sg_table *sgt, void *arg);

/* @view covers whole pages in the list: from here ... */
static u64 first_byte(const struct mrg_view *view)
{
	return ALIGN_DOWN(view->offset, PAGE_SIZE);
}

/* ... to here, or to the list's end where that comes first. */
static u64 end_byte(const struct mrg_view *view)
{
	return ALIGN(view->offset + view->length, PAGE_SIZE);
}

/* ---- the range and the importer ---------------------------------------- */

static int check_range(struct mrg_view *view, u64 size)
{
	u64 end;

	if (!view->length && view->offset < size)
		view->length = size - view->offset;
	if (!view->length || check_add_overflow(view->offset, view->length, &end) || end > size)
		return -EINVAL;
	if (check_add_overflow(view->iova, view->length, &end))
		return -EINVAL;
	return (view->iova ^ view->offset) & ~PAGE_MASK ? -EINVAL : 0;
}

/* ib_device's parent: the function itself, or a device of the auxiliary bus below it. */
static int is_rdma(struct device *dev, void *depth)
{
	long levels = (long)depth;

	if (dev->class && !strcmp(dev->class->name, "infiniband"))
		return 1;
	return levels ? device_for_each_child(dev, (void *)(levels - 1), is_rdma) : 0;
}

static int check_importer(struct pci_dev *pdev)
{
	if (!device_is_registered(&pdev->dev))
		return -ENODEV;
	if (!pdev->dev.driver || mrg_driver_managed_dma(pdev))
		return -ENXIO;
	if (!device_for_each_child(&pdev->dev, (void *)2L, is_rdma) && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	return 0;
}

static u32 iommu_kind(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	if (!domain)
		return device_iommu_mapped(dev) ? MRG_IOMMU_UNKNOWN : MRG_IOMMU_NONE;
	if (domain->type == IOMMU_DOMAIN_IDENTITY)
		return MRG_IOMMU_IDENTITY;
	return domain->type & __IOMMU_DOMAIN_PAGING ? MRG_IOMMU_TRANSLATED : MRG_IOMMU_UNKNOWN;
}

/* ---- map, look, undo --------------------------------------------------- */

/* Nothing of ours outlives the reservation lock, so there is nothing to do. */
static void nothing_left(struct dma_buf_attachment *attach)
{
}

static const struct dma_buf_attach_ops mrg_attach_ops = {
	.allow_peer2peer = true,
	.mrg_invalidate = nothing_left,
};

/*
 * Until 6.15 a static exporter's buffer is mapped by the attach already, so
 * both are timed.
 */
static int look_attached(struct mrg_view *view, struct dma_buf_attachment *attach,
			 u64 attach_ns, mrg_look_fn look, void *arg)
{
	struct sg_table *sgt;
	u64 began;
	int ret;

	/* Restarted after a signal's handler: nothing was done yet. */
	if (dma_resv_lock_interruptible(attach->dmabuf->resv, NULL))
		return -ERESTARTSYS;
	began = ktime_get_ns();
	sgt = dma_buf_map_attachment(attach, DMA_BIDIRECTIONAL);
	view->map_ns = attach_ns + ktime_get_ns() - began;
	if (IS_ERR(sgt)) {
		ret = PTR_ERR(sgt);
	} else {
		ret = look(view, sgt, arg);
		dma_buf_unmap_attachment(attach, sgt, DMA_BIDIRECTIONAL);
	}
	dma_resv_unlock(attach->dmabuf->resv);
	return ret;
}

static int look_as(struct mrg_view *view, struct device *dev, struct dma_buf *buf,
		   mrg_look_fn look, void *arg)
{
	struct dma_buf_attachment *attach;
	u64 began = ktime_get_ns();
	int ret;

	view->max_seg_size = dma_get_max_seg_size(dev);
	view->iommu = iommu_kind(dev);
	attach = dma_buf_dynamic_attach(buf, dev, &mrg_attach_ops, view);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	ret = look_attached(view, attach, ktime_get_ns() - began, look, arg);
	dma_buf_detach(buf, attach);
	return ret;
}

/* The importer's driver can neither go nor change while its lock is held. */
static int look_for_importer(struct mrg_view *view, struct dma_buf *buf, mrg_look_fn look,
			     void *arg)
{
	const struct mrg_ioc_importer *imp = &view->importer;
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(imp->domain, imp->bus, imp->devfn);
	int ret;

	if (!pdev)
		return -ENODEV;
	if (device_lock_interruptible(&pdev->dev)) {
		ret = -ERESTARTSYS;
		goto put;
	}
	ret = check_importer(pdev);
	if (!ret)
		ret = look_as(view, &pdev->dev, buf, look, arg);
	device_unlock(&pdev->dev);
put:
	pci_dev_put(pdev);
	return ret;
}

static int look_at(struct mrg_view *view, mrg_look_fn look, void *arg)
{
	struct dma_buf *buf = dma_buf_get(view->fd);
	int ret;

	if (IS_ERR(buf))	/* -EINVAL stands for an fd of another kind */
		return PTR_ERR(buf) == -EINVAL ? -EMEDIUMTYPE : PTR_ERR(buf);
	view->dmabuf_size = buf->size;
	strscpy(view->exporter, buf->exp_name, sizeof(view->exporter));
	ret = view->importer.reserved ? -EINVAL : check_range(view, buf->size);
	if (!ret)
		ret = look_for_importer(view, buf, look, arg);
	dma_buf_put(buf);
	return ret;
}

/* ---- MRG_IOC_LAYOUT ---------------------------------------------------- */

struct layout_scan {
	bool coalesce;
	bool raw;
	u64 start;			/* index of the first one wanted */
	u32 cap;
	u32 out;
	struct mrg_ioc_run *runs;
	u64 entries;
	u64 total_runs;
	struct mrg_ioc_run run;		/* being joined; len 0: none yet */
	u64 distance;			/* from the truth to what is shown, in this run */
	u64 from_iova;			/* see mrg_equiv_distance() */
};

static void emit(struct layout_scan *scan, u64 index, u64 addr, u64 len)
{
	if (index < scan->start || scan->out >= scan->cap)
		return;
	scan->runs[scan->out].addr = addr + scan->distance;
	scan->runs[scan->out].len = len;
	scan->out++;
}

static void end_run(struct layout_scan *scan)
{
	if (scan->run.len && scan->coalesce)
		emit(scan, scan->total_runs - 1, scan->run.addr, scan->run.len);
}

/* @pos: where in the buffer the run begins */
static void begin_run(struct layout_scan *scan, const struct mrg_view *view, u64 pos, u64 addr)
{
	u64 first = view->iova - (view->iova & ~PAGE_MASK);
	u64 length = end_byte(view) - first_byte(view);
	u64 iova = first + (pos - first_byte(view));

	scan->run.addr = addr;
	scan->run.len = 0;
	scan->total_runs++;
	if (scan->raw)
		return;
	scan->from_iova = mrg_equiv_distance(iova, addr, end_byte(view) - pos,
					     mrg_equiv_span(first, first + length - 1),
					     scan->from_iova);
	scan->distance = iova + scan->from_iova - addr;
}

/* Joined as ib_umem_find_best_pgsz() joins: an end beyond 2^64 joins nothing. */
static bool continues(const struct layout_scan *scan, u64 addr)
{
	u64 end;

	return scan->run.len && !check_add_overflow(scan->run.addr, scan->run.len, &end) &&
	       end == addr;
}

static void add_entry(struct layout_scan *scan, const struct mrg_view *view, u64 pos, u64 addr,
		      u64 len)
{
	if (!continues(scan, addr)) {
		end_run(scan);
		begin_run(scan, view, pos, addr);
	}
	scan->run.len += len;
	if (!scan->coalesce)
		emit(scan, scan->entries, addr, len);
	scan->entries++;
}

static int scan_layout(struct mrg_view *view, struct sg_table *sgt, void *arg)
{
	struct layout_scan *scan = arg;
	u64 first = first_byte(view), end = end_byte(view), pos = 0;
	struct scatterlist *sg;
	int i, ret;

	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 from = max(pos, first), to = min_t(u64, pos + sg_dma_len(sg), end);

		ret = mrg_breathe(i);
		if (ret)
			return ret;
		if (from < to)
			add_entry(scan, view, from, sg_dma_address(sg) + (from - pos), to - from);
		pos += sg_dma_len(sg);
		if (pos >= end)
			break;
	}
	end_run(scan);
	return pos < view->offset + view->length ? -EIO : 0;
}

static bool may_see_raw(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

static void *alloc_room(u64 count, size_t size)
{
	return count ? kvmalloc_array(count, size, GFP_KERNEL_ACCOUNT) : NULL;
}

static int check_layout(const struct mrg_ioc_layout *arg)
{
	return arg->flags & ~MRG_LAYOUT_COALESCE || arg->reserved ? -EINVAL : 0;
}

static void answer_layout(struct mrg_ioc_layout *arg, const struct mrg_view *view,
			  const struct layout_scan *scan)
{
	u64 total = scan->coalesce ? scan->total_runs : scan->entries;

	arg->dmabuf_size = view->dmabuf_size;
	arg->total_entries = scan->entries;
	arg->total_runs = scan->total_runs;
	arg->max_seg_size = view->max_seg_size;
	arg->map_ns = view->map_ns;
	arg->runs_out = scan->out;
	arg->info = scan->raw ? 0 : MRG_LAYOUT_INFO_EQUIVALENT;
	if (arg->start < total && total - arg->start > scan->out)
		arg->info |= MRG_LAYOUT_INFO_MORE;
	arg->iommu = view->iommu;
	memcpy(arg->exporter, view->exporter, sizeof(arg->exporter));
}

int mrg_ioc_layout(struct mrg_ioc_layout *arg)
{
	struct mrg_view view = {
		.fd = arg->dmabuf_fd,
		.importer = arg->importer,
		.iova = arg->iova,
		.offset = arg->offset,
		.length = arg->length,
	};
	struct layout_scan scan = {
		.coalesce = arg->flags & MRG_LAYOUT_COALESCE,
		.raw = may_see_raw(),
		.start = arg->start,
		.cap = min_t(u32, arg->runs_cap, MRG_LAYOUT_MAX_RUNS),
	};
	int ret = check_layout(arg);

	if (ret)
		return ret;
	scan.runs = alloc_room(scan.cap, sizeof(*scan.runs));
	if (scan.cap && !scan.runs)
		return -ENOMEM;
	ret = look_at(&view, scan_layout, &scan);
	if (!ret && copy_to_user(u64_to_user_ptr(arg->runs), scan.runs,
				 scan.out * sizeof(*scan.runs)))
		ret = -EFAULT;
	if (!ret)
		answer_layout(arg, &view, &scan);
	kvfree(scan.runs);
	return ret;
}

/* ---- MRG_IOC_BLOCKS ---------------------------------------------------- */

/* A list cut to a range as ib_umem_dmabuf_map_pages() cuts it, and how to undo that. */
struct list_cut {
	struct scatterlist *first;
	struct scatterlist *last;
	unsigned int nents;
	unsigned int head;
	unsigned int tail;
};

static int cut_list(struct list_cut *cut, struct sg_table *sgt, const struct mrg_view *view)
{
	u64 start = first_byte(view), end = end_byte(view), pos = 0;
	struct scatterlist *sg;
	int i, ret;

	*cut = (struct list_cut){};
	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 next = pos + sg_dma_len(sg);

		ret = mrg_breathe(i);
		if (ret)
			return ret;
		if (start < next && pos < end)
			cut->nents++;
		if (pos <= start && start < next) {
			cut->first = sg;
			cut->head = start - pos;
		}
		if (pos < end && end <= next) {
			cut->last = sg;
			cut->tail = next - end;
			return 0;
		}
		pos = next;
	}
	return pos < view->offset + view->length ? -EIO : 0;
}

static void apply_cut(const struct list_cut *cut)
{
	sg_dma_address(cut->first) += cut->head;
	sg_dma_len(cut->first) -= cut->head;
	if (cut->last)
		sg_dma_len(cut->last) -= cut->tail;
}

static void undo_cut(const struct list_cut *cut)
{
	if (cut->last)
		sg_dma_len(cut->last) += cut->tail;
	sg_dma_len(cut->first) += cut->head;
	sg_dma_address(cut->first) -= cut->head;
}

struct blocks_scan {
	const struct mrg_walk_ops *ops;
	struct mrg_walk_job job;
};

static int scan_blocks(struct mrg_view *view, struct sg_table *sgt, void *arg)
{
	struct blocks_scan *scan = arg;
	struct list_cut cut;
	int ret = cut_list(&cut, sgt, view);

	if (ret)
		return ret;
	apply_cut(&cut);
	scan->job.sgl = cut.first;
	scan->job.nents = cut.nents;
	scan->job.address = view->offset;
	scan->job.length = view->length;
	scan->job.iova = view->iova;
	ret = scan->ops->blocks(&scan->job);
	undo_cut(&cut);
	return ret;
}

/* One entry of a list that the caller gave. */
static int check_run(const struct mrg_ioc_run *run, bool last)
{
	u64 end;

	if (!run->len || run->len > U32_MAX || run->addr & ~PAGE_MASK)
		return -EINVAL;
	if (run->len & ~PAGE_MASK && !last)
		return -EINVAL;
	return check_add_overflow(run->addr, run->len - 1, &end) ? -EINVAL : 0;
}

/* Sets @total to the list's length. */
static int read_runs(struct scatterlist *sgl, const struct mrg_ioc_blocks *arg, u64 *total)
{
	const struct mrg_ioc_run __user *user = u64_to_user_ptr(arg->runs);
	struct mrg_ioc_run part[32];
	u32 i, n, done;
	int ret;

	*total = 0;
	for (done = 0; done < arg->runs_cap; done += n) {
		n = min_t(u32, ARRAY_SIZE(part), arg->runs_cap - done);
		ret = mrg_breathe(done);
		if (ret)
			return ret;
		if (copy_from_user(part, user + done, n * sizeof(part[0])))
			return -EFAULT;
		for (i = 0; i < n; i++) {
			ret = check_run(&part[i], done + i + 1 == arg->runs_cap);
			if (ret)
				return ret;
			sg_dma_address(&sgl[done + i]) = part[i].addr;
			sg_dma_len(&sgl[done + i]) = part[i].len;
			*total += part[i].len;
		}
	}
	return 0;
}

static int blocks_of_list(struct mrg_view *view, const struct mrg_ioc_blocks *arg,
			  struct blocks_scan *scan)
{
	struct sg_table sgt = { .nents = arg->runs_cap };
	u64 total;
	int ret;

	sgt.sgl = alloc_room(arg->runs_cap, sizeof(*sgt.sgl));
	if (!sgt.sgl)
		return -ENOMEM;
	sg_init_table(sgt.sgl, arg->runs_cap);
	ret = read_runs(sgt.sgl, arg, &total);
	if (!ret)
		ret = check_range(view, total);
	if (!ret)
		ret = scan_blocks(view, &sgt, scan);
	kvfree(sgt.sgl);
	return ret;
}

static bool no_importer(const struct mrg_ioc_importer *imp)
{
	return !imp->domain && !imp->bus && !imp->devfn && !imp->reserved;
}

static int check_blocks(const struct mrg_ioc_blocks *arg)
{
	if (arg->flags & ~MRG_BLOCKS_DMABUF || arg->reserved)
		return -EINVAL;
	if (arg->flags & MRG_BLOCKS_DMABUF)
		return arg->runs_cap ? -EINVAL : 0;
	if (arg->dmabuf_fd != -1 || !no_importer(&arg->importer))
		return -EINVAL;
	if (!arg->length || !arg->runs_cap)
		return -EINVAL;
	return arg->runs_cap > MRG_BLOCKS_MAX_RUNS ? -E2BIG : 0;
}

static void answer_blocks(struct mrg_ioc_blocks *arg, const struct mrg_walk_job *job)
{
	arg->blocks_out = job->blocks_out;
	arg->page_size = job->page_size;
	arg->total_blocks = job->total_blocks;
	arg->walked = job->walked;
	arg->wrong = job->wrong;
	arg->first_wrong = job->first_wrong;
	arg->info = job->info;
}

static int scan_and_answer(struct mrg_ioc_blocks *arg, struct blocks_scan *scan)
{
	struct mrg_view view = {
		.fd = arg->dmabuf_fd,
		.importer = arg->importer,
		.iova = arg->iova,
		.offset = arg->offset,
		.length = arg->length,
	};
	struct mrg_walk_job *job = &scan->job;
	int ret;

	job->blocks = alloc_room(job->blocks_cap, sizeof(*job->blocks));
	if (job->blocks_cap && !job->blocks)
		return -ENOMEM;
	if (arg->flags & MRG_BLOCKS_DMABUF)
		ret = look_at(&view, scan_blocks, scan);
	else
		ret = blocks_of_list(&view, arg, scan);
	if (!ret && copy_to_user(u64_to_user_ptr(arg->blocks), job->blocks,
				 job->blocks_out * sizeof(*job->blocks)))
		ret = -EFAULT;
	if (!ret || ret == -EOVERFLOW)
		answer_blocks(arg, job);
	kvfree(job->blocks);
	return ret;
}

int mrg_ioc_blocks(struct mrg_ioc_blocks *arg)
{
	bool show = !(arg->flags & MRG_BLOCKS_DMABUF) || may_see_raw();
	struct blocks_scan scan = {
		.job = {
			.pgsz_bitmap = arg->pgsz_bitmap,
			.start = arg->start,
			.blocks_cap = show ? min_t(u32, arg->blocks_cap, MRG_BLOCKS_MAX_OUT) : 0,
			.first_wrong = ~0ULL,
		},
	};
	int ret = check_blocks(arg);

	if (ret)
		return ret;
	scan.ops = mrg_walk_get();
	if (!scan.ops)
		return -EOPNOTSUPP;
	ret = scan_and_answer(arg, &scan);
	mrg_walk_put(scan.ops);
	return ret;
}
