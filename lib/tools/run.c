/* SPDX-License-Identifier: MIT */
/* mrguard run: starts a program with the guard. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mrguard/common.h>

#include "guard/names.h"
#include "guard/policy.h"

#include "base/error.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/run_loader.h"
#include "tools/run_program.h"
#include "tools/run_status.h"

#define GUARD_LIBRARY "libmrguard-guard.so"

/* As a shell does. */
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

enum audit { AUDIT_AUTO, AUDIT_ALWAYS, AUDIT_NEVER };

struct run_args {
	const char *policy;
	const char *unknown;
	const char *report;
	bool json;
	bool no_report;
	enum audit audit;
	pid_t status;
	char **command;
};

static const char *const actions[] = { "refuse", "allow", "observe", NULL };
static const char *const audit_words[] = { "auto", "always", "never", NULL };

#define AT(field) ARGS_AT(struct run_args, field)
static const struct args_option options[] = {
	{ .value = "program", .kind = ARGS_REST, AT(command) },
	{ .help = "What to do about a registration:" },
	{ "policy", "WORD",
	  "At risk: refuse (default), allow, or observe (print each, change nothing)", ARGS_TEXT,
	  AT(policy), .words = actions },
	{ "unknown", "WORD", "With an unknown verdict: allow (default), refuse or observe",
	  ARGS_TEXT, AT(unknown), .words = actions },
	{ .help = "The report:" },
	{ "report", "FILE", "Append it to FILE, not standard error; %p is the process ID",
	  ARGS_TEXT, AT(report) },
	{ "json", NULL, "One JSON object, on one line", ARGS_FLAG, AT(json) },
	{ "no-report", NULL, "Make none when a process ends", ARGS_FLAG, AT(no_report) },
	{ .help = "How:" },
	{ "audit", "WHEN", "Guard look-ups by name too: auto (default), always or never", ARGS_WORD,
	  AT(audit), .words = audit_words },
	{ "status", "PID", "Show the report of a running process", ARGS_PROCESS, AT(status) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct run_args *args = filled;

	if (!args->command == !args->status)
		argp_error(state, "Either a COMMAND or --status is needed.");
	if (args->status && (args->policy || args->unknown || args->report || args->no_report))
		argp_error(state, "--status takes no option but --json.");
	if (args->no_report && (args->report || args->json))
		argp_error(state, "--no-report excludes --report and --json.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "-- COMMAND [ARGUMENT...]\n--status=PID [--json]",
	.doc = "Run a program unchanged, and guard its RDMA registrations against silent "
	       "corruption.\vAll words after COMMAND are the program's. mrguard-run(1) "
	       "describes the variables of the environment.",
};

/* The guard is installed in a folder beside libmrguard.so; in the build folder it
 * lies beside it. */
static int find_library(const char *name, char *path, size_t size)
{
	char real[PATH_MAX], *folder;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)mrg_version, &info) || !realpath(info.dli_fname, real))
		return -ENOENT;
	folder = dirname(real);
	if (snprintf(path, size, "%s/mrguard/%s", folder, name) < (int)size && !access(path, R_OK))
		return 0;
	if (snprintf(path, size, "%s/%s", folder, name) >= (int)size)
		return -ENOENT;
	return access(path, R_OK) ? -errno : 0;
}

/* Whether a registration is refused by policy: then nothing runs without the guard. */
static bool refuses(const struct run_args *args)
{
	const char *risk = args->policy ? args->policy : getenv(GUARD_ENV);
	const char *unknown = args->unknown ? args->unknown : getenv(GUARD_ENV_UNKNOWN);
	enum guard_action action;

	return !risk || !guard_action_parse(risk, &action) || action == GUARD_REFUSE ||
	       (unknown && guard_action_parse(unknown, &action) && action == GUARD_REFUSE);
}

/* Tells that the guard cannot come along.  0: the program runs without; else -1. */
static int without_guard(const struct run_args *args, const char *what, const char *why)
{
	bool refuse = refuses(args);

	fail_say(refuse ? "Use --policy=observe or --policy=allow to run it without the guard." :
			  "",
		 "The %s %s %s, so %s.", what, args->command[0], why,
		 refuse ? "it is not run: the guard cannot be added" : "it runs without the guard");
	return refuse ? -1 : 0;
}

