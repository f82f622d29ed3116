/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: bytes that come from another process.  The first byte picks who
 * gets them: the reader of tokens (as they are, and with the checksum made
 * right), the checks of messages, a real server, or a real importer.
 *
 * For the last two the input is a script: an operation, a length, bytes.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <mrguard/share.h>

#include "share/socket.h"

#define PAGE 4096ull
#define CHUNKS 40
#define CHECK_AT 16 /* of the token's checksum */

static struct mrg_share *share;
static struct mrg_range *range;
static struct share_token own;
static int memfd;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* ---- tokens ---- */

/* The bytes may differ: parts that are not known are skipped. */
static bool same_token(const struct share_token *a, const struct share_token *b)
{
	return a->kind == b->kind && a->generation == b->generation && a->netns == b->netns &&
	       a->addr == b->addr && a->skip == b->skip && a->length == b->length &&
	       !memcmp(a->secret, b->secret, sizeof(a->secret)) &&
	       !memcmp(a->boot, b->boot, sizeof(a->boot)) &&
	       !memcmp(a->device, b->device, sizeof(a->device)) &&
	       !memcmp(&a->owner, &b->owner, sizeof(a->owner)) &&
	       a->name_length == b->name_length && !memcmp(a->name, b->name, sizeof(a->name)) &&
	       a->run_count == b->run_count &&
	       !memcmp(a->runs, b->runs, a->run_count * sizeof(*a->runs));
}

static void check_token(const uint8_t *data, size_t size)
{
	struct share_token token;
	struct mrg_error error;
	struct share_token copy;
	void *again;
	ssize_t length;

	if (share_token_decode(data, size, &token, &error)) {
		must(error.code && error.cause[0], "a failure without its cause");
		return;
	}
	must(token.length && token.skip + token.length <= token.bytes,
	     "a range outside its chunks");
	must(token.chunks && token.chunks <= SHARE_MAX_CHUNKS, "chunks without number");
	length = share_token_encode(&token, &again);
	must(length > 0 && !share_token_decode(again, (size_t)length, &copy, &error),
	     "a token that was read cannot be written");
	must(same_token(&token, &copy), "a token changed");
	free(copy.runs);
	free(again);
	free(token.runs);
}

static void seal(uint8_t *bytes, size_t size)
{
	uint32_t crc;

	if (size < CHECK_AT + 4)
		return;
	memset(bytes + CHECK_AT, 0, 4);
	crc = (uint32_t)crc32_z(0, bytes, size);
	memcpy(bytes + CHECK_AT, &crc, 4);
}

static void check_sealed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	memcpy(copy, data, size);
	seal(copy, size);
	check_token(copy, size);
	free(copy);
}

static void check_messages(const uint8_t *data, size_t size)
{
	union share_message message;
	struct mrg_error error;
	size_t length = size < sizeof(message) ? size : sizeof(message);
	int type;

	for (int to_server = 0; to_server < 2; to_server++) {
		memset(&message, 0, sizeof(message));
		memcpy(&message, data, length);
		type = share_check_message(&message, length, to_server, &error);
		must(type < 0 || length >= share_message_bytes(
						   (enum share_type)type,
						   type == SHARE_CHUNKS ? message.chunks.count : 0),
		     "a message that is too short was taken");
	}
}

/* ---- scripts ---- */

struct script {
	const uint8_t *data;
	size_t size;
};

static uint8_t next(struct script *script)
{
	if (!script->size)
		return 0;
	script->size--;
	return *script->data++;
}

static size_t next_bytes(struct script *script, void *out, size_t room)
{
	size_t length = next(script);

	if (length > script->size)
		length = script->size;
	if (length > room)
		length = room;
	memcpy(out, script->data, length);
	script->data += length;
	script->size -= length;
	return length;
}

static void drain(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	union share_message message;
	int fds[SHARE_MAX_FDS];
	size_t count;

	if (poll(&p, 1, wait_ms) <= 0)
		return;
	share_receive(fd, &message, fds, &count);
	share_close_fds(fds, count);
}

/* A message that is right but for what the script puts over its middle. */
static void send_request(int fd, struct script *script)
{
	struct share_request request = { .generation = own.generation, .batch = 8 };

	share_head(&request.head, SHARE_REQUEST);
	memcpy(request.secret, own.secret, sizeof(request.secret));
	next_bytes(script, &request.first, sizeof(request) - offsetof(struct share_request, first));
	share_send(fd, &request, sizeof(request), NULL, 0);
}

static void send_ack(int fd, struct script *script)
{
	struct share_ack ack = { .next = next(script) };

	share_head(&ack.head, SHARE_ACK);
	share_send(fd, &ack, sizeof(ack), NULL, 0);
}

