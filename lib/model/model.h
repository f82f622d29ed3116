/* SPDX-License-Identifier: MIT */
/*
 * The kernel's page-size pick and block walk, for one MR over a scatter list.
 *
 * Everything works per contiguous run and never per block, so 16 TiB in 4 KiB
 * blocks costs no more than its list.  Nothing here allocates.
 *
 * Addresses and iovas may reach up to 2^64; sums wrap as they do in the kernel.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <sys/types.h>
#include <mrguard/plan.h>

/* Pages from here on are what the truncating walk gets wrong. */
#define MODEL_WIDE_SHIFT 32
/* The largest page that every walk handles. */
#define MODEL_WINDOW (1ULL << 31)
/* The largest page that mrguard_cap.ko leaves. */
#define MODEL_CAP_SHIFT 31
/* A bit below 32 in which iova and DMA address differ keeps pages narrow. */
#define MODEL_LOW32 0xffffffffULL
/* A device whose limit is not known takes at least 2 GiB pages. */
#define MODEL_MIN_LIMIT 31
/* No list is longer: offsets and lengths add without overflow. */
#define MODEL_LIST_MAX (1ULL << 63)

/*
 * One MR: bytes [offset, offset + length) of a list, at an iova.
 * offset and iova agree within a host page, as uverbs demands.
 */
struct model_mr {
	const struct mrg_sg *sg;
	size_t count;
	uint64_t offset;
	uint64_t length;
	uint64_t iova;
	uint64_t page_size;
};

static inline bool model_shift_valid(uint32_t shift)
{
	return shift >= MRG_MIN_PAGE_SHIFT && shift <= MRG_MAX_PAGE_SHIFT;
}

static inline bool model_in_one_window(uint64_t iova, uint64_t length)
{
	return (iova ^ (iova + length - 1)) < MODEL_WINDOW;
}

/* One MR is safe whatever its addresses are: it gets no page above the window. */
static inline bool model_safe_by_window(enum mrg_walk walk, uint64_t iova, uint64_t length)
{
	return (walk == MRG_WALK_TRUNCATING || walk == MRG_WALK_UNKNOWN) &&
	       model_in_one_window(iova, length);
}

static inline uint64_t model_align_up(uint64_t x, uint64_t to)
{
	return (x + to - 1) & ~(to - 1);
}

static inline uint64_t model_mr_pgoff(const struct model_mr *mr)
{
	return mr->iova & (mr->page_size - 1);
}

/* All page sizes from 4 KiB to 2^limit, as drivers announce them. */
static inline uint64_t model_pages_up_to(uint32_t limit)
{
	return (~0ULL >> (MRG_MAX_PAGE_SHIFT - limit)) & ~((1ULL << MRG_MIN_PAGE_SHIFT) - 1);
}

/* mrguard_cap.ko: the larger sizes go, unless no other is left. */
static inline uint64_t model_cap(uint64_t pgsz_bitmap)
{
	uint64_t small = pgsz_bitmap & ((2ULL << MODEL_CAP_SHIFT) - 1);

	return small ? small : pgsz_bitmap;
}

/* Walks of kernels before 486055f5e09d see entries, later ones see runs. */
static inline bool model_walk_per_entry(enum mrg_walk walk)
{
	return walk == MRG_WALK_PER_ENTRY || walk == MRG_WALK_PER_ENTRY_NARROW;
}

/*
 * Goes through a stretch of a list, run by run: entries that continue each
 * other are one run, unless per_entry.
 */
struct model_runs {
	const struct mrg_sg *sg;
	const struct mrg_sg *end;
	uint64_t skip; /* bytes of *sg that come before the stretch */
	uint64_t left; /* bytes of the stretch that are still to come */
	uint64_t passed; /* bytes of the list passed, cut ones too */
	bool per_entry;
	bool malformed; /* an entry that model_entry_valid() would refuse */
};

/* Not empty, not absurdly long, and not past the last address. */
static inline bool model_entry_valid(const struct mrg_sg *sg)
{
	return sg->len - 1 < MODEL_LIST_MAX && sg->addr + (sg->len - 1) >= sg->addr;
}

