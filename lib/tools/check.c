/* SPDX-License-Identifier: MIT */
/* mrguard check: what this host is, check by check. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <mrguard/check.h>

#include "tools/args.h"
#include "tools/check_publish.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/module.h"
#include "tools/prometheus.h"

struct args {
	struct mrg_check_opts opts;
	bool prometheus;
	struct output_args output;
	bool all;
	const char *publish;
};

static void parse_publish(const struct argp_state *state, const char *option, char *arg,
			  void *filled)
{
	struct args *args = filled;

	if (!*arg || strchr(arg, '/') || arg[0] == '.')
		args_expect(state, option, arg, "the name of a device, or host");
	args->publish = arg;
	if (strcmp(arg, "host"))
		args->opts.device = arg;
}

#define AT(field) ARGS_AT(struct args, field)
static const struct args_option options[] = {
	{ "all", NULL, "Show evidence and meaning also of checks that are ok or do not apply",
	  ARGS_FLAG, AT(all) },
	{ "device", "DEVICE", "Only this RDMA device", ARGS_TEXT, AT(opts.device) },
	{ .value = "process", .kind = ARGS_PROCESS, AT(opts.pid) },
	{ "unit", "UNIT", "Judge the limits of this systemd unit", ARGS_TEXT, AT(opts.unit) },
	{ "publish", "NAME",
	  "Check RDMA device NAME (\"host\": all), tell the journal, and leave "
	  "the report in " PUBLISH_DIR "/NAME.json",
	  ARGS_OTHER, .parse = parse_publish },
	{ "record", "DIR", "Keep a copy of all that is read in DIR, which must be empty or new",
	  ARGS_TEXT, AT(opts.dump) },
	{ .kind = ARGS_GROUP, .group = root_options, AT(opts.root) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "prometheus", NULL, "Print metrics in Prometheus' text format", ARGS_FLAG,
	  AT(prometheus) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct args *args = filled;

	if (args->output.json && args->prometheus)
		argp_error(state, "--json and --prometheus exclude each other.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "[PID|self]",
	.doc = "Check whether this host corrupts data or will run dry, and what to do about it."
	       "\v"
	       "With PID, the limits are those of that process.  Every check runs, always.  What could not be seen is \"unknown\", with the reason; run as "
	       "root to see all.\n\nExit status: 0 nothing failed and all was seen, "
	       "1 a check failed, 2 wrong usage, 3 a check is unknown, or none could run.",
};

static enum term_style style_of(enum mrg_check_verdict verdict)
{
	switch (verdict) {
	case MRG_CHECK_OK:
	case MRG_CHECK_LIKELY:
		return TERM_GOOD;
	case MRG_CHECK_WARN:
		return TERM_WARN;
	case MRG_CHECK_FAIL:
		return TERM_BAD;
	default:
		return TERM_FAINT;
	}
}

static void print_result(const struct term *term, const struct mrg_check_result *r)
{
	char head[128], line[350];

	snprintf(head, sizeof(head), "%s%s%s", r->id, r->subject[0] ? " " : "", r->subject);
	term_print(term, style_of(r->verdict), "%-8s", mrg_check_verdict_name(r->verdict));
	term_print(term, TERM_STRONG, "%s\n", head);
	snprintf(line, sizeof(line), "%s%s%s%s", r->evidence, r->basis ? " [" : "",
		 r->basis ? mrg_check_basis_name(r->basis) : "", r->basis ? "]" : "");
	term_wrap(term, 8, line);
	if (r->meaning[0])
		term_wrap(term, 8, r->meaning);
	if (r->remedy[0] && r->verdict != MRG_CHECK_OK) {
		snprintf(line, sizeof(line), "Remedy: %s", r->remedy);
		term_wrap(term, 8, line);
	}
}

/* What somebody has to do something about comes first. */
static const enum mrg_check_verdict order[] = {
	MRG_CHECK_FAIL,	  MRG_CHECK_WARN, MRG_CHECK_UNKNOWN,
	MRG_CHECK_LIKELY, MRG_CHECK_OK,	  MRG_CHECK_SKIP,
};
#define VERDICTS (sizeof(order) / sizeof(order[0]))

