/* SPDX-License-Identifier: MIT */
/* The connection to the server: every wait has an end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "directory/directory.h"

/* ---- words ---- */

void directory_bytes(struct directory_words *words, const void *bytes, size_t length)
{
	words->word[words->count] = bytes;
	words->length[words->count++] = length;
}

void directory_add(struct directory_words *words, ...)
{
	const char *word;
	va_list args;

	va_start(args, words);
	while ((word = va_arg(args, const char *)))
		directory_bytes(words, word, strlen(word));
	va_end(args);
}

void directory_key(const struct mrg_directory *directory, struct directory_words *words,
		   const char *name, ...)
{
	const size_t size = sizeof(words->key[0]);
	char *key = words->key[words->keys++];
	size_t start = (size_t)snprintf(key, size, "{%s}:", directory->prefix);
	va_list args;

	va_start(args, name);
	vsnprintf(key + start, size - start, name, args);
	va_end(args);
	directory_add(words, key, NULL);
}

/* ---- failures ---- */

static const char *server_name(const struct mrg_directory *directory)
{
	return directory->path ? directory->path : directory->host;
}

static int code_of(int error)
{
	switch (error) {
	case EAGAIN:
	case EINPROGRESS:
	case ETIMEDOUT:
		return -ETIMEDOUT;
	case EPIPE:
	case ECONNRESET:
	case 0:
		return -ECONNRESET;
	case ECONNREFUSED:
	case ENOENT:
	case EACCES:
		return -error;
	default:
		return -EHOSTUNREACH;
	}
}

static int link_failed(struct mrg_directory *directory, int code, const char *what)
{
	return directory_fail(directory, code,
			      "Check that the Redis server runs there, and answers.",
			      "Server %s, port %d, failed in %s: %s.", server_name(directory),
			      directory->port, what, strerror(-code));
}

/* Redis' error replies begin with a word. */
static int code_of_reply(const char *text)
{
	static const struct {
		const char *start;
		int code;
	} known[] = {
		{ "NOAUTH", -EACCES },	    { "WRONGPASS", -EACCES },
		{ "NOPERM", -EACCES },	    { "ERR invalid password", -EACCES },
		{ "ERR AUTH", -EACCES },    { "ERR Client sent AUTH", -EACCES },
		{ "LOADING", -EAGAIN },	    { "BUSY", -EAGAIN },
		{ "READONLY", -EAGAIN },    { "MISCONF", -EAGAIN },
		{ "OOM", -EAGAIN },	    { "MASTERDOWN", -EAGAIN },
		{ "CLUSTERDOWN", -EAGAIN }, { "TRYAGAIN", -EAGAIN },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(text, known[i].start, strlen(known[i].start)))
			return known[i].code;
	return -EPROTO;
}

static int refused(struct mrg_directory *directory, const redisReply *reply)
{
	int code = code_of_reply(reply->str);

	return directory_fail(
		directory, code,
		code == -EACCES ? "Give the right password, and permission to run scripts." :
		code == -EAGAIN ? "Try again later." :
				  "Use Redis, version 5 or newer, with scripts allowed.",
		"Server %s, port %d, refuses: %.120s.", server_name(directory), directory->port,
		reply->str);
}

static void drop(redisContext **context)
{
	if (*context)
		redisFree(*context);
	*context = NULL;
}

/* ---- bytes, with a deadline ---- */

/* hiredis writes with write(2): without this a server that went away would end
 * the process. */
struct no_sigpipe {
	sigset_t before;
	bool was_pending;
};

