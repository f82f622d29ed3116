/* SPDX-License-Identifier: MIT */
/* mrguard vma: which VMAs a process holds, and when they run out. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "base/text.h"
#include "tools/module.h"
#include "tools/vma_output.h"

enum {
	KEY_WATCH = 0x100,
	KEY_SAMPLES,
	KEY_OVER,
	KEY_MAPS,
	KEY_SMAPS,
	KEY_LIMIT,
	KEY_TOP,
	KEY_NO_SMAPS,
	KEY_PROMETHEUS,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Over time:", 1 },
	{ "watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
	  "Show the count as a running graph, one sample every SECONDS (2); "
	  "with --json one object a sample",
	  0 },
	{ "samples", KEY_SAMPLES, "N", 0, "With --watch: end after N samples", 0 },
	{ "over", KEY_OVER, "SECONDS", 0,
	  "Watch for so long first, so that rate and time left are known", 0 },
	{ NULL, 0, NULL, 0, "From files:", 2 },
	{ "from-maps", KEY_MAPS, "FILE", 0, "A copy of /proc/PID/maps", 0 },
	{ "smaps", KEY_SMAPS, "FILE", 0,
	  "A copy of /proc/PID/smaps; holds all that maps holds, and the flags", 0 },
	{ "limit", KEY_LIMIT, "N", 0, "vm.max_map_count where the files come from", 0 },
	{ NULL, 0, NULL, 0, "How much:", 3 },
	{ "no-smaps", KEY_NO_SMAPS, NULL, 0, "Read maps alone: faster, but flags are not seen", 0 },
	{ "top", KEY_TOP, "N", 0, "List N families and kinds (16)", 0 },
	{ "prometheus", KEY_PROMETHEUS, NULL, 0, "Print gauges in Prometheus' text format",
	  ARGS_OUTPUT },
	{ 0 },
};

struct vma_args {
	struct mrg_vma_opts opts;
	bool has_process;
	bool watches;
	double interval;
	double over;
	uint64_t samples;
	bool prometheus;
	struct output_args output;
};

static void parse_process(struct argp_state *state, const char *arg)
{
	struct vma_args *args = state->input;

	if (args->has_process)
		argp_error(state, "The process \"%s\" is one too many.", arg);
	args->has_process = true;
	if (strcmp(arg, "self"))
		args->opts.pid = args_pid(state, "argument", arg);
}

static void check_args(struct argp_state *state)
{
	const struct vma_args *args = state->input;
	bool files = args->opts.maps || args->opts.smaps;

	if (files == args->has_process)
		argp_error(state, "Either a process or files are needed.");
	if (files && (args->watches || args->over > 0))
		argp_error(state, "Files do not change: they take neither --watch nor --over.");
	if (args->output.json && args->prometheus)
		argp_error(state, "--json and --prometheus exclude each other.");
	if (args->watches && args->prometheus)
		argp_error(state, "--prometheus and --watch exclude each other.");
	if (args->samples && !args->watches)
		argp_error(state, "--samples needs --watch.");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vma_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_WATCH:
		args->watches = true;
		if (arg)
			args->interval = args_seconds(state, "--watch", arg, 0.05, 86400);
		return 0;
	case KEY_SAMPLES:
		args->samples = args_between(state, "--samples", arg, 1, UINT64_MAX);
		return 0;
	case KEY_OVER:
		args->over = args_seconds(state, "--over", arg, 0.05, 86400);
		return 0;
	case KEY_MAPS:
		args->opts.maps = arg;
		return 0;
	case KEY_SMAPS:
		args->opts.smaps = arg;
		return 0;
	case KEY_LIMIT:
		args->opts.limit = args_between(state, "--limit", arg, 1, UINT64_MAX);
		return 0;
	case KEY_TOP:
		args->opts.top = args_between(state, "--top", arg, 1, 1000);
		return 0;
	case KEY_NO_SMAPS:
		args->opts.flags |= MRG_VMA_NO_SMAPS;
		return 0;
	case KEY_PROMETHEUS:
		args->prometheus = true;
		return 0;
	case ARGP_KEY_ARG:
		parse_process(state, arg);
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
	.args_doc = "PID|self\n--smaps FILE\n--from-maps FILE",
	.doc = "Count a process's VMAs against vm.max_map_count, by exact size and "
	       "kind, and tell which pieces merge again and which never will."
	       "\v"
	       "Exit status: 0; 3 where 90% of the limit are reached; 1 where the "
	       "process or file cannot be read; 2 for a wrong command line.",
};

static int fail(const struct vma_args *args, int code, const char *source)
{
	struct mrg_error error;
	const char *remedy = "";

	if (code == -EACCES || code == -EPERM)
		remedy = "Run it as the process's user, or with CAP_SYS_PTRACE.";
	else if (code == -EBADMSG)
		remedy = "Copy /proc/PID/maps or smaps whole, as it is.";
	else if (!args->opts.maps && !args->opts.smaps)
		remedy = "Check that the process still runs.";
	base_error_set(&error, code, "read VMAs", remedy, "The VMAs of %s cannot be read: %s.",
		       source, code == -EBADMSG ? "it is none of maps or smaps" : strerror(-code));
	fail_print(&error);
	return EXIT_FAILED;
}

static void read_comm(pid_t pid, char *comm, size_t size)
{
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)(pid ? pid : getpid()));
	file = fopen(path, "re");
	comm[0] = '\0';
	if (!file)
		return;
	if (!fgets(comm, (int)size, file))
		comm[0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
	base_make_plain(comm);
	fclose(file);
}

static void name_source(const struct vma_args *args, struct vma_output *output)
{
	const struct mrg_vma_opts *opts = &args->opts;

	if (opts->smaps || opts->maps) {
		snprintf(output->source, sizeof(output->source), "%s",
			 opts->smaps ? opts->smaps : opts->maps);
		return;
	}
	read_comm(opts->pid, output->comm, sizeof(output->comm));
	snprintf(output->source, sizeof(output->source), "process %d%s%s%s",
		 (int)(opts->pid ? opts->pid : getpid()), output->comm[0] ? " (" : "", output->comm,
		 output->comm[0] ? ")" : "");
}

/* Ten counts tell a rise from scatter. */
static int look_over(const struct vma_args *args, struct vma_trend *trend)
{
	double step = args->over / 10;
	const struct timespec pause = {
		.tv_sec = (time_t)step,
		.tv_nsec = (long)((step - (double)(time_t)step) * 1e9),
	};

	for (int i = 0; i <= 10; i++) {
		struct timespec now;
		uint64_t count;
		int ret;

		if (i)
			nanosleep(&pause, NULL);
		ret = mrg_vma_count(args->opts.dev, args->opts.pid, &count);
		if (ret)
			return ret;
		clock_gettime(CLOCK_MONOTONIC, &now);
		vma_trend_add(trend, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
			      count);
	}
	return 0;
}

