/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mrguard_walk.ko: the page-size pick and the block walk of the running ib_core,
 * called on lists.  Its lists hold DMA addresses only: both functions are
 * arithmetic on these, so no device and no memory stands behind them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/sizes.h>

#include "compat_rdma.h"
#include "internal.h"

static void set_entry(struct scatterlist *sg, u64 addr, unsigned int len)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
}

static void make_umem(struct ib_umem *umem, struct scatterlist *sgl, unsigned int nents,
		      u64 address, u64 length, u64 iova)
{
	memset(umem, 0, sizeof(*umem));
	umem->sgt_append.sgt.sgl = sgl;
	umem->sgt_append.sgt.nents = nents;
	umem->sgt_append.sgt.orig_nents = nents;
	umem->address = address;
	umem->length = length;
	umem->iova = iova;
}

/* ---- the probe: what the iterator does, found by running it -------------- */

/* The kernel's walk of a few entries, without the bound that an MR gives it. */
static void start(struct ib_block_iter *iter, struct scatterlist *sgl, unsigned int nents,
		  unsigned long page_size)
{
	__rdma_block_iter_start(iter, sgl, nents, page_size);
}

/* Two contiguous entries of 1 MiB in one page of 2 MiB: one block, or one each? */
static bool crosses_entries(void)
{
	struct ib_block_iter iter;
	struct scatterlist sgl[2];

	sg_init_table(sgl, ARRAY_SIZE(sgl));
	set_entry(&sgl[0], SZ_2M, SZ_1M);
	set_entry(&sgl[1], SZ_2M + SZ_1M, SZ_1M);
	start(&iter, sgl, ARRAY_SIZE(sgl), SZ_2M);
	return __rdma_block_iter_next(&iter) && !__rdma_block_iter_next(&iter);
}

/* 8 GiB in pages of 4 GiB: is the second block the first one again? */
static bool truncates(void)
{
	const u64 base = 1ULL << 44;
	struct ib_block_iter iter;
	struct scatterlist sgl[4];
	int i;

	sg_init_table(sgl, ARRAY_SIZE(sgl));
	for (i = 0; i < ARRAY_SIZE(sgl); i++)
		set_entry(&sgl[i], base + i * (u64)SZ_2G, SZ_2G);
	start(&iter, sgl, ARRAY_SIZE(sgl), 1UL << 32);
	return __rdma_block_iter_next(&iter) && __rdma_block_iter_next(&iter) &&
	       rdma_block_iter_dma_address(&iter) == base;
}

/* An entry of nearly 4 GiB in pages of 2 GiB: does a third block come? */
static bool overflows_position(void)
{
	struct ib_block_iter iter;
	struct scatterlist sgl[1];

	sg_init_table(sgl, ARRAY_SIZE(sgl));
	set_entry(&sgl[0], 1ULL << 44, 0xfffff000);
	start(&iter, sgl, ARRAY_SIZE(sgl), SZ_2G);
	return __rdma_block_iter_next(&iter) && __rdma_block_iter_next(&iter) &&
	       __rdma_block_iter_next(&iter);
}

/* An MR of one page over a list of two: does the walk end with the MR? */
static bool ends_with_list_alone(void)
{
	struct ib_block_iter iter;
	struct scatterlist sgl[2];
	struct ib_umem umem;

	sg_init_table(sgl, ARRAY_SIZE(sgl));
	set_entry(&sgl[0], SZ_2M, PAGE_SIZE);
	set_entry(&sgl[1], SZ_4M, PAGE_SIZE);
	make_umem(&umem, sgl, ARRAY_SIZE(sgl), 0, PAGE_SIZE, 0);
	__rdma_umem_block_iter_start(&iter, &umem, PAGE_SIZE);
	return __rdma_umem_block_iter_next(&iter) && __rdma_umem_block_iter_next(&iter);
}

/* The page that the pick gives 8 GiB, contiguous and aligned like the iova. */
static u64 mrg_pick(void)
{
	const u64 base = 1ULL << 44, len = 8ULL * SZ_1G;
	struct scatterlist sgl[4];
	struct ib_umem umem;
	int i;

	sg_init_table(sgl, ARRAY_SIZE(sgl));
	for (i = 0; i < ARRAY_SIZE(sgl); i++)
		set_entry(&sgl[i], base + i * (u64)SZ_2G, SZ_2G);
	make_umem(&umem, sgl, ARRAY_SIZE(sgl), base, len, base);
	return ib_umem_find_best_pgsz(&umem, ~(PAGE_SIZE - 1), base);
}

