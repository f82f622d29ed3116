/* SPDX-License-Identifier: MIT */
/* Host memory between processes: the whole protocol, on any Linux. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
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
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include <mrguard/share.h>

#define PAGE 4096ull

static struct mrg_share *owner;
static struct mrg_range *range;
static struct mrg_error error;

/* ---- memory to share ---- */

static int new_memfd(uint64_t size)
{
	int fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static uint64_t pattern(uint64_t word)
{
	return word * 0x9e3779b97f4a7c15 ^ word >> 7;
}

static void fill(int fd, uint64_t size)
{
	uint64_t *words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	for (uint64_t i = 0; i < size / 8; i++)
		words[i] = pattern(i);
	munmap(words, size);
}

/* 0, or the number of the first wrong word plus 1 */
static uint64_t verify(const uint64_t *words, uint64_t size)
{
	for (uint64_t i = 0; i < size / 8; i++)
		if (words[i] != pattern(i))
			return i + 1;
	return 0;
}

static void open_owner(const char *dir)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 1000, .dir = dir };

	assert_int_equal(mrg_share_open(&owner, &opts), 0);
}

/* @count chunks of @size bytes of one memfd */
static int publish(size_t count, uint64_t size)
{
	struct mrg_memfd *fds = calloc(count, sizeof(*fds));
	int fd = new_memfd(count * size);

	fill(fd, count * size);
	for (size_t i = 0; i < count; i++)
		fds[i] = (struct mrg_memfd){ .fd = fd, .offset = i * size, .length = size };
	assert_int_equal(mrg_share_publish_memfds(owner, fds, count, &range), 0);
	free(fds);
	return fd;
}

static int setup(void **state)
{
	(void)state;
	unsetenv("MRGUARD_SHARE_DIR");
	open_owner(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mrg_share_close(owner);
	return 0;
}

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 4096; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static long address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (fscanf(file, "%ld", &pages) != 1)
		pages = -1;
	fclose(file);
	return pages;
}

/* ---- the other process ---- */

typedef int (*peer_t)(const void *token, size_t length);

/* Runs @peer in a child; its result is 0 to 255. */
static pid_t start_peer(peer_t peer)
{
	const void *token;
	size_t length = mrg_range_token(range, &token);
	pid_t pid = fork();

	if (!pid)
		_exit(peer(token, length));
	return pid;
}

static int end_peer(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int run_peer(peer_t peer)
{
	return end_peer(start_peer(peer));
}

static struct mrg_share *peer_share;
static struct mrg_import *peer_import;

static int peer_open(const void *token, size_t length)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 2000 };
	int ret = mrg_share_open(&peer_share, &opts);

	return ret ? ret : mrg_share_import(peer_share, token, length, NULL, &peer_import);
}

static void peer_close(void)
{
	mrg_import_release(peer_import);
	mrg_share_close(peer_share);
}

static uint64_t *peer_words(void)
{
	return (uint64_t *)(uintptr_t)mrg_import_address(peer_import);
}

static int peer_verifies_and_writes(const void *token, size_t length)
{
	int fds = count_fds(), ret;
	uint64_t size;

	if (peer_open(token, length))
		return 1;
	size = mrg_import_length(peer_import);
	ret = verify(peer_words(), size) ? 2 : count_fds() != fds ? 3 : 0;
	peer_words()[size / 8 - 1] = 42;
	peer_close();
	return ret;
}

static uint64_t word_at(int fd, uint64_t offset)
{
	uint64_t word = 0;

	assert_int_equal(pread(fd, &word, 8, (off_t)offset), 8);
	return word;
}

static void a_peer_sees_every_byte_and_writes_back(void **state)
{
	int fd = publish(3, 5 * PAGE);

	(void)state;
	assert_int_equal(run_peer(peer_verifies_and_writes), 0);
	assert_int_equal(word_at(fd, 15 * PAGE - 8), 42);
	mrg_share_unpublish(range);
	close(fd);
}

