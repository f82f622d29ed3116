/* SPDX-License-Identifier: MIT */
/* mrguard copy: a file from or to a host that runs `mrguard serve'. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/commands.h"
#include "tools/fabric.h"
#include "tools/fail.h"
#include "tools/json.h"
#include "tools/term.h"

#define CHUNK (8u << 20) /* of a multiple of 8: see fabric_sum() */
#define BUFFERS 2
#define SUM_MS 600000
#define BAR_WIDTH 30
#define REDRAW_NS 100000000ULL

struct copy_args {
	struct fabric_args fabric;
	const char *from, *to;
	uint64_t offset, length;
	bool quiet;
};

#define AT(field) ARGS_AT(struct copy_args, field)
static const struct args_option options[] = {
	{ .value = "name", .kind = ARGS_TEXT, AT(from) },
	{ .value = "name", .kind = ARGS_TEXT, AT(to) },
	{ .help = "What is copied:" },
	{ "offset", "N", "From or to this byte of what is served (0)", ARGS_NUMBER, AT(offset) },
	{ "length", "N", "Bytes (to the end, or the local file's)", ARGS_NUMBER, AT(length) },
	{ .help = "Output:" },
	{ "quiet", NULL, "No progress bar, no closing line", ARGS_FLAG, AT(quiet) },
	{ .kind = ARGS_GROUP, .group = fabric_options, AT(fabric) },
	{ 0 },
};

/* "HOST:PORT" has a colon and no slash: "./a:b" names a file. */
static bool is_peer(const char *name)
{
	return strchr(name, ':') && !strchr(name, '/');
}

