/* SPDX-License-Identifier: MIT */
/*
 * The kernel's functions, followed step by step: what the model's closed forms
 * are held against.  Nothing here is shared with lib/model but struct sample.
 *
 * From the kernel: ib_umem_dmabuf_map_pages(), ib_umem_find_best_pgsz(),
 * ib_umem_num_dma_blocks(), __rdma_block_iter_next(); commits as named.
 */
#ifndef TESTS_MODEL_NAIVE_H
#define TESTS_MODEL_NAIVE_H

#include "unit/model_lists.h"

struct naive_umem {
	struct mrg_sg sg[LIST_MAX_ENTRIES];
	size_t nents;
	uint64_t address;
	uint64_t length;
	uint64_t iova;
	uint64_t page_size;
};

/* ib_umem_dmabuf_map_pages(): the entries of [start, end), cut at both ends */
static inline void naive_map(const struct sample *s, struct naive_umem *umem)
{
	uint64_t start = s->offset & ~(s->page_size - 1);
	uint64_t end = (s->offset + s->length + s->page_size - 1) & ~(s->page_size - 1);
	uint64_t cur = 0, off, trim;
	size_t i;

	*umem = (struct naive_umem){
		.address = s->offset,
		.length = s->length,
		.iova = s->iova,
		.page_size = s->page_size,
	};
	for (i = 0; i < s->count; i++) {
		struct mrg_sg sg = s->sg[i];

		if (cur < end && start < cur + sg.len) {
			if (cur <= start) {
				off = start - cur;
				sg.addr += off;
				sg.len -= off;
				cur += off;
			}
			if (cur < end && end <= cur + sg.len) {
				trim = cur + sg.len - end;
				sg.len -= trim;
				umem->sg[umem->nents++] = sg;
				break;
			}
			umem->sg[umem->nents++] = sg;
		}
		cur += sg.len;
	}
}

static inline unsigned int naive_bits_per(uint64_t x)
{
	unsigned int bits = 0;

	for (; x; x >>= 1)
		bits++;
	return bits ? bits : 1;
}

/* before_pick() of kmod/cap.c */
static inline uint64_t naive_cap(uint64_t bitmap)
{
	uint64_t small = 0;
	unsigned int shift;

	for (shift = 0; shift <= 31; shift++)
		small |= bitmap & (1ULL << shift);
	return small ? small : bitmap;
}

/* ib_umem_find_best_pgsz(); @runs: as of 486055f5e09d, else as before */
static inline uint64_t naive_pick(const struct naive_umem *umem, uint64_t bitmap, bool runs)
{
	uint64_t virt = umem->iova, va = virt, mask = 0, base = ~0ULL, len = 0, bit;
	uint64_t pgoff = umem->address & (umem->page_size - 1);
	unsigned int b = naive_bits_per(virt ^ (virt + umem->length - 1));
	size_t i;

	for (; b < 64; b++)
		mask |= bitmap & (1ULL << b);
	for (i = 0; i < umem->nents; i++) {
		const struct mrg_sg *sg = &umem->sg[i];

		if (!runs) {
			mask |= (sg->addr + pgoff) ^ va;
			va += sg->len - pgoff;
			if (i != umem->nents - 1)
				mask |= va;
		} else {
			if (base + len < base || base + len != sg->addr) {
				base = sg->addr;
				len = 0;
				mask |= (base + pgoff) ^ va;
				if (i != 0)
					mask |= va;
			}
			len += sg->len;
			va += sg->len - pgoff;
		}
		pgoff = 0;
	}
	for (bit = 1ULL << 63; bit; bit >>= 1)
		if ((bitmap & bit) && !(mask & (bit - 1)))
			return bit;
	return 0;
}

static inline uint64_t naive_num_blocks(const struct naive_umem *umem, uint64_t page)
{
	uint64_t first = umem->iova & ~(page - 1), n = 0;

	/* One by one, since the sum may end at 2^64. */
	for (n = 1; umem->iova + umem->length - 1 - first >= page; n++)
		first += page;
	return n;
}

/* The DMA address of byte @pos of the MR. */
static inline uint64_t naive_address(const struct naive_umem *umem, uint64_t pos)
{
	size_t i;

	pos += umem->address & (umem->page_size - 1);
	for (i = 0; pos >= umem->sg[i].len; i++)
		pos -= umem->sg[i].len;
	return umem->sg[i].addr + pos;
}

struct naive_iter {
	const struct naive_umem *umem;
	enum mrg_walk walk;
	unsigned int pg_bit;
	size_t sg;
	size_t nents;
	uint32_t advance;
	uint64_t numblocks; /* 0 with walks that do not count */
	bool counts;
	uint64_t addr;
};

static inline void naive_start(struct naive_iter *it, const struct naive_umem *umem,
			       enum mrg_walk walk, uint64_t page)
{
	*it = (struct naive_iter){ .umem = umem, .walk = walk, .nents = umem->nents };
	while (1ULL << it->pg_bit < page)
		it->pg_bit++;
	it->counts = walk == MRG_WALK_EXACT || walk == MRG_WALK_TRUNCATING;
	if (it->counts) {
		/* 4fbc3a52cd4d */
		it->advance = umem->address & (umem->page_size - 1) & ~(page - 1);
		it->numblocks = naive_num_blocks(umem, page);
	}
}