/* env -i PROGRAM: the loader learns of the guard from the environment. */
static bool clears_environment(char *const *words)
{
	if (strcmp(basename(words[0]), "env") != 0)
		return false;
	for (words++; *words && (**words == '-' || strchr(*words, '=')); words++) {
		const char *word = *words;

		if (!strcmp(word, "-") || !strncmp(word, "--ignore-env", 12) ||
		    !strncmp(word, "-uLD_", 5) || !strncmp(word, "--unset=LD_", 11) ||
		    (!strcmp(word, "-u") && words[1] && !strncmp(words[1], "LD_", 3)))
			return true;
		if (word[0] == '-' && word[1] != '-' && strspn(word + 1, "i0v") &&
		    memchr(word + 1, 'i', strspn(word + 1, "i0v")))
			return true;
	}
	return false;
}

/* The guard comes first, except for sanitizers, which refuse any other place. */
static size_t sanitizers_length(const char *list)
{
	static const char *const marks[] = { "asan", "tsan", "msan", "ubsan", "lsan", "clang_rt" };
	size_t kept = 0, at = 0;

	while (list[at]) {
		size_t length = strcspn(list + at, ": ");
		bool is = false;

		for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
			is |= memmem(list + at, length, marks[i], strlen(marks[i])) != NULL;
		if (!is)
			break;
		at += length + strspn(list + at + length, ": ");
		kept = at;
	}
	return kept;
}

/* Puts @library first into a list of libraries, and keeps the others. */
static int prepend(const char *variable, const char *library)
{
	const char *old = getenv(variable);
	size_t kept = old ? sanitizers_length(old) : 0;
	char *list;
	int ret;

	if (!old || !*old)
		return setenv(variable, library, 1);
	/* Under another mrguard run it is there already. */
	if (strstr(old, library))
		return 0;
	if (asprintf(&list, "%.*s%s%s%s%s", (int)kept, old,
		     kept && old[kept - 1] != ':' && old[kept - 1] != ' ' ? ":" : "", library,
		     old[kept] ? ":" : "", old + kept) < 0)
		return -1;
	ret = setenv(variable, list, 1);
	free(list);
	return ret;
}

/* Before glibc 2.35 an audit library makes each call of a function in another
 * library go through the loader. */
static bool audit_is_cheap(void)
{
	unsigned int major, minor;

	return sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 &&
	       (major > 2 || minor >= 35);
}

static bool wants_audit(const struct run_args *args)
{
	if (args->audit != AUDIT_AUTO)
		return args->audit == AUDIT_ALWAYS;
	if (audit_is_cheap())
		return true;
	fail_say(
		"Use --audit=always to guard them all the same.",
		"With glibc %s an audit library slows down all calls, so programs that look verbs up by name (NCCL) are not guarded.",
		gnu_get_libc_version());
	return false;
}

/*
 * With an audit library glibc lays out thread-local storage before it knows the
 * program's libraries: all of theirs must fit into what it keeps for dlopen().
 * The program may start others, such as jemalloc's 2,632 bytes.
 */
static int set_tls(size_t tls)
{
	static const char name[] = "glibc.rtld.optional_static_tls";
	const size_t least = 8192, spare = 2048, page = 4096;
	size_t bytes = (tls + spare + page - 1) / page * page;
	const char *old = getenv("GLIBC_TUNABLES");
	char *list;
	int ret;

	if (old && strstr(old, name))
		return 0;
	if (asprintf(&list, "%s%s%s=%zu", old ? old : "", old && *old ? ":" : "", name,
		     bytes > least ? bytes : least) < 0)
		return -1;
	ret = setenv("GLIBC_TUNABLES", list, 1);
	free(list);
	return ret;
}

/* A program that is linked with it wants it first among all libraries. */
static int set_asan(void)
{
	const char *old = getenv("ASAN_OPTIONS");
	char *list;
	int ret;

	if (asprintf(&list, "%s%sverify_asan_link_order=0", old ? old : "", old ? ":" : "") < 0)
		return -1;
	ret = setenv("ASAN_OPTIONS", list, 1);
	free(list);
	return ret;
}