static void unequal_chunks_of_several_files_lie_back_to_back(void **state)
{
	int fd = new_memfd(10 * PAGE), other = new_memfd(3 * PAGE);
	struct mrg_memfd fds[] = {
		{ .fd = fd, .offset = 7 * PAGE, .length = PAGE },
		{ .fd = other, .offset = 0, .length = 3 * PAGE },
		{ .fd = fd, .offset = 0, .length = 6 * PAGE },
	};
	uint64_t mark = 1, *words;
	struct mrg_import *import;
	const void *token;
	size_t length;

	(void)state;
	for (int i = 0; i < 3; i++, mark++)
		assert_int_equal(pwrite(fds[i].fd, &mark, 8, (off_t)fds[i].offset), 8);
	assert_int_equal(mrg_share_publish_memfds(owner, fds, 3, &range), 0);
	close(other); /* duplicated */
	length = mrg_range_token(range, &token);
	assert_int_equal(mrg_share_import(owner, token, length, NULL, &import), 0);
	assert_int_equal(mrg_import_length(import), 10 * PAGE);
	words = (uint64_t *)(uintptr_t)mrg_import_address(import);
	assert_int_equal(words[0], 1);
	assert_int_equal(words[PAGE / 8], 2);
	assert_int_equal(words[4 * PAGE / 8], 3);
	assert_int_equal(mrg_import_devices(import), 0);
	mrg_import_release(import);
	mrg_share_unpublish(range);
	close(fd);
}

static void limit_fds(rlim_t limit)
{
	struct rlimit rlimit;

	getrlimit(RLIMIT_NOFILE, &rlimit);
	rlimit.rlim_cur = limit;
	setrlimit(RLIMIT_NOFILE, &rlimit);
}

static void chunks_beyond_the_descriptor_limit_pass(void **state)
{
	struct rlimit before;
	int fd;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	fd = publish(1500, PAGE);
	limit_fds(1024);
	assert_int_equal(run_peer(peer_verifies_and_writes), 0);
	limit_fds(before.rlim_cur);
	mrg_share_unpublish(range);
	close(fd);
}

static int peer_with_few_descriptors(const void *token, size_t length)
{
	/* The share's own socket and pidfd, and room for 5 more. */
	limit_fds((rlim_t)count_fds() + 7);
	return peer_verifies_and_writes(token, length);
}

static int peer_without_descriptors(const void *token, size_t length)
{
	int fds = count_fds(), ret;

	limit_fds((rlim_t)fds + 2);
	ret = peer_open(token, length);
	if (ret != -EMFILE || count_fds() != fds)
		return 1;
	mrg_share_last_error(peer_share, &error);
	return strstr(error.remedy, "memory did not") ? 0 : 2;
}

static void a_peer_short_of_descriptors_gets_smaller_messages(void **state)
{
	int fd = publish(100, PAGE);

	(void)state;
	assert_int_equal(run_peer(peer_with_few_descriptors), 0);
	mrg_share_unpublish(range);
	close(fd);
}

static void a_peer_without_descriptors_is_told_so(void **state)
{
	int fd = publish(100, PAGE);

	(void)state;
	assert_int_equal(run_peer(peer_without_descriptors), 0);
	mrg_share_unpublish(range);
	close(fd);
}

static void two_imports_of_a_generation_share_one_mapping(void **state)
{
	int fd = publish(4, PAGE);
	struct mrg_import *a, *b;
	const void *token;
	size_t length = mrg_range_token(range, &token);

	(void)state;
	assert_int_equal(mrg_share_import(owner, token, length, NULL, &a), 0);
	assert_int_equal(mrg_share_import(owner, token, length, NULL, &b), 0);
	assert_int_equal(mrg_import_address(a), mrg_import_address(b));
	mrg_import_release(a);
	assert_int_equal(verify((uint64_t *)(uintptr_t)mrg_import_address(b), 4 * PAGE), 0);
	mrg_import_release(b);
	mrg_share_unpublish(range);
	close(fd);
}

static void publishing_again_makes_a_new_generation(void **state)
{
	int fd = publish(1, PAGE);
	uint64_t generation = mrg_range_generation(range);

	(void)state;
	mrg_share_unpublish(range);
	close(fd);
	fd = publish(1, PAGE);
	assert_int_not_equal(mrg_range_generation(range), generation);
	mrg_share_unpublish(range);
	close(fd);
}

static void a_withdrawn_range_is_stale_and_what_is_mapped_stays(void **state)
{
	int fd = publish(4, PAGE);
	struct mrg_import *import, *late;
	const void *token;
	char copy[512];
	size_t length = mrg_range_token(range, &token);

	(void)state;
	assert_true(length < sizeof(copy));
	memcpy(copy, token, length);
	assert_int_equal(mrg_share_import(owner, copy, length, NULL, &import), 0);
	mrg_share_unpublish(range);
	close(fd);
	assert_int_equal(verify((uint64_t *)(uintptr_t)mrg_import_address(import), 4 * PAGE), 0);
	mrg_import_release(import);
	assert_int_equal(mrg_share_import(owner, copy, length, NULL, &late), -ESTALE);
}

