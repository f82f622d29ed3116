/* SPDX-License-Identifier: MIT */
/* What changed in the directory, as one watcher sees it. */
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "directory/directory.h"

#define REPLY_ENTRIES "256" /* at most, in one answer */
#define REPLY_BYTES "4194304" /* about as many, likewise */

/* What was reported to the watcher about a name. */
struct known {
	char name[MRG_DIRECTORY_MAX_NAME + 1];
	uint64_t generation;
	uint32_t check; /* of its bytes */
	size_t length;
	bool present;
	bool in_doubt; /* known from a server that has lost its data */
	int64_t doubt_end; /* base_now_ms() */
};

struct watching {
	struct mrg_directory *directory;
	mrg_directory_watcher watcher;
	void *arg;
	ssize_t told;
	int64_t next_lease_ms; /* until the earliest may end; -1: none */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

void directory_forget(struct mrg_directory *directory)
{
	tdestroy(directory->known, free);
	directory->known = NULL;
}

static struct known *known_of(struct mrg_directory *directory, const char *name)
{
	struct known *fresh = calloc(1, sizeof(*fresh));
	struct known **slot;

	if (!fresh)
		return NULL;
	snprintf(fresh->name, sizeof(fresh->name), "%s", name);
	slot = tsearch(fresh, &directory->known, by_name);
	if (!slot || *slot != fresh)
		free(fresh);
	return slot ? *slot : NULL;
}

static void tell(struct watching *in, enum mrg_directory_what what,
		 const struct mrg_directory_entry *entry)
{
	in->told++;
	in->watcher(in->arg, what, entry);
}

static void tell_gone(struct watching *in, struct known *known)
{
	struct mrg_directory_entry entry = { .generation = known->generation };

	if (!known->present)
		return;
	known->present = known->in_doubt = false;
	memcpy(entry.name, known->name, sizeof(entry.name));
	tell(in, MRG_DIRECTORY_GONE, &entry);
}

static void tell_entry(struct watching *in, struct known *known,
		       const struct mrg_directory_entry *entry)
{
	uint32_t check = (uint32_t)crc32_z(0, entry->bytes, entry->length);
	bool was_present = known->present;

	/* An old copy's: the watcher knows better. */
	if (entry->generation < known->generation)
		return;
	known->in_doubt = false;
	if (was_present && known->generation == entry->generation &&
	    known->length == entry->length && known->check == check)
		return;
	known->present = true;
	known->generation = entry->generation;
	known->check = check;
	known->length = entry->length;
	tell(in, was_present ? MRG_DIRECTORY_CHANGED : MRG_DIRECTORY_APPEARED, entry);
}

/* ---- asking what changed ---- */

/*
 * KEYS: leases, changes, epoch, channel.  ARGV: the watcher's epoch, the last
 * change that it saw, entries, bytes, the start of entries' keys.
 * Answers: epoch, the last change reported, is there more, ms until the earliest
 * lease ends, and then name, value (or nothing), ms left, for each.
 *
 * An entry whose lease has ended counts as gone, found or not: TIME goes on while
 * a script runs, and keys expire by the time at which it began.  The script reports
 * the end once, so the later expiry for GET causes no second report.
 */
static const char script[] =
	"local t = redis.call('TIME') "
	"local now = t[1] * 1000 + math.floor(t[2] / 1000) "
	"local function top() "
	"  return tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or '0') "
	"end "
	"for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', "
	"    string.format('%.0f', now), 'LIMIT', 0, 100)) do "
	"  redis.call('ZREM', KEYS[1], name) "
	"  redis.call('ZADD', KEYS[2], string.format('%.0f', top() + 1), name) "
	"  redis.call('PUBLISH', KEYS[4], name) "
	"end "
	"local epoch = redis.call('GET', KEYS[3]) or '' "
	"local since = epoch == ARGV[1] and ARGV[2] or '0' "
	"local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] "
	"local out = { epoch, since, 0, first and math.max(0, first - now) or -1 } "
	"local names = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. since, '+inf', "
	"    'WITHSCORES', 'LIMIT', 0, ARGV[3]) "
	"local bytes = 0 "
	"for i = 1, #names, 2 do "
	"  local key = ARGV[5] .. names[i] "
	"  local value = redis.call('ZSCORE', KEYS[1], names[i]) and redis.pcall('GET', key) "
	"  if type(value) == 'table' then value = '' end "
	"  out[#out + 1] = names[i] "
	"  out[#out + 1] = value "
	"  out[#out + 1] = redis.call('PTTL', key) "
	"  out[2] = names[i + 1] "
	"  bytes = bytes + (value and #value or 0) "
	"  if bytes > tonumber(ARGV[4]) then break end "
	"end "
	"if tonumber(out[2]) < top() then out[3] = 1 end "
	"return out";

static int ask(struct mrg_directory *directory, int64_t end, redisReply **reply)
{
	struct directory_words words = { .count = 0 };
	char start[128], change[24];

	snprintf(change, sizeof(change), "%" PRIu64, directory->change);
	snprintf(start, sizeof(start), "{%s}:entry:", directory->prefix);
	directory_add(&words, "EVAL", script, "4", NULL);
	directory_key(directory, &words, "leases");
	directory_key(directory, &words, "changes");
	directory_key(directory, &words, "epoch");
	directory_key(directory, &words, "changed");
	directory_add(&words, directory->epoch, change, REPLY_ENTRIES, REPLY_BYTES, start, NULL);
	return directory_ask(directory, &words, end, reply);
}

static void doubt(const void *node, VISIT visit, void *end)
{
	struct known *known = *(struct known *const *)node;

	if ((visit == postorder || visit == leaf) && known->present) {
		known->in_doubt = true;
		known->doubt_end = *(int64_t *)end;
	}
}

/*
 * Another epoch: the server has lost its data.  That says nothing of the peers,
 * who publish again when they renew: each has a lease's time for it.
 */
static void check_epoch(struct mrg_directory *directory, const char *epoch)
{
	int64_t end = base_now_ms() + directory->lease_ms;

	if (!strcmp(epoch, directory->epoch))
		return;
	twalk_r(directory->known, doubt, &end);
	directory->doubts = true;
	snprintf(directory->epoch, sizeof(directory->epoch), "%s", epoch);
}

static int take_one(struct watching *in, redisReply *const *field)
{
	struct mrg_directory_entry entry = { .length = 0 };
	struct known *known;
	int ret;

	if (field[0]->type != REDIS_REPLY_STRING || !directory_good_name(field[0]->str))
		return 0;
	known = known_of(in->directory, field[0]->str);
	if (!known)
		return directory_no_memory(in->directory);
	if (field[1]->type != REDIS_REPLY_STRING) {
		if (!known->in_doubt)
			tell_gone(in, known);
		return 0;
	}
	/* What cannot be read is as good as not there, until it is written anew. */
	ret = directory_parse(in->directory, known->name, field[1]->str, (size_t)field[1]->len,
			      &entry);
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	entry.lease_ms = field[2]->integer > 0 ? (uint64_t)field[2]->integer : 0;
	tell_entry(in, known, &entry);
	free(entry.bytes);
	return 0;
}

static bool is_answer(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY && reply->elements >= 4 &&
	       reply->elements % 3 == 1 && reply->element[0]->type == REDIS_REPLY_STRING &&
	       reply->element[1]->type == REDIS_REPLY_STRING &&
	       reply->element[2]->type == REDIS_REPLY_INTEGER &&
	       reply->element[3]->type == REDIS_REPLY_INTEGER;
}

/* Return: 1: there is more; 0; -errno */
static int take_answer(struct watching *in, const redisReply *reply)
{
	struct mrg_directory *directory = in->directory;
	int ret = 0;

	if (!is_answer(reply))
		return directory_no_answer(directory);
	check_epoch(directory, reply->element[0]->str);
	for (size_t i = 4; i + 2 < reply->elements && !ret; i += 3)
		ret = take_one(in, &reply->element[i]);
	if (ret)
		return ret;
	directory->change = strtoull(reply->element[1]->str, NULL, 10);
	in->next_lease_ms = reply->element[3]->integer;
	return reply->element[2]->integer != 0;
}

static int look(struct watching *in, int64_t end)
{
	redisReply *reply;
	int ret;

	do {
		ret = ask(in->directory, end, &reply);
		if (ret)
			return ret;
		ret = take_answer(in, reply);
		freeReplyObject(reply);
	} while (ret > 0);
	return ret;
}

/* ---- peers that did not come back after the server lost its data ---- */

struct doubts {
	struct watching *in;
	int64_t now;
	int64_t next; /* when the next one ends */
};

static void end_doubt(const void *node, VISIT visit, void *arg)
{
	struct known *known = *(struct known *const *)node;
	struct doubts *doubts = arg;

	if ((visit != postorder && visit != leaf) || !known->in_doubt)
		return;
	if (known->doubt_end <= doubts->now)
		tell_gone(doubts->in, known);
	else if (known->doubt_end < doubts->next)
		doubts->next = known->doubt_end;
}

static int64_t end_doubts(struct watching *in)
{
	struct doubts doubts = { in, base_now_ms(), INT64_MAX };

	if (!in->directory->doubts)
		return INT64_MAX;
	twalk_r(in->directory->known, end_doubt, &doubts);
	in->directory->doubts = doubts.next != INT64_MAX;
	return doubts.next;
}

ssize_t mrg_directory_watch(struct mrg_directory *directory, uint32_t wait_ms,
			    mrg_directory_watcher watcher, void *arg)
{
	struct watching in = { .directory = directory, .watcher = watcher, .arg = arg };
	int64_t end = base_now_ms() + wait_ms;

	for (;;) {
		int64_t limit = base_now_ms() + directory->timeout_ms, until = end, doubt_ends;
		int ret;

		if (limit > end + directory->timeout_ms)
			limit = end + directory->timeout_ms;
		ret = directory_subscribe(directory, limit);

		if (!ret)
			ret = look(&in, limit);
		/* Lost and connected anew meanwhile: look after subscribing. */
		if (!ret && !directory->events)
			continue;
		if (ret)
			return in.told ? in.told : ret;
		doubt_ends = end_doubts(&in);
		if (in.told || base_now_ms() >= end)
			return in.told;
		/* A millisecond more: the lease must have ended then. */
		if (in.next_lease_ms >= 0 && base_now_ms() + in.next_lease_ms + 1 < until)
			until = base_now_ms() + in.next_lease_ms + 1;
		until = doubt_ends < until ? doubt_ends : until;
		ret = directory_await(directory, until);
		if (ret < 0)
			return ret;
	}
}
