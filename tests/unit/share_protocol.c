/* SPDX-License-Identifier: MIT */
/* Peers that are slow, broken or hostile, on either end of the socket. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/share.h>

#include "share/socket.h"

#define PAGE 4096ull
#define TIMEOUT_MS 400
#define LONG_MS 60000 /* no load makes five imports that slow */
#define HANGS_S 20
#define CHUNKS 600

static struct mrg_share *owner;
static struct mrg_range *range;
static struct share_token token;
static struct mrg_error error;
static int memfd;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 4096; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* What the server closes, it closes a moment later. */
static void assert_fds(int expected)
{
	for (int i = 0; i < 200 && count_fds() != expected; i++)
		usleep(10000);
	assert_int_equal(count_fds(), expected);
}

static int new_memfd(uint64_t size, unsigned int seals)
{
	int fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int begin(unsigned int timeout_ms)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = timeout_ms };
	struct mrg_memfd *fds = calloc(CHUNKS, sizeof(*fds));
	const void *bytes;
	size_t length;

	unsetenv("MRGUARD_SHARE_DIR");
	memfd = new_memfd(CHUNKS * PAGE, F_SEAL_SHRINK);
	for (uint64_t i = 0; i < CHUNKS; i++)
		fds[i] = (struct mrg_memfd){ .fd = memfd, .offset = i * PAGE, .length = PAGE };
	assert_int_equal(mrg_share_open(&owner, &opts), 0);
	assert_int_equal(mrg_share_publish_memfds(owner, fds, CHUNKS, &range), 0);
	free(fds);
	length = mrg_range_token(range, &bytes);
	assert_int_equal(share_token_decode(bytes, length, &token, &error), 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(TIMEOUT_MS);
}

static int setup_patient(void **state)
{
	(void)state;
	return begin(LONG_MS);
}

static int teardown(void **state)
{
	(void)state;
	free(token.runs);
	mrg_share_unpublish(range);
	mrg_share_close(owner);
	close(memfd);
	return 0;
}

static int import_works(void)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 5000 };
	struct mrg_import *import;
	struct mrg_share *share;
	const void *bytes;
	size_t length = mrg_range_token(range, &bytes);
	int ret;

	assert_int_equal(mrg_share_open(&share, &opts), 0);
	ret = mrg_share_import(share, bytes, length, NULL, &import);
	if (!ret)
		mrg_import_release(import);
	mrg_share_close(share);
	return ret;
}

/* ---- a client made by hand ---- */

static int dial(void)
{
	struct share_address address = { .length = token.name_length };
	int fd;

	memcpy(address.name, token.name, sizeof(address.name));
	do {
		fd = share_connect(&address);
	} while (fd == -EAGAIN && !usleep(1000));
	assert_true(fd >= 0);
	return fd;
}

static struct share_request request(uint32_t first, uint32_t batch)
{
	struct share_request r = { .generation = token.generation, .first = first, .batch = batch };

	share_head(&r.head, SHARE_REQUEST);
	memcpy(r.secret, token.secret, sizeof(r.secret));
	return r;
}

/* The next message, waited for; its descriptors are closed. */
static ssize_t hear(int fd, union share_message *message, size_t *count)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[SHARE_MAX_FDS];
	ssize_t length;

	poll(&p, 1, 5000);
	length = share_receive(fd, message, fds, count);
	if (length == -ECONNRESET)
		length = share_receive(fd, message, fds, count);
	share_close_fds(fds, *count);
	return length;
}

static void hangs_up(int fd)
{
	union share_message message;
	size_t count;

	assert_int_equal(hear(fd, &message, &count), 0);
	close(fd);
}

static void tells(int fd, int code)
{
	union share_message message;
	size_t count;
	ssize_t length = hear(fd, &message, &count);

	assert_true(length > 0);
	assert_int_equal(share_check_message(&message, (size_t)length, false, &error), SHARE_ERROR);
	assert_int_equal(message.failure.code, code);
	close(fd);
}

static void say(int fd, const void *message, size_t length)
{
	assert_int_equal(share_send(fd, message, length, NULL, 0), 0);
}

static void garbage_ends_the_connection_and_nothing_else(void **state)
{
	char junk[200];
	int fds = count_fds(), fd;

	(void)state;
	memset(junk, 0xee, sizeof(junk));
	for (size_t length = 1; length < sizeof(junk); length += 13) {
		fd = dial();
		say(fd, junk, length);
		hangs_up(fd);
	}
	assert_fds(fds);
	assert_int_equal(import_works(), 0);
}

