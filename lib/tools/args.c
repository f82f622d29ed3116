/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "args.h"

int args_parse(const struct argp *argp, int argc, char **argv,
	       unsigned int flags, void *args)
{
	int ret = argp_parse(argp, argc, argv, flags, NULL, args);

	if (ret)
		fprintf(stderr, "%s: the arguments cannot be read: %s\n",
			argv[0], strerror(ret));
	return ret;
}
