/* SPDX-License-Identifier: MIT */
/* mrguard selftest: real bytes through a real device, every one compared. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tools/args.h"
#include "tools/buffer_args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/selftest.h"

#define DEFAULT_BLOCKS 1152
#define DEFAULT_BLOCK_SIZE 65536
#define MAX_BLOCKS (1 << 20)
#define BAR_WIDTH 40

enum {
	KEY_DEVICE = 0x100,
	KEY_BUFFER,
	KEY_IOVA,
	KEY_RAW,
	KEY_STRATEGY,
	KEY_MAX_PAGE_SHIFT,
	KEY_NO_MODULE,
	KEY_BLOCKS,
	KEY_BLOCK_SIZE,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What is tested:", 1 },
	{ "device", KEY_DEVICE, "DEVICE", 0, "RDMA device, such as mlx5_0", 0 },
	{ "buffer", KEY_BUFFER, "KIND:SPEC", 0,
	  "host:SIZE, cuda:SIZE (GPU memory), udmabuf:SIZE, fd:NUMBER (a DMA-BUF "
	  "that is open in this process), or simgpu:SPEC on the test ground",
	  0 },
	{ "iova", KEY_IOVA, "ADDR", 0,
	  "Where to register a DMA-BUF (default: where the CPU sees it)", 0 },
	{ NULL, 0, NULL, 0, "How it is registered:", 2 },
	{ "raw", KEY_RAW, NULL, 0, "By plain verbs, not by mrguard", 0 },
	{ "strategy", KEY_STRATEGY, "WHICH", 0, "auto (default), split or rebase", 0 },
	{ "max-page-shift", KEY_MAX_PAGE_SHIFT, "N", 0,
	  "Largest page that the device takes, 12 to 63, if it is known", 0 },
	{ "no-module", KEY_NO_MODULE, NULL, 0, "Do without the kernel module", 0 },
	{ NULL, 0, NULL, 0, "How much is looked at:", 3 },
	{ "blocks", KEY_BLOCKS, "N", 0, "Scattered blocks (1152)", 0 },
	{ "block-size", KEY_BLOCK_SIZE, "N", 0, "Bytes of each (64K)", 0 },
	{ 0 },
};

static void check_args(struct argp_state *state)
{
	const struct selftest_args *args = state->input;

	if (!args->device || !args->buffer)
		argp_error(state, "--device and --buffer are needed.");
	if (args->iova &&
	    (!strncmp(args->buffer, "host:", 5) || !strncmp(args->buffer, "cuda:", 5)))
		argp_error(state, "--iova is for DMA-BUFs: host and cuda memory have an address.");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct selftest_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_DEVICE:
		args->device = arg;
		return 0;
	case KEY_BUFFER:
		args->buffer = arg;
		return 0;
	case KEY_IOVA:
		args->iova = args_size(state, "--iova", arg);
		return 0;
	case KEY_RAW:
		args->raw = true;
		return 0;
	case KEY_STRATEGY:
		args->reg.strategy = args_strategy(state, arg);
		return 0;
	case KEY_MAX_PAGE_SHIFT:
		args->open.max_page_shift = (uint32_t)args_between(
			state, "--max-page-shift", arg, MRG_MIN_PAGE_SHIFT, MRG_MAX_PAGE_SHIFT);
		return 0;
	case KEY_NO_MODULE:
		args->open.flags |= MRG_OPEN_NO_MODULE;
		return 0;
	case KEY_BLOCKS:
		args->blocks = args_between(state, "--blocks", arg, 1, MAX_BLOCKS);
		return 0;
	case KEY_BLOCK_SIZE:
		args->block_size = args_between(state, "--block-size", arg, 8, 1 << 30);
		return 0;
	case ARGP_KEY_END:
		check_args(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &output_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "--device DEVICE --buffer KIND:SPEC",
	.doc = "Register a buffer, move blocks through the RDMA device into it and "
	       "out of it, and compare every byte."
	       "\v"
	       "Exit status: 0 every byte was right; 1 bytes were wrong, or a "
	       "transfer failed; 2 usage, or it could not be run.  See "
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
	int status = result->wrong || result->overwritten ? EXIT_FAILED : EXIT_OK;
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
		status = EXIT_USAGE;
	} else if (selftest_run(args, &target, verbs, &progress, &result, &error)) {
		if (progress.step && percent != UINT32_MAX)
			fputc('\n', stderr);
		fail_print(&error);
		status = strcmp(error.stage, "transfer") ? EXIT_USAGE : EXIT_FAILED;
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

	if (args_parse(&argp, argc, argv, 0, &args))
		return EXIT_FAILED;
	verbs = rc_device_open(args.device);
	if (!verbs) {
		fail_say("`mrguard info' lists the RDMA devices.",
			 "The RDMA device %s cannot be opened: %m.", args.device);
		return EXIT_USAGE;
	}
	status = run(&args, verbs);
	ibv_close_device(verbs);
	return status;
}
