/* SPDX-License-Identifier: MIT */
/* The guard in this process: made at the first registration, anew after fork. */
#ifndef GUARD_PROCESS_H
#define GUARD_PROCESS_H

#include <pthread.h>
#include <sys/types.h>

#include "region/context.h"
#include "region/headroom.h"

#include "guard/policy.h"
#include "guard/state.h"

struct guard_request;

struct guard_process {
	struct guard_policy policy;
	struct guard_state *state;
	struct region_env env;
	struct mrg_ctx *ctx;
	/* Another thread of the parent may have been at work on it: a child can
	 * neither use nor close it. */
	struct mrg_ctx *inherited;
	struct region_headroom room;
	bool peermem; /* a module that lets GPU memory be pinned is loaded */
	dev_t stderr_dev; /* what standard error was: a program can close it */
	ino_t stderr_ino; /* and get the number again for something else */
};

/*
 * What the calling thread is at.  A signal handler that registers memory meets
 * it half way: while @busy the guard's locks may be this thread's own.
 */
struct guard_thread {
	const struct guard_request *current; /* inside verbs for this one */
	bool busy;
};
extern __thread struct guard_thread guard_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/**
 * guard_enter() - begin work that takes the guard's locks, or reads files
 * @cancel: OUT for guard_leave()
 *
 * A thread that is cancelled in between would take a lock along; verbs itself is
 * no place where that can happen.
 *
 * Return: false where this thread is at it already: it is a signal handler.
 */
static inline bool guard_enter(int *cancel)
{
	if (guard_thread.busy)
		return false;
	guard_thread.busy = true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	return true;
}

static inline void guard_leave(int cancel)
{
	pthread_setcancelstate(cancel, NULL);
	guard_thread.busy = false;
}

/** guard_process() - the guard; NULL where it could not be made, or where this
 *  thread is just making it.  errno may change. */
struct guard_process *guard_process(void);
/** guard_process_ready() - the same where it is made already; for a signal
 *  handler and the end */
struct guard_process *guard_process_ready(void);

/** guard_stderr() - 2 where that is what it was at the start, else -1 */
int guard_stderr(const struct guard_process *p);

uint64_t guard_now(const struct guard_process *p);

/** guard_module_again() - after a failure of the module: the program may have
 *  closed its descriptor with all others.  Return: true where that was so, and it
 *  is open again.  Takes a lock: only while not busy with the guard's. */
bool guard_module_again(struct guard_process *p);

#endif
