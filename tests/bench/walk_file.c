/* SPDX-License-Identifier: MIT */
/*
 * What it costs to ask the kernel's walk of a module's file, the program's start
 * included: once a host where /run/mrguard is writable, else once a context.
 * argv[1]: another file than the made one, such as the host's ib_core.ko.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <mrguard/walk.h>

#define ROUNDS 21
#define MOST_MS 200.0

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void find_programs(char *build, size_t room, char *file)
{
	char program[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", build, room - 1);

	build[n > 0 ? n : 0] = 0;
	for (int i = 0; n > 0 && i < 3; i++)
		*strrchr(build, '/') = 0;
	snprintf(program, sizeof(program), "%s/mrguard-kernelcode", build);
	setenv("MRGUARD_KERNELCODE", program, 1);
	snprintf(file, PATH_MAX + 64, "%s/tests/kernelcode/exact.ko", build);
}

int main(int argc, char **argv)
{
	char build[PATH_MAX], file[PATH_MAX + 64];
	struct mrg_walk_answer answer;
	double took[ROUNDS];
	bool ok = true;

	find_programs(build, sizeof(build), file);
	for (size_t i = 0; i < ROUNDS; i++) {
		double start = now_ms();

		ok &= !mrg_walk_ask_file(argc > 1 ? argv[1] : file, &answer) &&
		      answer.walk != MRG_WALK_UNKNOWN;
		took[i] = now_ms() - start;
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_size);
	printf("1..2\n%sok 1 - the walk is found each time\n", ok ? "" : "not ");
	printf("# %.1f ms, from %.1f to %.1f\n", took[ROUNDS / 2], took[0], took[ROUNDS - 1]);
	if (!getenv("MRG_BENCH"))
		printf("ok 2 - asked within %.0f ms # SKIP a time: make bench\n", MOST_MS);
	else
		printf("%sok 2 - asked within %.0f ms\n", took[ROUNDS / 2] <= MOST_MS ? "" : "not ",
		       MOST_MS);
	return ok && (!getenv("MRG_BENCH") || took[ROUNDS / 2] <= MOST_MS) ? 0 : 1;
}