static const struct mrg_check_result *first_of(const struct mrg_check_result *r, size_t count,
					       enum mrg_check_verdict verdict)
{
	for (size_t i = 0; i < count; i++)
		if (r[i].verdict == verdict)
			return &r[i];
	return NULL;
}

/* What is wrong, and what to do: of the first check that has the worst verdict. */
static void print_answer(const struct term *term, const struct mrg_check_result *r, size_t count,
			 const size_t *tally)
{
	enum mrg_check_verdict worst = tally[MRG_CHECK_FAIL] ? MRG_CHECK_FAIL :
				       tally[MRG_CHECK_WARN] ? MRG_CHECK_WARN :
							       MRG_CHECK_UNKNOWN;
	const struct mrg_check_result *first = first_of(r, count, worst);
	const char *what = worst == MRG_CHECK_FAIL ? "failed" :
			   worst == MRG_CHECK_WARN ? "warned" :
						     "could not tell";
	char text[700];
	size_t n;

	if (!first) {
		term_print(term, TERM_GOOD,
			   "Nothing is wrong: no check failed, warned or was unknown.\n");
		return;
	}
	n = tally[worst];
	snprintf(text, sizeof(text), "%zu check%s %s%s %s%s%s: %s", n, n == 1 ? "" : "s", what,
		 n == 1 ? "," : ", first", first->id, first->subject[0] ? " " : "", first->subject,
		 first->meaning[0] ? first->meaning : first->evidence);
	term_wrap(term, 0, text);
	if (first->remedy[0]) {
		snprintf(text, sizeof(text), "What to do: %s", first->remedy);
		term_wrap(term, 0, text);
	}
}

static void print_names(const struct term *term, const struct mrg_check_result *r, size_t count,
			enum mrg_check_verdict verdict)
{
	struct term_names names = { .length = 0 };

	for (size_t i = 0; i < count; i++)
		if (r[i].verdict == verdict)
			term_names_add(&names, r[i].id, r[i].subject);
	if (names.length)
		term_paragraph(term, style_of(verdict), mrg_check_verdict_name(verdict),
			       names.text);
}

static void print_text(const struct mrg_check_report *report, const struct args *args)
{
	size_t count, tally[VERDICTS] = { 0 };
	const struct mrg_check_result *r = mrg_check_results(report, &count);
	struct term term;

	term_init(&term, stdout, args->output.colour);
	for (size_t i = 0; i < count; i++)
		tally[r[i].verdict]++;
	print_answer(&term, r, count, tally);
	putchar('\n');
	for (size_t v = 0; v < VERDICTS; v++) {
		if (!args->all && (order[v] == MRG_CHECK_OK || order[v] == MRG_CHECK_SKIP)) {
			print_names(&term, r, count, order[v]);
			continue;
		}
		for (size_t i = 0; i < count; i++)
			if (r[i].verdict == order[v])
				print_result(&term, &r[i]);
	}
	printf("\n%zu ok, %zu likely, %zu warn, %zu fail, %zu unknown, %zu do not apply%s\n",
	       tally[MRG_CHECK_OK], tally[MRG_CHECK_LIKELY], tally[MRG_CHECK_WARN],
	       tally[MRG_CHECK_FAIL], tally[MRG_CHECK_UNKNOWN], tally[MRG_CHECK_SKIP],
	       args->all ? "" : "; --all shows the evidence of each");
}

static json_t *to_json(const struct mrg_check_report *report)
{
	size_t count;
	const struct mrg_check_result *r = mrg_check_results(report, &count);
	json_t *results = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(results,
				      json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:o}", "id",
						r[i].id, "subject", json_text(r[i].subject),
						"verdict", mrg_check_verdict_name(r[i].verdict),
						"basis", mrg_check_basis_name(r[i].basis),
						"evidence", json_text(r[i].evidence), "meaning",
						json_text(r[i].meaning), "remedy",
						json_text(r[i].remedy)));
	return json_pack("{s:s, s:s, s:o}", "schema", "mrguard.check/1", "verdict",
			 mrg_check_verdict_name(mrg_check_worst(report)), "results", results);
}