static void nothing_is_left_after_many_cycles(void **state)
{
	int fds = 0, fd;
	long space = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct mrg_import *import;
		const void *token;
		size_t length;

		fd = publish(3, PAGE);
		length = mrg_range_token(range, &token);
		assert_int_equal(mrg_share_import(owner, token, length, NULL, &import), 0);
		mrg_import_release(import);
		mrg_share_unpublish(range);
		close(fd);
		if (i != 20)
			continue;
		usleep(20000);
		fds = count_fds();
		space = address_space();
	}
	/* The server closes its side a moment after the client. */
	for (int i = 0; i < 100 && count_fds() != fds; i++)
		usleep(10000);
	assert_int_equal(count_fds(), fds);
	assert_true(address_space() - space < 64);
}

/* ---- lives and deaths ---- */

static int gate[2];

static int peer_waits_then_verifies(const void *token, size_t length)
{
	char byte;

	if (peer_open(token, length))
		return 1;
	if (write(gate[1], "m", 1) != 1)
		return 2;
	/* The owner withdraws, or dies, in between. */
	usleep(100000);
	if (read(gate[0], &byte, 0) < 0)
		return 3;
	return verify(peer_words(), mrg_import_length(peer_import)) ? 4 : 0;
}

static void the_owners_release_is_safe_while_a_peer_maps(void **state)
{
	char byte;
	pid_t peer;
	int fd;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	fd = publish(8, PAGE);
	peer = start_peer(peer_waits_then_verifies);
	assert_int_equal(read(gate[0], &byte, 1), 1);
	mrg_share_unpublish(range);
	close(fd);
	assert_int_equal(end_peer(peer), 0);
	close(gate[0]);
	close(gate[1]);
}

/* The owner is a child here, and this process the peer. */
static pid_t start_owner(int to_peer, int (*after)(void))
{
	pid_t pid = fork();

	if (!pid) {
		const void *token;
		size_t length;

		open_owner(NULL);
		publish(8, PAGE);
		length = mrg_range_token(range, &token);
		if (write(to_peer, token, length) != (ssize_t)length)
			_exit(1);
		_exit(after ? after() : (pause(), 0));
	}
	return pid;
}