static void a_wrong_secret_is_refused(void **state)
{
	struct share_request r = request(0, 1);
	int fd = dial();

	(void)state;
	r.secret[15] ^= 1;
	say(fd, &r, sizeof(r));
	tells(fd, -ESTALE);
	r = request(0, 1);
	r.generation++;
	fd = dial();
	say(fd, &r, sizeof(r));
	tells(fd, -ESTALE);
}

static void another_version_is_named(void **state)
{
	struct share_request r = request(0, 1);
	int fd = dial();

	(void)state;
	r.head.version = 9;
	say(fd, &r, sizeof(r));
	tells(fd, -EPROTONOSUPPORT);
}

static void a_request_with_a_part_is_served_unless_the_part_must_be_understood(void **state)
{
	struct {
		struct share_request request;
		struct share_part part;
	} message = { request(0, 8), { 9, 0 } };
	union share_message answer;
	size_t count;
	int fd = dial();

	(void)state;
	say(fd, &message, sizeof(message));
	assert_true(hear(fd, &answer, &count) > 0);
	assert_int_equal(answer.head.type, SHARE_CHUNKS);
	close(fd);
	message.part.type |= SHARE_PART_MUST;
	fd = dial();
	say(fd, &message, sizeof(message));
	tells(fd, -EPROTONOSUPPORT);
	assert_int_equal(import_works(), 0);
}

static void a_request_past_the_end_is_refused(void **state)
{
	struct share_request r = request(CHUNKS, 1);
	int fd = dial();

	(void)state;
	say(fd, &r, sizeof(r));
	tells(fd, -EPROTO);
}

static void acknowledgements_of_nothing_are_refused(void **state)
{
	const uint32_t wrong[] = { 0, CHUNKS, UINT32_MAX };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct share_request r = request(0, 1);
		struct share_ack ack = { .next = wrong[i] };
		union share_message message;
		size_t count;
		ssize_t length;
		int fd = dial();

		say(fd, &r, sizeof(r));
		assert_true(hear(fd, &message, &count) > 0);
		share_head(&ack.head, SHARE_ACK);
		say(fd, &ack, sizeof(ack));
		/* Chunks that were under way, then the refusal. */
		do {
			length = hear(fd, &message, &count);
		} while (length > 0 && message.head.type == SHARE_CHUNKS);
		assert_true(length > 0);
		assert_int_equal(message.failure.code, -EPROTO);
		close(fd);
	}
}

static void descriptors_sent_to_the_server_are_closed(void **state)
{
	struct share_request r = request(0, 1);
	int null = open("/dev/null", O_RDWR), many[SHARE_MAX_FDS];
	int fds = count_fds(), fd;

	(void)state;
	for (int i = 0; i < SHARE_MAX_FDS; i++)
		many[i] = null;
	for (int i = 0; i < 5; i++) {
		fd = dial();
		assert_int_equal(share_send(fd, &r, sizeof(r), many, SHARE_MAX_FDS), 0);
		hangs_up(fd);
	}
	assert_fds(fds);
	close(null);
}

/* It gets a window of chunks and no more, and is dropped in the end. */
static void a_client_that_reads_nothing_gets_a_window_and_is_dropped(void **state)
{
	struct share_request r = request(0, SHARE_MAX_FDS);
	int fds = count_fds(), fd = dial(), total = 0;
	union share_message message;
	size_t count;

	(void)state;
	say(fd, &r, sizeof(r));
	usleep(2 * TIMEOUT_MS * 1000);
	while (hear(fd, &message, &count) > 0)
		total += (int)count;
	assert_in_range(total, 1, 128);
	close(fd);
	assert_fds(fds);
}

static void slow_and_silent_clients_do_not_hold_up_others(void **state)
{
	struct share_request r = request(0, 1);
	int silent[20], slow[20];
	double start;

	(void)state;
	for (int i = 0; i < 20; i++) {
		silent[i] = dial();
		slow[i] = dial();
		say(slow[i], &r, sizeof(r));
	}
	usleep(20000);
	start = now();
	for (int i = 0; i < 5; i++)
		assert_int_equal(import_works(), 0);
	assert_true(now() - start < LONG_MS / 2 / 1000.0);
	for (int i = 0; i < 20; i++) {
		close(silent[i]);
		close(slow[i]);
	}
}

/* 100 connections that say nothing: the oldest make room, and get the reason. */
static void silent_clients_cannot_use_up_the_server(void **state)
{
	int silent[100], fds[SHARE_MAX_FDS], told = 0;
	union share_message message;
	size_t count;

	(void)state;
	for (int i = 0; i < 100; i++)
		silent[i] = dial();
	assert_int_equal(import_works(), 0);
	for (int i = 0; i < 100; i++) {
		told += share_receive(silent[i], &message, fds, &count) > 0 &&
			message.failure.code == -EBUSY;
		close(silent[i]);
	}
	assert_true(told > 0);
}

