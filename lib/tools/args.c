/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/args.h"
#include "tools/fail.h"
#include "tools/parse.h"

enum { KEY_JSON = 0x400, KEY_COLOUR };

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Output:", ARGS_OUTPUT },
	{ "json", KEY_JSON, NULL, 0, "Print one JSON object", 0 },
	{ "color", KEY_COLOUR, "WHEN", 0, "auto (default), always or never", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct output_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_COLOUR:
		if (term_parse_colour(arg, &args->colour))
			args_expect(state, "--color", arg, "auto, always or never");
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "The argument \"%s\" is one too many.", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp output_argp = { .options = options, .parser = parse_option };

int args_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *args)
{
	int ret = argp_parse(argp, argc, argv, flags, NULL, args);

	if (ret)
		fail_say("", "The arguments cannot be read: %s.", strerror(ret));
	return ret;
}

void args_expect(const struct argp_state *state, const char *option, const char *arg,
		 const char *expected, ...)
{
	char text[160];
	va_list args;

	va_start(args, expected);
	vsnprintf(text, sizeof(text), expected, args);
	va_end(args);
	argp_error(state, "The %s \"%s\" must be %s.", option, arg, text);
}

uint64_t args_size(const struct argp_state *state, const char *option, const char *arg)
{
	uint64_t value = 0;
	int ret = parse_size(arg, &value);

	if (ret)
		args_expect(state, option, arg, "%s",
			    ret == -ERANGE ? "a number of at most 64 bits" :
					     "a number such as 4096, 0x1000 or 4K");
	return value;
}

uint64_t args_between(const struct argp_state *state, const char *option, const char *arg,
		      uint64_t min, uint64_t max)
{
	uint64_t value = args_size(state, option, arg);

	if (value < min && max == UINT64_MAX)
		args_expect(state, option, arg, "a number of at least %" PRIu64, min);
	else if (value < min || value > max)
		args_expect(state, option, arg, "a number from %" PRIu64 " to %" PRIu64, min, max);
	return value;
}

double args_seconds(const struct argp_state *state, const char *option, const char *arg, double min,
		    double max)
{
	char *end;
	double value = strtod(arg, &end);

	if (end == arg || *end || !(value >= min && value <= max))
		args_expect(state, option, arg, "from %g to %g seconds", min, max);
	return value;
}

pid_t args_pid(const struct argp_state *state, const char *option, const char *arg)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (end == arg || *end || pid <= 0 || pid > INT32_MAX)
		args_expect(state, option, arg, "a process ID");
	return (pid_t)pid;
}

enum mrg_strategy args_strategy(const struct argp_state *state, const char *arg)
{
	int i = MRG_STRATEGY_AUTO;

	while (i < MRG_STRATEGY_NONE && strcmp(arg, mrg_strategy_name((enum mrg_strategy)i)))
		i++;
	if (i == MRG_STRATEGY_NONE)
		args_expect(state, "--strategy", arg, "auto, split or rebase");
	return (enum mrg_strategy)i;
}

const char *args_folder(const struct argp_state *state, const char *option, const char *arg)
{
	struct stat st;

	if (stat(arg, &st))
		argp_error(state, "The %s \"%s\" cannot be used: %s.", option, arg,
			   strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		args_expect(state, option, arg, "a directory");
	return arg;
}
