/* SPDX-License-Identifier: MIT */
#include "transfer/clock.h"

uint64_t transfer_after(int ms)
{
	return ms < 0 ? NEVER : transfer_now() + (uint64_t)ms * MS;
}

int transfer_ms_until(uint64_t until)
{
	uint64_t now = transfer_now(), ms;

	if (until == NEVER)
		return -1;
	ms = until > now ? (until - now + MS - 1) / MS : 0;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

void transfer_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attr);
	pthread_condattr_destroy(&attr);
}

int transfer_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until)
{
	struct timespec at = { (time_t)(until / (1000 * MS)), (long)(until % (1000 * MS)) };

	if (until == NEVER)
		return pthread_cond_wait(condition, lock);
	return pthread_cond_timedwait(condition, lock, &at);
}
