/* SPDX-License-Identifier: MIT */
/* The guard in this process: made at the first registration, and anew after fork. */
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
	/* The parent's.  Another thread of the parent may have held its locks at
	 * fork, so the child neither uses nor closes it. */
	struct mrg_ctx *inherited;
	struct region_headroom room;
	bool peermem; /* a module that pins GPU memory by its address is loaded */
	dev_t stderr_dev; /* standard error at the start: the program can close it, */
	ino_t stderr_ino; /* and open another file under its number */
};

/*
 * What the calling thread does.  A signal handler that registers memory can
 * interrupt it anywhere: while @busy this thread may hold the guard's locks.
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
 * Until guard_leave() the thread cannot be cancelled: it would keep the locks for
 * ever.  Verbs itself has no cancellation point with its locks held.
 *
 * Return: false in a signal handler that interrupted such work of its thread.
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

/** guard_process_start() - the guard, made where it is not there yet
 *
 * errno may change.
 *
 * Return: NULL where it could not be made, which the next call tries again, and in
 * a signal handler that interrupted its making.
 */
struct guard_process *guard_process_start(void);
/** guard_process_ready() - the guard, or NULL where it is not made yet */
struct guard_process *guard_process_ready(void);

/** guard_process_claim() - the guard, for the one thread that makes it; NULL for all others */
struct guard_process *guard_process_claim(void);
/** guard_process_settle() - the guard is made, or could not be, and the next call tries again */
void guard_process_settle(bool made);
/** guard_process_bare() - what is known without a guard: the policy and standard error */
void guard_process_bare(struct guard_process *p);
/** guard_process_wait() - as guard_process_ready(), once the thread that makes it has settled */
struct guard_process *guard_process_wait(void);

/** guard_process_stderr() - 2 where that is still the file of the start, else -1 */
int guard_process_stderr(const struct guard_process *p);

/** guard_process_now() - nanoseconds since the start */
uint64_t guard_process_now(const struct guard_process *p);

/**
 * guard_process_reopen_module() - after a failure of the module: the program may
 * have closed its descriptor with all others
 *
 * Takes a lock, so only between guard_enter() and guard_leave().
 *
 * Return: true where the descriptor was closed, and is open again.
 */
bool guard_process_reopen_module(struct guard_process *p);

#endif
