/* SPDX-License-Identifier: MIT */
/*
 * Random and adversarial MRs over scatter lists, and how to shrink one that
 * shows a fault.  For the unit tests and for the test on real kernels.
 *
 * What makes a list nasty is not its addresses but where they agree with the
 * iova, where they break, and how entries cut them; so these are drawn, and the
 * addresses made to fit.
 */
#ifndef TESTS_MODEL_LISTS_H
#define TESTS_MODEL_LISTS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "model/model.h"

#define LIST_MAX_ENTRIES 24

struct random {
	uint64_t state;
};

/* splitmix64 */
static inline uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t random_below(struct random *r, uint64_t n)
{
	return random_next(r) % n;
}

static inline uint64_t random_between(struct random *r, uint64_t low, uint64_t high)
{
	return low + random_below(r, high - low + 1);
}

static inline bool one_in(struct random *r, uint64_t n)
{
	return random_below(r, n) == 0;
}

/* MRG_SEED repeats a run; the seed is always printed. */
static inline uint64_t random_seed(void)
{
	const char *given = getenv("MRG_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0) :
		       (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec;
	printf("# MRG_SEED=0x%" PRIx64 "\n", seed);
	return seed;
}

/* An MR, its list, and the pages that its device takes. */
struct sample {
	struct mrg_sg sg[LIST_MAX_ENTRIES];
	size_t count;
	uint64_t offset;
	uint64_t length;
	uint64_t iova;
	uint64_t page_size;
	uint64_t bitmap;
};

static inline struct model_mr sample_mr(const struct sample *s)
{
	return (struct model_mr){
		.sg = s->sg,
		.count = s->count,
		.offset = s->offset,
		.length = s->length,
		.iova = s->iova,
		.page_size = s->page_size,
	};
}

static inline uint64_t sample_bytes(const struct sample *s)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < s->count; i++)
		sum += s->sg[i].len;
	return sum;
}

/* What the kernel's callers see to before it comes to pick and walk. */
static inline bool sample_valid(const struct sample *s)
{
	uint64_t in_page = s->page_size - 1, end;
	size_t i;

	for (i = 0; i < s->count; i++)
		if (!s->sg[i].len || s->sg[i].len > UINT32_MAX || (s->sg[i].addr & in_page) ||
		    (i + 1 < s->count && (s->sg[i].len & in_page)) ||
		    s->sg[i].addr + s->sg[i].len - 1 < s->sg[i].addr)
			return false;
	return s->count && s->length && !((s->iova ^ s->offset) & in_page) &&
	       s->offset + s->length <= sample_bytes(s) &&
	       !__builtin_add_overflow(s->iova, s->length, &end) &&
	       /* GENMASK(63, 64) of kernels before 09ea6837a043 is undefined */
	       (s->iova ^ (end - 1)) >> 63 == 0 && s->bitmap;
}

static inline void sample_print(const struct sample *s)
{
	size_t i;

	printf("# iova 0x%" PRIx64 " offset 0x%" PRIx64 " length 0x%" PRIx64 " host page 0x%" PRIx64
	       " device pages 0x%" PRIx64 ", list:\n",
	       s->iova, s->offset, s->length, s->page_size, s->bitmap);
	for (i = 0; i < s->count; i++)
		printf("#   0x%" PRIx64 " 0x%" PRIx64 "\n", s->sg[i].addr, s->sg[i].len);
}

/* Lengths that lists really have, and those next to what breaks walks. */
static inline uint64_t random_length(struct random *r, uint64_t page_size)
{
	static const uint64_t usual[] = {
		0x1000,	    0x2000,	0x10000,    0x200000,	0x40000000, 0x7ffff000,
		0x80000000, 0x80001000, 0xc0000000, 0xffffe000, 0xfffff000,
	};
	uint64_t len;

	if (one_in(r, 2))
		len = usual[random_below(r, sizeof(usual) / sizeof(*usual))];
	else
		len = random_below(r, 1ULL << random_between(r, 13, 32));
	len &= ~(page_size - 1);
	return len ? len : page_size;
}

