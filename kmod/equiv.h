/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Equivalent addresses: what a caller without privilege sees in place of DMA
 * addresses.  Pure arithmetic, so that user space can test it too.
 *
 * The kernel's page-size pick depends on a run of DMA addresses only through k,
 * the lowest bit in which address and iova differ, and the block walk on the
 * bits below the page picked, which are the iova's.  So iova + m * 2^k with any
 * odd m is as good as the truth, and says nothing else about it.
 *
 * Even k counts only as far as a page can grow in any MR that has bytes of the
 * run: to the size of the run, or to the alignment of an end of it that the MR
 * goes across.  Beyond that k is not shown, or who may choose the iova would
 * learn the whole address bit by bit.
 *
 * m must differ between neighbours: equal distances from the iova would make
 * contiguous what is not.
 */
#ifndef MRG_EQUIV_H
#define MRG_EQUIV_H

#include <linux/types.h>

/*
 * What is shown where k does not count.  It must lie above bit 31, in which a
 * plan may change the iova: then k is 31 for the truth and for this alike.
 */
#define MRG_EQUIV_BEYOND 33

static inline unsigned int mrg_equiv_ctz(__u64 x)
{
	return x ? __builtin_ctzll(x) : 64;
}

/* The bit from which on it makes no difference where a run lies. */
static inline unsigned int mrg_equiv_counts(__u64 iova, __u64 len)
{
	__u64 changing = iova ^ (iova + len - 1);
	unsigned int bits = changing ? 64 - __builtin_clzll(changing) : 0;
	unsigned int first = mrg_equiv_ctz(iova), end = mrg_equiv_ctz(iova + len);

	if (bits < first)
		bits = first;
	return bits < end ? end : bits;
}

static inline int mrg_equiv_fits(__u64 iova, __u64 len, __u64 distance)
{
	__u64 addr = iova + distance;

	return distance >> 63 ? addr < iova && addr + len > addr : addr > iova && addr + len > addr;
}

/**
 * mrg_equiv_distance() - how far from its iova a run's equivalent address lies
 * @iova:	iova of the run's first byte
 * @addr:	the run's DMA address
 * @len:	its length in bytes, below 2^63
 * @prev:	distance of the run before, 0 if this is the first
 *
 * Of four candidates one always fits between 0 and 2^64 and differs from @prev,
 * as long as k is at most 61.  Beyond that there is at most one bit to hide.
 */
static inline __u64 mrg_equiv_distance(__u64 iova, __u64 addr, __u64 len, __u64 prev)
{
	static const int odd[] = { 1, -1, 3, -3 };
	unsigned int k = mrg_equiv_ctz(addr ^ iova), counts = mrg_equiv_counts(iova, len), i;

	if (k > counts)
		k = counts > MRG_EQUIV_BEYOND ? counts : MRG_EQUIV_BEYOND;
	if (k > 61)
		return addr - iova;
	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		__u64 distance = (__u64)odd[i] << k;

		if (distance != prev && mrg_equiv_fits(iova, len, distance))
			return distance;
	}
	return addr - iova;
}

#endif /* MRG_EQUIV_H */
