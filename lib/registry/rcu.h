/* SPDX-License-Identifier: MIT */
/*
 * liburcu's read sections, and their annotations for ThreadSanitizer.  A reader has
 * no fence of its own (membarrier() makes the writer's reach it), so ThreadSanitizer
 * does not see that a grace period orders accesses.  Internal to lib/engine.
 */
#ifndef REGISTRY_RCU_H
#define REGISTRY_RCU_H

#include <urcu/urcu-bp.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

extern char rcu_period;
#define rcu_tell(what) __tsan_##what(&rcu_period)
#else
#define rcu_tell(what) ((void)0)
#endif

static inline void registry_rcu_enter(void)
{
	urcu_bp_read_lock();
}

static inline void registry_rcu_leave(void)
{
	rcu_tell(release);
	urcu_bp_read_unlock();
}

/* Until all who are inside have left. */
static inline void registry_rcu_wait(void)
{
	urcu_bp_synchronize_rcu();
	rcu_tell(acquire);
}

#endif
