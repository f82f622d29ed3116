/* SPDX-License-Identifier: GPL-2.0-only */
/* MRG_IOC_LAYOUT: the list as mapped, or joined, raw or disguised. */
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "equiv.h"
#include "internal.h"

struct layout_scan {
	bool coalesce;
	bool raw;
	u64 start; /* index of the first one wanted */
	u32 cap;
	u32 out;
	struct mrg_ioc_run *runs;
	u64 entries;
	u64 total_runs;
	u64 from_iova; /* see mrg_equiv_distance() */
};

/* Where the next entry is, and which byte of the buffer it begins with. */
struct place {
	struct scatterlist *sg;
	unsigned int left;
	u64 pos;
};

/* The next entry's part in the range: 1 if there is one, 0 at the end, or -EINTR. */
static int next_part(struct place *at, const struct mrg_mapped *mapped, struct mrg_ioc_run *part)
{
	u64 first = mrg_first_byte(mapped), end = mrg_end_byte(mapped);

	while (at->left && at->pos < end) {
		u64 from = max(at->pos, first), to = min_t(u64, at->pos + sg_dma_len(at->sg), end);
		int ret = mrg_resched(at->left);

		if (ret)
			return ret;
		part->addr = sg_dma_address(at->sg) + (from - at->pos);
		part->len = to - from;
		at->pos += sg_dma_len(at->sg);
		at->sg = sg_next(at->sg);
		at->left--;
		if (from < to)
			return 1;
	}
	return 0;
}

/* Joined as ib_umem_find_best_pgsz() joins: an end beyond 2^64 joins nothing. */
static bool continues(const struct mrg_ioc_run *run, u64 addr)
{
	u64 end;

	return !check_add_overflow(run->addr, run->len, &end) && end == addr;
}

/* The next run: moves @at behind it.  Returns its entries, 0 at the end, or -EINTR. */
static int next_run(struct place *at, const struct mrg_mapped *mapped, struct mrg_ioc_run *run)
{
	struct mrg_ioc_run part;
	struct place next = *at;
	int n = 0, ret;

	for (;;) {
		ret = next_part(&next, mapped, &part);
		if (ret <= 0)
			return ret ?: n;
		if (!n)
			*run = part;
		else if (continues(run, part.addr))
			run->len += part.len;
		else
			return n;
		*at = next;
		n++;
	}
}

/* What is to be added to the addresses of a run that begins with byte @pos. */
static u64 disguise(struct layout_scan *scan, const struct mrg_mapped *mapped,
		    const struct mrg_ioc_run *run, u64 pos)
{
	u64 iova = mapped->iova - (mapped->iova & ~PAGE_MASK) + (pos - mrg_first_byte(mapped));

	if (scan->raw)
		return 0;
	scan->from_iova = mrg_equiv_distance(iova, run->addr, run->len, scan->from_iova);
	return iova + scan->from_iova - run->addr;
}

static void emit(struct layout_scan *scan, u64 index, u64 addr, u64 len)
{
	if (index < scan->start || scan->out >= scan->cap)
		return;
	scan->runs[scan->out].addr = addr;
	scan->runs[scan->out].len = len;
	scan->out++;
}

static int emit_run(struct layout_scan *scan, const struct mrg_mapped *mapped, struct place at,
		    const struct mrg_ioc_run *run, int entries)
{
	u64 shift = disguise(scan, mapped, run, max(at.pos, mrg_first_byte(mapped)));
	struct mrg_ioc_run part;
	int i, ret;

	if (scan->coalesce)
		emit(scan, scan->total_runs, run->addr + shift, run->len);
	for (i = 0; !scan->coalesce && scan->out < scan->cap && i < entries; i++) {
		ret = next_part(&at, mapped, &part);
		if (ret < 0)
			return ret;
		emit(scan, scan->entries + i, part.addr + shift, part.len);
	}
	scan->entries += entries;
	scan->total_runs++;
	return 0;
}

/* Run by run: how a run is disguised depends on where it ends. */
static int scan_layout(struct mrg_mapped *mapped, struct sg_table *sgt, void *arg)
{
	struct place at = { .sg = sgt->sgl, .left = sgt->nents };
	struct layout_scan *scan = arg;
	struct mrg_ioc_run run;
	int n, ret;

	for (;;) {
		struct place begin = at;

		n = next_run(&at, mapped, &run);
		if (n <= 0)
			break;
		ret = emit_run(scan, mapped, begin, &run, n);
		if (ret)
			return ret;
	}
	if (n < 0)
		return n;
	return at.pos < mapped->offset + mapped->length ? -EIO : 0;
}

static int check_layout(const struct mrg_ioc_layout *arg)
{
	return arg->flags & ~MRG_LAYOUT_COALESCE || arg->reserved ? -EINVAL : 0;
}

static void answer_layout(struct mrg_ioc_layout *arg, const struct mrg_mapped *mapped,
			  const struct layout_scan *scan)
{
	u64 total = scan->coalesce ? scan->total_runs : scan->entries;

	arg->dmabuf_size = mapped->dmabuf_size;
	arg->total_entries = scan->entries;
	arg->total_runs = scan->total_runs;
	arg->max_seg_size = mapped->max_seg_size;
	arg->map_ns = mapped->map_ns;
	arg->runs_out = scan->out;
	arg->info = scan->raw ? 0 : MRG_LAYOUT_INFO_EQUIVALENT;
	if (arg->start < total && total - arg->start > scan->out)
		arg->info |= MRG_LAYOUT_INFO_MORE;
	if (mapped->moves)
		arg->info |= MRG_LAYOUT_INFO_MOVES;
	arg->iommu = mapped->iommu;
	memcpy(arg->exporter, mapped->exporter, sizeof(arg->exporter));
}

int mrg_ioc_layout(struct mrg_ioc_layout *arg)
{
	struct mrg_mapped mapped = {
		.fd = arg->dmabuf_fd,
		.importer = arg->importer,
		.iova = arg->iova,
		.offset = arg->offset,
		.length = arg->length,
	};
	struct layout_scan scan = {
		.coalesce = arg->flags & MRG_LAYOUT_COALESCE,
		.raw = mrg_may_see_raw(),
		.start = arg->start,
		.cap = min_t(u32, arg->runs_cap, MRG_LAYOUT_MAX_RUNS),
	};
	int ret = check_layout(arg);

	if (ret)
		return ret;
	scan.runs = mrg_alloc_room(scan.cap, sizeof(*scan.runs));
	if (scan.cap && !scan.runs)
		return -ENOMEM;
	ret = mrg_look_at(&mapped, scan_layout, &scan);
	if (!ret &&
	    copy_to_user(u64_to_user_ptr(arg->runs), scan.runs, scan.out * sizeof(*scan.runs)))
		ret = -EFAULT;
	if (!ret)
		answer_layout(arg, &mapped, &scan);
	kvfree(scan.runs);
	return ret;
}
