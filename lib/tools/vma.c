/* SPDX-License-Identifier: MIT */
/* mrguard vma: which VMAs a process holds, and when they run out. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "base/text.h"
#include "tools/module.h"
#include "tools/parse.h"
#include "tools/vma_view.h"

enum {
	KEY_WATCH = 0x100,
	KEY_SAMPLES,
	KEY_OVER,
	KEY_MAPS,
	KEY_SMAPS,
	KEY_LIMIT,
	KEY_TOP,
	KEY_NO_SMAPS,
	KEY_JSON,
	KEY_PROMETHEUS,
	KEY_COLOUR,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Over time:", 1 },
	{ "watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
	  "Show the count as a running graph, one sample every SECONDS (2)", 0 },
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
	{ NULL, 0, NULL, 0, "Output:", 4 },
	{ "json", KEY_JSON, NULL, 0, "Print one JSON object; with --watch one a sample", 0 },
	{ "prometheus", KEY_PROMETHEUS, NULL, 0, "Print gauges in Prometheus' text format", 0 },
	{ "color", KEY_COLOUR, "WHEN", 0, "auto (default), always or never", 0 },
	{ 0 },
};

struct vma_args {
	struct mrg_vma_opts opts;
	bool has_process;
	bool watches;
	double interval;
	double over;
	uint64_t samples;
	bool json;
	bool prometheus;
	enum term_colour colour;
};

static double parse_seconds(struct argp_state *state, const char *option, const char *arg)
{
	char *end;
	double value = strtod(arg, &end);

	if (end == arg || *end || !(value >= 0.05 && value <= 86400))
		argp_error(state, "--%s: expected 0.05 to 86400 seconds, read \"%s\"", option, arg);
	return value;
}

static uint64_t parse_number(struct argp_state *state, const char *option, const char *arg,
			     uint64_t max)
{
	uint64_t value = 0;

	if (mrg_parse_size(arg, &value) || !value || value > max)
		argp_error(state, "--%s: expected a number from 1, read \"%s\"", option, arg);
	return value;
}

static void parse_process(struct argp_state *state, const char *arg)
{
	struct vma_args *args = state->input;
	char *end;
	long pid;

	if (args->has_process)
		argp_error(state, "expected one process, read \"%s\" as well", arg);
	args->has_process = true;
	if (!strcmp(arg, "self"))
		return;
	pid = strtol(arg, &end, 10);
	if (end == arg || *end || pid <= 0 || pid > INT32_MAX)
		argp_error(state, "expected a process ID or self, read \"%s\"", arg);
	args->opts.pid = (pid_t)pid;
}

static void check_args(struct argp_state *state)
{
	const struct vma_args *args = state->input;
	bool files = args->opts.maps || args->opts.smaps;

	if (files == args->has_process)
		argp_error(state, "expected either a process or files");
	if (files && (args->watches || args->over > 0))
		argp_error(state, "files do not change: no --watch, no --over");
	if (args->json && args->prometheus)
		argp_error(state, "expected either --json or --prometheus");
	if (args->watches && args->prometheus)
		argp_error(state, "--prometheus takes one look: no --watch");
	if (args->samples && !args->watches)
		argp_error(state, "--samples goes with --watch");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vma_args *args = state->input;

	switch (key) {
	case KEY_WATCH:
		args->watches = true;
		if (arg)
			args->interval = parse_seconds(state, "watch", arg);
		return 0;
	case KEY_SAMPLES:
		args->samples = parse_number(state, "samples", arg, UINT64_MAX);
		return 0;
	case KEY_OVER:
		args->over = parse_seconds(state, "over", arg);
		return 0;
	case KEY_MAPS:
		args->opts.maps = arg;
		return 0;
	case KEY_SMAPS:
		args->opts.smaps = arg;
		return 0;
	case KEY_LIMIT:
		args->opts.limit = parse_number(state, "limit", arg, UINT64_MAX);
		return 0;
	case KEY_TOP:
		args->opts.top = parse_number(state, "top", arg, 1000);
		return 0;
	case KEY_NO_SMAPS:
		args->opts.flags |= MRG_VMA_NO_SMAPS;
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_PROMETHEUS:
		args->prometheus = true;
		return 0;
	case KEY_COLOUR:
		if (term_parse_colour(arg, &args->colour))
			argp_error(state, "--color: expected auto, always or never, read \"%s\"",
				   arg);
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

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
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
		remedy = "Check that the process is still there.";
	fail_set(&error, code, "read VMAs", remedy, "%s cannot be read: %s", source,
		 code == -EBADMSG ? "it is none of maps or smaps" : strerror(-code));
	fail_print("mrguard vma", &error);
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

static void name_source(const struct vma_args *args, struct vma_view *view)
{
	const struct mrg_vma_opts *opts = &args->opts;

	if (opts->smaps || opts->maps) {
		snprintf(view->source, sizeof(view->source), "%s",
			 opts->smaps ? opts->smaps : opts->maps);
		return;
	}
	read_comm(opts->pid, view->comm, sizeof(view->comm));
	snprintf(view->source, sizeof(view->source), "process %d%s%s%s",
		 (int)(opts->pid ? opts->pid : getpid()), view->comm[0] ? " (" : "", view->comm,
		 view->comm[0] ? ")" : "");
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

static int show_once(const struct vma_args *args, const struct term *term, struct vma_view *view)
{
	struct vma_trend trend = { .count = 0 };
	struct mrg_vma_report *report;
	int ret = args->over > 0 ? look_over(args, &trend) : 0;

	if (!ret)
		ret = mrg_vma_report_make(&args->opts, &report);
	if (ret)
		return fail(args, ret, view->source);
	view->report = report;
	view->trend = &trend;
	if (args->json)
		ret = vma_print_json(view);
	else if (args->prometheus)
		vma_print_prometheus(stdout, view);
	else
		vma_print(term, view);
	if (!ret && report->state == MRG_VMA_NEAR)
		ret = EXIT_AT_RISK;
	else if (ret)
		ret = EXIT_FAILED;
	mrg_vma_report_free(report);
	return ret;
}

static int show_running(const struct vma_args *args, const struct term *term,
			const struct vma_view *view)
{
	const struct vma_watch watch = {
		.opts = args->opts,
		.interval = args->interval,
		.samples = args->samples,
		.source = view->source,
		.comm = view->comm,
		.json = args->json,
	};
	int ret = vma_watch(term, &watch);

	return ret ? fail(args, ret, view->source) : EXIT_OK;
}

int cmd_vma(int argc, char **argv)
{
	struct vma_args args = {
		.opts = { .size = sizeof(args.opts) },
		.interval = 2,
	};
	struct vma_view view = { .comm = "" };
	struct module module;
	struct term term;
	int ret;

	if (args_parse(&argp, argc, argv, 0, &args))
		return EXIT_FAILED;
	term_init(&term, stdout, args.colour);
	name_source(&args, &view);
	module_open(&module);
	if (module.state == MODULE_LOADED && module.info.has_vma)
		args.opts.dev = module.dev;
	ret = args.watches ? show_running(&args, &term, &view) : show_once(&args, &term, &view);
	module_close(&module);
	return ret;
}
