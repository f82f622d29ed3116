/* SPDX-License-Identifier: MIT */
/* mrguard serve: a file or plain memory, for `mrguard copy' and `bench'. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/commands.h"
#include "tools/fabric.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/pong.h"
#include "tools/term.h"

#define ACCEPT_MS 500

struct serve_args {
	struct fabric_args fabric;
	const char *file;
	const char *listen;
	const char *port;
	uint64_t memory;
	bool writable;
	bool once;
};

#define AT(field) ARGS_AT(struct serve_args, field)
static const struct args_option options[] = {
	{ .value = "file", .kind = ARGS_TEXT, AT(file) },
	{ .help = "What is served:" },
	{ "memory", "SIZE", "Memory of zeros in place of a file", ARGS_NUMBER, AT(memory) },
	{ "writable", NULL, "Clients may write; a file is replaced when one has finished",
	  ARGS_FLAG, AT(writable) },
	{ .help = "The clients:" },
	{ "listen", "ADDRESS", "Where clients come in (all addresses)", ARGS_TEXT, AT(listen) },
	{ "port", "PORT", "TCP port (" FABRIC_PORT "), 0 = any free one", ARGS_TEXT, AT(port) },
	{ "once", NULL, "End when the first client has gone", ARGS_FLAG, AT(once) },
	{ .kind = ARGS_GROUP, .group = fabric_options, AT(fabric) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct serve_args *args = filled;

	if (args->file && args->memory)
		argp_error(state, "--memory and the file \"%s\" exclude each other.", args->file);
	if (!args->file && !args->memory)
		argp_error(state, "A FILE or --memory is needed.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "FILE\n--memory=SIZE",
	.doc = "Serve a file or memory over RDMA, for `mrguard copy' and `mrguard "
	       "bench'."
	       "\v"
	       "Whoever reaches the port can read what is served, and with --writable "
	       "write it: there is no password and no encryption.  See "
	       "mrguard-serve(1).",
};

/* ---- the file ---- */