static void memory_outlives_a_killed_owner(void **state)
{
	struct mrg_import *import, *late;
	char token[512];
	ssize_t length;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	pid = start_owner(gate[1], NULL);
	length = read(gate[0], token, sizeof(token));
	assert_int_equal(mrg_share_import(owner, token, (size_t)length, NULL, &import), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(verify((uint64_t *)(uintptr_t)mrg_import_address(import), 8 * PAGE), 0);
	mrg_import_release(import);
	assert_int_equal(mrg_share_import(owner, token, (size_t)length, NULL, &late),
			 -ECONNREFUSED);
	mrg_share_last_error(owner, &error);
	assert_non_null(strstr(error.cause, "The owner is gone"));
	close(gate[0]);
	close(gate[1]);
}

/* Its own child, which does nothing, keeps the owner's sockets open. */
static int fork_and_die(void)
{
	if (!fork()) {
		sleep(2);
		_exit(0);
	}
	usleep(50000);
	kill(getpid(), SIGKILL);
	return 1;
}

static void an_owner_that_died_is_noticed_though_its_child_holds_the_socket(void **state)
{
	struct mrg_import *import;
	char token[512];
	ssize_t length;
	pid_t pid;
	int ret;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	pid = start_owner(gate[1], fork_and_die);
	length = read(gate[0], token, sizeof(token));
	waitpid(pid, NULL, 0);
	ret = mrg_share_import(owner, token, (size_t)length, NULL, &import);
	assert_true(ret == -ECONNRESET || ret == -ECONNREFUSED);
	close(gate[0]);
	close(gate[1]);
}

static int peer_dies_at_once(const void *token, size_t length)
{
	peer_open(token, length);
	kill(getpid(), SIGKILL);
	return 0;
}

static void a_killed_peer_leaves_nothing_in_the_owner(void **state)
{
	int fd = publish(500, PAGE), fds = count_fds(), status;

	(void)state;
	for (int i = 0; i < 10; i++) {
		pid_t pid = start_peer(peer_dies_at_once);

		usleep((useconds_t)i * 500);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	for (int i = 0; i < 200 && count_fds() != fds; i++)
		usleep(10000);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(run_peer(peer_verifies_and_writes), 0);
	mrg_share_unpublish(range);
	close(fd);
}

static int child_is_refused(const void *token, size_t length)
{
	struct mrg_import *import;
	struct mrg_range *r;
	struct mrg_memfd m = { .fd = 0, .offset = 0, .length = PAGE };

	if (mrg_share_import(owner, token, length, NULL, &import) != -ECHILD)
		return 1;
	if (mrg_share_publish_memfds(owner, &m, 1, &r) != -ECHILD)
		return 2;
	mrg_share_unpublish(range);
	mrg_share_close(owner);
	return 0;
}

static void a_child_after_fork_is_refused_and_harms_nothing(void **state)
{
	int fd = publish(2, PAGE);

	(void)state;
	assert_int_equal(run_peer(child_is_refused), 0);
	assert_int_equal(run_peer(peer_verifies_and_writes), 0);
	mrg_share_unpublish(range);
	close(fd);
}

/* ---- namespaces and users ---- */

static int peer_in_other_network(const void *token, size_t length)
{
	if (unshare(CLONE_NEWNET))
		return 77;
	if (peer_open(token, length) != -ENETUNREACH)
		return 1;
	mrg_share_last_error(peer_share, &error);
	return strstr(error.remedy, "MRGUARD_SHARE_DIR") ? 0 : 2;
}

static int peer_in_other_network_verifies(const void *token, size_t length)
{
	if (unshare(CLONE_NEWNET))
		return 77;
	return peer_verifies_and_writes(token, length);
}

static void skip_as_user(int result)
{
	if (result == 77) {
		print_message("# needs root, for namespaces and users\n");
		skip();
	}
	assert_int_equal(result, 0);
}

static void an_abstract_name_in_another_network_names_the_variable(void **state)
{
	int fd = publish(2, PAGE), result = run_peer(peer_in_other_network);

	(void)state;
	mrg_share_unpublish(range);
	close(fd);
	skip_as_user(result);
}

static void a_socket_file_crosses_network_namespaces(void **state)
{
	char dir[] = "/tmp/mrguard-share-XXXXXX";
	int fd, result;

	(void)state;
	assert_non_null(mkdtemp(dir));
	setenv("MRGUARD_SHARE_DIR", dir, 1);
	mrg_share_close(owner);
	open_owner(NULL);
	unsetenv("MRGUARD_SHARE_DIR");
	fd = publish(2, PAGE);
	result = run_peer(peer_in_other_network_verifies);
	mrg_share_unpublish(range);
	mrg_share_close(owner);
	close(fd);
	assert_int_equal(rmdir(dir), 0); /* the file is gone */
	open_owner(NULL);
	skip_as_user(result);
}

static int peer_with_own_tmp(const void *token, size_t length)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tmpfs", 0, NULL))
		return 77;
	if (peer_open(token, length) != -ENOENT)
		return 1;
	mrg_share_last_error(peer_share, &error);
	return strstr(error.cause, "mount namespace") ? 0 : 2;
}

static void a_socket_file_that_is_not_mounted_is_named(void **state)
{
	char dir[] = "/tmp/mrguard-share-XXXXXX";
	int fd, result;

	(void)state;
	assert_non_null(mkdtemp(dir));
	mrg_share_close(owner);
	open_owner(dir);
	fd = publish(2, PAGE);
	result = run_peer(peer_with_own_tmp);
	mrg_share_unpublish(range);
	mrg_share_close(owner);
	close(fd);
	assert_int_equal(rmdir(dir), 0);
	open_owner(NULL);
	skip_as_user(result);
}

/* Both ends are number 1 of a PID namespace of their own. */
static int in_pid_namespace(int (*run)(void))
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return 77;
	pid = fork();
	if (!pid)
		_exit(getpid() == 1 ? run() : 78);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 79;
}

static int owner_in_namespace(void)
{
	const void *token;
	size_t length;
	char byte;

	open_owner(NULL);
	publish(8, PAGE);
	length = mrg_range_token(range, &token);
	if (write(gate[1], token, length) != (ssize_t)length)
		return 1;
	close(gate[1]);
	return read(gate[1], &byte, 1) < 0 ? (sleep(1), 0) : 0;
}