static void hold_sigpipe(struct no_sigpipe *guard)
{
	sigset_t pipe, pending;

	sigpending(&pending);
	guard->was_pending = sigismember(&pending, SIGPIPE);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

static void release_sigpipe(const struct no_sigpipe *guard)
{
	const struct timespec none = { 0 };
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	while (!guard->was_pending && sigtimedwait(&pipe, NULL, &none) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* @events: POLLIN or POLLOUT.  1: it can be done; 0: time is over */
static int wait_for(int fd, short events, int64_t end)
{
	struct pollfd at = { .fd = fd, .events = events };
	int64_t left;
	int ret;

	do {
		left = end - base_now_ms();
		ret = poll(&at, 1, left > 0 ? (int)(left < INT32_MAX ? left : INT32_MAX) : 0);
	} while (ret < 0 && errno == EINTR);
	return ret > 0;
}

/* A server may take a few bytes at a time. */
static int write_all(redisContext *context, int64_t end)
{
	int done = 0, ret, error;
	struct no_sigpipe guard;

	while (!done) {
		if (!wait_for(context->fd, POLLOUT, end))
			return -ETIMEDOUT;
		hold_sigpipe(&guard);
		errno = 0;
		ret = redisBufferWrite(context, &done);
		error = errno;
		release_sigpipe(&guard);
		if (ret != REDIS_OK)
			return code_of(error);
	}
	return 0;
}

/* One reply, if it comes in time. */
static int read_reply(redisContext *context, int64_t end, redisReply **reply)
{
	void *got = NULL;

	for (;;) {
		if (redisGetReplyFromReader(context, &got) != REDIS_OK)
			return -EPROTO;
		*reply = got;
		if (got)
			return 0;
		if (!wait_for(context->fd, POLLIN, end))
			return -ETIMEDOUT;
		errno = 0;
		if (redisBufferRead(context) != REDIS_OK)
			return context->err == REDIS_ERR_EOF ? -ECONNRESET : code_of(errno);
	}
}

static int talk(redisContext *context, const struct directory_words *words, int64_t end,
		redisReply **reply)
{
	int ret;

	if (redisAppendCommandArgv(context, words->count, (const char **)words->word,
				   words->length) != REDIS_OK)
		return -ENOMEM;
	ret = write_all(context, end);
	return ret ? ret : read_reply(context, end, reply);
}

/* ---- connecting ---- */

static struct timeval time_left(int64_t end)
{
	int64_t left = end - base_now_ms();

	left = left > 0 ? left : 1;
	return (struct timeval){ left / 1000, left % 1000 * 1000 };
}

static int log_in(struct mrg_directory *directory, redisContext *context, int64_t end)
{
	struct directory_words words = { .count = 0 };
	redisReply *reply;
	int ret;

	if (!directory->password)
		return 0;
	directory_add(&words, "AUTH", directory->password, NULL);
	ret = talk(context, &words, end, &reply);
	if (ret)
		return link_failed(directory, ret, "logging in");
	if (reply->type == REDIS_REPLY_ERROR)
		ret = refused(directory, reply);
	freeReplyObject(reply);
	return ret;
}

static int connect_to(struct mrg_directory *directory, redisContext **out, int64_t end)
{
	struct timeval limit = time_left(end);
	redisContext *context;
	int error, ret;

	errno = 0;
	context = directory->path ?
			  redisConnectUnixWithTimeout(directory->path, limit) :
			  redisConnectWithTimeout(directory->host, directory->port, limit);
	error = errno;
	if (!context)
		return directory_no_memory(directory);
	if (context->err) {
		ret = link_failed(directory,
				  context->err == REDIS_ERR_IO ? code_of(error) : -EHOSTUNREACH,
				  "connecting");
		redisFree(context);
		return ret;
	}
	/* Each wait is poll(2)'s, with the call's deadline. */
	fcntl(context->fd, F_SETFL, fcntl(context->fd, F_GETFL) | O_NONBLOCK);
	context->flags &= ~REDIS_BLOCK;
	ret = log_in(directory, context, end);
	if (ret)
		redisFree(context);
	else
		*out = context;
	return ret;
}

/* ---- asking ---- */

/* It was restarted since the last call: what was asked is asked anew, once,
 * which all scripts bear. */
static int ask_again(struct mrg_directory *directory, const struct directory_words *words,
		     int64_t end, redisReply **out, int code, bool fresh)
{
	drop(&directory->commands);
	drop(&directory->events);
	if (code == -ECONNRESET && !fresh)
		return directory_ask(directory, words, end, out);
	return link_failed(directory, code, "asking");
}

int directory_ask(struct mrg_directory *directory, const struct directory_words *words, int64_t end,
		  redisReply **out)
{
	bool fresh = !directory->commands;
	redisReply *reply = NULL;
	int ret = 0;

	if (fresh)
		ret = connect_to(directory, &directory->commands, end);
	if (ret)
		return ret;
	ret = talk(directory->commands, words, end, &reply);
	if (ret)
		return ask_again(directory, words, end, out, ret, fresh);
	if (reply->type != REDIS_REPLY_ERROR) {
		*out = reply;
		return 0;
	}
	ret = refused(directory, reply);
	freeReplyObject(reply);
	return ret;
}

int directory_subscribe(struct mrg_directory *directory, int64_t end)
{
	struct directory_words words = { .count = 0 };
	redisReply *reply;
	int ret;

	if (directory->events)
		return 0;
	ret = connect_to(directory, &directory->events, end);
	if (ret)
		return ret;
	directory_add(&words, "SUBSCRIBE", NULL);
	directory_key(directory, &words, "changed");
	ret = talk(directory->events, &words, end, &reply);
	if (ret) {
		drop(&directory->events);
		return link_failed(directory, ret, "subscribing");
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		ret = refused(directory, reply);
		drop(&directory->events);
	}
	freeReplyObject(reply);
	return ret;
}

/* Many events are one reason to look. */
int directory_await(struct mrg_directory *directory, int64_t end)
{
	int ret, events = 0;
	redisReply *reply;

	for (;;) {
		ret = read_reply(directory->events, events ? base_now_ms() : end, &reply);
		if (ret)
			break;
		freeReplyObject(reply);
		events = 1;
	}
	if (ret == -ETIMEDOUT)
		return events;
	drop(&directory->events);
	return link_failed(directory, ret, "waiting for changes");
}
