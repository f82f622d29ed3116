/* SPDX-License-Identifier: MIT */
/*
 * A guarded process keeps its report in a memory file among its descriptors.  The
 * kernel lets the same user, and root, open it there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/report.h"

#include "base/error.h"
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
			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	closedir(d);
	return fd == -1 ? -errno : fd;
}

static const char remedy_release[] =
	"Use the mrguard command of the release that the process was started with.";

static int fail_open(pid_t pid, int code, struct mrg_error *error)
{
	if (code == -ENODATA)
		return base_error_set(
			error, code, "status",
			"Start it with mrguard run, wait until it registers memory, and keep its descriptors open.",
			"Process %d has no report of a guard.", (int)pid);
	return base_error_set(error, code, "status",
			      code == -EACCES || code == -EPERM ?
				      "Run the command as the user of the process, or as root." :
				      "Check the process ID.",
			      "The report of process %d cannot be opened: %s.", (int)pid,
			      strerror(-code));
}

/* What every version of the state begins with. */
struct head {
	uint64_t mark;
	uint32_t size;
};

static int check_head(pid_t pid, int fd, struct mrg_error *error)
{
	const uint64_t version_bits = 0xffULL << 56;
	struct head head = { 0 };
	struct stat st;

	/* The guard sets the mark last. */
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || !head.mark ||
	    fstat(fd, &st))
		return fail_open(pid, -ENODATA, error);
	if ((head.mark & ~version_bits) != GUARD_STATE_MAGIC)
		return base_error_set(error, -EPROTO, "status", remedy_release,
				      "Process %d has a file that is no report of a guard.",
				      (int)pid);
	if (head.mark != GUARD_STATE_MARK)
		return base_error_set(
			error, -EPROTO, "status", remedy_release,
			"The guard of process %d writes version %d of its report, and this command reads version %u.",
			(int)pid, (int)(head.mark >> 56) - '0', GUARD_STATE_VERSION);
	if (head.size != sizeof(struct guard_state) || st.st_size != (off_t)head.size)
		return base_error_set(
			error, -EPROTO, "status", remedy_release,
			"The report of process %d has %lld bytes, and this command reads %zu bytes.",
			(int)pid, (long long)st.st_size, sizeof(struct guard_state));
	return 0;
}

/* Another process can shorten the file and change it at any time: it is read
 * once, and its strings are ended here. */
static int read_state(int fd, struct guard_state *state)
{
	char *to = (char *)state;
	size_t done = 0;
	ssize_t n;

	while (done < sizeof(*state)) {
		n = pread(fd, to + done, sizeof(*state) - done, (off_t)done);
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	state->program[sizeof(state->program) - 1] = '\0';
	for (size_t i = 0; i < GUARD_EVENTS; i++) {
		struct guard_event *event = &state->event[i];

		event->cause[sizeof(event->cause) - 1] = '\0';
		event->remedy[sizeof(event->remedy) - 1] = '\0';
	}
	return 0;
}

static struct guard_state *copy_report(pid_t pid, struct mrg_error *error)
{
	struct guard_state *state = NULL;
	int fd = open_report(pid), ret = 0;

	if (fd < 0) {
		fail_open(pid, fd, error);
		return NULL;
	}
	if (!check_head(pid, fd, error)) {
		state = malloc(sizeof(*state));
		ret = state ? read_state(fd, state) : -ENOMEM;
	}
	close(fd);
	if (!ret)
		return state;
	fail_open(pid, ret, error);
	free(state);
	return NULL;
}

static bool at_risk(const struct guard_state *state)
{
	return atomic_load(&state->refused.count) ||
	       atomic_load(&state->made[GUARD_DMABUF][MRG_WRAPS].count) ||
	       atomic_load(&state->made[GUARD_DMABUF][MRG_HANGS].count);
}

int run_status(pid_t pid, bool json)
{
	struct guard_state *state;
	struct guard_sigsafe text;
	struct mrg_error error;
	int status;

	state = copy_report(pid, &error);
	if (!state) {
		fail_print(&error);
		return EXIT_FAILED;
	}
	fflush(stdout);
	guard_sigsafe_begin(&text, STDOUT_FILENO);
	guard_report(&text, state, GUARD_LIVE, json);
	status = guard_sigsafe_end(&text) ? EXIT_FAILED : at_risk(state) ? EXIT_FINDING : EXIT_OK;
	free(state);
	return status;
}
