/* SPDX-License-Identifier: MIT */
/* The client's side: connect, ask, take chunks as they come, acknowledge. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/handle.h"

#define FIRST_BATCH 32
#define CONNECT_MS 5 /* between tries, while the backlog is full */

struct fetch {
	struct mrg_share *share;
	const struct share_token *token;
	const uid_t *uid; /* that the caller expects, or NULL */
	const struct share_sink *sink;
	int fd;
	int owner; /* pidfd, or -1 */
	uint32_t next; /* chunk expected */
	bool told; /* the owner itself said why it fails */
	uint64_t deadline;
	/* where next lies in token->runs */
	size_t run;
	uint64_t in_run;
};

static void push_deadline(struct fetch *fetch)
{
	fetch->deadline = share_now_ms() + fetch->share->timeout_ms;
}

static int timed_out(const struct fetch *fetch, const char *stage)
{
	return base_fail(fetch->share->error_owner, -ETIMEDOUT, stage,
			 "See whether the owner is stopped, or busy with other peers.",
			 "The owner made no progress for %u ms, at chunk %u of %llu.",
			 fetch->share->timeout_ms, fetch->next,
			 (unsigned long long)fetch->token->chunks);
}

static int out_of_fds(const struct fetch *fetch)
{
	return base_fail(
		fetch->share->error_owner, -EMFILE, "receive chunks",
		"Raise the limit (ulimit -n), or close files: file descriptors ran out, memory did not.",
		"This process has no file descriptor left, at chunk %u of %llu.", fetch->next,
		(unsigned long long)fetch->token->chunks);
}

static int gone(const struct fetch *fetch)
{
	return base_fail(fetch->share->error_owner, -ECONNRESET, "receive chunks",
			 "Get a token from a running owner.",
			 "The owner went away at chunk %u of %llu.", fetch->next,
			 (unsigned long long)fetch->token->chunks);
}

static int broken(const struct fetch *fetch, const char *what)
{
	return base_fail(fetch->share->error_owner, -EPROTO, "receive chunks",
			 "Run the same release of libmrguard in both processes.",
			 "The owner broke the protocol at chunk %u: %s.", fetch->next, what);
}

/* ---- connecting ---- */

static int refused(const struct fetch *fetch, const struct share_address *address, int ret)
{
	struct mrg_share *share = fetch->share;
	uint64_t netns = fetch->token->netns;

	if (share_is_abstract(address) && ret == -ECONNREFUSED && netns && share->netns &&
	    netns != share->netns)
		return base_fail(
			share->error_owner, -ENETUNREACH, "connect",
			"Set MRGUARD_SHARE_DIR in the owner to a directory that both see, such as a shared mount.",
			"The owner is in another network namespace, and its abstract socket name is not visible here.");
	if (share_is_abstract(address) && ret == -ECONNREFUSED)
		return base_fail(
			share->error_owner, ret, "connect",
			"Start the owner again; if it is in another network namespace, set MRGUARD_SHARE_DIR there.",
			"The owner is gone: no process answers at @%.*s.", (int)address->length - 1,
			address->name + 1);
	if (ret == -ENOENT)
		return base_fail(
			share->error_owner, ret, "connect",
			"Mount the owner's MRGUARD_SHARE_DIR at the same path here.",
			"The owner's socket %s is not visible in this mount namespace, or the owner is gone.",
			address->name);
	if (ret == -ECONNREFUSED)
		return base_fail(share->error_owner, ret, "connect", "Start the owner again.",
				 "The owner is gone: no process answers at %s.", address->name);
	if (ret == -EACCES || ret == -EPERM)
		return base_fail(share->error_owner, -EACCES, "connect",
				 "Run both processes as the same user.",
				 "The owner's socket may not be opened: %s.", strerror(-ret));
	return base_fail(share->error_owner, ret, "connect", "",
			 "The owner's socket cannot be reached: %s.", strerror(-ret));
}

/* A process that forked leaves its sockets open in the child: only its end
 * itself tells that it is gone.  Its number may have gone to another process, so
 * the start is read while the number is held. */
