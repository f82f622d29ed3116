/* SPDX-License-Identifier: MIT */
/* How endpoints meet, and which side gets which error when they do not. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "transfer_fake.h"

#define QUICK_MS 300
#define SOON_MS 20000 /* on a busy machine: what takes longer hangs */

static struct mrg_transfer *a, *b;
static struct mrg_listener *listener;
static char port[8];

static const struct mrg_transfer_opts quick = { .size = sizeof(quick), .handshake_ms = QUICK_MS };

static void begin(const struct mrg_transfer_opts *mine, const struct mrg_transfer_opts *theirs)
{
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, mine, &fake_ops), 0);
	assert_int_equal(transfer_open(&b, &net.nics[1].pd, theirs, &fake_ops), 0);
	assert_int_equal(mrg_listener_open(b, "127.0.0.1", "0", &listener), 0);
	snprintf(port, sizeof(port), "%u", mrg_listener_port(listener));
}

static void end(void)
{
	mrg_listener_close(listener);
	mrg_transfer_close(a);
	mrg_transfer_close(b);
}

static void assert_connect_fails(int code, const char *words)
{
	struct mrg_error error;
	uint64_t from = fake_now();
	struct mrg_ep *ep;
	int ret = mrg_ep_connect(a, "127.0.0.1", port, &ep);

	assert_int_equal(mrg_transfer_last_error(a, &error), 0);
	if (ret != code || !strstr(error.cause, words))
		print_error("%d: %s\n", ret, error.cause);
	assert_int_equal(ret, code);
	assert_int_equal(error.code, code);
	assert_non_null(strstr(error.cause, words));
	assert_true(fake_now() - from < SOON_MS * MS);
}

/* Endpoints that the other side's thread still knows. */
static size_t known(struct mrg_transfer *transfer)
{
	size_t n = 0;

	pthread_mutex_lock(&transfer->lock);
	for (size_t i = 0; i < transfer->slots.count; i++)
		n += transfer->slots.at[i].ep != NULL;
	pthread_mutex_unlock(&transfer->lock);
	return n;
}

static void assert_forgotten(struct mrg_transfer *transfer)
{
	uint64_t until = fake_now() + SOON_MS * MS;

	while (known(transfer) && fake_now() < until)
		usleep(1000);
	assert_int_equal(known(transfer), 0);
}

/* ---- what cannot be ---- */

static void options_out_of_range_are_refused(void **state)
{
	struct {
		struct mrg_transfer_opts opts;
		uint64_t more;
	} wide = { .opts = { .size = sizeof(wide) }, .more = 1 };
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .lanes = 17 };
	struct mrg_error error;

	(void)state;
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &opts, &fake_ops), -EINVAL);
	assert_int_equal(mrg_transfer_last_error(NULL, &error), 0);
	assert_non_null(strstr(error.cause, "lanes is 17, and at most 16 is possible."));
	opts = (struct mrg_transfer_opts){ .size = sizeof(opts), .packet_tries = 9 };
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &opts, &fake_ops), -EINVAL);
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &wide.opts, &fake_ops), -EINVAL);
	wide.more = 0;
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &wide.opts, &fake_ops), 0);
	mrg_transfer_close(a);
	opts = (struct mrg_transfer_opts){ .size = sizeof(opts), .port = 2 };
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &opts, &fake_ops), -EINVAL);
}

static void the_environment_names_a_gid(void **state)
{
	(void)state;
	setenv("MRGUARD_GID_INDEX", "three", 1);
	assert_int_equal(transfer_open(&a, &net.nics[0].pd, NULL, &fake_ops), -EINVAL);
	setenv("MRGUARD_GID_INDEX", "3", 1);
	begin(NULL, NULL);
	unsetenv("MRGUARD_GID_INDEX");
	assert_connect_fails(-ENODEV, "no such GID");
	end();
}

static void nobody_listens(void **state)
{
	(void)state;
	begin(NULL, NULL);
	mrg_listener_close(listener);
	listener = NULL;
	assert_connect_fails(-ECONNREFUSED, "127.0.0.1");
	end();
}