/*
 * Bytes from @va to a boundary that a large page could have, or any length.
 * @wide: a page of 4 GiB or more must stay possible
 */
static inline uint64_t random_run(struct random *r, uint64_t va, uint64_t page_size, bool wide)
{
	uint64_t to = 1ULL << random_between(r, wide ? 32 : 12, 35), len;

	if (!wide && one_in(r, 3))
		return random_length(r, page_size);
	len = (to - (va & (to - 1))) & ~(page_size - 1);
	if (one_in(r, 2))
		len += to * random_below(r, 4) & ~(page_size - 1);
	return len ? len : page_size;
}

/* A DMA address for @va: the lowest bit in which they differ is @k. */
static inline uint64_t random_addr(struct random *r, uint64_t va, unsigned int k)
{
	uint64_t high = k < 63 ? (random_next(r) & 0xffffffffffULL) << (k + 1) : 0;

	if (one_in(r, 16))
		high |= ~0ULL << (k + 1 < 44 ? 44 : 63);
	return (va ^ (1ULL << k)) ^ high;
}

static inline unsigned int random_difference(struct random *r, bool wide)
{
	if (wide)
		return random_between(r, 32, 37);
	return one_in(r, 2) ? random_between(r, 12, 40) : random_between(r, 30, 36);
}

/* Adds one run at @va, cut into entries; returns its length. */
static inline uint64_t add_run(struct sample *s, struct random *r, uint64_t va, unsigned int k,
			       bool wide)
{
	uint64_t addr = random_addr(r, va, k) & ~(s->page_size - 1);
	uint64_t len = random_run(r, va, s->page_size, wide), done = 0, part;
	bool own_lengths = one_in(r, 2);

	if (s->count && one_in(r, 8))
		addr = s->sg[random_below(r, s->count)].addr; /* mapped twice */
	if (s->count && !(s->sg[s->count - 1].addr + s->sg[s->count - 1].len))
		addr = 0; /* goes on after 2^64, which is a break */
	else if (one_in(r, 16))
		addr = -len;
	while (done < len && s->count < LIST_MAX_ENTRIES) {
		part = own_lengths ? random_length(r, s->page_size) : 0x100000000ULL - s->page_size;
		if (part > len - done)
			part = len - done;
		if (addr + done + part - 1 < addr + done)
			break;
		s->sg[s->count++] = (struct mrg_sg){ addr + done, part };
		done += part;
	}
	return done;
}

static inline uint64_t random_bitmap(struct random *r, uint64_t page_size)
{
	uint64_t upto = model_pages_up_to(random_between(r, one_in(r, 4) ? 12 : 30, 63));

	if (one_in(r, 3))
		upto &= random_next(r) | random_next(r);
	/* A device without a page as small as the host's is refused. */
	if (one_in(r, 64) && upto >= 2 * page_size)
		upto &= ~(2 * page_size - 1);
	return one_in(r, 16) ? 0x40201000 : upto;
}

static inline void draw_range(struct sample *s, struct random *r, uint64_t base)
{
	uint64_t bytes = sample_bytes(s);

	if (one_in(r, 2))
		s->offset = random_below(r, bytes);
	if (one_in(r, 2))
		s->offset &= ~(s->page_size - 1);
	s->length = bytes - s->offset;
	if (one_in(r, 3))
		s->length = random_between(r, 1, s->length);
	s->iova = base + s->offset;
}

static inline void draw_list(struct sample *s, struct random *r)
{
	bool wide = one_in(r, 2);
	unsigned int k = random_difference(r, wide), runs = random_between(r, 1, 4);
	uint64_t base, va;

	base = (random_next(r) >> random_between(r, 1, 20)) & (~0ULL << random_between(r, 12, 36)) &
	       ~(s->page_size - 1);
	for (va = base; runs-- && s->count < LIST_MAX_ENTRIES;
	     k = one_in(r, 2) ? k : random_difference(r, wide))
		va += add_run(s, r, va, k, wide);
	if (s->count)
		draw_range(s, r, base);
}

