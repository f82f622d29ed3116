/* SPDX-License-Identifier: MIT */
/*
 * What a plan costs: 16 TiB as one run, and as 8,000,000 contiguous entries of
 * 2 MiB.  Counted: instructions an entry, which do not grow with the list, and
 * those of the one run.  Timed: against a plain loop that only sums the lengths of
 * the same array; both take turns in one process, so that what else runs here
 * meets both.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <mrguard/plan.h>

#include "bench/counted.h"

#define ENTRIES 8000000u
#define ENTRY (2ULL << 20)
#define ROUNDS 11
#define FEW 10000
#define MANY 1000000
#define BAR_ENTRY 30.0 /* instructions; half above what was seen, as those below */
#define BAR_GROWTH 1.2 /* of an entry's instructions, from FEW to MANY */
#define BAR_RUN 3.4e7 /* instructions for 16 TiB, in 8,192 MRs */
#define MOST_TIMES_SUM 8.0
#define MOST_SECONDS_ONE_RUN 0.05

static volatile uint64_t sink;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_sum(const struct mrg_sg *sg, size_t count)
{
	double start = seconds();
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < count; i++)
		sum += sg[i].len;
	sink = sum;
	return seconds() - start;
}

/* Verdict and plan under the worst of unknown limits; @pieces: OUT its MRs. */
static double time_plan(const struct mrg_sg *sg, size_t count, uint32_t flags, size_t *pieces)
{
	struct mrg_plan_opts opts = {
		.size = sizeof(opts),
		.flags = flags,
		.iova = 0x700000000000,
		.page_size = 4096,
	};
	double start = seconds(), took;
	struct mrg_plan *plan;

	if (mrg_plan_make(sg, count, &opts, &plan))
		exit(99);
	took = seconds() - start;
	mrg_plan_pieces(plan, pieces);
	if (mrg_plan_single(plan)->verdict != MRG_WRAPS)
		exit(99);
	mrg_plan_free(plan);
	return took;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static bool report(int number, const char *what, double sum, double plan, size_t pieces)
{
	bool ok = plan / sum <= MOST_TIMES_SUM || !times_are_judged();

	printf("%sok %d - 8,000,000 entries %s in %.1f ms, %.1f times their sum (%.1f ms): %.0f million entries/s, %zu MRs\n",
	       ok ? "" : "not ", number, what, plan * 1e3, plan / sum, sum * 1e3,
	       ENTRIES / plan / 1e6, pieces);
	return ok;
}

static struct mrg_sg *make_entries(size_t count)
{
	struct mrg_sg *sg = malloc(count * sizeof(*sg));

	if (!sg)
		exit(99);
	for (size_t i = 0; i < count; i++)
		sg[i] = (struct mrg_sg){ 0x100000000 + i * ENTRY, ENTRY };
	return sg;
}

static bool measure_entries(void)
{
	double sums[ROUNDS], splits[ROUNDS], rebases[ROUNDS], sum;
	struct mrg_sg *sg = make_entries(ENTRIES);
	size_t pieces_split = 0, pieces_rebased = 0, i;
	bool ok;

	for (i = 0; i < ROUNDS; i++) {
		sums[i] = time_sum(sg, ENTRIES);
		splits[i] = time_plan(sg, ENTRIES, 0, &pieces_split);
		rebases[i] = time_plan(sg, ENTRIES, MRG_PLAN_IOVA_FREE, &pieces_rebased);
	}
	sum = median(sums);
	ok = report(1, "are judged and split", sum, median(splits), pieces_split);
	ok &= report(2, "are judged and rebased", sum, median(rebases), pieces_rebased);
	free(sg);
	return ok;
}

static bool measure_run(void)
{
	struct mrg_sg run = { 0x100000000, 1ULL << 44 };
	double times[ROUNDS], took;
	size_t pieces = 0, i;
	bool ok;

	for (i = 0; i < ROUNDS; i++)
		times[i] = time_plan(&run, 1, 0, &pieces);
	took = median(times);
	ok = took < MOST_SECONDS_ONE_RUN || !times_are_judged();
	printf("%sok 3 - 16 TiB in one run are judged and split in %.2f ms, %zu MRs\n",
	       ok ? "" : "not ", took * 1e3, pieces);
	return ok;
}

/* ---- counted ---- */

enum part { SPLIT, REBASED, RUN, PARTS };
static const char *const part_names[] = { "an entry, judged and split",
					  "an entry, judged and rebased",
					  "16 TiB in one run, judged and split" };

static void count_plan(const struct mrg_sg *sg, size_t count, uint32_t flags)
{
	size_t pieces;

	counted_begin();
	time_plan(sg, count, flags, &pieces);
	counted_end();
}

static int count_parts(size_t entries)
{
	const struct mrg_sg run = { 0x100000000, 1ULL << 44 };
	struct mrg_sg *sg = make_entries(entries);

	count_plan(sg, entries, 0);
	count_plan(sg, entries, MRG_PLAN_IOVA_FREE);
	count_plan(&run, 1, 0);
	free(sg);
	return 0;
}

static bool verdict(int number, bool ok, const char *what, double instructions)
{
	printf("%sok %d - %s takes few instructions: %.1f\n", ok ? "" : "not ", number, what,
	       instructions);
	return ok;
}

static bool count_all(void)
{
	struct counted few[PARTS], many[PARTS];
	char number[16];
	bool ok = true;

	snprintf(number, sizeof(number), "%d", FEW);
	counted(number, few, PARTS);
	snprintf(number, sizeof(number), "%d", MANY);
	counted(number, many, PARTS);
	for (int i = SPLIT; i <= REBASED; i++) {
		double first = few[i].instructions / FEW, last = many[i].instructions / MANY;

		printf("# %s: %.1f instructions in a list of %d, %.1f in one of %d\n",
		       part_names[i], first, FEW, last, MANY);
		ok &= verdict(4 + i, last <= BAR_ENTRY && last <= BAR_GROWTH * first, part_names[i],
			      last);
	}
	return verdict(6, many[RUN].instructions <= BAR_RUN, part_names[RUN],
		       many[RUN].instructions) &&
	       ok;
}

int main(int argc, char **argv)
{
	bool ok;

	if (argc == 2)
		return count_parts((size_t)atol(argv[1]));
	printf("1..%d\n", can_count() ? 6 : 3);
	ok = measure_entries();
	ok &= measure_run();
	if (can_count())
		ok &= count_all();
	return ok ? 0 : 1;
}