static void an_address_that_is_none_is_refused(void **state)
{
	struct mrg_ep *ep;

	(void)state;
	begin(NULL, NULL);
	assert_int_equal(mrg_ep_connect(a, "300.1.1.1", "x", &ep), -EINVAL);
	end();
}

static void an_own_port_that_is_down_is_named(void **state)
{
	(void)state;
	begin(NULL, NULL);
	net.nics[0].port_down = true;
	assert_connect_fails(-ENETDOWN, "fake0");
	end();
}

static void the_peers_port_that_is_down_is_told_in_its_words(void **state)
{
	(void)state;
	begin(NULL, NULL);
	net.nics[1].port_down = true;
	assert_connect_fails(-EREMOTEIO, "says: \"Device fake1");
	assert_forgotten(b);
	end();
}

static void the_peers_lack_of_queue_pairs_is_told(void **state)
{
	(void)state;
	begin(NULL, NULL);
	/* One is made on this side; the peer asks with inline data, and without. */
	faults.fail_create = 1;
	b->limits.inline_bytes = 0;
	assert_connect_fails(-EREMOTEIO, "Cannot allocate memory");
	assert_forgotten(b);
	end();
}

static void gids_of_different_types_do_not_meet(void **state)
{
	(void)state;
	begin(NULL, NULL);
	net.nics[1].gids[0].type = IBV_GID_TYPE_ROCE_V1;
	assert_connect_fails(-EREMOTEIO, "types or address families differ");
	end();
}

static void the_gid_is_taken_that_fits_the_peers(void **state)
{
	struct mrg_ep *ep, *peer;

	(void)state;
	net.nics[0].gids[1] = net.nics[0].gids[0];
	net.nics[0].gids[1].index = 9;
	net.nics[0].gids[0].gid.raw[10] = 0; /* IPv6 */
	net.nics[0].gids[0].gid.raw[0] = 0x20;
	net.nics[0].gid_count = 2;
	begin(NULL, NULL);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	assert_int_equal(ep->gid.index, 9);
	assert_memory_equal(peer->peer_port.gid, &net.nics[0].gids[1].gid, 16);
	assert_non_null(strstr(mrg_ep_peer(ep), "fake1"));
	assert_non_null(strstr(mrg_ep_peer(peer), "fake0"));
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	end();
}

static void the_side_that_wants_fewer_lanes_gets_them(void **state)
{
	struct mrg_transfer_opts many = { .size = sizeof(many), .lanes = 8 };
	struct mrg_transfer_opts few = { .size = sizeof(few), .lanes = 3 };
	struct mrg_ep *ep, *peer;

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin(i ? &few : &many, i ? &many : &few);
		assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
		assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
		assert_int_equal(mrg_ep_status(ep, NULL), 3);
		assert_int_equal(mrg_ep_status(peer, NULL), 3);
		assert_int_equal(net.live_qps, 6);
		mrg_ep_close(ep);
		mrg_ep_close(peer);
		end();
	}
}

static void nobody_came_is_told_in_time(void **state)
{
	struct mrg_ep *ep;

	(void)state;
	begin(NULL, NULL);
	assert_int_equal(mrg_listener_accept(listener, 50, &ep), -EAGAIN);
	end();
}

/* ---- peers that are something else: this test is the server ---- */

struct stranger {
	int fd;
	pthread_t thread;
	const void *says;
	size_t length;
};

static void *be_strange(void *arg)
{
	struct stranger *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	char rest[4096];

	if (s->length)
		assert_int_equal(write(fd, s->says, s->length), s->length);
	/* Until the other side has had enough. */
	while (read(fd, rest, sizeof(rest)) > 0)
		;
	close(fd);
	return NULL;
}

static void meet_stranger(const void *says, size_t length, int code, const char *words)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct stranger s = { .says = says, .length = length };
	socklen_t size = sizeof(at);

	assert_int_equal(transfer_open(&a, &net.nics[0].pd, &quick, &fake_ops), 0);
	s.fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s.fd, 1), 0);
	getsockname(s.fd, (struct sockaddr *)&at, &size);
	snprintf(port, sizeof(port), "%u", ntohs(at.sin_port));
	pthread_create(&s.thread, NULL, be_strange, &s);
	assert_connect_fails(code, words);
	pthread_join(s.thread, NULL);
	close(s.fd);
	mrg_transfer_close(a);
}