static void a_server_full_of_peers_says_so(void **state)
{
	struct share_request r = request(0, 1);
	int busy[64], fd;

	(void)state;
	for (int i = 0; i < 64; i++) {
		union share_message message;
		size_t count;

		busy[i] = dial();
		say(busy[i], &r, sizeof(r));
		assert_true(hear(busy[i], &message, &count) > 0);
	}
	fd = dial();
	tells(fd, -EBUSY);
	for (int i = 0; i < 64; i++)
		close(busy[i]);
}

/* ---- many at once ---- */

static void *import_often(void *arg)
{
	struct mrg_import *import;
	const void *bytes;
	size_t length = mrg_range_token(range, &bytes);
	int ret;

	for (int i = 0; i < 20; i++) {
		ret = mrg_share_import(arg, bytes, length, NULL, &import);
		if (ret)
			return (void *)(intptr_t)ret;
		(void)((volatile char *)(uintptr_t)mrg_import_address(import))[i * 4096];
		mrg_import_release(import);
	}
	return NULL;
}

static void threads_may_import_at_once(void **state)
{
	pthread_t threads[8];
	void *result;
	int fds = count_fds();

	(void)state;
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, import_often, owner);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	assert_fds(fds);
}

static void *publish_often(void *arg)
{
	struct mrg_memfd m = { .fd = memfd, .offset = 0, .length = PAGE };
	struct mrg_range *r;

	for (int i = 0; i < 100; i++) {
		if (mrg_share_publish_memfds(arg, &m, 1, &r))
			return (void *)1;
		mrg_share_unpublish(r);
	}
	return NULL;
}

static void publishing_and_importing_may_go_on_together(void **state)
{
	pthread_t threads[4];
	void *result;

	(void)state;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i % 2 ? publish_often : import_often, owner);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
}

static void *withdraw_soon(void *arg)
{
	usleep(2000);
	mrg_share_unpublish(arg);
	return NULL;
}

static void a_range_may_be_withdrawn_while_a_peer_fetches_it(void **state)
{
	struct mrg_memfd *fds = calloc(CHUNKS, sizeof(*fds));

	(void)state;
	for (uint64_t i = 0; i < CHUNKS; i++)
		fds[i] = (struct mrg_memfd){ .fd = memfd, .offset = i * PAGE, .length = PAGE };
	for (int i = 0; i < 30; i++) {
		struct mrg_import *import;
		struct mrg_range *other;
		uint8_t copy[512];
		const void *bytes;
		pthread_t thread;
		size_t length;
		int ret;

		assert_int_equal(mrg_share_publish_memfds(owner, fds, CHUNKS, &other), 0);
		length = mrg_range_token(other, &bytes);
		memcpy(copy, bytes, length);
		pthread_create(&thread, NULL, withdraw_soon, other);
		ret = mrg_share_import(owner, copy, length, NULL, &import);
		assert_true(!ret || ret == -ESTALE);
		if (!ret)
			mrg_import_release(import);
		pthread_join(thread, NULL);
	}
	free(fds);
}

/* ---- a server made by hand ---- */

static int listener;
static struct share_token fake;
static struct share_run fake_run;

typedef void (*act_t)(int fd);

static void serve_fake(act_t act)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	union share_message message;
	int fds[SHARE_MAX_FDS], fd;
	size_t count;

	poll(&p, 1, 5000);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	p.fd = fd;
	poll(&p, 1, 5000);
	share_receive(fd, &message, fds, &count);
	act(fd);
	close(fd);
}

static void *fake_thread(void *act)
{
	act_t function;

	memcpy(&function, &act, sizeof(function));
	serve_fake(function);
	return NULL;
}

/* Imports from a server that does @act after the request. */
static int import_from(act_t act)
{
	struct share_address address;
	struct mrg_import *import;
	pthread_t thread;
	ssize_t length;
	int fds, ret;
	void *bytes, *arg;

	fake_run = (struct share_run){ PAGE, 3 };
	assert_int_equal(share_name(NULL, &address), 0);
	listener = share_listen(&address);
	fake = token;
	fake.runs = &fake_run;
	fake.run_count = 1;
	fake.length = 3 * PAGE;
	memcpy(fake.name, address.name, sizeof(fake.name));
	fake.name_length = address.length;
	length = share_token_encode(&fake, &bytes);
	memcpy(&arg, &act, sizeof(arg));
	fds = count_fds();
	pthread_create(&thread, NULL, fake_thread, arg);
	ret = mrg_share_import(owner, bytes, (size_t)length, NULL, &import);
	if (!ret)
		mrg_import_release(import);
	pthread_join(thread, NULL);
	assert_fds(fds);
	mrg_share_last_error(owner, &error);
	free(bytes);
	close(listener);
	return ret;
}