static int show_once(const struct vma_args *args, const struct term *term,
		     struct vma_output *output)
{
	struct vma_trend trend = { .count = 0 };
	struct mrg_vma_report *report;
	int ret = args->over > 0 ? look_over(args, &trend) : 0;

	if (!ret)
		ret = mrg_vma_report_make(&args->opts, &report);
	if (ret)
		return fail(args, ret, output->source);
	output->report = report;
	output->trend = &trend;
	if (args->output.json)
		ret = vma_print_json(output);
	else if (args->prometheus)
		vma_print_prometheus(stdout, output);
	else
		vma_print(term, output);
	if (!ret && report->state == MRG_VMA_NEAR)
		ret = EXIT_AT_RISK;
	else if (ret)
		ret = EXIT_FAILED;
	mrg_vma_report_free(report);
	return ret;
}

static int show_running(const struct vma_args *args, const struct term *term,
			const struct vma_output *output)
{
	const struct vma_watch watch = {
		.opts = args->opts,
		.interval = args->interval,
		.samples = args->samples,
		.source = output->source,
		.comm = output->comm,
		.json = args->output.json,
	};
	int ret = vma_watch(term, &watch);

	return ret ? fail(args, ret, output->source) : EXIT_OK;
}

int cmd_vma(int argc, char **argv)
{
	struct vma_args args = {
		.opts = { .size = sizeof(args.opts) },
		.interval = 2,
	};
	struct vma_output output = { .comm = "" };
	struct module module;
	struct term term;
	int ret;

	if (args_parse(&argp, argc, argv, 0, &args))
		return EXIT_FAILED;
	term_init(&term, stdout, args.output.colour);
	name_source(&args, &output);
	module_open(&module);
	if (module.state == MODULE_LOADED && module.info.has_vma)
		args.opts.dev = module.dev;
	ret = args.watches ? show_running(&args, &term, &output) : show_once(&args, &term, &output);
	module_close(&module);
	return ret;
}
