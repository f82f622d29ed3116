/* SPDX-License-Identifier: MIT */
/* mrguard vma: which VMAs a process holds, and when they run out. */
#include <errno.h>
#include <inttypes.h>
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

struct vma_args {
	const char *root;
	struct mrg_vma_opts opts;
	bool watches;
	double interval;
	double over;
	uint64_t samples;
	bool prometheus;
	struct output_args output;
};

#define AT(field) ARGS_AT(struct vma_args, field)
static const struct args_option options[] = {
	{ .value = "process", .kind = ARGS_PROCESS, AT(opts.pid) },
	{ .help = "Over time:" },
	{ "watch", "SECONDS",
	  "Show the count as a running graph, one sample every SECONDS (2); "
	  "with --json one object a sample",
	  ARGS_SECONDS, AT(interval), .given = offsetof(struct vma_args, watches),
	  .optional = true },
	{ "samples", "N", "With --watch: end after N samples", ARGS_NUMBER, AT(samples), .min = 1 },
	{ "over", "SECONDS", "Watch for so long first, so that rate and time left are known",
	  ARGS_SECONDS, AT(over) },
	{ .help = "From files:" },
	{ .kind = ARGS_GROUP, .group = root_options, AT(root) },
	{ "from-maps", "FILE", "A copy of /proc/PID/maps", ARGS_TEXT, AT(opts.maps) },
	{ "smaps", "FILE", "A copy of /proc/PID/smaps; holds all that maps holds, and the flags",
	  ARGS_TEXT, AT(opts.smaps) },
	{ "limit", "N", "vm.max_map_count where the files come from", ARGS_NUMBER, AT(opts.limit),
	  .min = 1 },
	{ .help = "How much:" },
	{ "no-smaps", NULL, "Read maps alone: faster, but flags are not seen", ARGS_BIT,
	  AT(opts.flags), .min = MRG_VMA_NO_SMAPS },
	{ "top", "N", "List N families and kinds (16)", ARGS_NUMBER, AT(opts.top), .min = 1,
	  .max = 1000 },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "prometheus", NULL, "Print gauges in Prometheus' text format", ARGS_FLAG,
	  AT(prometheus) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct vma_args *args = filled;
	bool files = args->opts.maps || args->opts.smaps;

	if (files == !!args->opts.pid)
		argp_error(state, "Either a process or files are needed.");
	if (files && args->root)
		argp_error(state, "--root needs a process, and no files.");
	if ((files || args->root) && (args->watches || args->over > 0))
		argp_error(state, "Files do not change: they take neither --watch nor --over.");
	if (args->output.json && args->prometheus)
		argp_error(state, "--json and --prometheus exclude each other.");
	if (args->watches && args->prometheus)
		argp_error(state, "--prometheus and --watch exclude each other.");
	if (args->samples && !args->watches)
		argp_error(state, "--samples needs --watch.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "PID|self\n--root DIR PID\n--smaps FILE\n--from-maps FILE",
	.doc = "Count a process's VMAs against vm.max_map_count, by exact size and "
	       "kind, and tell which pieces merge again and which never will."
	       "\v"
	       "Exit status: 0: fewer than 90% of the allowed VMAs are in use; 1: 90% or "
	       "more; 2: wrong usage; 3: the process or file cannot be read.",
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
		       source,
		       code == -EBADMSG ? "it is not a copy of maps or smaps" : strerror(-code));
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
		ret = EXIT_FINDING;
	else if (ret)
		ret = EXIT_FAILED;
	mrg_vma_report_free(report);
	return ret;
}

static uint64_t read_limit(const char *path)
{
	FILE *file = fopen(path, "re");
	uint64_t limit = 0;

	if (file && fscanf(file, "%" SCNu64, &limit) != 1)
		limit = 0;
	if (file)
		fclose(file);
	return limit;
}

/* A recorded process is the files that were copied. */
static void use_root(struct vma_args *args, char maps[PATH_MAX], char smaps[PATH_MAX])
{
	struct mrg_vma_opts *opts = &args->opts;

	args_path(maps, args->root, "/proc/sys/vm/max_map_count");
	if (!opts->limit)
		opts->limit = read_limit(maps);
	opts->maps = args_path(maps, args->root, "/proc/%d/maps", (int)opts->pid);
	if (!access(args_path(smaps, args->root, "/proc/%d/smaps", (int)opts->pid), R_OK))
		opts->smaps = smaps;
	opts->pid = 0;
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
	char maps[PATH_MAX], smaps[PATH_MAX];
	struct module module;
	struct term term;
	int ret;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	if (args.root)
		use_root(&args, maps, smaps);
	term_init(&term, stdout, args.output.colour);
	name_source(&args, &output);
	module_open(&module);
	if (module.state == MODULE_LOADED && module.info.has_vma)
		args.opts.dev = module.dev;
	ret = args.watches ? show_running(&args, &term, &output) : show_once(&args, &term, &output);
	module_close(&module);
	return ret;
}
