/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "tools/bench.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/term.h"

const char *bench_op_name(enum bench_op op)
{
	static const char *const names[] = {
		[BENCH_READ] = "read",
		[BENCH_WRITE] = "write",
		[BENCH_BOTH] = "both",
	};

	return names[op];
}

/* ---- text ---- */

void bench_text(const struct bench_args *args, const struct bench_row *row)
{
	struct term term;

	if (!row) {
		term_init(&term, stdout, args->output.colour);
		term_print(&term, TERM_STRONG, "%-6s %9s %10s %11s %9s %9s %9s %9s %9s%s\n", "op",
			   "size", "MiB/s", "op/s", "p50 us", "p90", "p99", "p99.9", "max",
			   args->check ? "     wrong" : "");
		return;
	}
	printf("%-6s %9s %10.2f %11.0f %9.2f %9.2f %9.2f %9.2f %9.2f", bench_op_name(row->op),
	       term_size(row->size).text, row->mib_s, row->ops_s, row->p50, row->p90, row->p99,
	       row->p999, row->max);
	if (args->check)
		printf(" %9llu", (unsigned long long)row->wrong);
	putchar('\n');
	fflush(stdout);
}

/* ---- JSON ---- */

static json_t *row_json(const struct bench_row *row)
{
	json_t *latency = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "samples",
				    (json_int_t)row->samples, "min_us", row->min, "p50_us",
				    row->p50, "p90_us", row->p90, "p99_us", row->p99, "p999_us",
				    row->p999, "max_us", row->max);

	return json_pack("{s:s, s:I, s:f, s:f, s:o, s:I, s:I}", "op", bench_op_name(row->op),
			 "size", (json_int_t)row->size, "mib_per_s", row->mib_s, "ops_per_s",
			 row->ops_s, "latency", latency, "checked", (json_int_t)row->checked,
			 "wrong", (json_int_t)row->wrong);
}

int bench_json(const struct bench_args *args, const struct bench_row *rows, unsigned int count,
	       const struct mrg_ep_stats *stats)
{
	json_t *list = json_array(), *root;

	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(list, row_json(&rows[i]));
	root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:b, s:o}", "schema",
			 "mrguard.bench/1", "peer", args->peer, "batch", (int)args->batch, "flight",
			 (int)args->flight, "threads", (int)args->threads, "lanes",
			 (int)stats->lanes, "depth", (int)stats->depth, "seconds", args->seconds,
			 "events", args->events, "pong", args->pong, "rows", list);
	return json_print(root);
}

/* ---- a plot ---- */

static const char *terminal(const char *path)
{
	const char *ending = strrchr(path, '.');

	if (ending && !strcmp(ending, ".svg"))
		return "svg size 900,700";
	if (ending && !strcmp(ending, ".png"))
		return "png size 900,700";
	return NULL;
}

static void series(FILE *out, const struct bench_row *rows, unsigned int count, enum bench_op op,
		   bool latency)
{
	for (unsigned int i = 0; i < count; i++)
		if (rows[i].op == op)
			fprintf(out, "%llu %g %g\n", (unsigned long long)rows[i].size,
				latency ? rows[i].p50 : rows[i].mib_s, rows[i].p99);
	fputs("e\n", out);
}

static void bandwidth_plot(FILE *out, const struct bench_args *args, const struct bench_row *rows,
			   unsigned int count)
{
	fputs("set ylabel 'MiB/s'\nset yrange [0:*]\nplot ", out);
	for (unsigned int i = 0; i < args->op_count; i++)
		fprintf(out, "%s'-' using 1:2 with linespoints title '%s'", i ? ", " : "",
			bench_op_name(args->ops[i]));
	fputc('\n', out);
	for (unsigned int i = 0; i < args->op_count; i++)
		series(out, rows, count, args->ops[i], false);
}

static void latency_plot(FILE *out, const struct bench_args *args, const struct bench_row *rows,
			 unsigned int count)
{
	fputs("set ylabel 'us'\nset logscale y\nset yrange [*:*]\nplot ", out);
	for (unsigned int i = 0; i < args->op_count; i++)
		fprintf(out,
			"%s'-' using 1:2 with linespoints title '%s p50', "
			"'-' using 1:3 with linespoints title '%s p99'",
			i ? ", " : "", bench_op_name(args->ops[i]), bench_op_name(args->ops[i]));
	fputc('\n', out);
	for (unsigned int i = 0; i < args->op_count; i++) {
		series(out, rows, count, args->ops[i], true);
		series(out, rows, count, args->ops[i], true);
	}
}

static void draw(FILE *out, const struct bench_args *args, const struct bench_row *rows,
		 unsigned int count)
{
	bool both = args->only == BENCH_ALL;

	fprintf(out,
		"set terminal %s\nset output '%s'\n"
		"set logscale x 2\nset format x '%%.0b%%B'\nset grid\n"
		"set xlabel 'bytes of an operation'\nset key left top\n",
		terminal(args->plot), args->plot);
	if (both)
		fputs("set multiplot layout 2,1\n", out);
	if (args->only != BENCH_LATENCY)
		bandwidth_plot(out, args, rows, count);
	if (args->only != BENCH_BANDWIDTH)
		latency_plot(out, args, rows, count);
	if (both)
		fputs("unset multiplot\n", out);
}

int bench_plot(const struct bench_args *args, const struct bench_row *rows, unsigned int count,
	       struct mrg_error *error)
{
	FILE *out;
	int status;

	/* The name goes into a program for gnuplot. */
	if (!terminal(args->plot) || strpbrk(args->plot, "'\n\\"))
		return base_error_set(error, -EINVAL, "plot", "Name it FILE.svg or FILE.png.",
				      "The --plot file \"%s\" is no name for a plot.", args->plot);
	out = popen("exec gnuplot 2>/dev/null", "w");
	if (!out)
		return base_error_set(error, -errno, "plot", "Take the figures with --json.",
				      "The program gnuplot cannot be started: %m.");
	draw(out, args, rows, count);
	status = pclose(out);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return base_error_set(error, -ENOENT, "plot",
				      "Install gnuplot, or take the figures with --json.",
				      "The program gnuplot is not installed.");
	if (status)
		return base_error_set(error, -EIO, "plot", "Check that its folder can be written.",
				      "The program gnuplot could not write %s.", args->plot);
	return 0;
}
