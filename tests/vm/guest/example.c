/* SPDX-License-Identifier: MIT */
/* The example program, built as its own comment says and run on simnic. */
#include <sys/wait.h>

#include "ground.h"

static const struct mrg_sg wrapping = { 4 * GIB, 12 * GIB };

/* Lines of output, and the exit status. */
static int run_swap(const char *arguments, int *lines)
{
	int status = run_command("/tmp/swap simnic0 %s >/tmp/swap.out", arguments);
	FILE *out = fopen("/tmp/swap.out", "r");
	int c;

	*lines = 0;
	while ((c = fgetc(out)) != EOF)
		*lines += c == '\n';
	fclose(out);
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	char arguments[64];
	int fd, lines;

	(void)argc;
	preload_shim(argv);
	ok(!run_command(
		   "LD_PRELOAD= cc -Wall -Wextra -Werror -I$MRG_TOP/lib/include $MRG_TOP/tests/example/swap.c -L$MRG_BUILD -lmrguard -libverbs -o /tmp/swap >&2"),
	   "the example compiles");
	ok(!run_command("test $(wc -l <$MRG_TOP/tests/example/swap.c) -le 60"),
	   "in at most 60 lines");
	ground_up();
	ok(!run_swap("", &lines) && lines == 1, "memory becomes one MR");
	fd = make_dmabuf(&wrapping, 1, 2 * GIB);
	fcntl(fd, F_SETFD, 0);
	snprintf(arguments, sizeof(arguments), "%d 0x300000000", fd);
	ok(!run_swap(arguments, &lines) && lines == 1,
	   "a DMA-BUF that would wrap becomes one MR with another wire address");
	snprintf(arguments, sizeof(arguments), "%d 0x300001000", fd);
	ok(run_swap(arguments, &lines) == 1 && !lines, "a range past its end is refused");
	close(fd);
	ground_down();
	tap_end();
	return 0;
}