static void a_peer_that_says_nothing_is_given_up(void **state)
{
	(void)state;
	meet_stranger(NULL, 0, -ETIMEDOUT, "did not finish the handshake within 300 ms");
}

static void another_service_is_told_from_mrguard(void **state)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

	(void)state;
	meet_stranger(http, sizeof(http) - 1, -EPROTO, "not mrguard's");
}

static void another_version_is_named(void **state)
{
	struct transfer_message message = { .type = MESSAGE_READY };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&message, bytes);

	(void)state;
	bytes[4]++;
	meet_stranger(bytes, length, -EPROTONOSUPPORT, "another version");
}

static void a_refusal_of_another_version_is_read(void **state)
{
	struct transfer_message message = { .type = MESSAGE_REFUSED,
					    .refusal = { .code = -EPROTONOSUPPORT,
							 .cause = "I am\033[31m newer" } };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&message, bytes);

	(void)state;
	bytes[4]++;
	meet_stranger(bytes, length, -EREMOTEIO, "says: \"I am?[31m newer\".");
}

static void a_length_out_of_bounds_is_refused(void **state)
{
	struct transfer_message message = { .type = MESSAGE_READY };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&message, bytes);

	(void)state;
	memset(bytes + 8, 0xff, 4);
	meet_stranger(bytes, length, -EPROTO, "out of place");
}

static void a_message_out_of_place_is_refused(void **state)
{
	struct transfer_message message = { .type = MESSAGE_RESUME };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&message, bytes);

	(void)state;
	meet_stranger(bytes, length, -EPROTO, "out of place");
}

static void a_gid_that_was_not_offered_is_refused(void **state)
{
	struct transfer_message message = { .type = MESSAGE_WELCOME,
					    .hello = { .port = { .ethernet = 1,
								 .gid_type = IBV_GID_TYPE_ROCE_V2,
								 .mtu = IBV_MTU_4096,
								 .reads = 1 },
						       .taken = MESSAGE_GIDS - 1,
						       .lanes = 1,
						       .lane = { { 77, 1 } } } };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length;

	(void)state;
	memcpy(message.hello.port.gid, &net.nics[1].gids[0].gid, 16);
	length = transfer_message_encode(&message, bytes);
	meet_stranger(bytes, length, -EPROTO, "out of place");
}

/* The welcome of a later release, with @parts. */
static size_t welcome(uint8_t *bytes, const void *parts, size_t length)
{
	struct transfer_message message = { .type = MESSAGE_WELCOME,
					    .hello = { .port = { .ethernet = 1,
								 .gid_type = IBV_GID_TYPE_ROCE_V2,
								 .mtu = IBV_MTU_4096,
								 .reads = 1 },
						       .lanes = 1,
						       .lane = { { 77, 1 } },
						       .parts = { parts, length } } };

	memcpy(message.hello.port.gid, &net.nics[1].gids[0].gid, 16);
	return transfer_message_encode(&message, bytes);
}

static void a_part_that_must_be_known_is_refused_by_its_number(void **state)
{
	static const uint8_t parts[] = { 9, 0, 2, 0, 1, 2, 5, 0x80, 0, 0 };
	uint8_t bytes[MESSAGE_SMALL];

	(void)state;
	meet_stranger(bytes, welcome(bytes, parts, sizeof(parts)), -EPROTONOSUPPORT,
		      "requires part 0x8005");
}

static void a_part_that_is_cut_short_is_refused(void **state)
{
	static const uint8_t parts[] = { 9, 0, 3, 0, 1, 2 };
	uint8_t bytes[MESSAGE_SMALL];

	(void)state;
	meet_stranger(bytes, welcome(bytes, parts, sizeof(parts)), -EPROTO, "out of place");
}

static void a_required_message_that_is_unknown_is_refused(void **state)
{
	struct transfer_message message = { .type = MESSAGE_READY };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&message, bytes);

	(void)state;
	bytes[6] = MESSAGE_TYPES;
	meet_stranger(bytes, length, -EPROTO, "out of place");
}

