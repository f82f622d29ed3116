/* SPDX-License-Identifier: MIT */
/*
 * What a part of a program does, counted by callgrind: the same on a busy machine.
 * The program runs itself under valgrind with a word that names the part, does
 * what is to be counted between counted_begin() and counted_end(), and gets the
 * sums, one for each such pair.
 *
 * Times are printed as well, and judged only where MRG_BENCH is set: `make
 * bench' sets it, `make check' does not.
 */
#ifndef BENCH_COUNTED_H
#define BENCH_COUNTED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define COUNTED_SECONDS 600 /* of a run that hangs */

struct counted {
	double instructions;
	double atomics; /* instructions that lock the bus: atomic updates, locks */
};

static inline bool times_are_judged(void)
{
	return getenv("MRG_BENCH") != NULL;
}

static inline bool can_count(void)
{
	return !system("valgrind --version >/dev/null 2>&1");
}

static inline void counted_begin(void)
{
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
}

static inline void counted_end(void)
{
	CALLGRIND_STOP_INSTRUMENTATION;
	CALLGRIND_DUMP_STATS;
}

/* A dump of callgrind's: what could not be read is more than any bar. */
static inline struct counted counted_read(const char *path)
{
	struct counted sum = { 0, 0 };
	FILE *f = fopen(path, "r");
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "totals: %lf %lf", &sum.instructions, &sum.atomics) >= 1)
			break;
	if (f)
		fclose(f);
	unlink(path);
	return sum.instructions > 0 ? sum : (struct counted){ 1e18, 1e18 };
}

/* The part named @part of this program; @sums: OUT, of its first @count pairs. */
static inline void counted(const char *part, struct counted *sums, int count)
{
	char dir[] = "/tmp/mrguard-counted-XXXXXX", path[64], self[4096] = "", command[4600];

	if (!mkdtemp(dir) || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		exit(99);
	snprintf(command, sizeof(command),
		 "timeout %d valgrind -q --tool=callgrind --instr-atstart=no --collect-bus=yes "
		 "--callgrind-out-file=%s/sum '%s' %s >&2",
		 COUNTED_SECONDS, dir, self, part);
	if (system(command))
		printf("# %s: the counted run failed\n", part);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/sum.%d", dir, i + 1);
		sums[i] = counted_read(path);
	}
	/* What is left: the sums after the last pair. */
	snprintf(path, sizeof(path), "%s/sum", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/sum.%d", dir, count + 1);
	unlink(path);
	if (rmdir(dir))
		printf("# %s: more pairs than %d were counted\n", part, count);
}

#endif