static int peer_in_namespace(void)
{
	char token[512];
	ssize_t length = read(gate[0], token, sizeof(token));

	return length <= 0 ? 77 : peer_verifies_and_writes(token, (size_t)length);
}

static void both_ends_may_be_process_1(void **state)
{
	pid_t a, b;
	int result;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	a = fork();
	if (!a)
		_exit(in_pid_namespace(owner_in_namespace));
	b = fork();
	if (!b) {
		close(gate[1]);
		_exit(in_pid_namespace(peer_in_namespace));
	}
	close(gate[1]);
	result = end_peer(b);
	end_peer(a);
	close(gate[0]);
	skip_as_user(result);
}

static int peer_of_another_user(const void *token, size_t length)
{
	if (setresuid(65534, 65534, 65534))
		return 77;
	if (peer_open(token, length) != -EACCES)
		return 1;
	mrg_share_last_error(peer_share, &error);
	return strstr(error.cause, "another user") ? 0 : 2;
}

static void another_user_is_refused(void **state)
{
	int fd = publish(2, PAGE), result = run_peer(peer_of_another_user);

	(void)state;
	mrg_share_unpublish(range);
	close(fd);
	skip_as_user(result);
}

/* Root may import from anyone: as the owner sees it, root may ask. */
static void root_may_import_from_a_user(void **state)
{
	struct mrg_import *import;
	char token[512];
	ssize_t length;
	pid_t pid;
	int ret;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	pid = fork();
	if (!pid) {
		if (setresuid(65534, 65534, 65534)) {
			close(gate[1]);
			_exit(77);
		}
		owner_in_namespace();
		_exit(0);
	}
	close(gate[1]);
	length = read(gate[0], token, sizeof(token));
	ret = length > 0 ? mrg_share_import(owner, token, (size_t)length, NULL, &import) : 0;
	if (length > 0 && !ret)
		mrg_import_release(import);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(gate[0]);
	skip_as_user(length > 0 ? ret : 77);
}

/* ---- refused at once ---- */

static void refused_memfd(struct mrg_memfd m, int code, const char *word)
{
	struct mrg_range *r;

	assert_int_equal(mrg_share_publish_memfds(owner, &m, 1, &r), code);
	assert_int_equal(mrg_share_last_error(owner, &error), 0);
	assert_non_null(strstr(error.cause, word));
}

static void files_that_could_end_a_peer_are_refused(void **state)
{
	int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = new_memfd(4 * PAGE), null = open("/dev/null", O_RDWR);

	(void)state;
	assert_int_equal(ftruncate(loose, 4 * PAGE), 0);
	refused_memfd((struct mrg_memfd){ .fd = loose, .offset = 0, .length = PAGE }, -EPERM,
		      "SIGBUS");
	refused_memfd((struct mrg_memfd){ .fd = null, .offset = 0, .length = PAGE }, -EINVAL,
		      "not a memfd");
	refused_memfd((struct mrg_memfd){ .fd = -1, .offset = 0, .length = PAGE }, -EINVAL,
		      "not a memfd");
	refused_memfd((struct mrg_memfd){ .fd = fd, .offset = 0, .length = 5 * PAGE }, -EINVAL,
		      "16384");
	refused_memfd((struct mrg_memfd){ .fd = fd, .offset = PAGE, .length = 4 * PAGE }, -EINVAL,
		      "within");
	refused_memfd((struct mrg_memfd){ .fd = fd, .offset = ~0ull & ~4095, .length = PAGE },
		      -EINVAL, "within");
	refused_memfd((struct mrg_memfd){ .fd = fd, .offset = 100, .length = PAGE }, -EINVAL,
		      "whole pages");
	refused_memfd((struct mrg_memfd){ .fd = fd, .offset = 0, .length = 0 }, -EINVAL,
		      "whole pages");
	refused_memfd((struct mrg_memfd){ fd, 0, PAGE, { 0, 1 } }, -EINVAL, "Reserved");
	close(loose);
	close(fd);
	close(null);
}