static inline bool model_runs_next(struct model_runs *it, struct mrg_sg *run)
{
	const struct mrg_sg *sg = it->sg;
	uint64_t start, len, next;

	if (!it->left || sg == it->end)
		return false;
	start = sg->addr + it->skip;
	len = sg->len - it->skip;
	it->malformed |= !model_entry_valid(sg);
	sg++;
	/* A run does not go on past 2^64: FBP-C tests the sum for overflow. */
	while (!it->per_entry && len < it->left && sg != it->end &&
	       !__builtin_add_overflow(start, len, &next) && next == sg->addr) {
		it->malformed |= sg->len - 1 >= MODEL_LIST_MAX;
		len += sg->len;
		sg++;
	}
	it->malformed |= start + (len - 1) < start;
	it->sg = sg;
	it->skip = 0;
	it->passed += len;
	run->addr = start;
	run->len = len < it->left ? len : it->left;
	it->left -= run->len;
	return true;
}

/* The pages that an MR maps: ib_umem_dmabuf_map_pages() widens to whole ones. */
void model_mr_runs(const struct model_mr *mr, bool per_entry, struct model_runs *it);

/* What pick and walk need to know of an MR's runs. */
struct model_scan {
	uint64_t mask; /* its lowest bit bounds the page */
	uint64_t first; /* DMA address of the first page */
	uint64_t first_len; /* bytes of the first run */
	uint64_t second; /* DMA address of the second run */
	uint64_t last_addr;
	uint64_t last_len;
	uint64_t bytes;
	uint64_t longest;
	uint64_t runs;
};

/* Adds the run that starts at address @va of the MR, in order. */
static inline void model_scan_add(struct model_scan *scan, const struct mrg_sg *run, uint64_t va)
{
	scan->mask |= run->addr ^ va;
	if (scan->runs == 0) {
		scan->first = run->addr;
		scan->first_len = run->len;
	} else {
		scan->mask |= va;
	}
	if (scan->runs == 1)
		scan->second = run->addr;
	if (run->len > scan->longest)
		scan->longest = run->len;
	scan->last_addr = run->addr;
	scan->last_len = run->len;
	scan->bytes += run->len;
	scan->runs++;
}

void model_mr_scan(const struct model_mr *mr, enum mrg_walk walk, struct model_scan *scan);

/*
 * The smallest page that the kernels of @walk pick.  Until 4fbc3a52cd4d (6.7,
 * 6.1.68) ib_umem_find_best_pgsz() dropped all sizes below the host's page.
 * MRG_WALK_PER_ENTRY is of kernels on both sides of that commit: those that
 * pick less must not be taken for such that refuse.
 */
static inline uint64_t model_smallest_page(enum mrg_walk walk, uint64_t page_size)
{
	return walk == MRG_WALK_TRUNCATING_UNBOUNDED || walk == MRG_WALK_PER_ENTRY_NARROW ?
		       page_size :
		       1ULL << MRG_MIN_PAGE_SHIFT;
}

/* The page that ib_umem_find_best_pgsz() picks, in bytes; 0: it refuses. */
uint64_t model_pick_page(const struct model_mr *mr, const struct model_scan *scan,
			 enum mrg_walk walk, uint64_t pgsz_bitmap);

/* What @walk makes of the MR in pages of 1 << @shift, as picked. */
void model_mr_walk(const struct model_mr *mr, const struct model_scan *scan, enum mrg_walk walk,
		   uint32_t shift, struct mrg_outcome *out);

/* Both in one: the MR on a device that takes the pages of @pgsz_bitmap. */
void model_mr_judge(const struct model_mr *mr, uint64_t pgsz_bitmap, enum mrg_walk walk,
		    struct mrg_outcome *out);

/*
 * The addresses that @walk hands out for blocks [start, start + cap), in
 * pages of 1 << @shift; returns how many of these blocks the MR has.
 */
size_t model_mr_blocks(const struct model_mr *mr, enum mrg_walk walk, uint32_t shift,
		       uint64_t start, uint64_t *addrs, size_t cap);

/* Bytes of the MR that lie in wrong blocks. */
uint64_t model_wrong_bytes(const struct model_mr *mr, const struct mrg_outcome *out);

#endif
