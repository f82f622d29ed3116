/* SPDX-License-Identifier: MIT */
/* A buffer to test: made here, or handed in; and a way to its bytes that does
 * not go through the registration under test. */
#ifndef TOOLS_TARGET_H
#define TOOLS_TARGET_H

#include <mrguard/region.h>

#include "tools/rc_loop.h"
#include "tools/verify.h"

/**
 * struct target - the buffer
 * @spec:	as given
 * @buf:	the DMA-BUF; fd -1 for ordinary memory
 * @addr, @size: virtual address and bytes
 * @map:	where the CPU sees the bytes, NULL where it is not to look
 */
struct target {
	const char *spec;
	struct mrg_dmabuf buf;
	uint64_t addr;
	uint64_t size;
	void *map;
	void *owned; /* what target_close() has to give back */
	void (*give_back)(void *owned);
};

/**
 * target_open() - make or take the buffer
 * @spec: host:SIZE, udmabuf:SIZE, simgpu:SPEC, cuda:SIZE or fd:NUMBER
 * @iova: the address to register at, 0: the CPU's or GPU's, else
 *	0x700000000000; not for host and cuda, which have one
 * @error: OUT on failure
 *
 * Return: 0 or -errno.
 */
int target_open(struct target *target, const char *spec, uint64_t iova, struct mrg_error *error);
void target_close(struct target *target);

/* For cuda:SIZE, in target_cuda.c. */
int target_cuda(struct target *target, const char *size, struct mrg_error *error);

/*
 * The truth without a CPU mapping: an MR of its own for each look, from iova 0
 * on, where one page covers all of it, so that no walk can get it wrong.
 */
struct small_truth {
	struct rc_end *end;
	const struct target *target;
	void *bounce;
	struct ibv_mr *bounce_mr;
};
int small_truth_open(struct small_truth *truth, struct rc_end *end, const struct target *target);
void small_truth_close(struct small_truth *truth);

/** target_truth() - the truth of a buffer: its mapping, else @small */
struct verify_truth target_truth(const struct target *target, struct small_truth *small);

#endif
