/* SPDX-License-Identifier: MIT */
/*
 * The subcommands of mrguard.  Each is one function that gets its own words
 * (argv[0] is "mrguard NAME", for usage lines) and returns the exit status.
 * A new one is declared here and listed in the table of main.c.
 */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

/* The rule of mrguard(1) for all commands. */
enum mrg_exit {
	EXIT_OK = 0, /* done, and nothing is wrong */
	EXIT_FINDING = 1, /* what was looked at is wrong or at risk */
	EXIT_USAGE = 2, /* also argp's own, set by main() */
	EXIT_FAILED = 3, /* no answer, or a failure */
};

int cmd_bench(int argc, char **argv);
int cmd_cap(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_gpu(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_layout(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_vma(int argc, char **argv);

#endif
