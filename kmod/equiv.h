/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Equivalent addresses: what a caller without privilege sees in place of DMA
 * addresses.  Pure arithmetic, so that user space can test it too.
 *
 * The kernel's page-size pick depends on a run of DMA addresses only through k,
 * the lowest bit in which address and iova differ, and on that only as far as
 * it lies below b, the number of low bits that change within the range: from
 * there on one page covers all.  The block walk depends on the bits below the
 * page picked, and those are the iova's.  So iova + m * 2^min(k, b) with any odd
 * m is as good as the truth, and says nothing else about it.
 *
 * m must differ between neighbours: equal distances from the iova would make
 * contiguous what is not.
 */
#ifndef MRG_EQUIV_H
#define MRG_EQUIV_H

#include <linux/types.h>

/* The number of low bits that differ between the first and last iova. */
static inline unsigned int mrg_equiv_span(__u64 first, __u64 last)
{
	return first == last ? 0 : 64 - __builtin_clzll(first ^ last);
}

static inline int mrg_equiv_fits(__u64 iova, __u64 rest, __u64 distance)
{
	__u64 addr = iova + distance;

	return distance >> 63 ? addr < iova && addr + rest > addr :
				addr > iova && addr + rest > addr;
}

/**
 * mrg_equiv_distance() - how far from its iova a run's equivalent address lies
 * @iova:	iova of the run's first byte
 * @addr:	the run's DMA address
 * @rest:	bytes from here to the range's end, below 2^63
 * @span:	see mrg_equiv_span(), for the whole range
 * @prev:	distance of the run before, 0 if this is the first
 *
 * Of four candidates one always fits between 0 and 2^64 and differs from @prev,
 * as long as k is at most 61.  Beyond that there is at most one bit to hide.
 */
static inline __u64 mrg_equiv_distance(__u64 iova, __u64 addr, __u64 rest,
				       unsigned int span, __u64 prev)
{
	static const int odd[] = { 1, -1, 3, -3 };
	__u64 differ = addr ^ iova;
	unsigned int k = differ ? __builtin_ctzll(differ) : 64;
	unsigned int i;

	if (k > span)
		k = span;
	if (k > 61)
		return addr - iova;
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		__u64 distance = (__u64)odd[i] << k;

		if (distance != prev && mrg_equiv_fits(iova, rest, distance))
			return distance;
	}
	return addr - iova;
}

#endif /* MRG_EQUIV_H */