/* ---- clients that stop half way ---- */

static int dial(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* A busy endpoint's lock is held until the test lets go. */
static atomic_bool let_go;

static void *hold_lock(void *arg)
{
	struct mrg_ep *ep = arg;

	pthread_mutex_lock(&ep->lock);
	while (!let_go)
		usleep(1000);
	pthread_mutex_unlock(&ep->lock);
	return NULL;
}

static void a_busy_endpoint_holds_no_handshake_up(void **state)
{
	struct mrg_ep *busy, *busy_peer, *ep, *peer;
	pthread_t thread;
	int raw;

	(void)state;
	begin(&quick, &quick);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &busy), 0);
	assert_int_equal(mrg_listener_accept(listener, 5000, &busy_peer), 0);
	/* Its own handshake's time is over; another's is, while it is busy. */
	usleep(2 * QUICK_MS * 1000);
	assert_int_equal(pthread_create(&thread, NULL, hold_lock, busy_peer), 0);
	raw = dial();
	usleep(2 * QUICK_MS * 1000);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	let_go = true;
	pthread_join(thread, NULL);
	close(raw);
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	mrg_ep_close(busy);
	mrg_ep_close(busy_peer);
	end();
}

static size_t hello(uint8_t *bytes)
{
	struct transfer_message message = { .type = MESSAGE_HELLO,
					    .hello = { .port = { .ethernet = 1,
								 .gid_type = IBV_GID_TYPE_ROCE_V2,
								 .mtu = IBV_MTU_4096,
								 .reads = 1 },
						       .gids = 1,
						       .lanes = 2,
						       .lane = { { 77, 1 }, { 78, 2 } } } };

	memcpy(message.hello.gid[0].gid, &net.nics[0].gids[0].gid, 16);
	message.hello.gid[0].type = IBV_GID_TYPE_ROCE_V2;
	return transfer_message_encode(&message, bytes);
}

/* Says @length bytes of HELLO, then hangs (or goes) */
static int stop_at(size_t length, bool goes)
{
	uint8_t bytes[MESSAGE_SMALL];
	int fd = dial();

	hello(bytes);
	assert_int_equal(write(fd, bytes, length), length);
	usleep(20000);
	if (!goes)
		return fd;
	close(fd);
	return -1;
}

static void a_client_that_goes_at_any_step_leaves_nothing(void **state)
{
	uint8_t bytes[MESSAGE_SMALL];
	size_t whole = hello(bytes);

	(void)state;
	begin(&quick, &quick);
	stop_at(0, true);
	stop_at(5, true);
	stop_at(MESSAGE_HEAD, true);
	stop_at(whole - 1, true);
	stop_at(whole, true);
	assert_forgotten(b);
	assert_int_equal(net.live_qps, 0);
	end();
}

static void clients_that_hang_are_let_go_and_hold_nobody_up(void **state)
{
	struct mrg_ep *ep, *peer;
	uint8_t bytes[MESSAGE_SMALL];
	size_t whole = hello(bytes);
	int fds[3];

	(void)state;
	begin(&quick, &quick);
	fds[0] = stop_at(0, false);
	fds[1] = stop_at(20, false);
	fds[2] = stop_at(whole, false);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	assert_forgotten(b);
	assert_int_equal(net.live_qps, 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	end();
}

static void a_listener_closes_with_peers_at_all_steps(void **state)
{
	uint8_t bytes[MESSAGE_SMALL];
	size_t whole = hello(bytes);
	struct mrg_error error;
	struct mrg_ep *ep;
	int fd, other;

	(void)state;
	begin(NULL, NULL);
	fd = stop_at(8, false);
	other = stop_at(whole, false);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	mrg_listener_close(listener);
	listener = NULL;
	while (mrg_ep_status(ep, &error) >= 0)
		usleep(1000);
	/* The second, where its last word had not been heard yet. */
	assert_true(error.code == -ESHUTDOWN || error.code == -EREMOTEIO);
	mrg_ep_close(ep);
	assert_forgotten(b);
	close(fd);
	close(other);
	end();
}

static unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void await_known(size_t count)
{
	uint64_t until = fake_now() + SOON_MS * MS;

	while (known(b) != count && fake_now() < until)
		usleep(1000);
	assert_int_equal(known(b), count);
}

static void a_silent_client_costs_one_descriptor(void **state)
{
	enum { COUNT = 100 }; /* more than are taken at a time */
	unsigned int before;
	int fds[COUNT];

	(void)state;
	begin(NULL, NULL);
	before = open_descriptors();
	for (int i = 0; i < COUNT; i++)
		fds[i] = dial();
	await_known(COUNT);
	assert_int_equal(open_descriptors() - before, 2 * COUNT);
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	assert_forgotten(b);
	assert_int_equal(open_descriptors(), before);
	end();
}

/* Until the other side ends it: what it said, with its head. */
static size_t hear(int fd, uint8_t *bytes, size_t room)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t length = 0;
	ssize_t n;

	while (length < room && poll(&p, 1, SOON_MS) > 0 &&
	       (n = read(fd, bytes + length, room - length)) > 0)
		length += (size_t)n;
	return length;
}