static u32 mrg_probe(void)
{
	u32 walk = MRG_WALK_INFO_KNOWN;

	if (crosses_entries())
		walk |= MRG_WALK_INFO_CROSSES;
	if (truncates())
		walk |= MRG_WALK_INFO_OFFSET32;
	if (overflows_position())
		walk |= MRG_WALK_INFO_NARROW;
	if (ends_with_list_alone())
		walk |= MRG_WALK_INFO_UNBOUNDED;
	return walk;
}

/* ---- one list ------------------------------------------------------------ */

/* Where the right address of a block is looked up; moves forward only. */
struct cursor {
	struct scatterlist *sg;
	unsigned int left;
	u64 begin; /* of @sg, counted from the list's begin */
};

static u64 address_at(struct cursor *at, u64 pos)
{
	while (at->left > 1 && pos - at->begin >= sg_dma_len(at->sg)) {
		at->begin += sg_dma_len(at->sg);
		at->sg = sg_next(at->sg);
		at->left--;
	}
	return sg_dma_address(at->sg) + (pos - at->begin);
}

/* Offset in the MR of block @n's first byte that belongs to the MR. */
static u64 block_offset(const struct mrg_walk_job *job, u64 n)
{
	return n ? ALIGN_DOWN(job->iova, job->page_size) + n * job->page_size - job->iova : 0;
}

static void note_block(struct mrg_walk_job *job, struct cursor *at, u64 addr)
{
	u64 n = job->walked++;
	u64 offset = block_offset(job, n);
	u64 right = address_at(at, (job->address & ~PAGE_MASK) + offset);

	if (addr != ALIGN_DOWN(right, job->page_size) && !job->wrong++)
		job->first_wrong = offset;
	if (n >= job->start && job->blocks_out < job->blocks_cap)
		job->blocks[job->blocks_out++] = addr;
}

/* At most one step more than the MR has blocks: some walks never end. */
static int walk_blocks(struct mrg_walk_job *job, struct ib_umem *umem)
{
	struct cursor at = { .sg = job->sgl, .left = job->nents };
	struct ib_block_iter iter;
	int ret;

	__rdma_umem_block_iter_start(&iter, umem, job->page_size);
	while (__rdma_umem_block_iter_next(&iter)) {
		if (job->walked == job->total_blocks) {
			job->info |= MRG_BLOCKS_INFO_ENDLESS;
			break;
		}
		ret = mrg_resched(job->walked);
		if (ret)
			return ret;
		note_block(job, &at, rdma_block_iter_dma_address(&iter));
	}
	return 0;
}

static int mrg_blocks(struct mrg_walk_job *job)
{
	struct ib_umem umem;

	/*
	 * Before 09ea6837a043 the pick shifts by 64 where an MR crosses bit 63,
	 * which a kernel with UBSAN reports.  No MR of a process does.
	 */
	if ((job->iova ^ (job->iova + job->length - 1)) >> 63)
		return -EINVAL;
	make_umem(&umem, job->sgl, job->nents, job->address, job->length, job->iova);
	job->page_size = ib_umem_find_best_pgsz(&umem, job->pgsz_bitmap, job->iova);
	if (!job->page_size)
		return 0;
	job->total_blocks = ib_umem_num_dma_blocks(&umem, job->page_size);
	if (job->total_blocks > MRG_BLOCKS_MAX_WALK)
		return -EOVERFLOW;
	return walk_blocks(job, &umem);
}

static const struct mrg_walk_ops mrg_ops = {
	.owner = THIS_MODULE,
	.probe = mrg_probe,
	.pick = mrg_pick,
	.blocks = mrg_blocks,
};

static int __init mrg_walk_init(void)
{
	return mrg_register_walk(&mrg_ops);
}
module_init(mrg_walk_init);

static void __exit mrg_walk_exit(void)
{
	mrg_unregister_walk(&mrg_ops);
}
module_exit(mrg_walk_exit);

MODULE_DESCRIPTION("Lets mrguard ask the running ib_core for page sizes and blocks");
MODULE_AUTHOR("The mrguard authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(MRG_VERSION);
