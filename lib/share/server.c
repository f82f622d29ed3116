/* SPDX-License-Identifier: MIT */
/*
 * The server: one thread, one epoll set, no call that blocks.
 *
 * A client sends a request; chunks go out in batches, and at most WINDOW
 * batches are on their way before the client has acknowledged the first: so
 * exporting here and importing there overlap, few descriptors are open at a
 * time, and a client that stops reading pins no more than that.  Each turn of
 * the loop gives each client one batch at most, so none waits for another's
 * buffer.  A client that makes no progress is dropped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "share/handle.h"

#define MAX_CLIENTS 64
#define BATCH 32 /* chunks a message */
#define WINDOW 4 /* messages under way */
#define REQUEST_MS 2000 /* to send the request, once connected */
#define RETRY_MS 10 /* after the kernel took no more descriptors */
#define PAUSE_MS 100 /* without accepting, when none are left */
#define NEVER UINT64_MAX
#define SAME_RELEASE "Run the same release of libmrguard in both processes."

enum state { FREE, CONNECTED, SENDING, FINISHED };

struct client {
	enum state state;
	int fd;
	struct mrg_range *range;
	uint32_t next; /* chunk to send */
	uint32_t acked;
	uint32_t batch;
	int anchor;
	int trouble; /* what sending waits for, -errno */
	uint64_t deadline, retry_at;
};

struct share_server {
	struct mrg_share *share;
	struct share_address address;
	pthread_t thread;
	int listener, wake, epoll;
	bool stop; /* atomic */
	uint64_t paused_until;
	struct client clients[MAX_CLIENTS];
};

/* Tags of epoll events; clients have their index. */
enum { TAG_LISTENER = MAX_CLIENTS, TAG_WAKE };

static int watch(const struct share_server *server, int op, int fd, uint32_t tag, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = tag };

	return epoll_ctl(server->epoll, op, fd, &event) ? -errno : 0;
}

/* ---- clients ---- */

static void drop(struct share_server *server, struct client *client)
{
	if (client->range)
		share_range_put(server->share, client->range);
	if (client->anchor >= 0)
		close(client->anchor);
	close(client->fd);
	memset(client, 0, sizeof(*client));
	client->anchor = client->fd = -1;
}

static void send_error(int fd, int code, const char *cause, const char *remedy)
{
	struct share_failure failure = { .code = code };

	share_head(&failure.head, SHARE_ERROR);
	strncpy(failure.cause, cause, sizeof(failure.cause) - 1);
	strncpy(failure.remedy, remedy, sizeof(failure.remedy) - 1);
	share_send(fd, &failure, sizeof(failure), NULL, 0);
}

static void reject(struct share_server *server, struct client *client, int code, const char *cause,
		   const char *remedy)
{
	send_error(client->fd, code, cause, remedy);
	drop(server, client);
}

/* An export failed: the peer gets the reason, where it is known. */
static void reject_export(struct share_server *server, struct client *client, int code)
{
	struct mrg_error error;

	if (code == -ESTALE)
		reject(server, client, code, "The owner withdrew the range, or freed its memory.",
		       "Get its new token.");
	else if (code == -EMFILE)
		reject(server, client, code, "The owner's process can open no more files.",
		       "Raise its limit (ulimit -n): file descriptors ran out, memory did not.");
	else if (!mrg_private_error_read(server->share->error_owner, &error) && error.code == code)
		reject(server, client, code, error.cause, error.remedy);
	else
		reject(server, client, code, "The owner cannot export the memory.", "");
}

static void start_request(struct share_server *server, struct client *client,
			  const struct share_request *request)
{
	client->range = share_range_find(server->share, request->generation, request->secret);
	if (!client->range) {
		reject(server, client, -ESTALE,
		       "The owner has no range of that generation and secret.",
		       "Get its new token.");
		return;
	}
	if (request->first >= client->range->count) {
		reject(server, client, -EPROTO,
		       "The range has fewer chunks than the request asks for.", SAME_RELEASE);
		return;
	}
	client->state = SENDING;
	client->next = client->acked = request->first;
	client->batch = request->batch < BATCH ? request->batch : BATCH;
	client->deadline = share_now_ms() + server->share->timeout_ms;
}

static void take_ack(struct share_server *server, struct client *client,
		     const struct share_ack *ack)
{
	if (ack->next <= client->acked || ack->next > client->next) {
		reject(server, client, -EPROTO,
		       "An acknowledgement is of chunks that were not sent.", SAME_RELEASE);
		return;
	}
	client->acked = ack->next;
	client->deadline = share_now_ms() + server->share->timeout_ms;
	if (client->acked == client->range->count)
		client->state = FINISHED;
}