static int watch_owner(struct fetch *fetch, pid_t pid)
{
	int same;

	if (pid <= 0)
		return 0;
	fetch->owner = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fetch->owner < 0 && errno == ESRCH)
		return gone(fetch);
	same = share_owner_is(&fetch->token->owner, pid);
	if (same < 0)
		return out_of_fds(fetch);
	return same ? 0 : gone(fetch);
}

static int check_owner(struct fetch *fetch)
{
	uid_t uid;
	pid_t pid;
	struct mrg_error error;
	int ret;

	if (share_peer(fetch->fd, &uid, &pid))
		return gone(fetch);
	ret = share_owner_check_user(&fetch->token->owner, uid, fetch->uid, &error);
	if (ret == -EMFILE)
		return out_of_fds(fetch);
	if (ret)
		return mrg_private_error_keep(fetch->share->error_owner, &error);
	return watch_owner(fetch, pid);
}

static int connect_owner(struct fetch *fetch)
{
	struct share_address address = { .length = fetch->token->name_length };

	memcpy(address.name, fetch->token->name, sizeof(address.name));
	for (;;) {
		fetch->fd = share_connect(&address);
		if (fetch->fd != -EAGAIN)
			break;
		if (share_now_ms() >= fetch->deadline)
			return timed_out(fetch, "connect");
		poll(NULL, 0, CONNECT_MS);
	}
	if (fetch->fd == -EMFILE || fetch->fd == -ENFILE)
		return out_of_fds(fetch);
	return fetch->fd < 0 ? refused(fetch, &address, fetch->fd) : check_owner(fetch);
}

static void hang_up(struct fetch *fetch)
{
	if (fetch->fd >= 0)
		close(fetch->fd);
	if (fetch->owner >= 0)
		close(fetch->owner);
	fetch->fd = fetch->owner = -1;
}

/* ---- talking ---- */

static int ask(struct fetch *fetch, uint32_t batch)
{
	struct share_request request = {
		.generation = fetch->token->generation,
		.first = fetch->next,
		.batch = batch,
	};
	int ret;

	share_head(&request.head, SHARE_REQUEST);
	memcpy(request.secret, fetch->token->secret, sizeof(request.secret));
	ret = share_send(fetch->fd, &request, sizeof(request), NULL, 0);
	/* Refused already: the reason is there to be read. */
	return ret == -EPIPE || ret == -ECONNRESET ? 0 : ret ? gone(fetch) : 0;
}

/* A lost acknowledgement shows when the next message does not come. */
static void acknowledge(const struct fetch *fetch)
{
	struct share_ack ack = { .next = fetch->next };

	share_head(&ack.head, SHARE_ACK);
	share_send(fetch->fd, &ack, sizeof(ack), NULL, 0);
}

static int wait_message(const struct fetch *fetch)
{
	struct pollfd fds[2] = {
		{ .fd = fetch->fd, .events = POLLIN },
		{ .fd = fetch->owner, .events = POLLIN },
	};
	uint64_t now = share_now_ms();
	int ret;

	if (now >= fetch->deadline)
		return timed_out(fetch, "receive chunks");
	ret = poll(fds, 2, share_wait_ms(fetch->deadline - now));
	if (ret > 0 && !fds[0].revents && fds[1].revents)
		return gone(fetch);
	return 0;
}

/* With unread bytes of ours on its side, an owner that hangs up resets the
 * connection, and its last words come after the reset. */
static ssize_t next_message(struct fetch *fetch, union share_message *message, int *fds,
			    size_t *count)
{
	ssize_t length;
	int ret;

	for (;;) {
		length = share_receive(fetch->fd, message, fds, count);
		if (length == -ECONNRESET)
			length = share_receive(fetch->fd, message, fds, count);
		if (length != -EAGAIN)
			return length;
		ret = wait_message(fetch);
		if (ret)
			return ret;
	}
}

static void advance(struct fetch *fetch)
{
	fetch->next++;
	if (++fetch->in_run == fetch->token->runs[fetch->run].count) {
		fetch->run++;
		fetch->in_run = 0;
	}
}

