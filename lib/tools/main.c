/* SPDX-License-Identifier: MIT */
/* mrguard: finds the subcommand and hands over. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mrguard/common.h>

#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/near.h"

/* The groups of --help, in its order. */
enum group { GROUP_BUFFER, GROUP_HOST, GROUP_PROGRAM, GROUP_DATA, GROUPS };

static const char *const group_titles[GROUPS] = {
	[GROUP_BUFFER] = "About a buffer",
	[GROUP_HOST] = "About this host",
	[GROUP_PROGRAM] = "About a program",
	[GROUP_DATA] = "With real bytes",
};

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	enum group group;
	const char *summary;
};

static const struct command commands[] = {
	{ "plan", cmd_plan, GROUP_BUFFER, "tell what one MR would do, and name MRs that are safe" },
	{ "layout", cmd_layout, GROUP_BUFFER, "show the DMA addresses behind a DMA-BUF" },
	{ "show", cmd_show, GROUP_BUFFER, "show what a buffer's descriptor tells a peer" },
	{ "check", cmd_check, GROUP_HOST, "does this host corrupt data or run dry?" },
	{ "cap", cmd_cap, GROUP_HOST, "cap this kernel's page for MRs, which cures every program" },
	{ "info", cmd_info, GROUP_HOST, "module, kernel walk and RDMA devices" },
	{ "gpu", cmd_gpu, GROUP_HOST, "GPUs, and what each can do for RDMA" },
	{ "vma", cmd_vma, GROUP_HOST,
	  "a process's VMAs: how many, of what kind, and for how long" },
	{ "explain", cmd_explain, GROUP_HOST, "why a registration failed: one errno, many causes" },
	{ "run", cmd_run, GROUP_PROGRAM,
	  "guard the registrations of a program that nobody will change" },
	{ "selftest", cmd_selftest, GROUP_DATA,
	  "move blocks through an RDMA device and compare every byte" },
	{ "serve", cmd_serve, GROUP_DATA, "let others copy a file or memory" },
	{ "copy", cmd_copy, GROUP_DATA, "copy a file from or to a server" },
	{ "bench", cmd_bench, GROUP_DATA, "measure bandwidth and latency to a server" },
	{ "demo", cmd_demo, GROUP_DATA, "the fault and its cure, on the test ground" },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_group(FILE *out, enum group group)
{
	bool any = false;

	for (size_t i = 0; i < COMMANDS; i++) {
		if (commands[i].group != group)
			continue;
		if (!any)
			fprintf(out, "\n%s:\n", group_titles[group]);
		any = true;
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	}
}

static void print_help(FILE *out)
{
	fputs("Usage: mrguard COMMAND [OPTION...]\n"
	      "RDMA memory registration that cannot wrap.\n",
	      out);
	for (int group = 0; group < GROUPS; group++)
		print_group(out, (enum group)group);
	fputs("\n`mrguard COMMAND --help' lists a command's options; mrguard(7) "
	      "is the overview.\n",
	      out);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* A full disk or a closed pipe must not look like a complete answer, whoever
 * wrote it: argp prints its help and exits by itself. */
static void check_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return;
	fail_say("Check the disk or the pipe.", "The output cannot be written: %m.");
	_exit(EXIT_FAILED);
}

static int run_command(const struct command *command, int argc, char **argv)
{
	static char title[32];

	snprintf(title, sizeof(title), "mrguard %s", command->name);
	program_invocation_name = argv[0] = title;
	return command->run(argc, argv);
}

static int no_command(const char *word)
{
	char remedy[80] = "Try `mrguard --help'.";

	for (size_t i = 0; i < COMMANDS; i++)
		if (near_word(word, commands[i].name))
			snprintf(remedy, sizeof(remedy),
				 "Did you mean \"%s\"?  Try `mrguard --help'.", commands[i].name);
	fail_say(remedy, "There is no command \"%s\".", word);
	return EXIT_USAGE;
}

/* `mrguard help plan' is `mrguard plan --help'. */
static int cmd_help(int argc, char **argv)
{
	char *help[] = { NULL, (char[]){ "--help" }, NULL };
	const struct command *command;

	if (argc < 2) {
		print_help(stdout);
		return EXIT_OK;
	}
	command = find_command(argv[1]);
	if (!command)
		return no_command(argv[1]);
	return run_command(command, 2, help);
}

/* For the shells: what can stand where the last word stands, one a line, and behind
 * a tab what it means. */
static int cmd_complete(int argc, char **argv)
{
	const struct command *command = argc > 2 ? find_command(argv[1]) : NULL;

	args_complete = command;
	if (command)
		return run_command(command, argc - 1, argv + 1);
	for (size_t i = 0; i < COMMANDS && argc == 2; i++)
		if (!strncmp(commands[i].name, argv[1], strlen(argv[1])))
			printf("%s\t%s\n", commands[i].name, commands[i].summary);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	static char name[] = "mrguard";
	const struct command *command;

	setlocale(LC_ALL, "");
	argp_err_exit_status = EXIT_USAGE;
	atexit(check_output);

	program_invocation_name = name;
	if (argc < 2) {
		fail_say("Try `mrguard --help'.", "A command is missing.");
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("mrguard %s\n", mrg_version());
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "help"))
		return cmd_help(argc - 1, argv + 1);
	if (!strcmp(argv[1], "complete"))
		return cmd_complete(argc - 1, argv + 1);
	command = find_command(argv[1]);
	if (!command)
		return no_command(argv[1]);
	return run_command(command, argc - 1, argv + 1);
}
