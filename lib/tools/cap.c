/* SPDX-License-Identifier: MIT */
/* mrguard cap: cap this kernel's page for MRs at 2 GiB, or see what does. */
#include <math.h>
#include <unistd.h>

#include "tools/cap.h"
#include "tools/commands.h"
#include "tools/fail.h"

enum verb { STATUS, ON, OFF };
static const char *const verbs[] = { "status", "on", "off", NULL };

struct args {
	struct output_args output;
	enum verb verb;
	bool boot;
	bool waits;
	double wait;
};

#define AT(field) ARGS_AT(struct args, field)
static const struct args_option options[] = {
	{ .value = "argument", .kind = ARGS_WORD, AT(verb), .words = verbs },
	{ "boot", NULL, "With on: at each boot too, by mrguard-cap.service; with off: no more",
	  ARGS_FLAG, AT(boot) },
	{ "wait", "SECONDS",
	  "With off: wait for the processes that hold the cap, for SECONDS or for as long as it takes",
	  ARGS_SECONDS, AT(wait), .given = offsetof(struct args, waits), .optional = true },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct args *args = filled;

	if (args->boot && args->verb == STATUS)
		argp_error(state, "--boot goes with on or off.");
	if (args->waits && args->verb != OFF)
		argp_error(state, "--wait goes with off.");
	if (args->output.json && args->verb != STATUS)
		argp_error(state, "--json goes with status.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "[status|on|off]",
	.doc = "Keep MRs of every program from pages above 2 GiB, which an affected kernel walks wrong."
	       "\v"
	       "It loads or unloads the kernel module mrguard_cap, which needs root.  Exit status: 0 done, "
	       "or nothing is at risk; 1 MRs can wrap, or nothing shows that they cannot; 2 wrong usage; 3 failed.",
};

static int show(const struct term *term, const struct args *args)
{
	struct cap_status status;
	int ret = EXIT_OK;

	cap_look(&status);
	if (args->output.json)
		ret = cap_print_json(&status) ? EXIT_FAILED : EXIT_OK;
	else
		cap_print(term, &status);
	if (!ret && cap_is_at_risk(&status))
		ret = EXIT_FINDING;
	cap_close(&status);
	return ret;
}

static int change(const struct term *term, const struct args *args)
{
	bool on = args->verb == ON;
	int ret;

	if (geteuid()) {
		fail_say(on ? "Run 'sudo mrguard cap on'." : "Run 'sudo mrguard cap off'.",
			 "Only root may %s a kernel module.", on ? "load" : "unload");
		return EXIT_FAILED;
	}
	ret = args->boot ? cap_for_boot(on) : EXIT_OK;
	if (ret)
		return ret;
	return on ? cap_on(term) : cap_off(term, args->waits ? args->wait : 0);
}

int cmd_cap(int argc, char **argv)
{
	struct args args = { .wait = INFINITY };
	struct term term;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_FAILED;
	term_init(&term, stdout, args.output.colour);
	return args.verb == STATUS ? show(&term, &args) : change(&term, &args);
}