static struct share_chunks chunks(uint32_t first, uint32_t count)
{
	struct share_chunks c = { .first = first, .count = count };

	share_head(&c.head, SHARE_CHUNKS);
	for (uint32_t i = 0; i < count; i++)
		c.chunks[i] = (struct share_chunk){ PAGE, i * PAGE };
	return c;
}

static void send_chunks(int fd, const struct share_chunks *c, uint32_t fds, int file)
{
	int many[SHARE_MAX_FDS];

	for (uint32_t i = 0; i < fds; i++)
		many[i] = file;
	share_send(fd, c, share_message_bytes(SHARE_CHUNKS, c->count), many, fds);
}

static void act_right(int fd)
{
	struct share_chunks c = chunks(0, 3);

	send_chunks(fd, &c, 3, memfd);
	usleep(20000);
}

static void act_nothing(int fd)
{
	(void)fd;
	usleep((TIMEOUT_MS + 200) * 1000);
}

static void act_hang_up(int fd)
{
	(void)fd;
}

static void act_hang_up_halfway(int fd)
{
	struct share_chunks c = chunks(0, 2);

	send_chunks(fd, &c, 2, memfd);
}

static void act_fewer_descriptors(int fd)
{
	struct share_chunks c = chunks(0, 3);

	send_chunks(fd, &c, 2, memfd);
	usleep(20000);
}

static void act_more_descriptors(int fd)
{
	struct share_chunks c = chunks(0, 3);

	send_chunks(fd, &c, 9, memfd);
	usleep(20000);
}

static void act_too_many_chunks(int fd)
{
	struct share_chunks c = chunks(0, 4);

	send_chunks(fd, &c, 4, memfd);
	usleep(20000);
}

static void act_others_first(int fd)
{
	struct share_chunks c = chunks(1, 1);

	send_chunks(fd, &c, 1, memfd);
	usleep(20000);
}

static void act_other_size(int fd)
{
	struct share_chunks c = chunks(0, 1);

	c.chunks[0].size = 2 * PAGE;
	send_chunks(fd, &c, 1, memfd);
	usleep(20000);
}

static void act_other_file(int fd)
{
	struct share_chunks c = chunks(0, 1);
	int null = open("/dev/null", O_RDWR);

	send_chunks(fd, &c, 1, null);
	close(null);
	usleep(20000);
}

static void act_unsealed_file(int fd)
{
	struct share_chunks c = chunks(0, 1);
	int file = new_memfd(PAGE, 0);

	send_chunks(fd, &c, 1, file);
	close(file);
	usleep(20000);
}

static void act_short_file(int fd)
{
	struct share_chunks c = chunks(0, 1);
	int file = new_memfd(PAGE, F_SEAL_SHRINK);

	c.chunks[0].offset = PAGE;
	send_chunks(fd, &c, 1, file);
	close(file);
	usleep(20000);
}

static void act_wild_offset(int fd)
{
	struct share_chunks c = chunks(0, 1);

	c.chunks[0].offset = ~0ull & ~4095;
	send_chunks(fd, &c, 1, memfd);
	usleep(20000);
}

static void act_handle(int fd)
{
	struct share_handle h = { 0 };

	share_head(&h.head, SHARE_HANDLE);
	share_send(fd, &h, sizeof(h), NULL, 0);
	usleep(20000);
}

static void act_junk(int fd)
{
	share_send(fd, "junk", 4, NULL, 0);
	usleep(20000);
}

static void act_huge(int fd)
{
	static char huge[65536];

	share_send(fd, huge, sizeof(huge), NULL, 0);
	usleep(20000);
}

static void act_253_descriptors(int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} control = { 0 };
	struct share_chunks c = chunks(0, 3);
	struct iovec iov = { &c, share_message_bytes(SHARE_CHUNKS, 3) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	int *fds = (int *)CMSG_DATA(&control.align);

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(253 * sizeof(int));
	for (int i = 0; i < 253; i++)
		fds[i] = memfd;
	sendmsg(fd, &msg, 0);
	usleep(20000);
}

static void act_unknown_part(int fd)
{
	struct {
		struct share_failure failure;
		struct share_part part;
	} message = { { .code = -ENOSPC }, { SHARE_PART_MUST | 9, 0 } };

	share_head(&message.failure.head, SHARE_ERROR);
	share_send(fd, &message, sizeof(message), NULL, 0);
	usleep(20000);
}

