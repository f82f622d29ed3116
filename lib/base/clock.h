/* SPDX-License-Identifier: MIT */
/* Time that never goes back. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t base_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline int64_t base_now_ms(void)
{
	return (int64_t)(base_now_ns(CLOCK_MONOTONIC) / 1000000);
}

#endif
