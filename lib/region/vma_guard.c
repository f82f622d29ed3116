/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "region/fork_state.h"
#include "region/headroom.h"
#include "region/own_marks.h"
#include "region/vma_guard.h"

#define DEFAULT_FLOOR 64

/* Marking a range in the middle of a VMA makes three of one. */
#define VMAS_PER_MARK 2

struct mrg_vma_guard {
	struct mrg_dev *dev;
	bool env_huge;
	uint64_t page;
	struct region_headroom room;
};

int region_vma_guard_open(struct mrg_vma_guard **out, struct mrg_dev *dev,
			  enum mrg_fork_policy policy, uint64_t floor)
{
	struct mrg_vma_guard *guard;
	struct mrg_fork_info info;

	if (mrg_fork_apply(policy, &info) == -EINVAL)
		return -EINVAL;
	guard = calloc(1, sizeof(*guard));
	if (!guard)
		return -ENOMEM;
	guard->dev = dev;
	guard->env_huge = info.env_huge;
	guard->page = (uint64_t)sysconf(_SC_PAGESIZE);
	region_headroom_init(&guard->room, dev, floor ? floor : DEFAULT_FLOOR);
	*out = guard;
	return 0;
}

void region_vma_guard_close(struct mrg_vma_guard *guard)
{
	if (!guard)
		return;
	region_headroom_release(&guard->room);
	free(guard);
}

#define REFUSE(err, code, ...) base_error_set(err, code, "check range", __VA_ARGS__)

/* libibverbs rounds outwards to pages. */
static struct region_range pages_of(const struct mrg_vma_guard *guard, uint64_t addr, uint64_t len)
{
	return (struct region_range){
		.start = addr & ~(guard->page - 1),
		.end = (addr + len + guard->page - 1) & ~(guard->page - 1),
	};
}

/* With RDMAV_HUGEPAGES_SAFE libibverbs rounds to huge pages by itself. */
static bool cuts_huge_page(const struct mrg_vma_guard *guard, struct region_range range,
			   const struct mrg_vma_counts *facts)
{
	uint64_t below = facts->page_size - 1;

	return facts->page_size > guard->page && !guard->env_huge &&
	       ((range.start | range.end) & below);
}

/*
 * One madvise that fails leaves libibverbs' counts wrong for the rest of the
 * process (measured on rdma-core 44: every count from the range to the top of
 * the address space ends one too low), so what would fail is refused here.
 */
static int check_range(struct mrg_vma_guard *guard, struct region_range range,
		       const struct mrg_vma_counts *facts, struct mrg_error *err)
{
	uint64_t length = range.end - range.start;

	if (facts->mapped < length)
		return REFUSE(
			err, -EFAULT,
			"Register only mapped memory. GPU memory need not have a CPU mapping: export it with mrg_gpu_export() and register that with mrg_reg_dmabuf().",
			"The range of %" PRIu64 " bytes at 0x%" PRIx64 " has a hole: only %" PRIu64
			" of them are mapped.",
			length, range.start, facts->mapped);
	if (cuts_huge_page(guard, range, facts))
		return REFUSE(
			err, -EINVAL,
			"Align the buffer to its huge pages, or set RDMAV_HUGEPAGES_SAFE=1 before the process starts.",
			"The range 0x%" PRIx64 " to 0x%" PRIx64 " cuts huge pages of %" PRIu64
			" bytes, which fork protection cannot mark in part.",
			range.start, range.end, facts->page_size);
	return 0;
}

static bool page_unwritten(struct mrg_vma_guard *guard, uint64_t page)
{
	struct mrg_vma_counts facts;
	struct region_range range = { page, page + guard->page };

	return !region_range_facts(guard->dev, range, &facts, NULL) && facts.unwritten;
}

/* Faults one page in for writing, and changes nothing (since 5.14). */
static void give_anon_vma(struct mrg_vma_guard *guard, uint64_t page)
{
	madvise((void *)(uintptr_t)page, guard->page, MADV_POPULATE_WRITE);
}

/*
 * Marking cuts the VMAs in which the range starts and ends.  One that was never
 * written has no anon_vma; its pieces then get one each when they are written,
 * and never merge again (64 VMAs stay 64).  After one write the pieces share
 * it, and merge (64 become 1; measured on 6.18, the kernels' rule since
 * is_mergeable_anon_vma()).
 */
