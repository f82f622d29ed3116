/* SPDX-License-Identifier: MIT */
/* An owner has died, and another process has taken its address. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/share.h>

#include "share/socket.h"

#define PAGE 4096ull
#define OWNER 65534 /* users */
#define STRANGER 65533

static struct mrg_error error;
static struct share_address address;

static void need_root(void)
{
	if (!geteuid())
		return;
	print_message("# needs root, for processes of other users\n");
	skip();
}

/* The server's answer to any request: a page that says "forged". */
static void answer(int listener)
{
	struct share_chunks chunks = { .count = 1, .chunks = { { PAGE, 0 } } };
	int file = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct pollfd p = { .fd = listener, .events = POLLIN };
	union share_message message;
	int fds[SHARE_MAX_FDS], fd;
	size_t count;

	if (ftruncate(file, PAGE) || pwrite(file, "forged", 7, 0) != 7 ||
	    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		_exit(1);
	poll(&p, 1, 5000);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	p.fd = fd;
	poll(&p, 1, 5000);
	share_receive(fd, &message, fds, &count);
	share_head(&chunks.head, SHARE_CHUNKS);
	share_send(fd, &chunks, share_message_bytes(SHARE_CHUNKS, 1), &file, 1);
	poll(&p, 1, 1000);
}

/* A process of @uid that serves @address, once. */
static pid_t serve_as(uid_t uid, struct share_owner *self)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(share_name(NULL, &address), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct share_owner own;
		int listener;

		if (setresuid(uid, uid, uid))
			_exit(1);
		own = share_owner_self();
		listener = share_listen(&address);
		if (write(ready[1], &own, sizeof(own)) != sizeof(own))
			_exit(1);
		answer(listener);
		_exit(0);
	}
	assert_int_equal(read(ready[0], self, sizeof(*self)), sizeof(*self));
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* Imports one page with a token of @owner. */
static int import_from(const struct share_owner *owner, const struct mrg_import_opts *opts)
{
	struct mrg_share_opts so = { .size = sizeof(so), .timeout_ms = 2000 };
	struct share_run run = { PAGE, 1 };
	struct share_token token = {
		.kind = SHARE_HOST,
		.generation = 7,
		.owner = *owner,
		.length = PAGE,
		.name_length = address.length,
		.runs = &run,
		.run_count = 1,
	};
	struct mrg_import *import;
	struct mrg_share *share;
	ssize_t length;
	void *bytes;
	int ret;

	memcpy(token.name, address.name, sizeof(token.name));
	length = share_token_encode(&token, &bytes);
	assert_true(length > 0);
	assert_int_equal(mrg_share_open(&share, &so), 0);
	ret = mrg_share_import(share, bytes, (size_t)length, opts, &import);
	memset(&error, 0, sizeof(error));
	if (ret)
		mrg_share_last_error(share, &error);
	else
		mrg_import_release(import);
	mrg_share_close(share);
	free(bytes);
	return ret;
}

static int attempt(uid_t uid, const struct share_owner *owner, const struct mrg_import_opts *opts)
{
	struct share_owner self;
	pid_t pid = serve_as(uid, &self);
	int ret = import_from(owner ? owner : &self, opts);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return ret;
}

/* Of a process that has ended. */
static struct share_owner dead_owner(uid_t uid)
{
	struct share_owner owner = share_owner_self();

	owner.uid = uid;
	owner.start--;
	return owner;
}

static void root_imports_from_the_owner_itself(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(attempt(OWNER, NULL, NULL), 0);
	assert_int_equal(attempt(0, NULL, NULL), 0);
}

static void another_users_process_at_the_owners_address_is_refused_by_root_too(void **state)
{
	const uid_t owners[] = { OWNER, 0 };

	(void)state;
	need_root();
	for (int i = 0; i < 2; i++) {
		struct share_owner owner = dead_owner(owners[i]);

		owner.start = 0;
		assert_int_equal(attempt(STRANGER, &owner, NULL), -EACCES);
		assert_non_null(strstr(error.cause, "User 65533 answers"));
	}
}

static void another_process_of_the_same_user_is_not_the_owner(void **state)
{
	struct share_owner owner = dead_owner(geteuid());

	(void)state;
	assert_true(owner.start);
	assert_int_equal(attempt(geteuid(), &owner, NULL), -ECONNRESET);
	assert_non_null(strstr(error.cause, "went away"));
	/* In another time namespace the start is counted from elsewhere. */
	owner.timens++;
	assert_int_equal(attempt(geteuid(), &owner, NULL), 0);
}

static void a_uid_of_another_user_namespace_must_be_named(void **state)
{
	struct mrg_import_opts opts = { .size = sizeof(opts), .flags = MRG_IMPORT_OWNER };
	struct share_owner owner = dead_owner(OWNER);

	(void)state;
	need_root();
	owner.start = 0;
	owner.userns++;
	assert_int_equal(attempt(OWNER, &owner, NULL), -EACCES);
	assert_non_null(strstr(error.cause, "another user namespace"));
	assert_non_null(strstr(error.remedy, "MRG_IMPORT_OWNER"));
	opts.owner = OWNER;
	assert_int_equal(attempt(OWNER, &owner, &opts), 0);
	assert_int_equal(attempt(STRANGER, &owner, &opts), -EACCES);
	assert_non_null(strstr(error.cause, "not user 65534"));
	/* One's own user can do no more than oneself. */
	assert_int_equal(attempt(0, &owner, NULL), 0);
}

static int in_namespace(void)
{
	struct share_owner owner = share_owner_self();
	uid_t nobody = OWNER;

	if (unshare(CLONE_NEWUSER))
		return 77;
	/* No uid has a number: all are shown as one. */
	if (share_owner_check_user(&owner, nobody, NULL, &error) != -EACCES)
		return 1;
	owner = share_owner_self();
	if (owner.uid != nobody || share_owner_check_user(&owner, nobody, NULL, &error) != -EACCES)
		return 2;
	return share_owner_check_user(&owner, nobody, &nobody, &error) ? 3 : 0;
}

static void users_without_a_number_are_not_taken_for_one(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid)
		_exit(in_namespace());
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 77) {
		print_message("# needs user namespaces\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void options_about_the_owner_are_checked(void **state)
{
	struct mrg_import_opts opts = { .size = sizeof(opts), .owner = 1 };
	struct share_owner owner = dead_owner(0);

	(void)state;
	assert_int_equal(import_from(&owner, &opts), -EINVAL);
	opts = (struct mrg_import_opts){ .size = sizeof(opts), .reserved = 1 };
	assert_int_equal(import_from(&owner, &opts), -EINVAL);
}

static int publish_in(const char *dir)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .dir = dir };
	struct mrg_memfd m = { .length = PAGE };
	struct mrg_share *share;
	struct mrg_range *range;
	int ret;

	m.fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(m.fd, PAGE), 0);
	assert_int_equal(fcntl(m.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(mrg_share_open(&share, &opts), 0);
	ret = mrg_share_publish_memfds(share, &m, 1, &range);
	if (ret)
		mrg_share_last_error(share, &error);
	mrg_share_close(share);
	close(m.fd);
	return ret;
}

static void a_directory_in_which_all_may_replace_the_socket_is_refused(void **state)
{
	char dir[] = "/tmp/mrguard-share-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(publish_in(dir), -EPERM);
	assert_non_null(strstr(error.cause, "(mode 0777)"));
	assert_non_null(strstr(error.remedy, "sticky"));
	assert_int_equal(chmod(dir, 01777), 0);
	assert_int_equal(publish_in(dir), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_imports_from_the_owner_itself),
		cmocka_unit_test(
			another_users_process_at_the_owners_address_is_refused_by_root_too),
		cmocka_unit_test(another_process_of_the_same_user_is_not_the_owner),
		cmocka_unit_test(a_uid_of_another_user_namespace_must_be_named),
		cmocka_unit_test(users_without_a_number_are_not_taken_for_one),
		cmocka_unit_test(options_about_the_owner_are_checked),
		cmocka_unit_test(a_directory_in_which_all_may_replace_the_socket_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("share owner", tests, NULL, NULL);
}
