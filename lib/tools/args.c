/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/near.h"
#include "tools/parse.h"

#define ARGS_MAX 48 /* options, arguments and titles of a command */
#define SECONDS_MIN 0.001
#define SECONDS_MAX 86400.0

const char *const args_strategies[] = { "auto", "split", "rebase", NULL };
static const char *const colours[] = { "auto", "always", "never", NULL };

#define AT(field) ARGS_AT(struct output_args, field)
const struct args_option output_options[] = {
	{ .help = "Output:" },
	{ "json", NULL, "Print one JSON object", ARGS_FLAG, AT(json) },
	{ "color", "WHEN", "auto (default), always or never", ARGS_WORD, AT(colour),
	  .words = colours },
	{ 0 },
};

const struct args_option root_options[] = {
	{ "root", "DIR", "Read the host that `mrguard check --record' has recorded in DIR",
	  ARGS_FOLDER, .size = sizeof(const char *) },
	{ 0 },
};

/* An option, and the structure that its table is about. */
struct row {
	const struct args_option *option;
	char *base;
};

struct parser {
	const struct args_command *command;
	void *args;
	size_t count;
	size_t arguments; /* seen so far */
	struct row rows[ARGS_MAX];
};

#define KEY_FIRST 0x100 /* no character: there are no short options */

static bool is_end(const struct args_option *option)
{
	return option->kind == ARGS_TITLE && !option->help;
}

/* Groups are put in their place. */
static void flatten(struct parser *parser, const struct args_option *options, char *base)
{
	for (; !is_end(options); options++)
		if (options->kind == ARGS_GROUP)
			flatten(parser, options->group, base + options->at);
		else if (parser->count < ARGS_MAX)
			parser->rows[parser->count++] = (struct row){ options, base };
}

const char *args_path(char path[PATH_MAX], const char *root, const char *rest, ...)
{
	va_list args;
	int used;

	if (!root)
		return NULL;
	used = snprintf(path, PATH_MAX, "%s", root);
	va_start(args, rest);
	if (used < PATH_MAX)
		vsnprintf(path + used, (size_t)(PATH_MAX - used), rest, args);
	va_end(args);
	return path;
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

uint64_t args_between(const struct argp_state *state, const char *option, const char *arg,
		      uint64_t min, uint64_t max)
{
	uint64_t value = 0;
	int ret = parse_size(arg, &value);

	if (ret)
		args_expect(state, option, arg, "%s",
			    ret == -ERANGE ? "a number of at most 64 bits" :
					     "a number such as 4096, 0x1000 or 4K");
	else if (value < min && max == UINT64_MAX)
		args_expect(state, option, arg, "a number of at least %" PRIu64, min);
	else if (value < min || value > max)
		args_expect(state, option, arg, "a number from %" PRIu64 " to %" PRIu64, min, max);
	return value;
}

static double parse_seconds(const struct argp_state *state, const char *option, const char *arg)
{
	char *end;
	double value = strtod(arg, &end);

	if (end == arg || *end || !(value >= SECONDS_MIN && value <= SECONDS_MAX))
		args_expect(state, option, arg, "from %g to %g seconds", SECONDS_MIN, SECONDS_MAX);
	return value;
}

static pid_t parse_process(const struct argp_state *state, const char *option, const char *arg)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (!strcmp(arg, "self"))
		return getpid();
	if (end == arg || *end || pid <= 0 || pid > INT32_MAX)
		args_expect(state, option, arg, "a process ID");
	return (pid_t)pid;
}

/* A mistyped folder would be taken for an empty host. */
static const char *parse_folder(const struct argp_state *state, const char *option, const char *arg)
{
	struct stat st;

	if (stat(arg, &st))
		argp_error(state, "The %s \"%s\" cannot be used: %s.", option, arg,
			   strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		args_expect(state, option, arg, "a directory");
	return arg;
}

static int parse_word(const struct argp_state *state, const struct args_option *option,
		      const char *name, const char *arg)
{
	char all[160] = "";
	int i;

	for (i = 0; option->words[i]; i++) {
		if (!strcmp(option->words[i], arg))
			return i;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
			 !i		      ? "" :
			 option->words[i + 1] ? ", " :
						" or ",
			 option->words[i]);
	}
	args_expect(state, name, arg, "%s", all);
	return 0;
}

