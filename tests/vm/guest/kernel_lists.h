/* SPDX-License-Identifier: MIT */
/* The model and the running kernel, asked about the same lists. */
#ifndef GUEST_KERNEL_LISTS_H
#define GUEST_KERNEL_LISTS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include <mrguard/host.h>
#include "unit/model_lists.h"

#define MOST_BLOCKS (1u << 16)

static struct mrg_dev *dev;
static struct mrg_dev_info info;
static uint64_t page; /* the running kernel's */

static inline bool full_run(void)
{
	const char *full = getenv("MRG_FULL");

	return full && *full;
}

struct answer {
	uint64_t addrs[MOST_BLOCKS];
	ssize_t count;
	struct mrg_kernel_blocks blocks;
};

static inline void ask_kernel(const struct model_mr *mr, uint64_t bitmap, struct answer *a)
{
	a->count = mrg_dev_blocks(dev, mr->sg, mr->count, mr->iova, mr->offset, mr->length, bitmap,
				  0, a->addrs, MOST_BLOCKS, &a->blocks);
	if (a->count < 0)
		fail_msg("the kernel was not asked: %s", strerror(-(int)a->count));
}

static inline bool numbers_differ(const struct mrg_outcome *out, const struct mrg_kernel_blocks *k)
{
	if (out->verdict == MRG_REFUSED)
		return k->page_size;
	/* A walk that never ends gives the MR's blocks and goes on. */
	return k->page_size != 1ULL << out->page_shift || k->total_blocks != out->blocks ||
	       k->walked != out->blocks || k->wrong != out->wrong_blocks ||
	       k->first_wrong != out->first_bad_offset || k->endless != (out->verdict == MRG_HANGS);
}

static inline bool addresses_differ(const struct model_mr *mr, enum mrg_walk walk,
				    const struct mrg_outcome *out, const struct answer *a)
{
	static uint64_t addrs[MOST_BLOCKS];

	if (out->verdict == MRG_REFUSED)
		return a->count;
	return model_mr_blocks(mr, walk, out->page_shift, 0, addrs, MOST_BLOCKS) !=
		       (size_t)a->count ||
	       memcmp(addrs, a->addrs, (size_t)a->count * sizeof(*addrs));
}

struct comparison {
	enum mrg_walk walk;
	bool capped; /* mrguard_cap.ko is loaded */
	unsigned long lists, blocks, wide, wrong, refused, changed;
};

static inline uint64_t pages_left(uint64_t bitmap, const struct comparison *c)
{
	return c->capped ? model_cap(bitmap) : bitmap;
}

static inline bool mr_differs(const struct model_mr *mr, uint64_t bitmap, struct comparison *c)
{
	static struct answer answer;
	struct mrg_outcome out;

	model_mr_judge(mr, pages_left(bitmap, c), c->walk, &out);
	if (out.blocks > MOST_BLOCKS)
		return false;
	ask_kernel(mr, bitmap, &answer);
	c->lists++;
	c->changed += pages_left(bitmap, c) != bitmap;
	c->blocks += out.blocks;
	c->wide += out.page_shift >= MODEL_WIDE_SHIFT;
	c->wrong += answer.blocks.wrong != 0;
	c->refused += out.verdict == MRG_REFUSED;
	return numbers_differ(&out, &answer.blocks) || addresses_differ(mr, c->walk, &out, &answer);
}

static inline bool sample_differs(const struct sample *s, void *arg)
{
	struct model_mr mr = sample_mr(s);

	return mr_differs(&mr, s->bitmap, arg);
}

static inline void show_difference(const struct sample *s, const struct comparison *c)
{
	static struct answer a;
	struct model_mr mr = sample_mr(s);
	struct mrg_outcome out;

	model_mr_judge(&mr, pages_left(s->bitmap, c), c->walk, &out);
	ask_kernel(&mr, s->bitmap, &a);
	sample_print(s);
	printf("# model:  page 2^%u, blocks %" PRIu64 ", wrong %" PRIu64 ", first at 0x%" PRIx64
	       ", %s\n",
	       out.page_shift, out.blocks, out.wrong_blocks, out.first_bad_offset,
	       mrg_verdict_name(out.verdict));
	printf("# kernel: page 0x%" PRIx64 ", blocks %" PRIu64 ", walked %" PRIu64
	       ", wrong %" PRIu64 ", first at 0x%" PRIx64 "%s\n",
	       a.blocks.page_size, a.blocks.total_blocks, a.blocks.walked, a.blocks.wrong,
	       a.blocks.first_wrong, a.blocks.endless ? ", endless" : "");
}

/* Few blocks mostly, so that many lists are tried, and now and then many. */
static inline uint64_t most_blocks(struct random *r)
{
	return one_in(r, 100) ? MOST_BLOCKS : one_in(r, 10) ? 2048 : 64;
}

static inline int open_device(void **state)
{
	int err = mrg_dev_open(&dev);

	(void)state;
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!err)
		err = mrg_dev_info(dev, &info);
	if (err)
		printf("# /dev/mrguard: %s\n", strerror(-err));
	return err;
}

static inline int close_device(void **state)
{
	(void)state;
	mrg_dev_close(dev);
	return system("modprobe -r mrguard_walk mrguard");
}

#endif
