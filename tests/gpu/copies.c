/* SPDX-License-Identifier: MIT */
/*
 * How fast a peer copies from shared memory: the same copy from three kinds of
 * source, one after the other, many times over: memory of its own from
 * cudaMalloc(), VMM memory of its own, and VMM memory of another process.  The
 * bar is that sharing costs nothing: the third against the second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#define CHUNK (2 * MIB)
#define SOURCES 3
#define BATCH 900
#define PIECE (114 * 1024ull)
#define ROUNDS 31 /* of each source */
#define BATCH_ROUNDS 101

static uint64_t source_size;

static void owner(int peer)
{
	struct mrg_range *range;
	struct kit_ends ends;
	struct kit_vmm vmm;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm_equal(source_size / CHUNK, CHUNK);
	kit_fill(vmm.addr, vmm.size, 1);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	mrg_share_unpublish(range);
	kit_close(&ends);
}

struct setting {
	uint64_t sources[SOURCES];
	uint64_t target;
	void *from, *to; /* events */
	struct kit_ends ends;
	struct mrg_import *import;
};

static void set_up(struct setting *s, int peer)
{
	kit_start();
	s->ends = kit_open(NULL);
	CU(cu.alloc(&s->sources[0], source_size));
	s->sources[1] = kit_vmm_equal(source_size / CHUNK, CHUNK).addr;
	kit_fill(s->sources[0], source_size, 2);
	kit_fill(s->sources[1], source_size, 3);
	s->import = kit_import(&s->ends, peer);
	s->sources[2] = mrg_import_address(s->import);
	CU(cu.alloc(&s->target, source_size));
	CU(cu.event_create(&s->from, 0));
	CU(cu.event_create(&s->to, 0));
}

/* GPU time of @repeat copies, in ms */
static double time_copies(const struct setting *s, int source, uint64_t size, int repeat)
{
	float ms;

	CU(cu.event_record(s->from, NULL));
	for (int i = 0; i < repeat; i++)
		CU(cu.copy_async(s->target, s->sources[source], size, NULL));
	CU(cu.event_record(s->to, NULL));
	CU(cu.event_synchronize(s->to));
	CU(cu.event_elapsed(&ms, s->from, s->to));
	return ms / repeat;
}

/* Wall time of a batch of small copies, in ms: issuing them is what it takes. */
static double time_batch(const struct setting *s, int source)
{
	uint64_t pieces = source_size / PIECE;
	double start = kit_now();

	for (uint64_t i = 0; i < BATCH; i++) {
		uint64_t at = i * 7 % pieces * PIECE;

		CU(cu.copy_async(s->target + at, s->sources[source] + at, PIECE, NULL));
	}
	CU(cu.synchronize());
	return (kit_now() - start) * 1e3;
}

/* The order of the three changes with each round. */
static void measure(const struct setting *s, uint64_t size, int rounds, double *median)
{
	double *ms[SOURCES];

	for (int i = 0; i < SOURCES; i++)
		ms[i] = calloc((size_t)rounds, sizeof(double));
	for (int round = -2; round < rounds; round++)
		for (int i = 0; i < SOURCES; i++) {
			int source = (i + round + SOURCES) % SOURCES;
			double t = size ? time_copies(s, source, size, 20) : time_batch(s, source);

			if (round >= 0)
				ms[source][round] = t;
		}
	for (int i = 0; i < SOURCES; i++) {
		median[i] = kit_median(ms[i], (size_t)rounds);
		free(ms[i]);
	}
}

static uint64_t copy_size;

static void importer(int peer)
{
	struct setting s;

	set_up(&s, peer);
	MUST(!kit_verify(s.sources[2], source_size, 1));
	measure(&s, copy_size, copy_size ? ROUNDS : BATCH_ROUNDS, shared->value);
	kit_signal(peer);
	mrg_import_release(s.import);
	kit_close(&s.ends);
}

/* Within 2% of what the copy reaches inside one process. */
static void bar(const char *name, uint64_t size)
{
	const double *ms = shared->value;
	double bytes = size ? (double)size : (double)(BATCH * PIECE);
	int ret;

	copy_size = size;
	ret = kit_pair(owner, importer);
	if (ret) {
		kit_row(false, name, "%s", shared->text);
		return;
	}
	kit_speed_row(
		ms[1] / ms[2] >= 0.98, name,
		"GB/s own cudaMalloc %.0f, own VMM %.0f, peer's VMM %.0f; peer's to own VMM %.3f, to cudaMalloc %.3f (n=%d)",
		bytes / ms[0] / 1e6, bytes / ms[1] / 1e6, bytes / ms[2] / 1e6, ms[1] / ms[2],
		ms[0] / ms[2], size ? ROUNDS : BATCH_ROUNDS);
}

int main(void)
{
	char what[128];

	if (!kit_available(what, sizeof(what))) {
		printf("1..0 # SKIP no CUDA GPU: %s\n", what);
		return 0;
	}
	source_size = kit_scaled(268 * MIB);
	bar("copy 112 MiB from a peer's memory", kit_scaled(112 * MIB));
	bar("copy 268 MiB from a peer's memory", kit_scaled(268 * MIB));
	bar("copy 900 x 114 KiB from a peer's memory", 0);
	return kit_done();
}
