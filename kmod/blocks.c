/* SPDX-License-Identifier: GPL-2.0-only */
/* MRG_IOC_BLOCKS: a list is cut to a range, and mrguard_walk.ko walks it. */
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* A list cut to a range as ib_umem_dmabuf_map_pages() cuts it, and how to undo that. */
struct list_cut {
	struct scatterlist *first;
	struct scatterlist *last;
	unsigned int nents;
	unsigned int head;
	unsigned int tail;
};

static int cut_list(struct list_cut *cut, struct sg_table *sgt, const struct mrg_mapped *mapped)
{
	u64 start = mrg_first_byte(mapped), end = mrg_end_byte(mapped), pos = 0;
	struct scatterlist *sg;
	int i, ret;

	*cut = (struct list_cut){};
	for_each_sgtable_dma_sg(sgt, sg, i) {
		u64 next = pos + sg_dma_len(sg);

		ret = mrg_resched(i);
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
	return pos < mapped->offset + mapped->length ? -EIO : 0;
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

static int scan_blocks(struct mrg_mapped *mapped, struct sg_table *sgt, void *arg)
{
	struct blocks_scan *scan = arg;
	struct list_cut cut;
	int ret = cut_list(&cut, sgt, mapped);

	if (ret)
		return ret;
	apply_cut(&cut);
	scan->job.sgl = cut.first;
	scan->job.nents = cut.nents;
	scan->job.address = mapped->offset;
	scan->job.length = mapped->length;
	scan->job.iova = mapped->iova;
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
		ret = mrg_resched(done);
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

static int blocks_of_list(struct mrg_mapped *mapped, const struct mrg_ioc_blocks *arg,
			  struct blocks_scan *scan)
{
	struct sg_table sgt = { .nents = arg->runs_cap };
	u64 total;
	int ret;

	sgt.sgl = mrg_alloc_room(arg->runs_cap, sizeof(*sgt.sgl));
	if (!sgt.sgl)
		return -ENOMEM;
	sg_init_table(sgt.sgl, arg->runs_cap);
	ret = read_runs(sgt.sgl, arg, &total);
	if (!ret)
		ret = mrg_check_range(mapped, total);
	if (!ret)
		ret = scan_blocks(mapped, &sgt, scan);
	kvfree(sgt.sgl);
	return ret;
}

static bool no_importer(const struct mrg_ioc_importer *imp)
{
	return !imp->domain && !imp->bus && !imp->devfn && !imp->reserved;
}

/* All sizes from the host page up to some limit; smaller ones tell nothing. */
static bool without_gaps(u64 pgsz_bitmap)
{
	u64 pages = pgsz_bitmap >> PAGE_SHIFT;

	return !(pages & (pages + 1));
}

/*
 * Asked for one large page alone, the pick answers whether address and iova
 * agree below it, and from all of these answers the address could be put
 * together.  Without gaps it stops at the smallest page that covers the MR, and
 * tells no more than equivalent addresses do (see equiv.h).
 */
static int check_blocks_of_dmabuf(const struct mrg_ioc_blocks *arg)
{
	if (arg->runs_cap)
		return -EINVAL;
	return without_gaps(arg->pgsz_bitmap) || mrg_may_see_raw() ? 0 : -EPERM;
}

static int check_blocks(const struct mrg_ioc_blocks *arg)
{
	if (arg->flags & ~MRG_BLOCKS_DMABUF || arg->reserved)
		return -EINVAL;
	if (arg->flags & MRG_BLOCKS_DMABUF)
		return check_blocks_of_dmabuf(arg);
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
	struct mrg_mapped mapped = {
		.fd = arg->dmabuf_fd,
		.importer = arg->importer,
		.iova = arg->iova,
		.offset = arg->offset,
		.length = arg->length,
	};
	struct mrg_walk_job *job = &scan->job;
	int ret;

	job->blocks = mrg_alloc_room(job->blocks_cap, sizeof(*job->blocks));
	if (job->blocks_cap && !job->blocks)
		return -ENOMEM;
	if (arg->flags & MRG_BLOCKS_DMABUF)
		ret = mrg_look_at(&mapped, scan_blocks, scan);
	else
		ret = blocks_of_list(&mapped, arg, scan);
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
	bool show = !(arg->flags & MRG_BLOCKS_DMABUF) || mrg_may_see_raw();
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
