/* SPDX-License-Identifier: MIT */
/* What a self-test does, and what it saw. */
#ifndef TOOLS_SELFTEST_H
#define TOOLS_SELFTEST_H

#include "tools/args.h"
#include "tools/target.h"
#include "tools/term.h"

struct selftest_args {
	const char *device;
	const char *buffer;
	uint64_t iova;
	bool raw; /* plain verbs instead of mrguard */
	uint64_t blocks;
	uint64_t block_size;
	struct mrg_open_opts open;
	struct mrg_reg_opts reg;
	struct output_args output;
};

/* Faults that are alike. */
struct selftest_group {
	bool local; /* the buffer was the posting side */
	enum verify_way way;
	enum verify_kind kind;
	int64_t distance;
	uint64_t from, to; /* from the first to behind the last byte */
	uint64_t bytes;
	uint64_t places;
};

#define SELFTEST_GROUPS 64

struct selftest_result {
	size_t mrs;
	enum mrg_strategy strategy;
	char words[768]; /* mrg_mr_describe() */
	bool has_prediction;
	struct mrg_outcome predicted; /* of one MR */
	bool cpu_truth; /* else by MRs of their own */
	uint64_t places;
	uint64_t compared;
	uint64_t wrong;
	uint64_t overwritten;
	struct selftest_group groups[SELFTEST_GROUPS];
	size_t group_count;
	uint64_t left_out; /* faults of kinds for which there was no room */
};

struct selftest_progress {
	void (*step)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/**
 * selftest_run() - register, move, compare
 *
 * Return: 0, also where bytes are wrong; -errno with @error set where it could
 * not be run to its end.
 */
int selftest_run(const struct selftest_args *args, const struct target *target,
		 struct ibv_context *verbs, const struct selftest_progress *progress,
		 struct selftest_result *result, struct mrg_error *error);

/* Takes over what one MR would do; @plan NULL: there was no memory to tell. */
void selftest_note_plan(struct selftest_result *result, const struct mrg_plan *plan);

/* What it means, a sentence or two; "" where all is well. */
const char *selftest_hint(const struct selftest_args *args, const struct selftest_result *result);

void selftest_print_text(const struct term *term, const struct selftest_args *args,
			 const struct target *target, const struct selftest_result *result);
int selftest_print_json(const struct selftest_args *args, const struct target *target,
			const struct selftest_result *result);

#endif