static void act_refuse(int fd)
{
	struct share_failure f = { .code = -ENOSPC };

	share_head(&f.head, SHARE_ERROR);
	memset(f.cause, 'c', sizeof(f.cause));
	memset(f.remedy, 'r', sizeof(f.remedy));
	share_send(fd, &f, sizeof(f), NULL, 0);
	usleep(20000);
}

static void an_honest_server_by_hand_is_the_control(void **state)
{
	(void)state;
	assert_int_equal(import_from(act_right), 0);
}

static void a_server_that_breaks_the_protocol_is_told_apart_and_nothing_leaks(void **state)
{
	static const struct {
		act_t act;
		int code;
	} cases[] = {
		{ act_hang_up, -ECONNRESET },
		{ act_hang_up_halfway, -ECONNRESET },
		{ act_fewer_descriptors, -EPROTO },
		{ act_more_descriptors, -EPROTO },
		{ act_too_many_chunks, -EPROTO },
		{ act_others_first, -EPROTO },
		{ act_other_size, -EPROTO },
		{ act_other_file, -EPROTO },
		{ act_unsealed_file, -EPROTO },
		{ act_short_file, -EPROTO },
		{ act_wild_offset, -EPROTO },
		{ act_handle, -EPROTO },
		{ act_junk, -EPROTO },
		{ act_huge, -EPROTO },
		{ act_unknown_part, -EPROTONOSUPPORT },
		{ act_refuse, -ENOSPC },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = import_from(cases[i].act);

		if (ret != cases[i].code)
			fail_msg("case %zu: %d, not %d (%s)", i, ret, cases[i].code, error.cause);
	}
}

static void a_silent_server_is_given_up(void **state)
{
	double start = now();

	(void)state;
	assert_int_equal(import_from(act_nothing), -ETIMEDOUT);
	assert_true(now() - start < HANGS_S);
}

/* The kernel cuts what has no room: seen, and none stays open. */
static void more_descriptors_than_fit_are_seen_as_cut(void **state)
{
	struct share_address address;
	int fds, fd, other;
	union share_message message;
	int got[SHARE_MAX_FDS];
	size_t count;

	(void)state;
	share_name(NULL, &address);
	listener = share_listen(&address);
	fd = share_connect(&address);
	other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	fds = count_fds();
	act_253_descriptors(other);
	assert_int_equal(share_receive(fd, &message, got, &count), -EMFILE);
	assert_int_equal(count, 0);
	assert_int_equal(count_fds(), fds);
	close(fd);
	close(other);
	close(listener);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup_patient, teardown)
#define HASTY(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void a_wait_of_any_length_fits_into_polls_int(void **state)
{
	(void)state;
	assert_int_equal(share_wait_ms(0), 1);
	assert_int_equal(share_wait_ms(5000), 5001);
	assert_int_equal(share_wait_ms(INT_MAX - 1), INT_MAX);
	for (unsigned int bit = 31; bit < 64; bit++) {
		assert_int_equal(share_wait_ms((1ull << bit) - 1), INT_MAX);
		assert_int_equal(share_wait_ms(1ull << bit), INT_MAX);
	}
	assert_int_equal(share_wait_ms(UINT64_MAX), INT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_of_any_length_fits_into_polls_int),
		TEST(garbage_ends_the_connection_and_nothing_else),
		TEST(a_wrong_secret_is_refused),
		TEST(another_version_is_named),
		TEST(a_request_with_a_part_is_served_unless_the_part_must_be_understood),
		TEST(a_request_past_the_end_is_refused),
		TEST(acknowledgements_of_nothing_are_refused),
		TEST(descriptors_sent_to_the_server_are_closed),
		HASTY(a_client_that_reads_nothing_gets_a_window_and_is_dropped),
		TEST(slow_and_silent_clients_do_not_hold_up_others),
		HASTY(silent_clients_cannot_use_up_the_server),
		TEST(a_server_full_of_peers_says_so),
		TEST(threads_may_import_at_once),
		TEST(publishing_and_importing_may_go_on_together),
		TEST(a_range_may_be_withdrawn_while_a_peer_fetches_it),
		TEST(an_honest_server_by_hand_is_the_control),
		TEST(a_server_that_breaks_the_protocol_is_told_apart_and_nothing_leaks),
		HASTY(a_silent_server_is_given_up),
		TEST(more_descriptors_than_fit_are_seen_as_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("share protocol", tests, NULL, NULL);
}
