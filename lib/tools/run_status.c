/* SPDX-License-Identifier: MIT */
/*
 * A guarded process keeps its report in a memory file, which is found among its
 * descriptors.  The kernel lets those in who may look at the process: the same
 * user, and root.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/report.h"

#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/run_status.h"

static bool is_report(const char *path)
{
	static const char name[] = "/memfd:" GUARD_FILE;
	char target[64];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	return length >= (ssize_t)strlen(name) && !strncmp(target, name, strlen(name));
}

/* -ENODATA: the process has none. */
static int open_report(pid_t pid)
{
	char dir[64], path[PATH_MAX];
	int fd = -ENODATA;
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
	d = opendir(dir);
	if (!d)
		return -errno;
	while (fd == -ENODATA && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (is_report(path))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	closedir(d);
	return fd == -1 ? -errno : fd;
}

static int map_report(pid_t pid, const struct guard_state **out)
{
	const struct guard_state *state;
	struct stat st;
	int fd = open_report(pid), ret = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || st.st_size != (off_t)sizeof(*state))
		ret = -EPROTO;
	state = ret ? MAP_FAILED : mmap(NULL, sizeof(*state), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (state == MAP_FAILED)
		return ret ? ret : -errno;
	if (state->magic != GUARD_MAGIC || state->size != sizeof(*state)) {
		munmap((void *)(uintptr_t)state, sizeof(*state));
		return -EPROTO;
	}
	*out = state;
	return 0;
}

static int say_why(pid_t pid, int code)
{
	const char *remedy = "";
	struct mrg_error error;

	if (code == -ENODATA)
		remedy =
			"It registered no memory yet, or was not started by `mrguard run', or closed its descriptors.";
	else if (code == -EACCES || code == -EPERM)
		remedy = "Ask as its user, or as root.";
	else if (code == -EPROTO)
		remedy = "Use the mrguard that it was started with.";
	fail_set(&error, code, "status", remedy, "process %d has no report to show: %s", (int)pid,
		 code == -ENODATA ? "none is there" : strerror(-code));
	fail_print("mrguard run", &error);
	return EXIT_FAILED;
}

static bool at_risk(const struct guard_state *state)
{
	return atomic_load(&state->refused.count) ||
	       atomic_load(&state->made[GUARD_DMABUF][MRG_WRAPS].count) ||
	       atomic_load(&state->made[GUARD_DMABUF][MRG_HANGS].count);
}

int run_status(pid_t pid, bool json)
{
	const struct guard_state *state;
	struct guard_text text;
	int ret = map_report(pid, &state);

	if (ret)
		return say_why(pid, ret);
	fflush(stdout);
	guard_text_start(&text, STDOUT_FILENO);
	if (json)
		guard_report_json(&text, state, GUARD_LIVE);
	else
		guard_report_text(&text, state, GUARD_LIVE);
	if (guard_text_end(&text))
		return EXIT_FAILED;
	return at_risk(state) ? EXIT_AT_RISK : EXIT_OK;
}
