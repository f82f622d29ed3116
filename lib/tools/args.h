/* SPDX-License-Identifier: MIT */
/* Command lines: what the commands have in common. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <mrguard/plan.h>

#include "tools/term.h"

/*
 * --json and --color, for use as a child of a command's own options; its input
 * is a struct output_args.  It also refuses arguments, where the command takes
 * none.  A command's other options of this group have the number ARGS_OUTPUT.
 */
struct output_args {
	bool json;
	enum term_colour colour;
};
extern const struct argp output_argp;
#define ARGS_OUTPUT 90

/*
 * args_parse() - argp_parse(), and word of its failure on standard error
 *
 * A wrong command line ends the program within argp.  What is left to return is
 * that argp itself had no memory: the arguments were not looked at, and nothing
 * that they promise (a name that must be given) holds of @args.
 *
 * Return: 0 or an errno.
 */
int args_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *args);

/*
 * All of the following end the program with a usage error where @arg is not
 * what they expect.  @option is "--length", or "argument" for what is none.
 */

/** args_expect() - the usage error itself: @arg is not @expected */
void args_expect(const struct argp_state *state, const char *option, const char *arg,
		 const char *expected, ...) __attribute__((format(printf, 4, 5)));

/** args_size() - a size or an address: 4096, 0x1000, 4K */
uint64_t args_size(const struct argp_state *state, const char *option, const char *arg);
/** args_between() - a number from @min to @max */
uint64_t args_between(const struct argp_state *state, const char *option, const char *arg,
		      uint64_t min, uint64_t max);
/** args_seconds() - seconds from @min to @max, with a fraction if wanted */
double args_seconds(const struct argp_state *state, const char *option, const char *arg, double min,
		    double max);
pid_t args_pid(const struct argp_state *state, const char *option, const char *arg);
enum mrg_strategy args_strategy(const struct argp_state *state, const char *arg);
/** args_folder() - a folder that is there: a mistyped one would be taken for an
 *  empty host */
const char *args_folder(const struct argp_state *state, const char *option, const char *arg);

#endif