static void write_before_cut(struct mrg_vma_guard *guard, struct region_range range,
			     const struct mrg_vma_counts *facts,
			     const struct region_range_ends *ends)
{
	uint64_t last = range.end - guard->page;

	if (!facts->unwritten)
		return;
	if (ends->known ? ends->start_unwritten : page_unwritten(guard, range.start))
		give_anon_vma(guard, range.start);
	if (ends->known ? ends->end_unwritten : page_unwritten(guard, last))
		give_anon_vma(guard, last);
}

static int enter(struct region_range range, bool dontcopy, struct mrg_error *err)
{
	int ret = region_own_marks_enter(range, dontcopy);

	if (!ret)
		return 0;
	if (ret != -EBUSY)
		return REFUSE(err, ret, "Check that /proc/self/smaps can be read.",
			      "The pages of 0x%" PRIx64 " to 0x%" PRIx64
			      " that are marked already cannot be found: %s.",
			      range.start, range.end, strerror(-ret));
	return REFUSE(
		err, ret,
		"Register the whole mapping, or the memory as a DMA-BUF (mrg_reg_dmabuf), or do without fork protection.",
		"The range 0x%" PRIx64 " to 0x%" PRIx64
		" is part of a device mapping that fork never copies; deregistration would cut it for good.",
		range.start, range.end);
}

static int before_mark(struct mrg_vma_guard *guard, struct region_range range,
		       struct mrg_error *err)
{
	struct mrg_vma_counts facts;
	struct region_range_ends ends;
	int ret = region_headroom_check(&guard->room, VMAS_PER_MARK, err);

	if (ret)
		return ret;
	region_own_marks_retry();
	/* Without /proc and module nothing is known, and nothing refused. */
	if (region_range_facts(guard->dev, range, &facts, &ends))
		return enter(range, false, err);
	ret = check_range(guard, range, &facts, err);
	if (ret)
		return ret;
	write_before_cut(guard, range, &facts, &ends);
	return enter(range, facts.dontcopy > 0, err);
}

int region_vma_guard_room(struct mrg_vma_guard *guard, struct mrg_error *err)
{
	return guard ? region_headroom_check(&guard->room, 0, err) : 0;
}

int region_vma_guard_before_reg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				struct mrg_error *err)
{
	if (!guard)
		return 0;
	if (!region_fork_observe())
		return region_headroom_check(&guard->room, 0, err);
	return before_mark(guard, pages_of(guard, addr, len), err);
}

/* Counts that memory unmapped while registered left behind make libibverbs take
 * new memory for marked. */
static void check_marks(struct mrg_vma_guard *guard, struct region_range range)
{
	struct mrg_vma_counts facts;

	if (!guard->dev || region_range_facts(guard->dev, range, &facts, NULL))
		return;
	if (facts.dontcopy < facts.vmas)
		region_fork_distrust();
}

void region_vma_guard_after_reg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				int result)
{
	struct region_range range;

	if (!guard || !region_fork_observe())
		return;
	range = pages_of(guard, addr, len);
	if (!result) {
		check_marks(guard, range);
		return;
	}
	region_own_marks_leave(range, false);
	/* EAGAIN, ENOMEM and EINVAL are what a failed madvise leaves in errno; a
	 * provider's own refusal does no harm to the counts. */
	if ((result == -EAGAIN || result == -ENOMEM || result == -EINVAL) &&
	    !region_fork_still_marks(range.start))
		region_fork_distrust();
}

void region_vma_guard_after_dereg(struct mrg_vma_guard *guard, uint64_t addr, uint64_t len,
				  int result)
{
	struct region_range range;
	bool tight;

	if (!guard || result || !region_fork_observe())
		return;
	range = pages_of(guard, addr, len);
	/* Unmarking a part of a marked VMA cuts it; at the limit libibverbs
	 * ignores that it could not. */
	tight = region_headroom_tight(&guard->room, VMAS_PER_MARK);
	if (!tight)
		region_own_marks_retry();
	region_own_marks_leave(range, tight);
}

int region_vma_guard_headroom(struct mrg_vma_guard *guard, struct mrg_headroom *out)
{
	return region_headroom_read(&guard->room, out);
}