/* Cuts the range until @walk needs no more than @most blocks for it. */
static inline bool bound_blocks(struct sample *s, enum mrg_walk walk, uint64_t most)
{
	struct mrg_outcome out;
	struct model_mr mr;
	int tries;

	for (tries = 0; tries < 4; tries++) {
		mr = sample_mr(s);
		model_mr_judge(&mr, s->bitmap, walk, &out);
		if (out.blocks <= most)
			return true;
		s->length = (most - 1) << out.page_shift;
	}
	return false;
}

/* A valid sample that @walk covers in at most @most blocks. */
static inline void sample_draw(struct sample *s, struct random *r, uint64_t page_size,
			       enum mrg_walk walk, uint64_t most)
{
	do {
		memset(s, 0, sizeof(*s));
		s->page_size = page_size;
		s->bitmap = random_bitmap(r, page_size);
		draw_list(s, r);
	} while (!sample_valid(s) || !bound_blocks(s, walk, most));
}

/* ---- shrinking ----------------------------------------------------------- */

typedef bool (*sample_fails)(const struct sample *s, void *arg);

static inline bool try_smaller(struct sample *s, const struct sample *smaller, sample_fails fails,
			       void *arg)
{
	if (!memcmp(s, smaller, sizeof(*s)) || !sample_valid(smaller) || !fails(smaller, arg))
		return false;
	*s = *smaller;
	return true;
}

static inline void drop_entry(struct sample *s, size_t i)
{
	if (s->count == 1)
		return;
	memmove(&s->sg[i], &s->sg[i + 1], (s->count - i - 1) * sizeof(s->sg[0]));
	memset(&s->sg[--s->count], 0, sizeof(s->sg[0]));
}

/* Moves what entry @i has room for over from the next one. */
static inline void fill_up(struct sample *s, size_t i)
{
	uint64_t room = 0x100000000ULL - s->page_size - s->sg[i].len;
	struct mrg_sg *next = &s->sg[i + 1];

	if (i + 1 >= s->count || s->sg[i].addr + s->sg[i].len != next->addr)
		return;
	if (room > next->len)
		room = next->len;
	s->sg[i].len += room;
	next->addr += room;
	next->len -= room;
	if (!next->len)
		drop_entry(s, i + 1);
}

/* One way to make entry @i, or the range, simpler. */
static inline void simplify(struct sample *s, size_t i, unsigned int how, uint64_t bit)
{
	switch (how) {
	case 0:
		drop_entry(s, i);
		break;
	case 1:
		s->sg[i].len = s->sg[i].len / 2 & ~(s->page_size - 1);
		break;
	case 2:
		s->sg[i].len &= ~bit;
		break;
	case 3:
		s->sg[i].addr &= ~bit;
		break;
	case 4:
		s->iova -= s->offset;
		s->offset = 0;
		break;
	case 5:
		s->length /= 2;
		break;
	case 6:
		s->length &= ~bit;
		break;
	case 7:
		s->iova &= ~bit;
		break;
	case 8:
		s->bitmap &= ~bit;
		break;
	case 9:
		fill_up(s, i);
		break;
	case 10: /* what comes before the range */
		if (s->count > 1 && s->offset >= s->sg[0].len) {
			s->offset -= s->sg[0].len;
			drop_entry(s, 0);
		}
		break;
	}
}

/* Makes a failing sample as small as single steps get it; each only takes away. */
static inline void sample_shrink(struct sample *s, sample_fails fails, void *arg)
{
	struct sample smaller;
	unsigned int how, bit;
	bool shrunk;
	size_t i;

	do {
		shrunk = false;
		for (how = 0; how < 11; how++)
			for (i = 0; i < (how < 4 || how == 9 ? s->count : 1); i++)
				for (bit = 0; bit < 64; bit++) {
					smaller = *s;
					if (i < s->count)
						simplify(&smaller, i, how, 1ULL << bit);
					shrunk |= try_smaller(s, &smaller, fails, arg);
				}
	} while (shrunk);
}

#endif /* TESTS_MODEL_LISTS_H */