static inline void naive_next_entry(struct naive_iter *it)
{
	it->advance = 0;
	it->sg++;
	it->nents--;
}

/* a808273a495c */
static inline void naive_step_narrow(struct naive_iter *it, uint32_t len)
{
	uint32_t block_offset = it->addr & ((1ULL << it->pg_bit) - 1);

	it->advance += (1ULL << it->pg_bit) - block_offset;
	if (it->advance >= len)
		naive_next_entry(it);
}

/* 0afec5e9cea7 */
static inline void naive_step_entry(struct naive_iter *it, uint32_t len)
{
	uint32_t block_offset = it->addr & ((1ULL << it->pg_bit) - 1);
	uint32_t delta = (1ULL << it->pg_bit) - block_offset;

	if (len - it->advance > delta)
		it->advance += delta;
	else
		naive_next_entry(it);
}

/* 486055f5e09d with u32 block_offset and delta, 15fe76e23615 with 64 bits */
static inline void naive_step_run(struct naive_iter *it, bool truncate)
{
	uint64_t block_offset = it->addr & ((1ULL << it->pg_bit) - 1);
	uint64_t delta;

	if (truncate)
		block_offset = (uint32_t)block_offset;
	delta = (1ULL << it->pg_bit) - block_offset;
	if (truncate)
		delta = (uint32_t)delta;
	while (it->nents && it->umem->sg[it->sg].len - it->advance <= delta) {
		delta -= it->umem->sg[it->sg].len - it->advance;
		naive_next_entry(it);
	}
	it->advance += delta;
}

static inline bool naive_next(struct naive_iter *it, uint64_t *addr)
{
	if (!it->nents || (it->counts && !it->numblocks))
		return false;
	it->addr = it->umem->sg[it->sg].addr + it->advance;
	*addr = it->addr & ~((1ULL << it->pg_bit) - 1);
	if (it->walk == MRG_WALK_PER_ENTRY_NARROW)
		naive_step_narrow(it, it->umem->sg[it->sg].len);
	else if (it->walk == MRG_WALK_PER_ENTRY)
		naive_step_entry(it, it->umem->sg[it->sg].len);
	else
		naive_step_run(it, it->walk != MRG_WALK_EXACT);
	if (it->counts)
		it->numblocks--;
	return true;
}

struct naive_result {
	uint64_t page;
	uint64_t blocks; /* that the MR has */
	uint64_t given; /* by the walk, at most @blocks */
	bool endless;
	uint64_t wrong;
	uint64_t first_wrong; /* offset, MRG_NO_OFFSET if none */
};

static inline bool naive_same_place(const struct naive_iter *a, const struct naive_iter *b)
{
	return a->sg == b->sg && a->advance == b->advance && a->nents == b->nents;
}

/*
 * Whether the walk goes on for ever: Brent's search for a cycle, since a walk
 * of one list has no state but its place in it.
 */
static inline bool naive_endless(struct naive_iter it)
{
	struct naive_iter mark = it;
	uint64_t steps = 0, power = 1, addr;

	if (it.counts)
		return false;
	while (naive_next(&it, &addr)) {
		if (naive_same_place(&it, &mark))
			return true;
		if (++steps == power) {
			mark = it;
			power *= 2;
			steps = 0;
		}
	}
	return false;
}

/* @addrs: room for @cap addresses */
static inline void naive_run(const struct sample *s, enum mrg_walk walk, uint64_t *addrs,
			     size_t cap, struct naive_result *res)
{
	bool runs = walk != MRG_WALK_PER_ENTRY && walk != MRG_WALK_PER_ENTRY_NARROW;
	struct naive_umem umem;
	struct naive_iter it;
	uint64_t addr, right, pos, bitmap = s->bitmap;

	naive_map(s, &umem);
	*res = (struct naive_result){ .first_wrong = MRG_NO_OFFSET };
	/* Before 4fbc3a52cd4d: pgsz_bitmap &= GENMASK(BITS_PER_LONG - 1, PAGE_SHIFT) */
	if (walk == MRG_WALK_TRUNCATING_UNBOUNDED || walk == MRG_WALK_PER_ENTRY_NARROW)
		bitmap &= ~(s->page_size - 1);
	res->page = naive_pick(&umem, bitmap, runs);
	if (!res->page)
		return;
	res->blocks = naive_num_blocks(&umem, res->page);
	naive_start(&it, &umem, walk, res->page);
	res->endless = naive_endless(it);
	while (res->given < res->blocks && naive_next(&it, &addr)) {
		pos = (umem.iova & ~(res->page - 1)) + res->given * res->page;
		pos = res->given ? pos - umem.iova : 0;
		right = naive_address(&umem, pos) & ~(res->page - 1);
		if (addr != right && !res->wrong++)
			res->first_wrong = pos;
		if (res->given < cap)
			addrs[res->given] = addr;
		res->given++;
	}
}

#endif /* TESTS_MODEL_NAIVE_H */
