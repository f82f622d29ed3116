/* SPDX-License-Identifier: MIT */
/*
 * Inside the directory.  What lies on the server, below the prefix P (braces, so
 * that a cluster keeps all of it in one place):
 *
 *	{P}:generations	hash: name -> the last generation claimed or published
 *	{P}:entry:NAME	"mrguard1 GENERATION " and the bytes; expires by itself
 *	{P}:leases	sorted set: name -> when its lease ends, ms since 1970
 *	{P}:changes	sorted set: name -> number of its last change
 *	{P}:epoch	random, made with the first change: tells a server that
 *			has lost its data
 *	{P}:changed	channel: somebody should look at {P}:changes
 *
 * All is done by scripts on the server, so that no two clients interleave.  Who
 * renews also removes leases that have ended, so a watcher needs to ask only
 * when something changed, or when the earliest lease may have ended.
 */
#ifndef DIRECTORY_DIRECTORY_H
#define DIRECTORY_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <mrguard/directory.h>

#define DIRECTORY_STAGE "ask directory"

struct mrg_directory {
	char *host; /* or NULL */
	char *path; /* of a Unix socket, or NULL */
	int port;
	char *password;
	char *prefix;
	uint32_t timeout_ms;
	uint32_t lease_ms;
	redisContext *commands; /* NULL: to be connected */
	redisContext *events; /* subscribed; NULL likewise */
	struct mrg_error error;

	/* The watcher's */
	char epoch[40];
	uint64_t change; /* the last one seen */
	void *known; /* tsearch(3): struct known */
};

/* A command's words; NULL lengths: strings. */
struct directory_words {
	int count;
	const char *word[16];
	size_t length[16];
};

void directory_word(struct directory_words *words, const char *word);
void directory_bytes(struct directory_words *words, const void *bytes, size_t length);
/** directory_key() - a word that is a key below the prefix, made in @room */
void directory_key(const struct mrg_directory *directory, struct directory_words *words,
		   const char *name, char *room, size_t size);

int64_t directory_now(void); /* ms, monotonic */
int directory_fail(struct mrg_directory *directory, int code, const char *remedy,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

/**
 * directory_ask() - a command and its reply, connecting if need be
 * @end: directory_now() by when it must be over
 * @reply: OUT to be freed with freeReplyObject(); never an error reply
 */
int directory_ask(struct mrg_directory *directory, const struct directory_words *words, int64_t end,
		  redisReply **reply);
/** directory_subscribe() - make sure of @directory->events */
int directory_subscribe(struct mrg_directory *directory, int64_t end);
/** directory_await() - wait for an event.  1: there was one; 0: time is over */
int directory_await(struct mrg_directory *directory, int64_t end);

bool directory_good_name(const char *name);
/** directory_parse() - an entry's value to @entry, but for name and lease */
int directory_parse(const char *value, size_t length, struct mrg_directory_entry *entry);
void directory_forget(struct mrg_directory *directory);

#endif