static void tokens_of_other_machines_are_refused(void **state)
{
	/* The boot id is in the last 24 bytes; the sum is made right again. */
	int fd = publish(2, PAGE);
	uint32_t crc;
	struct mrg_import *import;
	const void *token;
	uint8_t copy[512];
	size_t length = mrg_range_token(range, &token);

	(void)state;
	memcpy(copy, token, length);
	copy[length - 24] ^= 1;
	memset(copy + 16, 0, 4);
	crc = (uint32_t)crc32_z(0, copy, length);
	memcpy(copy + 16, &crc, 4);
	assert_int_equal(mrg_share_import(owner, copy, length, NULL, &import), -EXDEV);
	mrg_share_unpublish(range);
	close(fd);
}

static void gpu_memory_needs_a_gpu_handle(void **state)
{
	struct mrg_range *r;

	(void)state;
	assert_int_equal(mrg_share_publish(owner, 4096, 4096, &r), -EINVAL);
	mrg_share_last_error(owner, &error);
	assert_non_null(strstr(error.remedy, "GPU handle"));
}

static void options_that_are_not_known_are_refused(void **state)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .reserved = 1 };
	struct mrg_import_opts io = { .size = sizeof(io), .flags = 1u << 30 };
	struct mrg_share *other;
	struct mrg_import *import;
	char dir[200];

	(void)state;
	assert_int_equal(mrg_share_open(&other, &opts), -EINVAL);
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	opts.reserved = 0;
	opts.dir = dir;
	assert_int_equal(mrg_share_open(&other, &opts), -ENAMETOOLONG);
	opts.dir = "relative";
	assert_int_equal(mrg_share_open(&other, &opts), -EINVAL);
	assert_int_equal(mrg_share_import(owner, "x", 1, &io, &import), -EINVAL);
	io.flags = 0;
	io.device = 1;
	assert_int_equal(mrg_share_import(owner, "x", 1, &io, &import), -EINVAL);
	io.flags = MRG_IMPORT_ON_DEVICE;
	io.device = -1;
	assert_int_equal(mrg_share_import(owner, "x", 1, &io, &import), -EINVAL);
	io.device = 0;
	assert_int_equal(mrg_share_import(owner, "x", 1, &io, &import), -EBADMSG);
}

static void a_directory_that_is_not_there_is_told(void **state)
{
	int fd = new_memfd(PAGE);
	struct mrg_memfd m = { .fd = fd, .offset = 0, .length = PAGE };
	struct mrg_range *r;

	(void)state;
	mrg_share_close(owner);
	open_owner("/nonexistent/mrguard");
	assert_int_equal(mrg_share_publish_memfds(owner, &m, 1, &r), -ENOENT);
	mrg_share_last_error(owner, &error);
	assert_non_null(strstr(error.remedy, "MRGUARD_SHARE_DIR"));
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_peer_sees_every_byte_and_writes_back),
		TEST(unequal_chunks_of_several_files_lie_back_to_back),
		TEST(chunks_beyond_the_descriptor_limit_pass),
		TEST(a_peer_short_of_descriptors_gets_smaller_messages),
		TEST(a_peer_without_descriptors_is_told_so),
		TEST(two_imports_of_a_generation_share_one_mapping),
		TEST(publishing_again_makes_a_new_generation),
		TEST(a_withdrawn_range_is_stale_and_what_is_mapped_stays),
		TEST(nothing_is_left_after_many_cycles),
		TEST(the_owners_release_is_safe_while_a_peer_maps),
		TEST(memory_outlives_a_killed_owner),
		TEST(an_owner_that_died_is_noticed_though_its_child_holds_the_socket),
		TEST(a_killed_peer_leaves_nothing_in_the_owner),
		TEST(a_child_after_fork_is_refused_and_harms_nothing),
		TEST(an_abstract_name_in_another_network_names_the_variable),
		TEST(a_socket_file_crosses_network_namespaces),
		TEST(a_socket_file_that_is_not_mounted_is_named),
		TEST(both_ends_may_be_process_1),
		TEST(another_user_is_refused),
		TEST(root_may_import_from_a_user),
		TEST(files_that_could_end_a_peer_are_refused),
		TEST(tokens_of_other_machines_are_refused),
		TEST(gpu_memory_needs_a_gpu_handle),
		TEST(options_that_are_not_known_are_refused),
		TEST(a_directory_that_is_not_there_is_told),
	};

	/* A server that frees a range last would get 64 MiB of its own. */
	mallopt(M_ARENA_MAX, 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("share host memory", tests, NULL, NULL);
}