static int check_chunks(const struct fetch *fetch, const struct share_chunks *chunks, size_t count)
{
	if (share_is_ipc(fetch->token->kind))
		return broken(fetch, "it sent chunks of memory that goes by IPC handle");
	if (chunks->first != fetch->next)
		return broken(fetch, "it sent chunks out of order");
	if (chunks->count != count)
		return broken(fetch, "the numbers of chunks and of file descriptors differ");
	if (count > fetch->token->chunks - fetch->next)
		return broken(fetch, "it sent more chunks than there are");
	return 0;
}

/* Takes all of @fds over. */
static int take_chunks(struct fetch *fetch, const struct share_chunks *chunks, const int *fds,
		       size_t count)
{
	int ret = check_chunks(fetch, chunks, count);
	size_t i = 0;

	while (!ret && i < count) {
		const struct share_chunk *chunk = &chunks->chunks[i];

		if (chunk->size != fetch->token->runs[fetch->run].size) {
			ret = broken(fetch, "a chunk has another size than in the token");
			break;
		}
		ret = fetch->sink->chunk(fetch->sink->to, fds[i], chunk->size, chunk->offset);
		i++;
		if (!ret)
			advance(fetch);
	}
	share_close_fds(fds + i, count - i);
	if (ret)
		return ret;
	/* The owner goes on meanwhile. */
	acknowledge(fetch);
	return fetch->sink->settle ? fetch->sink->settle(fetch->sink->to) : 0;
}

/* The owner's words are kept as they came. */
static int take_failure(struct fetch *fetch, const struct share_failure *failure)
{
	struct mrg_error error = { .code = failure->code, .piece = -1, .stage = "ask owner" };

	strcpy(error.cause, failure->cause);
	strcpy(error.remedy, failure->remedy);
	fetch->told = true;
	return mrg_private_error_keep(fetch->share->error_owner, &error);
}

static int take_message(struct fetch *fetch, union share_message *message, ssize_t length,
			const int *fds, size_t count)
{
	struct mrg_error error;
	int type = share_check_message(message, (size_t)length, false, &error);

	if (type == SHARE_CHUNKS)
		return take_chunks(fetch, &message->chunks, fds, count);
	share_close_fds(fds, count);
	if (type < 0)
		return mrg_private_error_keep(fetch->share->error_owner, &error);
	if (type == SHARE_ERROR)
		return take_failure(fetch, &message->failure);
	if (type != SHARE_HANDLE || !share_is_ipc(fetch->token->kind))
		return broken(fetch, "it sent something else than chunks or a handle");
	if (!fetch->next)
		advance(fetch);
	acknowledge(fetch);
	return fetch->sink->handle(fetch->sink->to, message->handle.handle);
}

static int receive_all(struct fetch *fetch)
{
	union share_message message;
	int fds[SHARE_MAX_FDS], ret;
	ssize_t length;
	size_t count;

	while (fetch->next < fetch->token->chunks) {
		length = next_message(fetch, &message, fds, &count);
		if (length == -EMFILE || length == -ETIMEDOUT)
			return (int)length;
		if (length == -EMSGSIZE)
			return broken(fetch, "a message is too long");
		if (length <= 0)
			return gone(fetch);
		ret = take_message(fetch, &message, length, fds, count);
		if (ret)
			return ret;
		push_deadline(fetch);
	}
	return 0;
}

static int fetch_once(struct fetch *fetch, uint32_t batch)
{
	int ret = connect_owner(fetch);

	if (!ret)
		ret = ask(fetch, batch);
	if (!ret)
		ret = receive_all(fetch);
	hang_up(fetch);
	return ret;
}

/* Descriptors that find no room are cut off by the kernel; what came before
 * stays mapped, and the rest is asked for in smaller messages. */
int share_fetch(struct mrg_share *share, const struct share_token *token, const uid_t *uid,
		const struct share_sink *sink)
{
	struct fetch fetch = {
		.share = share,
		.token = token,
		.uid = uid,
		.sink = sink,
		.fd = -1,
		.owner = -1,
	};
	int ret;

	push_deadline(&fetch);
	for (uint32_t batch = FIRST_BATCH; batch; batch /= 8) {
		ret = fetch_once(&fetch, batch);
		if (ret != -EMFILE || fetch.told)
			return ret;
	}
	return out_of_fds(&fetch);
}