/* After LD_PRELOAD is set: whether the loader takes the guard, and what it needs. */
static int ask_loader(const struct run_args *args, struct run_loader *found)
{
	char path[PATH_MAX];

	*found = (struct run_loader){ 0 };
	if (!run_find(args->command[0], path, sizeof(path)) ||
	    run_loader_ask(path, GUARD_LIBRARY, found))
		return 0;
	if (found->asan && set_asan())
		return -1;
	return found->guarded ? 0 :
				without_guard(args, "loader of the program", "refuses the guard");
}

static int set_libraries(const struct run_args *args)
{
	struct run_loader found;
	char guard[PATH_MAX], audit[PATH_MAX];
	struct mrg_error error;

	if (find_library(GUARD_LIBRARY, guard, sizeof(guard)) ||
	    find_library("libmrguard-audit.so", audit, sizeof(audit))) {
		base_error_set(
			&error, -ENOENT, "find",
			"Install them with mrguard (make install, or its package).",
			"libmrguard-guard.so and libmrguard-audit.so are not beside libmrguard.so, nor in its folder mrguard.");
		fail_print(&error);
		return -1;
	}
	if (strpbrk(guard, " :"))
		return without_guard(
			args, "program",
			"would be started with a list of libraries, which a space or a colon in the guard's path cuts");
	if (prepend("LD_PRELOAD", guard) || ask_loader(args, &found))
		return -1;
	if (!wants_audit(args))
		return 0;
	return set_tls(found.tls) ? -1 : prepend("LD_AUDIT", audit);
}

/* Checked before the program runs, not when its report is ready.  Returns 0 or an errno. */
static int cannot_write(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;

	if (!strstr(path, "%p") && !lstat(path, &st)) {
		if (S_ISDIR(st.st_mode))
			return EISDIR;
		if (S_ISLNK(st.st_mode))
			return ELOOP;
		if (!S_ISREG(st.st_mode))
			return ENOTSUP;
		return access(path, W_OK) ? errno : 0;
	}
	snprintf(folder, sizeof(folder), "%s", path);
	return !strstr(dirname(folder), "%p") && access(folder, W_OK | X_OK) ? errno : 0;
}

static int empty_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	ret = ftruncate(fd, 0);
	close(fd);
	return ret;
}

/* Makes the path absolute, because the program may change its folder, and empties a
 * file that all processes share of an earlier run's reports. */
static int set_report(const struct run_args *args)
{
	char path[PATH_MAX], here[PATH_MAX];

	if (args->report[0] == '/' || !getcwd(here, sizeof(here)))
		snprintf(path, sizeof(path), "%s", args->report);
	else if (snprintf(path, sizeof(path), "%s/%s", here, args->report) >= (int)sizeof(path))
		return -1;
	errno = cannot_write(path);
	if (errno) {
		fail_say("Name a regular file, no link, in an existing folder that you may write.",
			 "The report file %s cannot be written: %m.", path);
		return -1;
	}
	if (!strstr(path, "%p") && empty_file(path)) {
		fail_say("", "The report file %s cannot be emptied: %m.", path);
		return -1;
	}
	return setenv(GUARD_ENV_REPORT, path, 1);
}

static int set_environment(const struct run_args *args)
{
	const char *format = args->no_report ? "none" : args->json ? "json" : NULL;
	int ret = set_libraries(args);

	if (!ret && args->policy)
		ret = setenv(GUARD_ENV, args->policy, 1);
	if (!ret && args->unknown)
		ret = setenv(GUARD_ENV_UNKNOWN, args->unknown, 1);
	if (!ret && format)
		ret = setenv(GUARD_ENV_FORMAT, format, 1);
	if (!ret && args->report)
		ret = set_report(args);
	return ret;
}

int cmd_run(int argc, char **argv)
{
	struct run_args args = { 0 };
	const char *why;
	int status;

	if (args_parse(&command, argc, argv, &args))
		return EXIT_CANNOT_RUN;
	if (args.status)
		return run_status(args.status, args.json);
	why = clears_environment(args.command) ?
		      "clears the environment, in which the loader finds the guard" :
		      run_unguarded(args.command[0]);
	if (why && without_guard(&args, "program", why))
		return EXIT_CANNOT_RUN;
	if (set_environment(&args))
		return EXIT_CANNOT_RUN;
	fflush(stdout);
	execvp(args.command[0], args.command);
	status = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	fail_say("", "The program %s cannot be run: %m.", args.command[0]);
	return status;
}
