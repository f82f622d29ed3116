/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>

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

/* args_folder() - @arg, or an argp error where it is no folder: a mistyped one
 * would be taken for an empty host */
const char *args_folder(const struct argp_state *state, const char *option, const char *arg);

#endif
