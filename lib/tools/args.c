/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/args.h"

int args_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *args)
{
	int ret = argp_parse(argp, argc, argv, flags, NULL, args);

	if (ret)
		fprintf(stderr, "%s: the arguments cannot be read: %s\n", argv[0], strerror(ret));
	return ret;
}

const char *args_folder(const struct argp_state *state, const char *option, const char *arg)
{
	struct stat st;

	if (stat(arg, &st))
		argp_error(state, "--%s: %s: %s", option, arg, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		argp_error(state, "--%s: %s is not a directory", option, arg);
	return arg;
}
