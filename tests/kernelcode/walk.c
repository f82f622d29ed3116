/* SPDX-License-Identifier: MIT */
/*
 * Block walks to be asked as ib_core.ko's are: the generations that kernels had,
 * and ones that do what a function of a kernel must not do.  The Makefile compiles this
 * once a WALK, to an object that looks like a module.
 */
#include <stddef.h>
#include <stdint.h>

struct scatterlist {
	unsigned long page_link;
	unsigned int offset;
	unsigned int length;
	uint64_t dma_address;
	unsigned int dma_length;
	unsigned int flags;
};

struct ib_block_iter {
	struct scatterlist *sg;
	uint64_t dma_addr;
#ifndef OLD_ITERATOR
	size_t numblocks;
#endif
	unsigned int nents;
	unsigned int advance;
	unsigned int pg_bit;
};

struct scatterlist *sg_next(struct scatterlist *sg);
_Bool __rdma_block_iter_next(struct ib_block_iter *iter);
__attribute__((noinline)) void _printk(const char *text, ...);

#define PAGE(iter) (1ULL << (iter)->pg_bit)

/* Blocks across entries; @offset is the type that the sums are kept in. */
#define CROSSING(offset)                                                  \
	_Bool __rdma_block_iter_next(struct ib_block_iter *iter)          \
	{                                                                 \
		unsigned int left;                                        \
		offset delta;                                             \
                                                                          \
		if (!iter->nents || !iter->sg)                            \
			return 0;                                         \
		iter->dma_addr = iter->sg->dma_address + iter->advance;   \
		delta = PAGE(iter) - (iter->dma_addr & (PAGE(iter) - 1)); \
		while (iter->nents && iter->sg) {                         \
			left = iter->sg->dma_length - iter->advance;      \
			if (left > delta)                                 \
				break;                                    \
			delta -= left;                                    \
			iter->advance = 0;                                \
			iter->sg = sg_next(iter->sg);                     \
			iter->nents--;                                    \
		}                                                         \
		iter->advance += delta;                                   \
		return 1;                                                 \
	}

/* An entry a step; @narrow: the position starts over at 2^32. */
#define PER_ENTRY(narrow)                                                                   \
	_Bool __rdma_block_iter_next(struct ib_block_iter *iter)                            \
	{                                                                                   \
		uint64_t offset;                                                            \
                                                                                            \
		if (!iter->nents || !iter->sg)                                              \
			return 0;                                                           \
		iter->dma_addr = iter->sg->dma_address + iter->advance;                     \
		offset = iter->dma_addr & (PAGE(iter) - 1);                                 \
		if (!narrow && iter->sg->dma_length - iter->advance <= PAGE(iter) - offset) \
			iter->advance = ~0U;                                                \
		else                                                                        \
			iter->advance += PAGE(iter) - offset;                               \
		if (iter->advance >= iter->sg->dma_length) {                                \
			iter->advance = 0;                                                  \
			iter->sg = sg_next(iter->sg);                                       \
			iter->nents--;                                                      \
		}                                                                           \
		return 1;                                                                   \
	}

/* One whose first act is @act. */
#define ACTING(act)                                              \
	_Bool __rdma_block_iter_next(struct ib_block_iter *iter) \
	{                                                        \
		act;                                             \
		return iter->nents != 0;                         \
	}

#define exact CROSSING(uint64_t)
#define truncating CROSSING(unsigned int)
#define per_entry PER_ENTRY(0)
#define narrow PER_ENTRY(1)
#define loops ACTING(for (;;) __asm__ volatile(""))
#define faults ACTING(*(volatile int *)8 = 1)
#define calls ACTING(_printk(""))
#define writes_list ACTING(iter->sg->dma_address = 0)
#define writes_iterator ACTING(((volatile char *)iter)[100] = 1)
#define reads_canary ACTING(__stack_chk_fail())
#define static_call ACTING(__SCT__planted())
#define kasan ACTING(__asan_load8_noabort())
void __stack_chk_fail(void);
void __SCT__planted(void);
void __asan_load8_noabort(void);

#if defined(__x86_64__)
#define smashes_stack ACTING(__asm__ volatile("movq $0x4141, 8(%%rbp)" ::: "memory"))
#define smashes_caller ACTING(__asm__ volatile("movq $0x4141, 64(%%rbp)" ::: "memory"))
#define clobbers ACTING(__asm__ volatile("xor %r12d, %r12d"))
#define system_call ACTING(__asm__ volatile("mov $39, %%eax; syscall" ::: "rax", "rcx", "r11"))
#define leaves ACTING(__asm__ volatile("mov $231, %eax; xor %edi, %edi; syscall"))
#else
#define smashes_stack \
	ACTING(__asm__ volatile("mov x9, #0x4141; str x9, [x29, #8]" ::: "x9", "memory"))
#define smashes_caller \
	ACTING(__asm__ volatile("mov x9, #0x4141; str x9, [x29, #128]" ::: "x9", "memory"))
#define clobbers ACTING(__asm__ volatile("mov x19, xzr"))
#define system_call ACTING(__asm__ volatile("mov x8, #172; svc #0" ::: "x8", "x0"))
#define leaves ACTING(__asm__ volatile("mov x8, #94; mov x0, xzr; svc #0"))
#endif
/* A way back that the running kernel would rewrite. */
#define alternative                                                                            \
	ACTING(__asm__ volatile("1: nop\n.pushsection .altinstructions, \"a\"\n.long 1b - .\n" \
				".popsection"))
#define recurses                                                 \
	_Bool __rdma_block_iter_next(struct ib_block_iter *iter) \
	{                                                        \
		volatile char room[1024];                        \
		room[0] = 0;                                     \
		return __rdma_block_iter_next(iter) + room[0];   \
	}

WALK

	/* What depmod and the kernel look for. */
	__attribute__((section(".modinfo"), used)) static const char srcversion[] =
		"srcversion=TESTED";
