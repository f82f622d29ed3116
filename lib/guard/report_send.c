/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/process.h"
#include "guard/real.h"
#include "guard/report.h"
#include "guard/report_send.h"

#define LAST_WAIT_MS 1000 /* for a reader of standard error, when the process ends */

/* A FIFO without a reader would stop the program, and a link leads elsewhere. */
static int open_file(const char *path)
{
	int fd =
		open(path,
		     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
		     0644);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

/* Appends, so that processes can share a file.  Where the file cannot be opened,
 * the report goes to standard error instead. */
static int open_report(const struct guard_process *p)
{
	char path[PATH_MAX];
	int fd = -1;

	if (!p->policy.report)
		return guard_process_stderr(p);
	if (guard_report_path(p->policy.report, p->state->pid, path, sizeof(path)))
		fd = open_file(path);
	return fd < 0 ? guard_process_stderr(p) : fd;
}

static void send_report(struct guard_process *p, enum guard_moment moment)
{
	int fd = open_report(p);
	struct guard_sigsafe t;

	if (fd < 0)
		return;
	atomic_store(&p->state->unguarded, guard_real_unguarded());
	guard_sigsafe_begin(&t, fd);
	/* Nobody may read; a signal handler never waits. */
	t.wait_ms = moment == GUARD_AT_SIGNAL ? 0 : LAST_WAIT_MS;
	guard_report(&t, p->state, moment, p->policy.json);
	guard_sigsafe_end(&t);
	if (fd != STDERR_FILENO)
		close(fd);
}

static void on_signal(int number)
{
	struct guard_process *p = guard_process_ready();
	int saved = errno;

	(void)number;
	if (p)
		send_report(p, GUARD_AT_SIGNAL);
	errno = saved;
}

void guard_report_listen(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction old;

	if (sigaction(SIGUSR1, NULL, &old) || (old.sa_flags & SA_SIGINFO) ||
	    old.sa_handler != SIG_DFL)
		return;
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
}

static void at_end(void *arg)
{
	struct guard_process *p = guard_process_ready();

	(void)arg;
	if (p && !p->policy.quiet)
		send_report(p, GUARD_AT_END);
}

extern int __cxa_atexit(void (*function)(void *arg), void *arg, void *library);

/*
 * Destructors of libraries deregister memory, and some run after this one.  A
 * function that is registered while exit() runs comes after all of them.  With
 * this library named it would run at once, as this library's own; so NULL.
 */
__attribute__((destructor)) static void report_last(void)
{
	__cxa_atexit(at_end, NULL, NULL);
}
