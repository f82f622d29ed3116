/* SPDX-License-Identifier: MIT */
/*
 * Each system call and each allocation of both ends fails once, at every place
 * where it is made: nothing may leak, hang or crash, and the next import must
 * work.  The calls are taken over by this program's own definitions, which
 * come before libc's.
 */
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
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/share.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#define PAGE 4096ull
#define CHUNKS 70 /* three messages */

/* ---- the calls ---- */

static long calls, fail_at, fail_errno;

static bool fails(void)
{
	if (!__atomic_load_n(&fail_at, __ATOMIC_RELAXED) ||
	    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) !=
		    __atomic_load_n(&fail_at, __ATOMIC_RELAXED))
		return false;
	errno = (int)fail_errno;
	return true;
}

int socket(int domain, int type, int protocol)
{
	return fails() ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return fails() ? -1 : (int)syscall(SYS_bind, fd, address, length);
}

int listen(int fd, int backlog)
{
	return fails() ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	return fails() ? -1 : (int)syscall(SYS_connect, fd, address, length);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return fails() ? -1 : (int)syscall(SYS_accept4, fd, address, length, flags);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	return fails() ? -1 : (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails() ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return fails() ? -1 : syscall(SYS_recvmsg, fd, message, flags);
}

int eventfd(unsigned int value, int flags)
{
	return fails() ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}

int epoll_create1(int flags)
{
	return fails() ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return fails() ? -1 : (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	return command == F_DUPFD_CLOEXEC && fails() ? -1 :
						       (int)syscall(SYS_fcntl, fd, command, arg);
}

#ifndef SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static long allocated; /* blocks */

void *malloc(size_t size)
{
	if (fails())
		return NULL;
	__atomic_add_fetch(&allocated, 1, __ATOMIC_RELAXED);
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	if (fails())
		return NULL;
	__atomic_add_fetch(&allocated, 1, __ATOMIC_RELAXED);
	return __libc_calloc(count, size);
}

void free(void *p)
{
	__atomic_sub_fetch(&allocated, p != NULL, __ATOMIC_RELAXED);
	__libc_free(p);
}

static long blocks(void)
{
	return __atomic_load_n(&allocated, __ATOMIC_RELAXED);
}
#else
static long blocks(void)
{
	return 0;
}
#endif

/* ---- the test ---- */

static struct mrg_memfd fds[CHUNKS];
static int memfd;

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += syscall(SYS_fcntl, fd, F_GETFD, 0) >= 0;
	return count;
}

static int setup(void **state)
{
	(void)state;
	unsetenv("MRGUARD_SHARE_DIR");
	memfd = memfd_create("faults", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(memfd, CHUNKS * PAGE), 0);
	assert_int_equal(syscall(SYS_fcntl, memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	for (uint64_t i = 0; i < CHUNKS; i++)
		fds[i] = (struct mrg_memfd){ .fd = memfd, .offset = i * PAGE, .length = PAGE };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(memfd);
	return 0;
}

/* A whole life: 0 or the first error. */
static int live_once(void)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 100 };
	struct mrg_import *import;
	struct mrg_share *share;
	struct mrg_range *range;
	const void *bytes;
	size_t length;
	int ret;

	ret = mrg_share_open(&share, &opts);
	if (ret)
		return ret;
	ret = mrg_share_publish_memfds(share, fds, CHUNKS, &range);
	if (!ret) {
		length = mrg_range_token(range, &bytes);
		ret = mrg_share_import(share, bytes, length, NULL, &import);
		if (!ret)
			mrg_import_release(import);
		mrg_share_unpublish(range);
	}
	mrg_share_close(share);
	return ret;
}

static void arm(long at, int code)
{
	fail_errno = code;
	__atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fail_at, at, __ATOMIC_RELAXED);
}

static void fail_each_with(int code)
{
	long before, failed = 0, places = 0;
	int open_before = count_fds(), ret;

	for (long at = 1;; at++) {
		before = blocks();
		arm(at, code);
		ret = live_once();
		places = __atomic_load_n(&calls, __ATOMIC_RELAXED);
		arm(0, 0);
		failed += !!ret;
		assert_true(ret <= 0 && ret > -4096);
		assert_int_equal(count_fds(), open_before);
		assert_int_equal(blocks(), before);
		if (places < at)
			break;
	}
	/* Its time limit is short, for the places above: a busy machine may miss it. */
	for (int tries = 10; (ret = live_once()) == -ETIMEDOUT && tries; tries--)
		;
	assert_int_equal(ret, 0);
	/* The control: the failures did arrive. */
	assert_true(failed > 5);
	print_message("# %ld places, %ld failures\n", places, failed);
}

static void no_descriptors(void **state)
{
	(void)state;
	fail_each_with(EMFILE);
}

static void no_memory(void **state)
{
	(void)state;
	fail_each_with(ENOMEM);
}

static void no_permission(void **state)
{
	(void)state;
	fail_each_with(EPERM);
}

static void too_many_descriptors_under_way(void **state)
{
	(void)state;
	fail_each_with(ETOOMANYREFS);
}

static void interrupted(void **state)
{
	(void)state;
	fail_each_with(EINTR);
}

static void broken_connection(void **state)
{
	(void)state;
	fail_each_with(ECONNRESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_descriptors), cmocka_unit_test(no_memory),
		cmocka_unit_test(no_permission),  cmocka_unit_test(too_many_descriptors_under_way),
		cmocka_unit_test(interrupted),	  cmocka_unit_test(broken_connection),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	live_once(); /* what libc allocates once */
	return cmocka_run_group_tests_name("share faults", tests, setup, teardown);
}