/* Nothing where the module does not tell. */
static void print_cap(void)
{
	struct module module;
	const struct mrg_dev_info *info = &module.info;

	module_open(&module);
	if (module.state == MODULE_LOADED) {
		puts("# HELP mrguard_cap_state State of mrguard_cap, 1 for the state that holds.");
		puts("# TYPE mrguard_cap_state gauge");
		for (int cap = MRG_CAP_OFF; cap <= MRG_CAP_LOST; cap++)
			printf("mrguard_cap_state{state=\"%s\"} %d\n",
			       mrg_cap_name((enum mrg_cap)cap), (int)info->cap == cap);
		puts("# HELP mrguard_cap_picks_total Page-size picks since mrguard_cap was loaded.");
		puts("# TYPE mrguard_cap_picks_total counter");
		printf("mrguard_cap_picks_total{of=\"all\"} %" PRIu64 "\n", info->cap_asked);
		printf("mrguard_cap_picks_total{of=\"capped\"} %" PRIu64 "\n", info->cap_capped);
		printf("mrguard_cap_picks_total{of=\"uncapped\"} %" PRIu64 "\n",
		       info->cap_uncapped);
	}
	module_close(&module);
}

static void print_prometheus(const struct mrg_check_report *report, bool here)
{
	static const char *const states[] = { "ok", "likely", "warn", "fail", "unknown", "skip" };
	size_t count;
	const struct mrg_check_result *r = mrg_check_results(report, &count);

	puts("# HELP mrguard_check_state Verdict of a host check, 1 for the state that holds.");
	puts("# TYPE mrguard_check_state gauge");
	for (size_t i = 0; i < count; i++)
		for (size_t s = 0; s < sizeof(states) / sizeof(*states); s++) {
			printf("mrguard_check_state{");
			prometheus_label(stdout, "check", r[i].id);
			putchar(',');
			prometheus_label(stdout, "subject", r[i].subject);
			printf(",state=\"%s\"} %d\n", states[s],
			       !strcmp(states[s], mrg_check_verdict_name(r[i].verdict)));
		}
	if (here)
		print_cap();
}

static int cannot_run(const struct args *args, int rc)
{
	const char *what = args->opts.root ? args->opts.root :
			   args->opts.dump ? args->opts.dump :
					     "/";

	if (rc == -ENODEV)
		fail_say("`mrguard info' lists the RDMA devices.",
			 "There is no RDMA device \"%s\".", args->opts.device);
	else if (rc == -ENOTEMPTY)
		fail_say("Name a new directory, or an empty one.",
			 "The --record directory %s is not empty.", args->opts.dump);
	else
		fail_say("", "The host at %s cannot be checked: %s.", what, strerror(-rc));
	return EXIT_FAILED;
}

/* The unit of a device that has its lasting name by now, or is unplugged. */
static int device_is_gone(const char *name)
{
	publish_gone(name);
	fail_say("", "The RDMA device \"%s\" is gone: it was renamed or removed.", name);
	return EXIT_OK;
}

static int status_of(const struct mrg_check_report *report)
{
	size_t count;
	const struct mrg_check_result *r = mrg_check_results(report, &count);
	int status = EXIT_OK;

	for (size_t i = 0; i < count; i++) {
		if (r[i].verdict == MRG_CHECK_FAIL)
			return EXIT_FINDING;
		if (r[i].verdict == MRG_CHECK_UNKNOWN)
			status = EXIT_FAILED;
	}
	return status;
}

int cmd_check(int argc, char **argv)
{
	struct args args = { .opts.size = sizeof(args.opts) };
	struct mrg_check_report *report;
	int rc;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	if (args.opts.dump && mkdir(args.opts.dump, 0755) && errno != EEXIST)
		return cannot_run(&args, -errno);
	rc = mrg_check_run(&args.opts, &report);
	if (rc == -ENODEV && args.publish)
		return device_is_gone(args.publish);
	if (rc)
		return cannot_run(&args, rc);
	if (args.publish) {
		publish_journal(report, args.publish);
		rc = publish_file(to_json(report), args.publish);
		if (rc)
			fail_say("", "The report %s/%s.json cannot be written: %s.", PUBLISH_DIR,
				 args.publish, strerror(-rc));
	}
	if (args.output.json)
		rc = json_print(to_json(report)) ? -ENOMEM : rc;
	else if (args.prometheus)
		print_prometheus(report, !args.opts.root);
	else
		print_text(report, &args);
	rc = rc ? EXIT_FAILED : status_of(report);
	mrg_check_free(report);
	return rc;
}
