/* SPDX-License-Identifier: MIT */
/*
 * What a plan costs: 16 TiB as one run, and as 8,000,000 contiguous entries of
 * 2 MiB, against a plain loop that only sums the lengths of the same array.
 * Both take turns in one process, so that what else runs here meets both.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <mrguard/plan.h>

#define ENTRIES 8000000u
#define ENTRY (2ULL << 20)
#define ROUNDS 11
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
	bool ok = plan / sum <= MOST_TIMES_SUM;

	printf("%sok %d - 8,000,000 entries %s in %.1f ms, %.1f times their sum (%.1f ms): %.0f million entries/s, %zu MRs\n",
	       ok ? "" : "not ", number, what, plan * 1e3, plan / sum, sum * 1e3,
	       ENTRIES / plan / 1e6, pieces);
	return ok;
}

static bool measure_entries(void)
{
	double sums[ROUNDS], splits[ROUNDS], rebases[ROUNDS], sum;
	struct mrg_sg *sg = malloc(ENTRIES * sizeof(*sg));
	size_t pieces_split = 0, pieces_rebased = 0, i;
	bool ok;

	if (!sg)
		exit(99);
	for (i = 0; i < ENTRIES; i++)
		sg[i] = (struct mrg_sg){ 0x100000000 + i * ENTRY, ENTRY };
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
	ok = took < MOST_SECONDS_ONE_RUN;
	printf("%sok 3 - 16 TiB in one run are judged and split in %.2f ms, %zu MRs\n",
	       ok ? "" : "not ", took * 1e3, pieces);
	return ok;
}

int main(void)
{
	bool ok;

	printf("1..3\n");
	ok = measure_entries();
	ok &= measure_run();
	return ok ? 0 : 1;
}