struct server {
	struct serve_args args;
	struct fabric fabric;
	struct fabric_buffer buffer;
	struct mrg_listener *listener;
	pthread_mutex_t lock; /* for storing */
	unsigned int clients;
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static int cannot(struct server *s, const char *what)
{
	int err = errno;

	return base_error_set(&s->fabric.error, -err, what,
			      "Check its name, its permissions and its disk.",
			      "The command cannot %s %s: %s.", what, s->args.file, strerror(err));
}

static int read_all(struct server *s, int fd)
{
	uint64_t at = 0;
	ssize_t n;

	while (at < s->buffer.length) {
		n = pread(fd, s->buffer.bytes + at, s->buffer.length - at, (off_t)at);
		if (n < 0)
			return cannot(s, "read");
		if (!n)
			return base_error_set(&s->fabric.error, -EIO, "read",
					      "Serve it when nothing writes to it.",
					      "The file %s became shorter.", s->args.file);
		at += (uint64_t)n;
	}
	return 0;
}

static int load_file(struct server *s, int access)
{
	struct stat info;
	int fd = open(s->args.file, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return cannot(s, "open");
	ret = fstat(fd, &info) ? cannot(s, "ask for the size of") : 0;
	if (!ret && (!S_ISREG(info.st_mode) || !info.st_size))
		ret = base_error_set(&s->fabric.error, -EINVAL, "open", "Serve an ordinary file.",
				     "The file %s is empty or no ordinary file.", s->args.file);
	if (!ret)
		ret = fabric_alloc(&s->fabric, (uint64_t)info.st_size, access, &s->buffer);
	if (!ret)
		ret = read_all(s, fd);
	close(fd);
	return ret;
}

static int write_all(int fd, const unsigned char *bytes, uint64_t length)
{
	ssize_t n;

	for (uint64_t at = 0; at < length; at += (uint64_t)n) {
		n = write(fd, bytes + at, length - at);
		if (n < 0)
			return -errno;
	}
	return fsync(fd) ? -errno : 0;
}

/* Beside the file and then over it: nobody ever reads half of it. */
static int store_file(struct server *s)
{
	char path[4096];
	int fd, ret;

	if (snprintf(path, sizeof(path), "%s.XXXXXX", s->args.file) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = write_all(fd, s->buffer.bytes, s->buffer.length);
	close(fd);
	if (!ret && rename(path, s->args.file))
		ret = -errno;
	if (ret)
		unlink(path);
	return ret;
}

/* ---- a client ---- */

static json_t *answer_sum(struct server *s, json_t *order)
{
	json_int_t offset = -1, length = -1;

	json_unpack(order, "{s:I, s:I}", "offset", &offset, "length", &length);
	if (offset < 0 || length < 0 || (uint64_t)offset > s->buffer.length ||
	    (uint64_t)length > s->buffer.length - (uint64_t)offset)
		return json_pack("{s:s}", "error", "no such range");
	return json_pack(
		"{s:o}", "sum",
		json_hex(fabric_sum(FABRIC_SUM_START, s->buffer.bytes + offset, (uint64_t)length)));
}

static json_t *answer_store(struct server *s)
{
	int ret = -EACCES;

	pthread_mutex_lock(&s->lock);
	if (s->args.writable)
		ret = s->args.file ? store_file(s) : 0;
	pthread_mutex_unlock(&s->lock);
	return ret ? json_pack("{s:s}", "error", strerror(-ret)) :
		     json_pack("{s:b}", "stored", s->args.file != NULL);
}

static int answer(struct server *s, struct fabric *fabric, struct mrg_ep *ep, json_t *order)
{
	const char *what = json_string_value(json_object_get(order, "do"));
	json_t *reply;
	int ret = 0;

	if (what && !strcmp(what, "sum"))
		reply = answer_sum(s, order);
	else if (what && !strcmp(what, "store"))
		reply = answer_store(s);
	else if (what && !strcmp(what, "pong") && s->args.writable)
		ret = pong_serve(fabric, ep, &s->buffer, order, &reply);
	else
		reply = json_pack("{s:s}", "error", "unknown order");
	if (!ret)
		return fabric_send(fabric, ep, reply);
	json_decref(reply);
	return ret;
}

struct client {
	struct server *server;
	struct mrg_ep *ep;
};

static void serve_client(struct server *s, struct mrg_ep *ep)
{
	/* Its own failures are not the server's. */
	struct fabric fabric = s->fabric;
	json_t *order;
	int ret = fabric_offer(&fabric, ep, &s->buffer, s->args.file ? s->args.file : "memory",
			       s->args.writable);

	while (!ret && !stopped) {
		order = fabric_receive(&fabric, ep, ACCEPT_MS);
		if (!order && fabric.error.code == -EAGAIN)
			continue;
		if (!order)
			break;
		ret = answer(s, &fabric, ep, order);
		json_decref(order);
	}
	fprintf(stderr, "%s: %s\n", mrg_ep_peer(ep),
		fabric.error.code == -ESHUTDOWN ? "done" : fabric.error.cause);
}

static void *client_main(void *arg)
{
	struct client client = *(struct client *)arg;

	free(arg);
	serve_client(client.server, client.ep);
	mrg_ep_close(client.ep);
	__atomic_sub_fetch(&client.server->clients, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void start_client(struct server *s, struct mrg_ep *ep)
{
	struct client *client = malloc(sizeof(*client));
	pthread_t thread;

	if (client) {
		*client = (struct client){ s, ep };
		__atomic_add_fetch(&s->clients, 1, __ATOMIC_SEQ_CST);
		if (!pthread_create(&thread, NULL, client_main, client)) {
			pthread_detach(thread);
			return;
		}
		__atomic_sub_fetch(&s->clients, 1, __ATOMIC_SEQ_CST);
	}
	free(client);
	mrg_ep_close(ep);
}

static unsigned int clients(struct server *s)
{
	return __atomic_load_n(&s->clients, __ATOMIC_SEQ_CST);
}

static void serve_all(struct server *s)
{
	bool came = false;
	struct mrg_ep *ep;

	while (!stopped && !(s->args.once && came && !clients(s))) {
		if (mrg_listener_accept(s->listener, ACCEPT_MS, &ep))
			continue;
		start_client(s, ep);
		came = true;
	}
	while (clients(s))
		usleep(10000);
}

/* ---- start and end ---- */

static int set_up(struct server *s)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	int ret = fabric_open(&s->fabric, &s->args.fabric);

	if (s->args.writable)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (!ret && s->args.file)
		ret = load_file(s, access);
	else if (!ret)
		ret = fabric_alloc(&s->fabric, s->args.memory, access, &s->buffer);
	if (!ret) {
		ret = mrg_listener_open(s->fabric.transfer, s->args.listen,
					s->args.port ? s->args.port : FABRIC_PORT, &s->listener);
		if (ret)
			mrg_transfer_last_error(s->fabric.transfer, &s->fabric.error);
	}
	return ret;
}

int cmd_serve(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	struct server s = { .lock = PTHREAD_MUTEX_INITIALIZER };
	int ret;

	if (args_parse(&command, argc, argv, &s.args))
		return EXIT_FAILED;
	ret = set_up(&s);
	if (!ret) {
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		printf("serving %s (%s%s) on port %u\n", s.args.file ? s.args.file : "memory",
		       term_size(s.buffer.length).text, s.args.writable ? ", writable" : "",
		       mrg_listener_port(s.listener));
		fflush(stdout);
		serve_all(&s);
	}
	mrg_listener_close(s.listener);
	fabric_free(&s.buffer);
	if (s.fabric.verbs)
		fabric_close(&s.fabric);
	return fail_status(ret, &s.fabric.error);
}
