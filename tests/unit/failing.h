/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail on demand, the first, then the second, and so on.  A
 * program that includes this has an allocator that counts its blocks.
 */
#ifndef UNIT_FAILING_H
#define UNIT_FAILING_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAILING_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FAILING_SANITIZED
#endif
#endif

static long failing_calls, failing_at, failing_errno, failing_blocks;

static inline bool failing_now(void)
{
	if (!__atomic_load_n(&failing_at, __ATOMIC_RELAXED) ||
	    __atomic_add_fetch(&failing_calls, 1, __ATOMIC_RELAXED) !=
		    __atomic_load_n(&failing_at, __ATOMIC_RELAXED))
		return false;
	errno = (int)failing_errno;
	return true;
}

/* The call number @at fails with @code; 0: none does. */
static inline void failing_arm(long at, int code)
{
	failing_errno = code;
	__atomic_store_n(&failing_calls, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&failing_at, at, __ATOMIC_RELAXED);
}

static inline long failing_count(void)
{
	return __atomic_load_n(&failing_calls, __ATOMIC_RELAXED);
}

#ifndef FAILING_SANITIZED
/* Seen by libc too, whose strdup() and fopen() allocate. */
#define FAILING_SEEN __attribute__((visibility("default")))
FAILING_SEEN void *malloc(size_t size);
FAILING_SEEN void *calloc(size_t count, size_t size);
FAILING_SEEN void *realloc(void *p, size_t size);
FAILING_SEEN void free(void *p);
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static inline void *failing_counted(void *p)
{
	__atomic_add_fetch(&failing_blocks, p != NULL, __ATOMIC_RELAXED);
	return p;
}

void *malloc(size_t size)
{
	return failing_now() ? NULL : failing_counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	return failing_now() ? NULL : failing_counted(__libc_calloc(count, size));
}

void *realloc(void *p, size_t size)
{
	if (failing_now())
		return NULL;
	return p ? __libc_realloc(p, size) : failing_counted(__libc_malloc(size));
}

void free(void *p)
{
	__atomic_sub_fetch(&failing_blocks, p != NULL, __ATOMIC_RELAXED);
	__libc_free(p);
}
#endif

static inline int failing_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += syscall(SYS_fcntl, fd, F_GETFD, 0) >= 0;
	return count;
}

/* A life of some calls, which leaves nothing: 0 or the first -errno. */
typedef int failing_life(void);

/* One life whose call @at fails.  Return: what it returned; *@reached: whether it came so far. */
static inline int failing_one(failing_life *live, long at, int code, bool *reached)
{
	int ret;

	failing_arm(at, code);
	ret = live();
	*reached = failing_count() >= at;
	failing_arm(0, 0);
	return ret;
}

/* Fails each of the life's calls once with @code; then the life ends well, or with -@only where
 * that is not 0.  Return: how often it did not end well. */
static inline long failing_each(failing_life *live, int code, int only, const char *name)
{
	long before, failed = 0, at;
	int fds = failing_fds(), cut_short = 0, ret;
	bool reached;

	assert_int_equal(live(), 0); /* what is allocated once */
	for (at = 1;; at++) {
		before = __atomic_load_n(&failing_blocks, __ATOMIC_RELAXED);
		ret = failing_one(live, at, code, &reached);
		/* A life that a busy machine cut short has not come to its end. */
		if (!reached && ret && ++cut_short < 10) {
			at--;
			continue;
		}
		if (!reached)
			break;
		failed += !!ret;
		if (ret > 0 || ret <= -4096 || (ret && only && ret != -only))
			fail_msg("%s: call %ld ended with %d", name, at, ret);
		if (failing_fds() != fds)
			fail_msg("%s: call %ld: %d descriptors, before %d", name, at, failing_fds(),
				 fds);
		/* What this failure alone allocates for good is not allocated again. */
		if (failing_blocks != before) {
			before = failing_blocks;
			failing_one(live, at, code, &reached);
		}
		if (failing_blocks != before)
			fail_msg("%s: call %ld, which ended with %d: %ld blocks, before %ld", name,
				 at, ret, failing_blocks, before);
		ret = live();
		if (ret)
			fail_msg("%s: after call %ld had failed, the next life ended with %d", name,
				 at, ret);
	}
	assert_int_equal(ret, 0);
	printf("# %s: %ld places, %ld failures\n", name, at - 1, failed);
	return failed;
}

#endif