static void send_chunks(int fd, struct script *script)
{
	struct share_chunks chunks = { .first = next(script), .count = next(script) };
	int fds[SHARE_MAX_FDS];
	size_t count = next(script) % (SHARE_MAX_FDS + 1);
	size_t length;

	share_head(&chunks.head, SHARE_CHUNKS);
	for (uint32_t i = 0; i < SHARE_MAX_FDS; i++) {
		chunks.chunks[i] = (struct share_chunk){ PAGE, i % CHUNKS * PAGE };
		fds[i] = memfd;
	}
	next_bytes(script, chunks.chunks, sizeof(chunks.chunks));
	length = share_message_bytes(SHARE_CHUNKS, chunks.count % (SHARE_MAX_FDS + 1));
	share_send(fd, &chunks, length, fds, count);
}

static void send_raw(int fd, struct script *script)
{
	uint8_t bytes[255];
	int fds[2] = { memfd, memfd };
	size_t count = next(script) % 3;
	size_t length = next_bytes(script, bytes, sizeof(bytes));

	share_send(fd, bytes, length, fds, count);
}

static void play(int fd, struct script *script)
{
	for (int steps = 0; script->size && steps < 64; steps++) {
		switch (next(script) % 5) {
		case 0:
			send_request(fd, script);
			break;
		case 1:
			send_ack(fd, script);
			break;
		case 2:
			send_chunks(fd, script);
			break;
		case 3:
			send_raw(fd, script);
			break;
		case 4:
			drain(fd, 1);
		}
	}
}

static void check_server(struct script *script)
{
	struct share_address address = { .length = own.name_length };
	int fd;

	memcpy(address.name, own.name, sizeof(address.name));
	fd = share_connect(&address);
	if (fd < 0)
		return;
	play(fd, script);
	close(fd);
}

/* ---- an importer, whose server the script is ---- */

static int listener;
static struct script scene;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool on_stage;
static uint8_t *foreign;
static size_t foreign_length;

static void *act(void *arg)
{
	(void)arg;
	for (;;) {
		int fd;

		pthread_mutex_lock(&lock);
		while (!on_stage)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			drain(fd, 100);
			play(fd, &scene);
			close(fd);
		}
		pthread_mutex_lock(&lock);
		on_stage = false;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void check_importer(const struct script *script)
{
	struct mrg_import *import;
	volatile char *there;

	pthread_mutex_lock(&lock);
	scene = *script;
	on_stage = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (!mrg_share_import(share, foreign, foreign_length, NULL, &import)) {
		there = (char *)(uintptr_t)mrg_import_address(import);
		for (uint64_t at = 0; at < mrg_import_length(import); at += PAGE)
			(void)there[at];
		mrg_import_release(import);
	}
	pthread_mutex_lock(&lock);
	while (on_stage)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- set up ---- */

static void make_foreign(void)
{
	struct share_run run = { PAGE, 6 };
	struct share_token token = own;
	struct share_address address;
	pthread_t thread;
	void *bytes;

	must(!share_name(NULL, &address), "no name");
	listener = share_listen(&address);
	fcntl(listener, F_SETFL, 0);
	token.runs = &run;
	token.run_count = 1;
	token.length = 6 * PAGE;
	token.generation++;
	memcpy(token.name, address.name, sizeof(token.name));
	token.name_length = address.length;
	foreign_length = (size_t)share_token_encode(&token, &bytes);
	foreign = bytes;
	pthread_create(&thread, NULL, act, NULL);
}

static void set_up(void)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 200 };
	struct mrg_memfd fds[CHUNKS];
	struct mrg_error error;
	const void *bytes;
	size_t length;

	memfd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(!ftruncate(memfd, CHUNKS * PAGE), "no memory");
	fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK);
	for (uint64_t i = 0; i < CHUNKS; i++)
		fds[i] = (struct mrg_memfd){ .fd = memfd, .offset = i * PAGE, .length = PAGE };
	must(!mrg_share_open(&share, &opts), "no handle");
	must(!mrg_share_publish_memfds(share, fds, CHUNKS, &range), "no range");
	length = mrg_range_token(range, &bytes);
	must(!share_token_decode(bytes, length, &own, &error), "no token");
	make_foreign();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = { data + 1, size - 1 };

	if (!share)
		set_up();
	if (!size)
		return 0;
	switch (data[0] % 5) {
	case 0:
		check_token(script.data, script.size);
		break;
	case 1:
		check_sealed(script.data, script.size);
		break;
	case 2:
		check_messages(script.data, script.size);
		break;
	case 3:
		check_server(&script);
		break;
	case 4:
		check_importer(&script);
	}
	return 0;
}
