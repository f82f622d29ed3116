/* SPDX-License-Identifier: MIT */
/* mrguard vma --watch: a graph that runs, or a line a sample into a pipe. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/vma_output.h"

#define GRAPH_ROWS 10
#define MIN_MARGIN 8 /* VMAs above and below the line */
#define AXIS 10 /* columns for the numbers beside the graph */
#define REPORT_SHARE 20 /* a report takes at most one part in this of the time */

struct watch {
	const struct vma_watch *asked;
	struct term term;
	struct vma_trend trend;
	struct mrg_vma_report *report;
	double report_due;
	struct termios before;
	bool raw;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The oldest half is thinned out when there is no more room. */
void vma_trend_add(struct vma_trend *trend, uint64_t ns, uint64_t count)
{
	if (trend->count == VMA_TREND_MAX) {
		size_t kept = 0;

		for (size_t i = 0; i < VMA_TREND_MAX; i++)
			if (i >= VMA_TREND_MAX / 2 || i % 2 == 0)
				trend->samples[kept++] = trend->samples[i];
		trend->count = kept;
	}
	trend->samples[trend->count++] = (struct mrg_vma_sample){ .ns = ns, .count = count };
}

/* A screen of its own, no cursor, and keys at once. */
static void screen_open(struct watch *watch)
{
	struct termios keys;

	fputs("\033[?1049h\033[?25l", watch->term.out);
	if (tcgetattr(STDIN_FILENO, &watch->before))
		return;
	keys = watch->before;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	watch->raw = !tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

static void screen_close(struct watch *watch)
{
	if (watch->raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &watch->before);
	fputs("\033[?25h\033[?1049l", watch->term.out);
	fflush(watch->term.out);
}

static unsigned int screen_rows(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row ? 24 : size.ws_row;
}

/* The report is made anew only as often as its cost allows: maps of a process
 * with many VMAs is long, and its mmap lock is held while it is written. */
static int refresh_report(struct watch *watch)
{
	struct mrg_vma_opts opts = watch->asked->opts;
	struct mrg_vma_report *report;
	double start = seconds();
	int ret;

	if (watch->report && start < watch->report_due)
		return 0;
	opts.flags |= MRG_VMA_NO_SMAPS;
	ret = mrg_vma_report_make(&opts, &report);
	if (ret)
		return ret;
	mrg_vma_report_free(watch->report);
	watch->report = report;
	watch->report_due = start + (seconds() - start) * REPORT_SHARE;
	return 0;
}

static int take_sample(struct watch *watch)
{
	const struct mrg_vma_opts *opts = &watch->asked->opts;
	uint64_t count;
	int ret = refresh_report(watch);

	if (!ret)
		ret = mrg_vma_count(opts->dev, opts->pid, &count);
	if (ret)
		return ret;
	watch->report->count = count;
	vma_trend_add(&watch->trend, (uint64_t)(seconds() * 1e9), count);
	return 0;
}

/* ------------------------------------------------------------- the graph */

struct scale {
	double low;
	double high;
};

static struct scale scale_of(const struct vma_trend *trend, size_t from)
{
	double first = (double)trend->samples[from].count, margin;
	struct scale scale = { first, first };

	for (size_t i = from; i < trend->count; i++) {
		double count = (double)trend->samples[i].count;

		if (count < scale.low)
			scale.low = count;
		if (count > scale.high)
			scale.high = count;
	}
	/* A flat line lies in the middle, and is not blown up to a mountain. */
	margin = (scale.high - scale.low) / 10;
	if (margin < MIN_MARGIN)
		margin = MIN_MARGIN;
	scale.low = scale.low > margin ? scale.low - margin : 0;
	scale.high += margin;
	return scale;
}

/* How full a cell of the column is, in eighths. */
static int eighths_of(double count, struct scale scale, int row)
{
	double height = (count - scale.low) / (scale.high - scale.low) * GRAPH_ROWS;
	double part = (height - row) * 8;

	return part <= 0 ? 0 : part >= 8 ? 8 : (int)part;
}

static void draw_cell(const struct term *term, int part)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };

	if (term->utf8)
		fputs(blocks[part], term->out);
	else
		fputc(part >= 4 ? '#' : part ? '.' : ' ', term->out);
}

static void draw_axis(const struct term *term, struct scale scale, int row)
{
	double value = scale.low + (scale.high - scale.low) * row / GRAPH_ROWS;

	if (row == GRAPH_ROWS - 1 || row == 0 || row == GRAPH_ROWS / 2)
		fprintf(term->out, "%*s ", AXIS - 1, vma_number((uint64_t)value).text);
	else
		fprintf(term->out, "%*s", AXIS, "");
}

static void draw_graph(const struct watch *watch)
{
	const struct term *term = &watch->term;
	size_t columns = term->width > AXIS + 4 ? term->width - AXIS - 2 : 1;
	size_t from = watch->trend.count > columns ? watch->trend.count - columns : 0;
	struct scale scale = scale_of(&watch->trend, from);

	for (int row = GRAPH_ROWS - 1; row >= 0; row--) {
		draw_axis(term, scale, row);
		fputs(term_style(term, vma_style(watch->report->state)), term->out);
		for (size_t i = from; i < watch->trend.count; i++)
			draw_cell(term,
				  eighths_of((double)watch->trend.samples[i].count, scale, row));
		fputs(term_style(term, TERM_PLAIN), term->out);
		fputs("\033[K\n", term->out);
	}
	fprintf(term->out, "%*s%s ago%*snow\033[K\n", AXIS, "",
		vma_duration((double)(watch->trend.samples[watch->trend.count - 1].ns -
				      watch->trend.samples[from].ns) /
			     1e9)
			.text,
		columns > 24 ?
			(int)(watch->trend.count - from > 24 ? watch->trend.count - from - 14 : 4) :
			1,
		"");
}