static void no_descriptors_for_a_peer_is_told_to_it(void **state)
{
	static const char words[] = "Too many open files";
	struct rlimit before, tight;
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = hello(bytes);
	int fd;

	(void)state;
	begin(NULL, NULL);
	fd = dial();
	await_known(1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	tight = before;
	tight.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	assert_int_equal(write(fd, bytes, length), length);
	length = hear(fd, bytes, sizeof(bytes));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(memmem(bytes, length, words, sizeof(words) - 1));
	close(fd);
	assert_forgotten(b);
	assert_int_equal(net.live_qps, 0);
	end();
}

/* Goes through the handshake, and says nothing more. */
static int meet_and_hang(void)
{
	const struct transfer_message ready = { .type = MESSAGE_READY };
	uint8_t bytes[MESSAGE_SMALL], welcome[MESSAGE_SMALL];
	size_t length = hello(bytes);
	int fd = dial();

	assert_int_equal(write(fd, bytes, length), length);
	assert_true(read(fd, welcome, sizeof(welcome)) > 0);
	length = transfer_message_encode(&ready, bytes);
	assert_int_equal(write(fd, bytes, length), length);
	return fd;
}

/* Of a later release: an optional message and part, and no revoking. */
static void what_may_be_skipped_is_skipped(void **state)
{
	static const uint8_t parts[] = { 9, 0, 2, 0, 1, 2 };
	const struct transfer_message note = { .type = MESSAGE_NOTE,
					       .note = { (const uint8_t *)"note", 4 } };
	uint8_t bytes[3 * MESSAGE_SMALL], back[MESSAGE_SMALL];
	struct transfer_message message;
	size_t length = hello(bytes);
	struct mrg_ep *peer;
	int fd;

	(void)state;
	begin(NULL, NULL);
	fd = dial();
	assert_int_equal(transfer_message_decode(bytes, length, &message), 0);
	message.hello.parts = (struct transfer_message_bytes){ parts, sizeof(parts) };
	length = transfer_message_encode(&message, back);
	assert_int_equal(write(fd, back, length), length);
	assert_true(read(fd, back, sizeof(back)) > 0);
	message.type = MESSAGE_READY;
	length = transfer_message_encode(&message, bytes);
	message.type = MESSAGE_REVOKE;
	length += transfer_message_encode(&message, bytes + length);
	bytes[MESSAGE_HEAD + 7] = 0x80; /* the type of the second, now optional */
	length += transfer_message_encode(&note, bytes + length);
	assert_int_equal(write(fd, bytes, length), length);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	assert_int_equal(mrg_ep_receive(peer, back, sizeof(back), SOON_MS), 4);
	assert_int_equal(mrg_ep_revoke(peer, 1, 0), -EOPNOTSUPP);
	mrg_ep_close(peer);
	close(fd);
	end();
}

static unsigned int unaccepted(void)
{
	unsigned int n;

	pthread_mutex_lock(&b->lock);
	n = listener->unaccepted;
	pthread_mutex_unlock(&b->lock);
	return n;
}

static void silent_peers_are_let_go_together(void **state)
{
	enum { COUNT = 100, EACH_MS = 200 };
	uint64_t from, until;
	int fds[COUNT];

	(void)state;
	begin(NULL, NULL);
	for (int i = 0; i < COUNT; i++)
		fds[i] = meet_and_hang();
	until = fake_now() + SOON_MS * MS;
	while (unaccepted() < COUNT && fake_now() < until)
		usleep(1000);
	assert_int_equal(unaccepted(), COUNT);
	from = fake_now();
	mrg_listener_close(listener);
	listener = NULL;
	assert_true(fake_now() - from < COUNT / 2 * EACH_MS * MS);
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	assert_int_equal(net.live_qps, 0);
	end();
}

static void generation_0_names_no_buffer(void **state)
{
	const struct transfer_message revoke = { .type = MESSAGE_REVOKE };
	uint8_t bytes[MESSAGE_SMALL];
	size_t length = transfer_message_encode(&revoke, bytes);
	struct mrg_error error;
	struct mrg_ep *peer;
	int fd, ret;

	(void)state;
	begin(NULL, NULL);
	fd = meet_and_hang();
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	assert_int_equal(mrg_ep_revoke(peer, 0, 0), -EINVAL);
	assert_int_equal(mrg_transfer_last_error(b, &error), 0);
	assert_non_null(strstr(error.cause, "generation is 0"));
	assert_int_equal(write(fd, bytes, length), length);
	while ((ret = mrg_ep_status(peer, &error)) >= 0)
		usleep(1000);
	assert_int_equal(ret, -EPROTO);
	mrg_ep_close(peer);
	close(fd);
	end();
}

/* ---- notes ---- */

static void notes_come_whole_and_in_order(void **state)
{
	static uint8_t bytes[MRG_NOTE_MAX], back[MRG_NOTE_MAX];
	struct mrg_ep *ep, *peer;

	(void)state;
	begin(NULL, NULL);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	for (int i = 0; i < 100; i++) {
		memset(bytes, i, sizeof(bytes));
		assert_int_equal(mrg_ep_send(i % 2 ? ep : peer, bytes,
					     i % 4 < 2 ? MRG_NOTE_MAX : (size_t)i),
				 0);
	}
	for (int i = 0; i < 100; i++) {
		ssize_t n = mrg_ep_receive(i % 2 ? peer : ep, back, sizeof(back), SOON_MS);

		assert_int_equal(n, i % 4 < 2 ? MRG_NOTE_MAX : i);
		assert_int_equal(back[0], i);
		assert_int_equal(back[n - 1], i);
	}
	assert_int_equal(mrg_ep_receive(ep, back, sizeof(back), 10), -EAGAIN);
	assert_int_equal(mrg_ep_send(ep, bytes, 0), -EINVAL);
	assert_int_equal(mrg_ep_send(ep, "last", 4), 0);
	mrg_ep_close(ep);
	assert_int_equal(mrg_ep_receive(peer, back, 3, SOON_MS), -EMSGSIZE);
	assert_int_equal(mrg_ep_receive(peer, back, sizeof(back), SOON_MS), 4);
	assert_int_equal(mrg_ep_receive(peer, back, sizeof(back), SOON_MS), -ESHUTDOWN);
	assert_int_equal(mrg_ep_send(peer, bytes, 1), -ESHUTDOWN);
	mrg_ep_close(peer);
	end();
}

static void a_peer_that_does_not_read_is_eagain(void **state)
{
	static uint8_t bytes[MRG_NOTE_MAX];
	struct mrg_ep *ep, *peer;
	int ret = 0, sent = 0;

	(void)state;
	begin(NULL, NULL);
	assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &ep), 0);
	assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peer), 0);
	pthread_mutex_lock(&peer->lock);
	while (!ret && sent++ < 10000)
		ret = mrg_ep_send(ep, bytes, sizeof(bytes));
	assert_int_equal(ret, -EAGAIN);
	while (!mrg_ep_send(ep, bytes, 1))
		;
	/* What is not the application's has room, and is not forgotten. */
	assert_int_equal(mrg_ep_revoke(ep, 7, 0), -ETIMEDOUT);
	pthread_mutex_unlock(&peer->lock);
	assert_int_equal(mrg_ep_revoke(ep, 8, 10 * SOON_MS), 0);
	assert_int_equal(mrg_ep_revoke(ep, 7, 0), 0);
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	end();
}