static void check_args(const struct argp_state *state, const void *filled)
{
	const struct copy_args *args = filled;

	if (!args->to)
		argp_error(state, "A source and a target are needed.");
	else if (is_peer(args->from) == is_peer(args->to))
		argp_error(state, "One of the names must be HOST:PORT, and the other a file.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "HOST:PORT FILE\nFILE HOST:PORT",
	.doc = "Copy a file from or to a host that runs `mrguard serve', over RDMA, "
	       "and compare checksums.",
};

struct copy {
	struct copy_args args;
	struct fabric fabric;
	struct mrg_ep *ep;
	struct fabric_offer offer;
	struct fabric_buffer buffers[BUFFERS];
	uint64_t requests[BUFFERS];
	const char *path;
	bool writes; /* to the server */
	int fd;
	uint64_t length, done, sum;
	struct term term;
	uint64_t started, drawn;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- what people see ---- */

static double rate(const struct copy *c)
{
	double seconds = (double)(now_ns() - c->started) / 1e9;

	return seconds > 0 ? (double)c->done / seconds : 0;
}

static void draw(struct copy *c, bool last)
{
	unsigned int full = (unsigned int)((double)BAR_WIDTH * (double)c->done / (double)c->length);
	uint64_t now = now_ns();
	char bar[BAR_WIDTH + 1];

	if (!c->term.tty || c->args.quiet || (!last && now - c->drawn < REDRAW_NS))
		return;
	c->drawn = now;
	memset(bar, ' ', BAR_WIDTH);
	memset(bar, '#', full);
	bar[BAR_WIDTH] = '\0';
	fprintf(c->term.out, "\r[%s] %3u%%  %s  %s/s   %s", bar,
		(unsigned int)(100.0 * (double)c->done / (double)c->length),
		term_size(c->done).text, term_size((uint64_t)rate(c)).text, last ? "\n" : "");
	fflush(c->term.out);
}

/* ---- the file ---- */

static int cannot(struct copy *c, const char *what)
{
	int err = errno;

	return base_error_set(&c->fabric.error, -err, what,
			      "Check its name, its permissions and its disk.",
			      "The command cannot %s %s: %s.", what, c->path, strerror(err));
}

static int open_source(struct copy *c)
{
	struct stat info;

	c->fd = open(c->path, O_RDONLY | O_CLOEXEC);
	if (c->fd < 0)
		return cannot(c, "open");
	if (fstat(c->fd, &info))
		return cannot(c, "ask for the size of");
	if (!S_ISREG(info.st_mode) || !info.st_size)
		return base_error_set(&c->fabric.error, -EINVAL, "open", "Copy an ordinary file.",
				      "The file %s is empty or no ordinary file.", c->path);
	if (!c->args.length)
		c->args.length = (uint64_t)info.st_size;
	if (c->args.length <= (uint64_t)info.st_size)
		return 0;
	return base_error_set(&c->fabric.error, -ERANGE, "open", "Give a smaller --length.",
			      "The file %s has %" PRIu64 " bytes, but --length is %" PRIu64 ".",
			      c->path, (uint64_t)info.st_size, c->args.length);
}

static int open_target(struct copy *c)
{
	if (!strcmp(c->path, "-")) {
		c->fd = dup(STDOUT_FILENO);
		return c->fd < 0 ? cannot(c, "write to") : 0;
	}
	c->fd = open(c->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return c->fd < 0 ? cannot(c, "create") : 0;
}

static int fill(struct copy *c, struct fabric_buffer *b, uint64_t at, uint64_t length)
{
	ssize_t n;

	for (uint64_t have = 0; have < length; have += (uint64_t)n) {
		n = pread(c->fd, b->bytes + have, length - have, (off_t)(at + have));
		if (n < 0)
			return cannot(c, "read");
		if (!n)
			return base_error_set(&c->fabric.error, -EIO, "read",
					      "Copy it when nothing writes to it.",
					      "The file %s became shorter.", c->path);
	}
	c->sum = fabric_sum(c->sum, b->bytes, length);
	return 0;
}

static int spill(struct copy *c, const struct fabric_buffer *b, uint64_t length)
{
	ssize_t n;

	for (uint64_t have = 0; have < length; have += (uint64_t)n) {
		n = write(c->fd, b->bytes + have, length - have);
		if (n < 0)
			return cannot(c, "write");
	}
	c->sum = fabric_sum(c->sum, b->bytes, length);
	return 0;
}

/* ---- moving ---- */

static uint64_t chunk_length(const struct copy *c, uint64_t chunk)
{
	uint64_t at = chunk * CHUNK;

	return c->length - at < CHUNK ? c->length - at : CHUNK;
}

static int start_chunk(struct copy *c, uint64_t chunk)
{
	struct fabric_buffer *b = &c->buffers[chunk % BUFFERS];
	uint64_t length = chunk_length(c, chunk), at = chunk * CHUNK;
	struct mrg_local part = { .mr = b->mr, .addr = (uintptr_t)b->bytes, .length = length };
	struct mrg_op op = {
		.code = c->writes ? MRG_OP_WRITE : MRG_OP_READ,
		.local_count = 1,
		.local = &part,
		.remote = c->offer.remote,
		.remote_addr = mrg_remote_addr(c->offer.remote) + c->args.offset + at,
	};
	int ret = c->writes ? fill(c, b, at, length) : 0;

	if (ret)
		return ret;
	ret = mrg_submit(c->ep, &op, 1, NULL, &c->requests[chunk % BUFFERS]);
	if (ret)
		mrg_transfer_last_error(c->fabric.transfer, &c->fabric.error);
	return ret;
}

static int end_chunk(struct copy *c, uint64_t chunk)
{
	uint64_t *request = &c->requests[chunk % BUFFERS];
	int ret = fabric_finish(&c->fabric, c->ep, *request);

	*request = 0;
	if (!ret && !c->writes)
		ret = spill(c, &c->buffers[chunk % BUFFERS], chunk_length(c, chunk));
	c->done += chunk_length(c, chunk);
	draw(c, false);
	return ret;
}

/* One chunk travels while the other is read or written. */
static int move_all(struct copy *c)
{
	uint64_t chunks = (c->length + CHUNK - 1) / CHUNK;
	int ret = start_chunk(c, 0);

	c->started = now_ns();
	for (uint64_t i = 0; i < chunks && !ret; i++) {
		if (i + 1 < chunks)
			ret = start_chunk(c, i + 1);
		if (!ret)
			ret = end_chunk(c, i);
	}
	/* Nothing may come into memory that is freed. */
	for (int i = 0; i < BUFFERS; i++) {
		if (!c->requests[i])
			continue;
		mrg_cancel(c->ep, c->requests[i]);
		mrg_wait(c->ep, c->requests[i], -1);
		mrg_request_free(c->ep, c->requests[i]);
	}
	draw(c, true);
	return ret;
}

/* ---- the server's part ---- */

static json_t *ask(struct copy *c, json_t *order)
{
	int ret = fabric_send(&c->fabric, c->ep, order);
	json_t *reply = ret ? NULL : fabric_receive(&c->fabric, c->ep, SUM_MS);
	const char *error;

	if (!reply)
		return NULL;
	error = json_string_value(json_object_get(reply, "error"));
	if (!error)
		return reply;
	base_error_set(&c->fabric.error, -EREMOTEIO, "ask", "Look at the server.",
		       "The server refuses the order: %s.", error);
	json_decref(reply);
	return NULL;
}

static int compare(struct copy *c)
{
	json_t *reply =
		ask(c, json_pack("{s:s, s:I, s:I}", "do", "sum", "offset",
				 (json_int_t)c->args.offset, "length", (json_int_t)c->length));
	const char *theirs = json_string_value(json_object_get(reply, "sum"));
	char mine[32];
	int ret = 0;

	if (!reply)
		return c->fabric.error.code;
	snprintf(mine, sizeof(mine), "0x%" PRIx64, c->sum);
	if (!theirs || strcmp(mine, theirs))
		ret = base_error_set(
			&c->fabric.error, -EBADMSG, "compare",
			"Run `mrguard selftest' on both hosts.",
			"Bytes are wrong: the checksum is %s here and %s at the server.", mine,
			theirs ? theirs : "none");
	json_decref(reply);
	return ret;
}

static int store(struct copy *c)
{
	json_t *reply = ask(c, json_pack("{s:s}", "do", "store"));
	int ret = reply ? 0 : c->fabric.error.code;

	json_decref(reply);
	return ret;
}

/* ---- start and end ---- */

static int find_range(struct copy *c)
{
	uint64_t whole = c->offer.length;

	if (c->writes && !c->offer.writable)
		return base_error_set(&c->fabric.error, -EACCES, "copy",
				      "Start the server with --writable.",
				      "The server does not let clients write %s.", c->offer.name);
	c->length = c->args.length;
	if (!c->length && c->args.offset < whole)
		c->length = whole - c->args.offset;
	if (c->args.offset < whole && c->length <= whole - c->args.offset)
		return 0;
	return base_error_set(&c->fabric.error, -ERANGE, "copy",
			      "Give a smaller --offset or --length.",
			      "The server has %s with %" PRIu64 " bytes, which do not hold %" PRIu64
			      " bytes from %" PRIu64 " on.",
			      c->offer.name, whole, c->length, c->args.offset);
}

static int set_up(struct copy *c)
{
	uint64_t room;
	int ret = c->writes ? open_source(c) : 0;

	if (!ret)
		ret = fabric_open(&c->fabric, &c->args.fabric);
	if (!ret)
		ret = fabric_connect(&c->fabric, c->writes ? c->args.to : c->args.from, &c->ep);
	if (!ret)
		ret = fabric_take_offer(&c->fabric, c->ep, &c->offer);
	if (!ret)
		ret = find_range(c);
	room = c->length < CHUNK ? c->length : CHUNK;
	for (int i = 0; i < BUFFERS && !ret; i++)
		ret = fabric_alloc(&c->fabric, room, IBV_ACCESS_LOCAL_WRITE, &c->buffers[i]);
	if (!ret && !c->writes)
		ret = open_target(c);
	return ret;
}

static int copy(struct copy *c)
{
	int ret = set_up(c);

	if (!ret)
		ret = move_all(c);
	if (!ret)
		ret = compare(c);
	if (!ret && c->writes)
		ret = store(c);
	if (!ret && !c->args.quiet)
		fprintf(stderr, "%s copied, %s/s, checksums agree\n", term_size(c->length).text,
			term_size((uint64_t)rate(c)).text);
	return ret;
}

static void clean_up(struct copy *c)
{
	mrg_ep_close(c->ep);
	mrg_remote_free(c->offer.remote);
	for (int i = 0; i < BUFFERS; i++)
		fabric_free(&c->buffers[i]);
	if (c->fabric.verbs)
		fabric_close(&c->fabric);
}

int cmd_copy(int argc, char **argv)
{
	struct copy c = { .fd = -1, .sum = FABRIC_SUM_START };
	int ret;

	if (args_parse(&command, argc, argv, &c.args))
		return EXIT_FAILED;
	c.writes = is_peer(c.args.to);
	c.path = c.writes ? c.args.from : c.args.to;
	term_init(&c.term, stderr, TERM_COLOUR_NEVER);
	ret = copy(&c);
	if (c.fd >= 0 && close(c.fd) && !ret)
		ret = cannot(&c, "write");
	clean_up(&c);
	return fail_status(ret, &c.fabric.error);
}
