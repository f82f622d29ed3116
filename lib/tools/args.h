/* SPDX-License-Identifier: MIT */
/*
 * Command lines: each command describes its options in one table, from which its
 * help, its parsing and the shells' completion are made.
 */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/term.h"

/* What an option fills in: the type of its field. */
enum args_kind {
	ARGS_TITLE, /* of the options that follow it in the help */
	ARGS_GROUP, /* the options of another table */
	ARGS_FLAG, /* bool */
	ARGS_BIT, /* uint32_t: sets @min */
	ARGS_TEXT, /* const char * */
	ARGS_FOLDER, /* const char *, a directory that exists */
	ARGS_NUMBER, /* uint32_t or uint64_t, such as 4096, 0x1000 or 4K */
	ARGS_POWER, /* the same, a power of two */
	ARGS_SECONDS, /* double */
	ARGS_PROCESS, /* pid_t, from an ID or "self" */
	ARGS_WORD, /* an enum: the place of the word in @words */
	ARGS_OTHER, /* @parse does it */
	ARGS_REST, /* char **: this argument and all behind it */
};

/**
 * struct args_option - one option, or one argument; a table ends with { 0 }
 * @name: without its dashes; NULL for an argument
 * @value: what help calls the option's value, and a message the argument; NULL for
 *	an option without a value
 * @at, @size: of the field, see ARGS_AT()
 * @given: where a bool lies that is set with the field; 0: nowhere
 * @optional: the option goes without its value too, which leaves the field as it is
 * @min, @max: of a number; @max 0: no limit
 * @words: of ARGS_WORD and, if only these are allowed, of ARGS_TEXT; up to a NULL
 * @group: of ARGS_GROUP
 * @parse: of ARGS_OTHER; gets the structure of its table, and ends by args_expect()
 *	where @arg is wrong
 */
struct args_option {
	const char *name;
	const char *value;
	const char *help;
	enum args_kind kind;
	size_t at;
	size_t size;
	size_t given;
	bool optional;
	uint64_t min;
	uint64_t max;
	const char *const *words;
	const struct args_option *group;
	void (*parse)(const struct argp_state *state, const char *option, char *arg, void *args);
};

#define ARGS_AT(type, field) .at = offsetof(type, field), .size = sizeof(((type *)0)->field)

/* enum mrg_strategy, as far as one can ask for it. */
extern const char *const args_strategies[];

/* For ARGS_GROUP: --root, a const char *, the folder of a recorded host. */
extern const struct args_option root_options[];

/* For ARGS_GROUP: --json and --color. */
struct output_args {
	bool json;
	enum term_colour colour;
};
extern const struct args_option output_options[];

/**
 * struct args_command - the command line of a command
 * @usage: its arguments, one form a line
 * @doc: what help says before the options, and behind a \v after them
 * @check: NULL, or called at the end with what was filled in
 */
struct args_command {
	const char *usage;
	const char *doc;
	const struct args_option *options;
	void (*check)(const struct argp_state *state, const void *args);
};

/**
 * args_parse() - fill in the structure that the table is about
 *
 * A wrong command line ends the program.  What is left to return is that there was
 * no memory, which has been reported: the arguments were not looked at, and nothing
 * that they promise (a name that must be given) holds of @args.
 *
 * Return: 0 or an errno.
 */
int args_parse(const struct args_command *command, int argc, char **argv, void *args);

/* Set by main(): args_parse() then says what the last word can be, and exits. */
extern bool args_complete;

/** args_path() - "@root@rest" into @path.  Return: @path; NULL where @root is NULL */
const char *args_path(char path[PATH_MAX], const char *root, const char *rest, ...)
	__attribute__((format(printf, 3, 4)));

/* These end the program with a usage error where @arg is not what they expect. */

/** args_expect() - the usage error itself: @arg is not @expected */
void args_expect(const struct argp_state *state, const char *option, const char *arg,
		 const char *expected, ...) __attribute__((format(printf, 4, 5)));
/** args_between() - a number from @min to @max */
uint64_t args_between(const struct argp_state *state, const char *option, const char *arg,
		      uint64_t min, uint64_t max);

#endif
