/* SPDX-License-Identifier: MIT */
/* Points in time, in ns of CLOCK_MONOTONIC. */
#ifndef TRANSFER_CLOCK_H
#define TRANSFER_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"

#define NEVER UINT64_MAX
#define MS 1000000ULL /* in ns */

static inline uint64_t transfer_now(void)
{
	return base_now_ns(CLOCK_MONOTONIC);
}

/* @ms from now on; negative: NEVER. */
uint64_t transfer_after(int ms);
/* For poll(2) and epoll_wait(2): rounded up, -1 for NEVER. */
int transfer_ms_until(uint64_t until);

/* Conditions that can be waited for until a point in time. */
void transfer_condition_init(pthread_cond_t *condition);
/* 0, or ETIMEDOUT. */
int transfer_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until);

#endif
