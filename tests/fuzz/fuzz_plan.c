/* SPDX-License-Identifier: MIT */
/* libFuzzer: whatever the list and the options, the plan keeps the rules. */
#include <stdio.h>
#include "unit/plan_rules.h"

#define MOST_ENTRIES 24
#define MOST_PIECES 512 /* each is judged under 33 limits */

/* Numbers near powers of two are what matters: exponent, offset, sign. */
struct input_bytes {
	const uint8_t *at;
	size_t left;
};

static uint8_t take(struct input_bytes *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static uint64_t take_number(struct input_bytes *in)
{
	uint8_t shape = take(in);
	uint64_t x = 1ULL << (shape & 63), fine;

	fine = (uint64_t)take(in) << (take(in) & 63);
	return shape & 64 ? x - fine : shape & 128 ? fine : x + fine;
}

static size_t take_list(struct input_bytes *in, struct mrg_sg *sg, uint64_t va)
{
	size_t count = take(in) % (MOST_ENTRIES + 1), i;
	uint8_t how;

	for (i = 0; i < count; i++) {
		how = take(in);
		sg[i].len = take_number(in) & (how & 1 ? ~0ULL : ~0xfffULL) & ((1ULL << 40) - 1);
		if (i && (how & 2)) /* goes on */
			sg[i].addr = sg[i - 1].addr + sg[i - 1].len;
		else if (how & 4) /* differs from the iova in high bits */
			sg[i].addr = va ^ (1ULL << (12 + take(in) % 52)) ^ (uint64_t)take(in) << 52;
		else
			sg[i].addr = take_number(in) & ~0xfffULL;
		va += sg[i].len;
	}
	return count;
}

static void take_opts(struct input_bytes *in, struct mrg_plan_opts *o)
{
	uint8_t known = take(in);

	*o = (struct mrg_plan_opts){
		.size = sizeof(*o),
		.flags = take(in) & 15,
		.walk = take(in) % 6,
		.strategy = take(in) % 3,
		.page_size = known & 1 ? 65536 : 4096,
		.max_page_shift = known & 2 ? 12 + take(in) % 52 : 0,
		.iova = take_number(in),
		.offset = known & 4 ? take_number(in) & ((1ULL << 40) - 1) : 0,
		.length = known & 8 ? take_number(in) & ((1ULL << 40) - 1) : 0,
		.max_mr_size = known & 16 ? take_number(in) : 0,
		.unit = known & 32 ? take_number(in) : 0,
		.cut_align = known & 64 ? 1ULL << (take(in) & 63) : 0,
	};
	if (known & 128)
		o->iova = (o->iova & ~(o->page_size - 1)) | (o->offset & (o->page_size - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input_bytes in = { data, size };
	struct mrg_sg sg[MOST_ENTRIES];
	struct plan_input input = { 0 };
	struct mrg_plan *plan;
	const char *wrong;
	uint64_t length;

	take_opts(&in, &input.opts);
	input.count = take_list(&in, sg, input.opts.iova - input.opts.offset);
	input.sg = input.count ? sg : NULL;
	length = input_length(&input);
	if (input.opts.max_mr_size && length / input.opts.max_mr_size > MOST_PIECES)
		input.opts.max_mr_size = length / MOST_PIECES;
	if (mrg_plan_make(input.sg, input.count, &input.opts, &plan))
		return 0;
	wrong = plan_violation(&input, plan);
	if (wrong) {
		fprintf(stderr, "%s: %s\n", wrong, mrg_plan_reason(plan));
		abort();
	}
	mrg_plan_free(plan);
	return 0;
}
