/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "tools/commands.h"
#include "tools/fail.h"

/* main() has put the command's name there. */
void fail_print(const struct mrg_error *error)
{
	fprintf(stderr, "%s: %s\n", program_invocation_name, error->cause);
	if (error->remedy[0])
		fprintf(stderr, "  %s\n", error->remedy);
}

void fail_say(const char *remedy, const char *cause, ...)
{
	struct mrg_error error;
	va_list args;

	va_start(args, cause);
	base_error_vset(&error, -EIO, -1, "command", remedy, cause, args);
	va_end(args);
	fail_print(&error);
}

int fail_status(int code, const struct mrg_error *error)
{
	if (!code)
		return EXIT_OK;
	if (error->code)
		fail_print(error);
	return code == -EBADMSG ? EXIT_FINDING : EXIT_FAILED;
}