static void take_number(const struct argp_state *state, const struct args_option *option,
			const char *name, const char *arg, void *field)
{
	uint64_t most = option->size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;
	uint64_t value =
		args_between(state, name, arg, option->min, option->max ? option->max : most);
	uint32_t narrow = (uint32_t)value;

	if (option->kind == ARGS_POWER && (value & (value - 1)))
		args_expect(state, name, arg, "a power of two");
	if (option->size == sizeof(narrow))
		memcpy(field, &narrow, sizeof(narrow));
	else
		memcpy(field, &value, sizeof(value));
}

static void take(struct argp_state *state, const struct row *row, const char *name, char *arg)
{
	const struct args_option *option = row->option;
	void *field = row->base + option->at;

	if (option->given)
		*(bool *)(row->base + option->given) = true;
	switch (option->kind) {
	case ARGS_FLAG:
		*(bool *)field = true;
		break;
	case ARGS_BIT:
		*(uint32_t *)field |= (uint32_t)option->min;
		break;
	case ARGS_TEXT:
		if (option->words)
			parse_word(state, option, name, arg);
		*(const char **)field = arg;
		break;
	case ARGS_FOLDER:
		*(const char **)field = parse_folder(state, name, arg);
		break;
	case ARGS_NUMBER:
	case ARGS_POWER:
		take_number(state, option, name, arg, field);
		break;
	case ARGS_SECONDS:
		if (arg)
			*(double *)field = parse_seconds(state, name, arg);
		break;
	case ARGS_PROCESS:
		*(pid_t *)field = parse_process(state, name, arg);
		break;
	case ARGS_WORD:
		*(int *)field = parse_word(state, option, name, arg);
		break;
	case ARGS_REST:
		*(char ***)field = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGS_OTHER:
		option->parse(state, name, arg, row->base);
		break;
	case ARGS_TITLE:
	case ARGS_GROUP:
		break;
	}
}

static void take_argument(struct argp_state *state, struct parser *parser, char *arg)
{
	const char *name = "argument";
	size_t left = parser->arguments;

	for (size_t i = 0; i < parser->count; i++) {
		const struct args_option *option = parser->rows[i].option;

		if (option->name || option->kind == ARGS_TITLE)
			continue;
		name = option->value;
		if (left--)
			continue;
		parser->arguments++;
		take(state, &parser->rows[i], name, arg);
		return;
	}
	argp_error(state, "The %s \"%s\" is one too many.", name, arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parser *parser = state->input;
	char name[64];

	if (key >= KEY_FIRST && key < KEY_FIRST + (int)parser->count) {
		const struct row *row = &parser->rows[key - KEY_FIRST];

		snprintf(name, sizeof(name), "--%s", row->option->name);
		take(state, row, name, arg);
		return 0;
	}
	if (key == ARGP_KEY_ARG)
		take_argument(state, parser, arg);
	else if (key == ARGP_KEY_END && parser->command->check)
		parser->command->check(state, parser->args);
	else if (key != ARGP_KEY_END)
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static const struct args_option *find_option(const struct parser *parser, const char *word,
					     size_t length)
{
	for (size_t i = 0; i < parser->count; i++) {
		const struct args_option *option = parser->rows[i].option;

		if (option->name && !strncmp(option->name, word, length))
			return option;
	}
	return NULL;
}

/* getopt(3) does not say which option was meant. */
static void check_names(const struct parser *parser, char **argv)
{
	for (argv++; *argv && strcmp(*argv, "--"); argv++) {
		size_t length = strncmp(*argv, "--", 2) ? 0 : strcspn(*argv + 2, "=");
		const struct args_option *option = find_option(parser, *argv + 2, length);
		char remedy[80] = "--help lists the options.", word[64];

		if (!length)
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)length, *argv + 2);
		for (size_t i = 0; i < parser->count && !option; i++) {
			const char *name = parser->rows[i].option->name;

			if (name && near_word(word, name))
				snprintf(remedy, sizeof(remedy),
					 "Did you mean --%s?  --help lists the options.", name);
		}
		if (!option && strncmp("help", *argv + 2, length) &&
		    strncmp("usage", *argv + 2, length)) {
			fail_say(remedy, "There is no option --%s.", word);
			exit(EXIT_USAGE);
		}
		/* The next word is its value, and may look like anything. */
		if (option && option->value && !option->optional && !(*argv)[2 + length] && argv[1])
			argv++;
	}
}

