/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "guard/bind.h"
#include "guard/output.h"
#include "guard/report.h"

/* One write a line, so that lines of several threads do not mix. */
void guard_output_line(const struct guard_process *p, const char *first, ...)
{
	struct guard_text t;
	const char *s;
	va_list args;

	guard_text_start(&t, guard_stderr(p));
	va_start(args, first);
	for (s = first; s; s = va_arg(args, const char *))
		guard_text_str(&t, s);
	va_end(args);
	guard_text_str(&t, "\n");
	guard_text_end(&t);
}

static void put_range(struct guard_text *t, const struct guard_request *req)
{
	guard_text_str(t, guard_call_name(req->call));
	guard_text_str(t, " of ");
	guard_text_size(t, req->length);
	guard_text_str(t, " (");
	guard_text_hex(t, req->length);
	guard_text_str(t, " bytes) at ");
	if (req->fd < 0) {
		guard_text_hex(t, req->addr);
		if (req->iova == req->addr)
			return;
		guard_text_str(t, ", iova ");
		guard_text_hex(t, req->iova);
		return;
	}
	guard_text_str(t, "iova ");
	guard_text_hex(t, req->iova);
	guard_text_str(t, " from offset ");
	guard_text_hex(t, req->offset);
	guard_text_str(t, " of DMA-BUF fd ");
	guard_text_int(t, req->fd);
}

void guard_output_finding(const struct guard_process *p, const struct guard_request *req,
			  const struct guard_finding *finding, const char *what, const char *remedy)
{
	struct guard_text t;

	guard_text_start(&t, guard_stderr(p));
	guard_text_str(&t, "mrguard: ");
	if (*what) {
		guard_text_str(&t, what);
		guard_text_str(&t, " ");
	}
	put_range(&t, req);
	guard_text_str(&t, " on ");
	guard_text_str(&t, req->pd->context->device->name);
	guard_text_str(&t, ", ");
	guard_text_str(&t, guard_path_name(finding->path));
	guard_text_str(&t, ": ");
	guard_text_str(&t, mrg_verdict_name(finding->verdict));
	guard_text_str(&t, ", ");
	guard_text_str(&t, guard_grounds_words(finding->grounds));
	guard_text_str(&t, ".");
	if (finding->reason[0] && finding->verdict != MRG_SAFE) {
		guard_text_str(&t, " ");
		guard_text_str(&t, finding->reason);
	}
	if (*remedy) {
		guard_text_str(&t, " ");
		guard_text_str(&t, remedy);
	}
	guard_text_str(&t, "\n");
	guard_text_end(&t);
}

/* A file is added to, so that processes that share one do not lose each other's;
 * and where it cannot be written the report is not lost for that. */
static int open_report(const struct guard_process *p)
{
	char path[PATH_MAX];
	int fd = -1;

	if (!p->policy.report)
		return guard_stderr(p);
	if (guard_report_path(p->policy.report, p->state->pid, path, sizeof(path)))
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return fd < 0 ? guard_stderr(p) : fd;
}

static void report(struct guard_process *p, enum guard_moment moment)
{
	int fd = open_report(p);
	struct guard_text t;

	if (fd < 0)
		return;
	atomic_store(&p->state->unseen, guard_bind_unseen());
	guard_text_start(&t, fd);
	if (p->policy.json)
		guard_report_json(&t, p->state, moment);
	else
		guard_report_text(&t, p->state, moment);
	guard_text_end(&t);
	if (fd != STDERR_FILENO)
		close(fd);
}

static void on_signal(int number)
{
	struct guard_process *p = guard_process_ready();
	int saved = errno;

	(void)number;
	if (p)
		report(p, GUARD_AT_SIGNAL);
	errno = saved;
}

void guard_output_listen(void)
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
		report(p, GUARD_AT_END);
}

extern int __cxa_atexit(void (*function)(void *arg), void *arg, void *library);

/*
 * Destructors of libraries deregister memory, and some run after this one.  A
 * function that is registered while exit() runs comes after all of them; with
 * no library named it is not taken for this one's own, which would run at once.
 */
__attribute__((destructor)) static void last(void)
{
	__cxa_atexit(at_end, NULL, NULL);
}