static void read_client(struct share_server *server, struct client *client)
{
	union share_message message;
	struct mrg_error error;
	int fds[SHARE_MAX_FDS], type;
	size_t count;
	ssize_t length;

	length = share_receive(client->fd, &message, fds, &count);
	if (length == -EAGAIN)
		return;
	share_close_fds(fds, count);
	if (length <= 0 || count) {
		drop(server, client);
		return;
	}
	type = share_check_message(&message, (size_t)length, true, &error);
	if (type == -EPROTONOSUPPORT)
		reject(server, client, type, error.cause, error.remedy);
	else if (type == SHARE_REQUEST && client->state == CONNECTED)
		start_request(server, client, &message.request);
	else if (type == SHARE_ACK && client->state == SENDING)
		take_ack(server, client, &message.ack);
	else
		drop(server, client);
}

/* ---- sending ---- */

static bool has_work(const struct client *client, uint64_t now)
{
	return client->state == SENDING && client->next < client->range->count &&
	       client->next - client->acked < client->batch * WINDOW && client->retry_at <= now;
}

/*
 * While no other exported descriptor is open in the system, each export and
 * close of one costs 1 ms (H200, driver 580); while one is, 40 us.  So a
 * request's first stays open until its end.
 */
static void close_sent(struct client *client, const int *fds, size_t count)
{
	size_t kept = 0;

	if (client->anchor < 0 && share_is_vmm(client->range->kind) && client->range->count > 1) {
		client->anchor = fds[0];
		kept = 1;
	}
	share_close_fds(fds + kept, count - kept);
}

/* Long enough for others to give descriptors back, and short enough that the
 * peer hears of it before its own patience ends. */
static void wait_a_little(struct share_server *server, struct client *client, int why)
{
	uint64_t now = share_now_ms();

	if (!client->trouble)
		client->deadline = now + server->share->timeout_ms / 2;
	client->trouble = why;
	client->retry_at = now + RETRY_MS;
}

/* -ETOOMANYREFS: the user has as many descriptors under way in messages as
 * RLIMIT_NOFILE allows him; it passes when peers read theirs. */
static bool passes(int code)
{
	return code == -EAGAIN || code == -ETOOMANYREFS || code == -EMFILE || code == -ENOBUFS;
}

static void sent(struct share_server *server, struct client *client, int ret)
{
	if (passes(ret))
		wait_a_little(server, client, ret);
	else if (ret)
		drop(server, client);
}

static void send_chunks(struct share_server *server, struct client *client)
{
	struct mrg_range *range = client->range;
	uint32_t left = (uint32_t)range->count - client->next;
	struct share_chunks message = { .first = client->next };
	int fds[SHARE_MAX_FDS], ret;

	ret = share_range_export(range, client->next, left < client->batch ? left : client->batch,
				 fds);
	if (ret == -EMFILE) {
		wait_a_little(server, client, ret);
		return;
	}
	if (ret < 0) {
		reject_export(server, client, ret);
		return;
	}
	share_head(&message.head, SHARE_CHUNKS);
	message.count = (uint32_t)ret;
	for (uint32_t i = 0; i < message.count; i++) {
		message.chunks[i].size = range->pieces[client->next + i].size;
		message.chunks[i].offset = range->pieces[client->next + i].offset;
	}
	ret = share_send(client->fd, &message, share_message_bytes(SHARE_CHUNKS, message.count),
			 fds, message.count);
	if (ret) {
		share_close_fds(fds, message.count);
	} else {
		close_sent(client, fds, message.count);
		client->next += message.count;
		client->trouble = 0;
	}
	sent(server, client, ret);
}

static void send_handle(struct share_server *server, struct client *client)
{
	struct gpu_ipc_handle handle;
	struct share_handle message;
	int ret = share_range_handle(client->range, &handle);

	if (ret) {
		reject_export(server, client, ret);
		return;
	}
	share_head(&message.head, SHARE_HANDLE);
	memcpy(message.handle, handle.bytes, sizeof(message.handle));
	ret = share_send(client->fd, &message, sizeof(message), NULL, 0);
	if (!ret) {
		client->next = 1;
		client->trouble = 0;
	}
	sent(server, client, ret);
}

static void serve(struct share_server *server, uint64_t now)
{
	for (int i = 0; i < MAX_CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (!has_work(client, now))
			continue;
		if (share_is_ipc(client->range->kind))
			send_handle(server, client);
		else
			send_chunks(server, client);
	}
}

static void expire(struct share_server *server, uint64_t now)
{
	for (int i = 0; i < MAX_CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (client->state == FREE || client->deadline > now)
			continue;
		if (client->trouble == -EMFILE)
			reject_export(server, client, -EMFILE);
		else
			drop(server, client);
	}
}

/* ---- new clients ---- */

static void send_busy(int fd)
{
	send_error(fd, -EBUSY, "The owner serves as many peers as it can.", "Try again later.");
}

/* One that has sent no request yet makes room: it has shown no token.  It may
 * be an honest one all the same, so it gets the reason. */
static struct client *find_place(struct share_server *server)
{
	struct client *idle = NULL;

	for (int i = 0; i < MAX_CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (client->state == FREE)
			return client;
		if (client->state == CONNECTED && (!idle || client->deadline < idle->deadline))
			idle = client;
	}
	if (idle) {
		send_busy(idle->fd);
		drop(server, idle);
	}
	return idle;
}

