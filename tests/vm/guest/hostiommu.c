/* SPDX-License-Identifier: MIT */
/*
 * Behind an IOMMU that translates, ordinary memory too becomes one long run of
 * DMA addresses, and plain verbs wraps on an affected kernel.  mrguard ends its
 * MRs at multiples of 2 GiB there; with mrguard_cap.ko plain verbs is right.
 */
#include "pair.h"

/*
 * The IOMMU's addresses start on a multiple of the buffer's size rounded up to
 * a power of two, here 8 GiB; this address agrees with that to bit 32 alone.
 */
#define ADDR 0x700100000000ULL
#define SIZE (5 * GIB)
#define BLOCKS 48
#define BLOCK 65536

static struct pair_shared *sh;
static struct verify_spans spans;
static uint64_t *first_bad;

static void look(void *arg, enum verify_way way, const struct verify_span *span,
		 const struct verify_fault *faults, size_t count)
{
	(void)arg, (void)way, (void)span;
	for (size_t i = 0; i < count; i++)
		if (faults[i].offset < *first_bad)
			*first_bad = faults[i].offset;
}

static bool run(enum pair_by by, char *memory)
{
	const struct pair_job job = {
		.fd = -1, .map = memory, .size = SIZE, .iova = ADDR, .by = by, .spans = &spans
	};

	*first_bad = UINT64_MAX;
	if (pair_run(&job, sh, look, NULL)) {
		ok(false, "%s runs (%s)", by == BY_RAW ? "plain verbs" : "mrguard", sh->fault);
		return false;
	}
	printf("# %zu MRs, %llu wrong bytes, the first at 0x%llx. %s\n", sh->seg_count,
	       (unsigned long long)sh->bad, (unsigned long long)*first_bad, sh->words);
	return true;
}

int main(int argc, char **argv)
{
	bool wraps = walk_is_truncating();
	char *memory;

	(void)argc;
	preload_shim(argv);
	ground_up();
	sh = pair_shared_make();
	first_bad = mmap(NULL, sizeof(*first_bad), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (verify_spans_make(&spans, SIZE, ADDR, BLOCKS, BLOCK))
		bail("no memory");
	memory = map_sparse(ADDR, SIZE, &spans);
	if (full_run()) {
		cap_load();
		if (run(BY_RAW, memory))
			ok(!sh->bad && !sh->overwritten,
			   "plain verbs, capped: every byte is right");
		cap_unload();
	}
	if (run(BY_RAW, memory)) {
		if (wraps)
			ok(sh->bad > 0 && *first_bad == 4 * GIB,
			   "plain verbs: bytes are wrong from 4 GiB on");
		else
			ok(!sh->bad, "plain verbs: every byte is right");
	}
	if (run(BY_AUTO, memory)) {
		ok(!sh->bad && !sh->overwritten, "mrguard: every byte is right");
		ok(sh->seg_count == (wraps ? 3 : 1), "mrguard: %d MRs", wraps ? 3 : 1);
	}
	verify_spans_free(&spans);
	ground_down();
	tap_end();
	return 0;
}
