/* SPDX-License-Identifier: MIT */
/*
 * Inside the directory.  What lies on the server, below the prefix P (braces, so
 * that a cluster keeps all of it in one place):
 *
 *	{P}:generations	hash: name -> the last generation claimed or published
 *	{P}:entry:NAME	a value, see below; expires by itself
 *	{P}:leases	sorted set: name -> when its lease ends, ms since 1970
 *	{P}:changes	sorted set: name -> number of its last change
 *	{P}:epoch	random, made with the first change: tells a server that
 *			has lost its data
 *	{P}:changed	channel: somebody should look at {P}:changes
 *
 * A value is a line of words, "mrguard2 GENERATION FIELD=TEXT ...", and then the
 * bytes.  The generation has 20 digits.  There is no field yet.  A reader skips an
 * unknown field whose name begins with a lower-case letter, and refuses the entry for
 * any other; a change that an older reader cannot survive raises the 2.  Nothing
 * copies an entry: each publisher writes the whole value, so no field gets lost.
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

#include "base/clock.h"
#include "base/error.h"

#define DIRECTORY_STAGE "ask directory"
#define DIRECTORY_SAME_VERSION "Run the same version of libmrguard-transfer on both sides."

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
	uint64_t error_owner;

	/* The watcher's */
	char epoch[40];
	uint64_t change; /* the last one seen */
	void *known; /* tsearch(3): struct known */
	bool doubts; /* some of them may be in doubt */
};

/* A command's words. */
struct directory_words {
	int count;
	const char *word[16];
	size_t length[16];
	int keys;
	char key[6][320];
};

/** directory_add() - add strings, up to a NULL */
void directory_add(struct directory_words *words, ...) __attribute__((sentinel));
void directory_bytes(struct directory_words *words, const void *bytes, size_t length);
/** directory_key() - add a key below the prefix */
void directory_key(const struct mrg_directory *directory, struct directory_words *words,
		   const char *name, ...) BASE_PRINTF(3, 4);

/** directory_fail() - keep why a call fails, with a remedy and a cause */
#define directory_fail(directory, code, remedy, ...) \
	base_fail((directory)->error_owner, code, DIRECTORY_STAGE, remedy, __VA_ARGS__)
#define directory_no_memory(directory)                     \
	directory_fail(directory, -ENOMEM, "Free memory.", \
		       "There is no memory for the directory's data.")
#define directory_no_answer(directory)                                                             \
	directory_fail(directory, -EPROTO, "Use Redis, version 5 or newer, with scripts allowed.", \
		       "The server's answer is not of the expected form.")

/**
 * directory_ask() - a command and its reply, connecting if need be
 * @end: base_now_ms() by when it must be over
 * @reply: OUT to be freed with freeReplyObject(); never an error reply
 */
int directory_ask(struct mrg_directory *directory, const struct directory_words *words, int64_t end,
		  redisReply **reply);
/** directory_subscribe() - make sure of @directory->events */
int directory_subscribe(struct mrg_directory *directory, int64_t end);
/** directory_await() - wait for an event.  1: there was one; 0: time is over */
int directory_await(struct mrg_directory *directory, int64_t end);

/* value.c */

bool directory_good_name(const char *name);
/** directory_value() - an entry's value, to be freed; NULL: no memory */
char *directory_value(uint64_t generation, const void *bytes, size_t length, size_t *total);
/** directory_parse() - the value of @name to @entry, all but the lease.  0; -EBADMSG,
 *  -EPROTONOSUPPORT, -ENOMEM, with the failure kept */
int directory_parse(struct mrg_directory *directory, const char *name, const char *value,
		    size_t length, struct mrg_directory_entry *entry);

/** directory_forget() - free what the watcher has seen */
void directory_forget(struct mrg_directory *directory);

#endif