static void admit(struct share_server *server, int fd)
{
	struct client *client;
	uid_t uid;
	pid_t pid;

	if (share_peer(fd, &uid, &pid) || !share_may_ask(uid)) {
		send_error(fd, -EACCES, "The owner runs as another user.",
			   "Run both processes as the same user, or the importer as root.");
		close(fd);
		return;
	}
	client = find_place(server);
	if (!client ||
	    watch(server, EPOLL_CTL_ADD, fd, (uint32_t)(client - server->clients), EPOLLIN)) {
		send_busy(fd);
		close(fd);
		return;
	}
	client->state = CONNECTED;
	client->fd = fd;
	client->deadline =
		share_now_ms() +
		(server->share->timeout_ms < REQUEST_MS ? server->share->timeout_ms : REQUEST_MS);
}

static void set_listening(struct share_server *server, bool on)
{
	watch(server, EPOLL_CTL_MOD, server->listener, TAG_LISTENER, on ? EPOLLIN : 0);
	server->paused_until = on ? NEVER : share_now_ms() + PAUSE_MS;
}

static void accept_one(struct share_server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0)
		admit(server, fd);
	else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		set_listening(server, false);
}

/* ---- the loop ---- */

static int next_timeout(const struct share_server *server, uint64_t now)
{
	uint64_t at = server->paused_until;

	for (int i = 0; i < MAX_CLIENTS; i++) {
		const struct client *client = &server->clients[i];

		if (client->state == FREE)
			continue;
		if (has_work(client, now))
			return 0;
		if (client->deadline < at)
			at = client->deadline;
		if (client->retry_at > now && client->retry_at < at)
			at = client->retry_at;
	}
	if (at == NEVER)
		return -1;
	return at <= now ? 0 : share_wait_ms(at - now);
}

static void handle(struct share_server *server, const struct epoll_event *event)
{
	struct client *client;

	if (event->data.u32 == TAG_LISTENER) {
		accept_one(server);
		return;
	}
	if (event->data.u32 >= MAX_CLIENTS)
		return;
	client = &server->clients[event->data.u32];
	if (client->state != FREE)
		read_client(server, client);
}

static void turn(struct share_server *server)
{
	struct epoll_event events[16];
	uint64_t now = share_now_ms();
	int count;

	count = epoll_wait(server->epoll, events, 16, next_timeout(server, now));
	for (int i = 0; i < count; i++)
		handle(server, &events[i]);
	now = share_now_ms();
	if (server->paused_until <= now)
		set_listening(server, true);
	serve(server, now);
	expire(server, now);
}

static void *run(void *arg)
{
	struct share_server *server = arg;

	pthread_setname_np(pthread_self(), "mrguard-share");
	while (!__atomic_load_n(&server->stop, __ATOMIC_ACQUIRE))
		turn(server);
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (server->clients[i].state != FREE)
			drop(server, &server->clients[i]);
	return NULL;
}

/* ---- starting and stopping ---- */

static int open_all(struct share_server *server)
{
	int ret;

	server->listener = share_listen(&server->address);
	if (server->listener < 0)
		return server->listener;
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->wake < 0)
		return -errno;
	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0)
		return -errno;
	ret = watch(server, EPOLL_CTL_ADD, server->listener, TAG_LISTENER, EPOLLIN);
	return ret ? ret : watch(server, EPOLL_CTL_ADD, server->wake, TAG_WAKE, EPOLLIN);
}

static void close_own(struct share_server *server)
{
	if (server->listener >= 0)
		close(server->listener);
	if (server->wake >= 0)
		close(server->wake);
	if (server->epoll >= 0)
		close(server->epoll);
	free(server);
}

/* A child of fork() may have the listening socket too, and would keep the
 * address answering; shutdown() ends it for both. */
static void close_all(struct share_server *server)
{
	if (server->listener >= 0) {
		shutdown(server->listener, SHUT_RDWR);
		if (!share_is_abstract(&server->address))
			unlink(server->address.name);
	}
	close_own(server);
}

int share_serve(struct mrg_share *share)
{
	struct share_server *server;
	int ret;

	if (share->server)
		return 0;
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->share = share;
	server->listener = server->wake = server->epoll = -1;
	server->paused_until = NEVER;
	share->owner = share_owner_self();
	for (int i = 0; i < MAX_CLIENTS; i++)
		server->clients[i].fd = server->clients[i].anchor = -1;
	ret = share_name(share->dir, &server->address);
	if (!ret)
		ret = open_all(server);
	if (!ret)
		ret = base_thread_start(&server->thread, run, server);
	if (ret) {
		close_all(server);
		return ret;
	}
	share->server = server;
	return 0;
}

const struct share_address *share_served_at(const struct mrg_share *share)
{
	return &share->server->address;
}

void share_stop(struct mrg_share *share)
{
	struct share_server *server = share->server;
	uint64_t one = 1;

	if (!server)
		return;
	__atomic_store_n(&server->stop, true, __ATOMIC_RELEASE);
	while (write(server->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(server->thread, NULL);
	close_all(server);
	share->server = NULL;
}

void share_abandon(struct mrg_share *share)
{
	if (share->server)
		close_own(share->server);
}
