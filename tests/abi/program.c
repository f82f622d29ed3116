/* SPDX-License-Identifier: MIT */
/*
 * A program of an older release: it is compiled with the headers that are kept
 * for that release, and run with the libraries of this tree.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <mrguard/mrguard.h>

static int failures;

static void is(const char *what, int got, int want)
{
	if (got == want)
		return;
	fprintf(stderr, "%s: returned %d, not %d\n", what, got, want);
	failures++;
}

/* Options of this release, of one that had fewer fields, and of one with more. */
static void sizes_of_options(void)
{
	const struct mrg_sg run = { 0x100000000, 1ull << 33 };
	struct {
		struct mrg_plan_opts opts;
		uint64_t later;
	} longer = { .opts = { .size = sizeof(longer.opts) } };
	struct mrg_plan *plan = NULL;

	is("mrg_plan_make()", mrg_plan_make(&run, 1, &longer.opts, &plan), 0);
	mrg_plan_free(plan);
	longer.opts.size = sizeof(longer);
	is("mrg_plan_make(), zero tail", mrg_plan_make(&run, 1, &longer.opts, &plan), 0);
	mrg_plan_free(plan);
	longer.later = 1;
	is("mrg_plan_make(), unknown tail", mrg_plan_make(&run, 1, &longer.opts, &plan), -EINVAL);
	/* What is behind a shorter structure is not the library's to read. */
	longer.opts.size = offsetof(struct mrg_plan_opts, max_mr_size);
	memset(&longer.opts.max_mr_size, 0xff,
	       sizeof(longer.opts) - offsetof(struct mrg_plan_opts, max_mr_size));
	is("mrg_plan_make(), shorter", mrg_plan_make(&run, 1, &longer.opts, &plan), 0);
	mrg_plan_free(plan);
}

/* Zero as input; zero as output, whatever was there. */
static void reserved_words(void)
{
	struct mrg_gpu_opts opts = { .size = sizeof(opts) };
	struct mrg_error error;
	struct mrg_mem mem;
	struct mrg_gpu *gpu = NULL;

	opts.reserved = 1;
	is("mrg_gpu_open(), reserved", mrg_gpu_open(&gpu, &opts), -EINVAL);
	opts.reserved = 0;
	opts.flags = MRG_GPU_NO_CUDA | MRG_GPU_NO_HIP;
	is("mrg_gpu_open()", mrg_gpu_open(&gpu, &opts), 0);
	memset(&error, 0xff, sizeof(error));
	is("mrg_gpu_classify()", mrg_gpu_classify(gpu, 0, 0, &mem), -EINVAL);
	is("mrg_gpu_last_error()", mrg_gpu_last_error(gpu, &error), 0);
	for (size_t i = 0; i < sizeof(error.reserved) / sizeof(error.reserved[0]); i++)
		is("struct mrg_error, reserved", (int)error.reserved[i], 0);
	mrg_gpu_close(gpu);
}

static void transfer_library(void)
{
	struct mrg_registry_opts opts = { .size = sizeof(opts) };
	struct mrg_registry *registry = NULL;

	is("mrg_registry_open()", mrg_registry_open(&registry, &opts), 0);
	is("mrg_registry_close()", mrg_registry_close(registry), 0);
}

int main(void)
{
	sizes_of_options();
	reserved_words();
	transfer_library();
	return failures ? 1 : puts(mrg_version()) < 0;
}
