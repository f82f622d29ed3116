/* SPDX-License-Identifier: MIT */
/* mrguard selftest: real bytes through a real device, every one compared. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/selftest.h"

#define DEFAULT_BLOCKS 1152
#define DEFAULT_BLOCK_SIZE 65536
#define MAX_BLOCKS (1 << 20)
#define BAR_WIDTH 40

#define AT(field) ARGS_AT(struct selftest_args, field)
static const struct args_option options[] = {
	{ .help = "What is tested:" },
	{ "device", "DEVICE", "RDMA device, such as mlx5_0", ARGS_TEXT, AT(device) },
	{ "buffer", "KIND:SPEC",
	  "host:SIZE, cuda:SIZE (GPU memory), udmabuf:SIZE, fd:NUMBER (a DMA-BUF "
	  "that is open in this process), or simgpu:SPEC on the test ground",
	  ARGS_TEXT, AT(buffer) },
	{ "iova", "ADDR", "Where to register a DMA-BUF (default: where the CPU sees it)",
	  ARGS_NUMBER, AT(iova) },
	{ .help = "How it is registered:" },
	{ "raw", NULL, "By plain verbs, not by mrguard", ARGS_FLAG, AT(raw) },
	{ "strategy", "WHICH", "auto (default), split or rebase", ARGS_WORD, AT(reg.strategy),
	  .words = args_strategies },
	{ "max-page-shift", "N", "Largest page that the device takes, 12 to 63, if it is known",
	  ARGS_NUMBER, AT(open.max_page_shift), .min = MRG_MIN_PAGE_SHIFT,
	  .max = MRG_MAX_PAGE_SHIFT },
	{ "no-module", NULL, "Do without the kernel module", ARGS_BIT, AT(open.flags),
	  .min = MRG_OPEN_NO_MODULE },
	{ .help = "How much is looked at:" },
	{ "blocks", "N", "Scattered blocks (1152)", ARGS_NUMBER, AT(blocks), .min = 1,
	  .max = MAX_BLOCKS },
	{ "block-size", "N", "Bytes of each (64K)", ARGS_NUMBER, AT(block_size), .min = 8,
	  .max = 1 << 30 },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct selftest_args *args = filled;

	if (!args->device || !args->buffer)
		argp_error(state, "--device and --buffer are needed.");
	else if (args->iova &&
		 (!strncmp(args->buffer, "host:", 5) || !strncmp(args->buffer, "cuda:", 5)))
		argp_error(state, "--iova is for DMA-BUFs: host and cuda memory have an address.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "--device DEVICE --buffer KIND:SPEC",
	.doc = "Register a buffer, move blocks through the RDMA device into it and "
	       "out of it, and compare every byte."
	       "\v"
	       "Exit status: 0 every byte was right; 1 bytes were wrong, or a "
	       "transfer failed; 2 wrong usage; 3 it could not be run.  See "
	       "mrguard-selftest(1).",
};

static void draw_bar(void *arg, uint64_t done, uint64_t total)
{
	unsigned int *percent = arg, now = (unsigned int)(100 * done / total);
	int filled = (int)(BAR_WIDTH * done / total);

	if (now == *percent)
		return;
	*percent = now;
	fprintf(stderr, "\r[%.*s%*s] %3u%%", filled, "########################################",
		BAR_WIDTH - filled, "", now);
	if (done == total)
		fprintf(stderr, "\r%*s\r", BAR_WIDTH + 8, "");
}

static int show(const struct selftest_args *args, const struct target *target,
		const struct selftest_result *result)
{
	int status = result->wrong || result->overwritten ? EXIT_FINDING : EXIT_OK;
	struct term term;

	if (args->output.json)
		return selftest_print_json(args, target, result) ? EXIT_FAILED : status;
	term_init(&term, stdout, args->output.colour);
	selftest_print_text(&term, args, target, result);
	return status;
}

static int run(const struct selftest_args *args, struct ibv_context *verbs)
{
	unsigned int percent = UINT32_MAX;
	struct selftest_progress progress = { .arg = &percent };
	struct selftest_result result = { 0 };
	struct mrg_error error = { 0 };
	struct target target;
	int status;

	if (isatty(STDERR_FILENO))
		progress.step = draw_bar;
	if (target_open(&target, args->buffer, args->iova, &error)) {
		fail_print(&error);
		status = EXIT_FAILED;
	} else if (selftest_run(args, &target, verbs, &progress, &result, &error)) {
		if (progress.step && percent != UINT32_MAX)
			fputc('\n', stderr);
		fail_print(&error);
		status = strcmp(error.stage, "transfer") ? EXIT_FAILED : EXIT_FINDING;
	} else {
		status = show(args, &target, &result);
	}
	target_close(&target);
	return status;
}

int cmd_selftest(int argc, char **argv)
{
	struct selftest_args args = {
		.blocks = DEFAULT_BLOCKS,
		.block_size = DEFAULT_BLOCK_SIZE,
		.open.size = sizeof(args.open),
		.reg.size = sizeof(args.reg),
	};
	struct ibv_context *verbs;
	int status;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	verbs = rc_device_open(args.device);
	if (!verbs) {
		fail_say("`mrguard info' lists the RDMA devices.",
			 "The RDMA device %s cannot be opened: %m.", args.device);
		return EXIT_FAILED;
	}
	status = run(&args, verbs);
	ibv_close_device(verbs);
	return status;
}
