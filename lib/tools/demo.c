/* SPDX-License-Identifier: MIT */
/*
 * mrguard demo: the fault and its cure, with real bytes.  It needs the test
 * ground (simgpu's memory, simnic's device); `make demo' boots one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/selftest.h"

#define BLOCKS 96
#define BLOCK_SIZE 65536
#define LABEL_WIDTH 26 /* with the columns below it is 78: a terminal has 80 */

static const struct demo_row {
	const char *label;
	const char *buffer; /* NULL: see page_higher() */
	uint64_t iova;
	uint64_t cap;
} rows[] = {
	{ "12 GiB, equal modulo 2 GiB", "simgpu:12G,seg=2G", 0x700080000000, 0 },
	{ "12 GiB, equal modulo 4 GiB", "simgpu:12G,seg=2G", 0x700000000000, 0 },
	{ "12 GiB, equal modulo 8 GiB", "simgpu:12G@8G,seg=2G", 0x700000000000, 0 },
	{ "12 GiB, a page higher", NULL, 0x700000000000, 0 },
	{ "12 GiB, 2 MiB higher", "simgpu:12G@0x100200000,seg=2G", 0x700000200000, 0 },
	{ "12 GiB, runs out of order", "simgpu:4G@12G+4G@4G+4G@8G,seg=2G", 0x700000000000, 0 },
	{ "12 GiB, MRs up to 2 GiB", "simgpu:12G,seg=2G", 0x700000000000, 2ULL << 30 },
	{ "64 MiB of ordinary memory", "host:64M", 0, 0 },
};

/* The columns; the first is what engines do today. */
static const struct column {
	const char *title;
	int width;
	bool raw;
	enum mrg_strategy strategy;
} columns[] = {
	{ "plain verbs, one MR", 19, true, MRG_STRATEGY_AUTO },
	{ "mrguard", 12, false, MRG_STRATEGY_AUTO },
	{ "split only", 12, false, MRG_STRATEGY_SPLIT },
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

struct demo {
	const char *device;
	struct ibv_context *verbs;
	struct term term;
	int wrong_raw; /* rows */
	int wrong_ours;
	bool failed;
};

static uint64_t first_wrong(const struct selftest_result *result)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < result->group_count; i++)
		if (result->groups[i].kind != VERIFY_OVERWRITTEN && result->groups[i].from < first)
			first = result->groups[i].from;
	return first;
}

static void print_cell(const struct demo *demo, const struct column *column,
		       const struct selftest_result *result)
{
	char text[64];

	if (result->wrong)
		snprintf(text, sizeof(text), "WRONG from %.2f GiB",
			 (double)first_wrong(result) / (1ULL << 30));
	else
		snprintf(text, sizeof(text), "clean, %zu MR%s", result->mrs,
			 result->mrs == 1 ? "" : "s");
	fputs(" | ", demo->term.out);
	term_print(&demo->term, result->wrong ? TERM_BAD : TERM_GOOD, "%-*s", column->width, text);
	fflush(demo->term.out);
}

static void run_cell(struct demo *demo, const struct demo_row *row, const struct column *column,
		     const struct target *target)
{
	const struct selftest_args args = {
		.device = demo->device,
		.buffer = row->buffer,
		.raw = column->raw,
		.blocks = BLOCKS,
		.block_size = BLOCK_SIZE,
		.open.size = sizeof(args.open),
		.reg.size = sizeof(args.reg),
		.reg.strategy = column->strategy,
		.reg.max_mr_size = row->cap,
	};
	const struct selftest_progress progress = { 0 };
	struct selftest_result result = { 0 };
	struct mrg_error error = { 0 };

	if (selftest_run(&args, target, demo->verbs, &progress, &result, &error)) {
		fprintf(demo->term.out, " | %-*s", column->width, "could not run");
		fputc('\n', stderr);
		fail_print(&error);
		demo->failed = true;
		return;
	}
	print_cell(demo, column, &result);
	if (!result.wrong && !result.overwritten)
		return;
	if (column->raw)
		demo->wrong_raw++;
	else
		demo->wrong_ours++;
}

/* The iova and the DMA address, 4 GiB, moved by one of this kernel's pages. */
static struct demo_row page_higher(const struct demo_row *row, char *buffer, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct demo_row moved = *row;

	snprintf(buffer, size, "simgpu:12G@0x%" PRIx64 ",seg=2G", page + (UINT64_C(4) << 30));
	moved.buffer = buffer;
	moved.iova += page;
	return moved;
}

static void run_row(struct demo *demo, const struct demo_row *row)
{
	struct demo_row moved;
	struct mrg_error error;
	struct target target;
	char buffer[64];

	if (!row->buffer) {
		moved = page_higher(row, buffer, sizeof(buffer));
		row = &moved;
	}
	fprintf(demo->term.out, "%-*s", LABEL_WIDTH, row->label);
	fflush(demo->term.out);
	if (target_open(&target, row->buffer, row->iova, &error)) {
		fputc('\n', demo->term.out);
		fail_print(&error);
		demo->failed = true;
	} else {
		for (size_t i = 0; i < COLUMNS; i++)
			run_cell(demo, row, &columns[i], &target);
		fputc('\n', demo->term.out);
	}
	target_close(&target);
}

static void print_head(const struct demo *demo)
{
	term_print(&demo->term, TERM_STRONG, "%-*s", LABEL_WIDTH, "DMA address against iova");
	for (size_t i = 0; i < COLUMNS; i++) {
		fputs(" | ", demo->term.out);
		term_print(&demo->term, TERM_STRONG, "%-*s", columns[i].width, columns[i].title);
	}
	fprintf(demo->term.out, "\n%.*s", LABEL_WIDTH, "----------------------------------------");
	for (size_t i = 0; i < COLUMNS; i++)
		fprintf(demo->term.out, "-|-%.*s", columns[i].width,
			"----------------------------------------");
	fputc('\n', demo->term.out);
}

#define AT(field) ARGS_AT(struct demo, field)
static const struct args_option options[] = {
	{ "device", "DEVICE", "RDMA device of the test ground (simnic0)", ARGS_TEXT, AT(device) },
	{ 0 },
};

static const struct args_command command = {
	.options = options,
	.doc = "Show the fault and its cure: buffers are registered by plain verbs and "
	       "by mrguard, blocks are moved through each, and every byte is compared."
	       "\v"
	       "It runs on the test ground, which `make demo' boots.  Exit status: 0 "
	       "every byte was right by mrguard; 1 not so; 2 wrong usage; 3 it could not be run.",
};

int cmd_demo(int argc, char **argv)
{
	struct demo demo = { .device = "simnic0" };

	if (args_parse(&command, argc, argv, &demo))
		return EXIT_FAILED;
	demo.verbs = rc_device_open(demo.device);
	if (!demo.verbs) {
		fail_say("`make demo' boots the machine that this is for.",
			 "The RDMA device %s cannot be opened: %m.", demo.device);
		return EXIT_FAILED;
	}
	term_init(&demo.term, stdout, TERM_COLOUR_AUTO);
	print_head(&demo);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&demo, &rows[i]);
	fprintf(demo.term.out,
		"\nplain verbs: %d of %zu wrong, each transfer with status 0; mrguard: %d wrong\n",
		demo.wrong_raw, sizeof(rows) / sizeof(rows[0]), demo.wrong_ours);
	ibv_close_device(demo.verbs);
	return demo.wrong_ours ? EXIT_FINDING : demo.failed ? EXIT_FAILED : EXIT_OK;
}