static void a_listener_that_nobody_accepts_from_says_so(void **state)
{
	(void)state;
	begin(NULL, NULL);
	pthread_mutex_lock(&b->lock);
	listener->unaccepted += 1024;
	pthread_mutex_unlock(&b->lock);
	assert_connect_fails(-EREMOTEIO, "wait to be accepted");
	pthread_mutex_lock(&b->lock);
	listener->unaccepted -= 1024;
	pthread_mutex_unlock(&b->lock);
	assert_forgotten(b);
	end();
}

static void hundreds_of_endpoints_meet(void **state)
{
	enum { COUNT = 300 };
	static struct mrg_ep *eps[COUNT], *peers[COUNT];
	uint64_t from = fake_now();

	(void)state;
	begin(NULL, NULL);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(mrg_ep_connect(a, "127.0.0.1", port, &eps[i]), 0);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(mrg_listener_accept(listener, SOON_MS, &peers[i]), 0);
	printf("# %d endpoints in %llu ms\n", COUNT,
	       (unsigned long long)((fake_now() - from) / MS));
	for (int i = 0; i < COUNT; i++) {
		mrg_ep_close(eps[i]);
		mrg_ep_close(peers[i]);
	}
	assert_int_equal(known(a) + known(b), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(options_out_of_range_are_refused),
		FAKE_TEST(the_environment_names_a_gid),
		FAKE_TEST(nobody_listens),
		FAKE_TEST(an_address_that_is_none_is_refused),
		FAKE_TEST(an_own_port_that_is_down_is_named),
		FAKE_TEST(the_peers_port_that_is_down_is_told_in_its_words),
		FAKE_TEST(the_peers_lack_of_queue_pairs_is_told),
		FAKE_TEST(gids_of_different_types_do_not_meet),
		FAKE_TEST(the_gid_is_taken_that_fits_the_peers),
		FAKE_TEST(the_side_that_wants_fewer_lanes_gets_them),
		FAKE_TEST(nobody_came_is_told_in_time),
		FAKE_TEST(a_peer_that_says_nothing_is_given_up),
		FAKE_TEST(another_service_is_told_from_mrguard),
		FAKE_TEST(another_version_is_named),
		FAKE_TEST(a_refusal_of_another_version_is_read),
		FAKE_TEST(a_length_out_of_bounds_is_refused),
		FAKE_TEST(a_message_out_of_place_is_refused),
		FAKE_TEST(a_gid_that_was_not_offered_is_refused),
		FAKE_TEST(a_part_that_must_be_known_is_refused_by_its_number),
		FAKE_TEST(a_part_that_is_cut_short_is_refused),
		FAKE_TEST(a_required_message_that_is_unknown_is_refused),
		FAKE_TEST(what_may_be_skipped_is_skipped),
		FAKE_TEST(a_client_that_goes_at_any_step_leaves_nothing),
		FAKE_TEST(clients_that_hang_are_let_go_and_hold_nobody_up),
		FAKE_TEST(a_listener_closes_with_peers_at_all_steps),
		FAKE_TEST(a_silent_client_costs_one_descriptor),
		FAKE_TEST(no_descriptors_for_a_peer_is_told_to_it),
		FAKE_TEST(silent_peers_are_let_go_together),
		FAKE_TEST(generation_0_names_no_buffer),
		FAKE_TEST(notes_come_whole_and_in_order),
		FAKE_TEST(a_peer_that_does_not_read_is_eagain),
		FAKE_TEST(a_listener_that_nobody_accepts_from_says_so),
		FAKE_TEST(a_busy_endpoint_holds_no_handshake_up),
		FAKE_TEST(hundreds_of_endpoints_meet),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
