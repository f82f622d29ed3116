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

#include "failing.h"

#define PAGE 4096ull
#define CHUNKS 70 /* three messages */

/* ---- the calls ---- */

int socket(int domain, int type, int protocol)
{
	return failing_now() ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return failing_now() ? -1 : (int)syscall(SYS_bind, fd, address, length);
}

int listen(int fd, int backlog)
{
	return failing_now() ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	return failing_now() ? -1 : (int)syscall(SYS_connect, fd, address, length);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return failing_now() ? -1 : (int)syscall(SYS_accept4, fd, address, length, flags);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	return failing_now() ? -1 : (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return failing_now() ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return failing_now() ? -1 : syscall(SYS_recvmsg, fd, message, flags);
}

int eventfd(unsigned int value, int flags)
{
	return failing_now() ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}

int epoll_create1(int flags)
{
	return failing_now() ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return failing_now() ? -1 : (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	return command == F_DUPFD_CLOEXEC && failing_now() ?
		       -1 :
		       (int)syscall(SYS_fcntl, fd, command, arg);
}

/* ---- the test ---- */

static struct mrg_memfd fds[CHUNKS];
static int memfd;

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

/* Its time limit is short, for the places that fail: a busy machine may miss it. */
static int live_patiently(void)
{
	int ret = live_once();

	for (int tries = 10; (ret == -ETIMEDOUT || ret == -ECONNRESET) && !failing_at && tries;
	     tries--)
		ret = live_once();
	return ret;
}

static void fail_each_with(int code)
{
	/* The control: the failures did arrive. */
	assert_true(failing_each(live_patiently, code, 0, strerrorname_np(code)) > 5);
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
	return cmocka_run_group_tests_name("share faults", tests, setup, teardown);
}
