/* SPDX-License-Identifier: MIT */
/*
 * A maps file of 262,144 lines (the highest vm.max_map_count that distributions
 * ship) and its smaps: analysed in less than a second each, in bounded memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <mrguard/vma.h>

#define LINES 262144
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

static void write_file(const char *path, int details)
{
	FILE *file = fopen(path, "w");
	unsigned long at = 0x7f0000000000;

	if (!file)
		exit(99);
	for (int i = 0; i < LINES; i++) {
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
	ok = report->count == LINES && took < LIMIT_SECONDS && grew < LIMIT_KIB;
	printf("%sok %d - %d lines of %s are analysed in less than a second (%.3f s, %ld KiB)\n",
	       ok ? "" : "not ", number, LINES, what, took, grew);
	mrg_vma_report_free(report);
	return ok ? 0 : 1;
}

int main(void)
{
	char dir[] = "/tmp/mrguard-bench-XXXXXX", maps[64], smaps[64];
	int failed;

	if (!mkdtemp(dir))
		return 99;
	snprintf(maps, sizeof(maps), "%s/maps", dir);
	snprintf(smaps, sizeof(smaps), "%s/smaps", dir);
	write_file(maps, 0);
	write_file(smaps, 1);
	printf("1..2\n");
	failed = measure(1, "maps", (struct mrg_vma_opts){ .maps = maps });
	failed |= measure(2, "smaps", (struct mrg_vma_opts){ .smaps = smaps });
	unlink(maps);
	unlink(smaps);
	rmdir(dir);
	return failed;
}