bool args_complete;

/* The words that @option can have; for others than words the shell offers files. */
static void complete_value(const struct args_option *option, const char *before, const char *begun)
{
	for (const char *const *word = option->words; word && *word; word++)
		if (!strncmp(*word, begun, strlen(begun)))
			printf("%s%s\n", before, *word);
}

/* bash hands over "--color=al" as three words, other shells as one. */
static void complete(const struct parser *parser, int argc, char **argv)
{
	char *last = argv[argc - 1], *equal = strchr(last, '=');
	const char *word = argc > 2 ? argv[argc - 2] : "";
	const struct args_option *option;
	char before[64];

	if (!strcmp(last, "=")) {
		last = equal + 1;
	} else if (equal && !strncmp(last, "--", 2)) {
		option = find_option(parser, last + 2, (size_t)(equal - last) - 2);
		snprintf(before, sizeof(before), "%.*s=", (int)(equal - last), last);
		if (option)
			complete_value(option, before, equal + 1);
		return;
	} else if (!strcmp(word, "=") && argc > 3) {
		word = argv[argc - 3];
	}
	option = strncmp(word, "--", 2) ? NULL : find_option(parser, word + 2, strlen(word + 2));
	if (option && option->value && word[2]) {
		complete_value(option, "", last);
		return;
	}
	for (size_t i = 0; i < parser->count; i++) {
		char name[64];

		option = parser->rows[i].option;
		if (!option->name) {
			complete_value(option, "", last);
			continue;
		}
		snprintf(name, sizeof(name), "--%s", option->name);
		if (*last == '-' && !strncmp(name, last, strlen(last)))
			printf("%s\t%s\n", name, option->help);
	}
}

int args_parse(const struct args_command *command, int argc, char **argv, void *args)
{
	struct argp_option options[ARGS_MAX + 1] = { 0 };
	const struct argp argp = { .options = options,
				   .parser = parse_option,
				   .args_doc = command->usage,
				   .doc = command->doc };
	struct parser parser = { .command = command, .args = args };
	struct argp_option *next = options;
	unsigned int flags = 0;
	int ret;

	flatten(&parser, command->options, args);
	if (args_complete) {
		complete(&parser, argc, argv);
		exit(0);
	}
	for (size_t i = 0; i < parser.count; i++) {
		const struct args_option *option = parser.rows[i].option;

		if (option->kind == ARGS_REST)
			flags = ARGP_IN_ORDER;
		if (option->kind == ARGS_TITLE)
			*next++ = (struct argp_option){ .doc = option->help };
		else if (option->name)
			*next++ = (struct argp_option){ .name = option->name,
							.key = KEY_FIRST + (int)i,
							.arg = option->value,
							.flags = option->optional ?
									 OPTION_ARG_OPTIONAL :
									 0,
							.doc = option->help };
	}
	if (!flags)
		check_names(&parser, argv);
	ret = argp_parse(&argp, argc, argv, flags, NULL, &parser);
	if (ret)
		fail_say("", "The arguments cannot be read: %s.", strerror(ret));
	return ret;
}
