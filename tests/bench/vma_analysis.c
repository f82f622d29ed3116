/* SPDX-License-Identifier: MIT */
/*
 * A maps file of 262,144 lines (the highest vm.max_map_count that distributions
 * ship) and its smaps, analysed in bounded memory.  Counted: the instructions a
 * line, which do not grow with the file.  Timed: less than a second each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <mrguard/vma.h>

#include "bench/counted.h"

#define LINES 262144
#define FEW 2048
#define MANY 32768 /* lines whose instructions are counted */
#define BAR_MAPS 3900.0 /* instructions a line; half above what was seen */
#define BAR_SMAPS 7100.0
#define BAR_GROWTH 1.2 /* of a line's instructions, from FEW to MANY */
#define LIMIT_SECONDS 1.0
#define LIMIT_KIB (8 << 10) /* growth of the process, files of 200 MB and more */

/* The keys of a 6.12 kernel's smaps, with values as wide as it prints them. */
static const char *const keys[] = {
	"Size",		 "KernelPageSize", "MMUPageSize",     "Rss",
	"Pss",		 "Pss_Dirty",	   "Shared_Clean",    "Shared_Dirty",
	"Private_Clean", "Private_Dirty",  "Referenced",      "Anonymous",
	"KSM",		 "LazyFree",	   "AnonHugePages",   "ShmemPmdMapped",
	"FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb", "Swap",
	"SwapPss",	 "Locked",
};

static void write_details(FILE *file, int i)
{
	char key[32];

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		snprintf(key, sizeof(key), "%s:", keys[k]);
		fprintf(file, "%-15s %8d kB\n", key, k == 1 || k == 2 ? 4 : i % 40);
	}
	fprintf(file, "THPeligible:           0\nVmFlags: rd wr mr mw me %sac sd \n",
		i % 2 ? "dc " : "");
}

static void write_file(const char *path, int lines, int details)
{
	FILE *file = fopen(path, "w");
	unsigned long at = 0x7f0000000000;

	if (!file)
		exit(99);
	for (int i = 0; i < lines; i++) {
		unsigned long length = i % 3 ? 36864 : 4096UL * (unsigned long)(i % 5000 + 1);

		if (i % 5)
			fprintf(file, "%lx-%lx rw-p 00000000 00:00 0 \n", at, at + length);
		else
			fprintf(file,
				"%lx-%lx rw-s 00000000 00:19 %d                  /dev/shm/torch_4711_%d_%d (deleted)\n",
				at, at + length, i, i * 31, i);
		if (details)
			write_details(file, i);
		at += length + (i % 7 ? 0 : 4096);
	}
	fclose(file);
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int measure(int number, const char *what, struct mrg_vma_opts opts)
{
	struct mrg_vma_report *report;
	double start, took;
	long before = peak_kib(), grew;
	int ok;

	opts.size = sizeof(opts);
	start = seconds();
	if (mrg_vma_report_make(&opts, &report))
		return 99;
	took = seconds() - start;
	grew = peak_kib() - before;
	ok = report->count == LINES && grew < LIMIT_KIB &&
	     (took < LIMIT_SECONDS || !times_are_judged());
	printf("%sok %d - %d lines of %s are analysed in bounded memory (%.3f s, %ld KiB)\n",
	       ok ? "" : "not ", number, LINES, what, took, grew);
	mrg_vma_report_free(report);
	return ok ? 0 : 1;
}

/* ---- counted ---- */

static int count_parts(const char *file, bool details)
{
	struct mrg_vma_opts opts = { .size = sizeof(opts) };
	struct mrg_vma_report *report;
	int ret;

	*(details ? &opts.smaps : &opts.maps) = file;
	counted_begin();
	ret = mrg_vma_report_make(&opts, &report);
	counted_end();
	return ret ? 99 : 0;
}

static double a_line(const char *file, int lines, bool details)
{
	struct counted sum;
	char part[96];

	write_file(file, lines, details);
	snprintf(part, sizeof(part), "%s %s", details ? "smaps" : "maps", file);
	counted(part, &sum, 1);
	return sum.instructions / lines;
}

static int count_lines(int number, const char *file, bool details, double bar)
{
	double few = a_line(file, FEW, details), many = a_line(file, MANY, details);
	bool ok = many <= bar && many <= BAR_GROWTH * few;

	printf("# %.0f instructions a line of %d, %.0f of %d\n", few, FEW, many, MANY);
	printf("%sok %d - a line of %s takes at most %.0f instructions, however many there are\n",
	       ok ? "" : "not ", number, details ? "smaps" : "maps", bar);
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/mrguard-bench-XXXXXX", maps[64], smaps[64];
	int failed;

	if (argc == 3)
		return count_parts(argv[2], !strcmp(argv[1], "smaps"));
	if (!mkdtemp(dir))
		return 99;
	snprintf(maps, sizeof(maps), "%s/maps", dir);
	snprintf(smaps, sizeof(smaps), "%s/smaps", dir);
	write_file(maps, LINES, 0);
	write_file(smaps, LINES, 1);
	printf("1..%d\n", can_count() ? 4 : 2);
	failed = measure(1, "maps", (struct mrg_vma_opts){ .maps = maps });
	failed |= measure(2, "smaps", (struct mrg_vma_opts){ .smaps = smaps });
	if (can_count()) {
		failed |= count_lines(3, maps, false, BAR_MAPS);
		failed |= count_lines(4, smaps, true, BAR_SMAPS);
	}
	unlink(maps);
	unlink(smaps);
	rmdir(dir);
	return failed;
}