static void draw_head(const struct watch *watch, const struct vma_output *output)
{
	const struct term *term = &watch->term;
	const struct mrg_vma_report *report = watch->report;
	struct mrg_vma_forecast forecast;
	unsigned int width = term->width > 40 ? term->width - 20 : 20;

	term_print(term, TERM_STRONG, "%s VMAs", vma_number(report->count).text);
	fprintf(term->out, " of %s  %s\033[K\n", vma_number(report->limit).text, output->source);
	vma_bar(term, vma_style(report->state), (double)report->count, (double)report->limit,
		width);
	fprintf(term->out, " %.1f%%\033[K\n", (double)report->count * 100 / (double)report->limit);
	if (vma_forecast_of(output, &forecast)) {
		fputs(vma_rate(forecast.per_minute).text, term->out);
		if (forecast.seconds_left >= 0)
			term_print(term, TERM_WARN, ", the limit is %s away",
				   vma_duration(forecast.seconds_left).text);
	} else {
		fputs("rate: one more sample is needed", term->out);
	}
	fputs("\033[K\n\033[K\n", term->out);
}

static void draw_families(const struct watch *watch, unsigned int rows)
{
	const struct mrg_vma_report *report = watch->report;
	const struct term *term = &watch->term;
	size_t count = report->nfamilies < rows ? report->nfamilies : rows;
	int room = term->width > 46 ? (int)term->width - 46 : 8;

	fprintf(term->out, "\033[K\n%12s  %18s  perms  kind\033[K\n", "Families", "exact size");
	for (size_t i = 0; i < count; i++) {
		const struct mrg_vma_family *family = &report->families[i];

		fprintf(term->out, "%12s  %18s  %s   %.*s\033[K\n", vma_number(family->count).text,
			vma_number(family->length).text, family->perms, room, family->kind);
	}
}

static void draw(struct watch *watch, const struct vma_output *output)
{
	/* Head, graph and its foot, families' head, and a last line. */
	const unsigned int fixed = 4 + GRAPH_ROWS + 1 + 2 + 2;
	unsigned int rows = screen_rows();

	term_init(&watch->term, watch->term.out,
		  watch->term.colour ? TERM_COLOUR_ALWAYS : TERM_COLOUR_NEVER);
	fputs("\033[H", watch->term.out);
	draw_head(watch, output);
	draw_graph(watch);
	if (rows > fixed)
		draw_families(watch, rows - fixed);
	term_print(&watch->term, TERM_FAINT, "q quits");
	fputs("\033[K\033[J", watch->term.out);
	fflush(watch->term.out);
}

static void print_line(const struct watch *watch, const struct vma_output *output)
{
	const struct mrg_vma_report *report = watch->report;
	struct mrg_vma_forecast forecast;
	char when[32];
	time_t now = time(NULL);
	struct tm utc;

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	fprintf(watch->term.out, "%s %" PRIu64 " of %" PRIu64, when, report->count, report->limit);
	if (vma_forecast_of(output, &forecast)) {
		fprintf(watch->term.out, ", %s", vma_rate(forecast.per_minute).text);
		if (forecast.seconds_left >= 0)
			fprintf(watch->term.out, ", %s left",
				vma_duration(forecast.seconds_left).text);
	}
	fputc('\n', watch->term.out);
	fflush(watch->term.out);
}

static int show(struct watch *watch)
{
	struct vma_output output = { .report = watch->report, .trend = &watch->trend };

	snprintf(output.source, sizeof(output.source), "%s", watch->asked->source);
	snprintf(output.comm, sizeof(output.comm), "%s", watch->asked->comm);
	if (watch->asked->json)
		return vma_print_json(&output) || fflush(stdout);
	if (watch->term.tty)
		draw(watch, &output);
	else
		print_line(watch, &output);
	return 0;
}

/* Waits for the interval to pass, or for a key. */
static void pause_or_key(const struct watch *watch)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	int ms = (int)(watch->asked->interval * 1000);
	char key;

	if (!watch->raw) {
		poll(NULL, 0, ms);
		return;
	}
	if (poll(&keys, 1, ms) > 0 && read(STDIN_FILENO, &key, 1) == 1 &&
	    (key == 'q' || key == 'Q'))
		stop = 1;
}

static int run(struct watch *watch)
{
	int ret = 0;

	for (uint64_t i = 0; !stop; i++) {
		if (watch->asked->samples && i == watch->asked->samples)
			break;
		if (i)
			pause_or_key(watch);
		if (stop)
			break;
		ret = take_sample(watch);
		if (!ret)
			ret = show(watch);
		if (ret)
			break;
	}
	return ret;
}

int vma_watch(const struct term *term, const struct vma_watch *asked)
{
	struct watch watch = { .asked = asked, .term = *term };
	const struct sigaction action = { .sa_handler = on_signal };
	bool screen = term->tty && !asked->json;
	int ret;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (screen)
		screen_open(&watch);
	ret = run(&watch);
	if (screen)
		screen_close(&watch);
	mrg_vma_report_free(watch.report);
	/* One that was watched to its end is no failure. */
	return watch.trend.count && (ret == -ESRCH || ret == -ENOENT) ? 0 : ret;
}
