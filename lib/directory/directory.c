/* SPDX-License-Identifier: MIT */
/* A directory's handle, and single entries. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/text.h"
#include "directory/directory.h"

#define DEFAULT_PORT 6379
#define TIMEOUT_MS 3000
#define LEASE_MS 15000
#define MAX_PREFIX 64

/* ---- opening ---- */

/* @otherwise: or NULL, and then nothing is copied.  Return: 0; -ENOMEM */
static int copy_text(char **copy, const char *text, const char *variable, const char *otherwise)
{
	if (!text && variable)
		text = secure_getenv(variable);
	if (!text || !*text)
		text = otherwise;
	*copy = text ? strdup(text) : NULL;
	return text && !*copy ? -ENOMEM : 0;
}

static int parse_port(const char *text, int *port)
{
	char *end;
	long value = strtol(text, &end, 10);

	/* strtol() takes blanks and a sign as well. */
	if (*text < '0' || *text > '9' || *end || value < 1 || value > 65535)
		return -EINVAL;
	*port = (int)value;
	return 0;
}

/* Takes @server over, which becomes the host or the path. */
static int parse_server(struct mrg_directory *directory, char *server)
{
	char *bracket, *colon;

	directory->port = DEFAULT_PORT;
	if (*server == '/') {
		directory->path = server;
		directory->port = 0;
		return 0;
	}
	directory->host = server;
	bracket = *server == '[' ? strchr(server, ']') : NULL;
	if (*server == '[' && (!bracket || (bracket[1] && bracket[1] != ':')))
		return -EINVAL;
	colon = strchr(bracket ? bracket : server, ':');
	/* Several colons without brackets: an IPv6 address alone. */
	if (colon && !bracket && strchr(colon + 1, ':'))
		return 0;
	if (colon && parse_port(colon + 1, &directory->port))
		return -EINVAL;
	if (colon)
		*colon = '\0';
	if (bracket) {
		*bracket = '\0';
		memmove(server, server + 1, strlen(server));
	}
	return *server ? 0 : -EINVAL;
}

static int set_up(struct mrg_directory *directory, const struct mrg_directory_opts *o)
{
	char *server;
	size_t length;

	if (copy_text(&server, o->server, "MRGUARD_DIRECTORY", "127.0.0.1"))
		return -ENOMEM;
	if (parse_server(directory, server))
		return -EINVAL;
	if (copy_text(&directory->password, o->password, "MRGUARD_DIRECTORY_PASSWORD", NULL) ||
	    copy_text(&directory->prefix, o->prefix, NULL, "mrguard"))
		return -ENOMEM;
	directory->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
	directory->lease_ms = o->lease_ms ? o->lease_ms : LEASE_MS;
	length = strlen(directory->prefix);
	if (!length || length > MAX_PREFIX || strpbrk(directory->prefix, "{}"))
		return -EINVAL;
	return base_is_visible(directory->prefix, length) ? 0 : -EINVAL;
}

/* A round trip, so that a wrong server or password shows at once. */
static int greet(struct mrg_directory *directory)
{
	struct directory_words words = { .count = 0 };
	redisReply *reply;
	int ret;

	directory_add(&words, "PING", NULL);
	ret = directory_ask(directory, &words, base_now_ms() + directory->timeout_ms, &reply);
	if (ret)
		return ret;
	if (reply->type != REDIS_REPLY_STATUS)
		ret = directory_fail(directory, -EPROTO, "Name a Redis server.",
				     "The server does not answer PING as Redis does.");
	freeReplyObject(reply);
	return ret;
}

int mrg_directory_open(struct mrg_directory **out, const struct mrg_directory_opts *opts,
		       struct mrg_error *error)
{
	struct mrg_directory *directory;
	struct mrg_directory_opts o;
	int ret;

	if (base_opts_copy(&o, sizeof(o), opts))
		return base_error_set(error, -EINVAL, "check options", BASE_OPTS_REMEDY,
				      "The options are malformed.");
	directory = calloc(1, sizeof(*directory));
	if (!directory)
		return base_error_set(error, -ENOMEM, "check options", "Free memory.",
				      "There is no memory for a handle.");
	directory->error_owner = mrg_private_error_owner();
	ret = set_up(directory, &o);
	if (ret == -ENOMEM)
		directory_no_memory(directory);
	else if (ret)
		directory_fail(directory, ret,
			       "Give HOST, HOST:PORT, [IPV6]:PORT or a path, and as prefix up to "
			       "64 visible ASCII characters without braces.",
			       "The server's address or the prefix is malformed.");
	else
		ret = greet(directory);
	if (!ret) {
		*out = directory;
		return 0;
	}
	if (error)
		mrg_private_error_read(directory->error_owner, error);
	mrg_directory_close(directory);
	return ret;
}

void mrg_directory_close(struct mrg_directory *directory)
{
	if (!directory)
		return;
	if (directory->commands)
		redisFree(directory->commands);
	if (directory->events)
		redisFree(directory->events);
	directory_forget(directory);
	if (directory->password)
		explicit_bzero(directory->password, strlen(directory->password));
	free(directory->password);
	free(directory->host);
	free(directory->path);
	free(directory->prefix);
	free(directory);
}

int mrg_directory_last_error(const struct mrg_directory *directory, struct mrg_error *error)
{
	return mrg_private_error_read(directory->error_owner, error);
}

/* ---- scripts ---- */

/* GET fails where something else than a string lies: pcall, so that who writes
 * below the prefix spoils that name alone. */

/*
 * The generation follows the clock where the server knows of none: one that has
 * lost its data must not give out what an owner of old still has.
 */
static const char claim_script[] =
	"local t = redis.call('TIME') "
	"local now = t[1] * 1000 + math.floor(t[2] / 1000) "
	"local last = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') "
	"local g = string.format('%.0f', math.max(last + 1, now)) "
	"redis.call('HSET', KEYS[1], ARGV[1], g) "
	"return g";

/* Leases that have ended become changes; then this name's change is shown. */
#define SHOW                                                                          \
	"local function show(name) "                                                  \
	"  redis.call('SET', KEYS[5], ARGV[5], 'NX') "                                \
	"  local n = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2] or '0' " \
	"  redis.call('ZADD', KEYS[4], string.format('%.0f', n + 1), name) "          \
	"  redis.call('PUBLISH', KEYS[6], name) "                                     \
	"end "                                                                        \
	"local t = redis.call('TIME') "                                               \
	"local now = t[1] * 1000 + math.floor(t[2] / 1000) "                          \
	"for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', "         \
	"    string.format('%.0f', now), 'LIMIT', 0, 100)) do "                       \
	"  redis.call('ZREM', KEYS[3], name) "                                        \
	"  show(name) "                                                               \
	"end "

/* KEYS: generations, entry, leases, changes, epoch, channel.
 * ARGV: name, generation, lease, value, a new epoch.
 * A name without a lease was reported as gone, even if GET still finds it. */
static const char publish_script[] = SHOW
	"local last = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') "
	"local g = tonumber(ARGV[2]) "
	"if g < last then return string.format('%.0f', last) end "
	"if g > last then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end "
	"local old = redis.pcall('GET', KEYS[2]) "
	"redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3]) "
	"local back = redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[3]), ARGV[1]) "
	"if back == 1 or old ~= ARGV[4] then show(ARGV[1]) end "
	"return ''";

static const char withdraw_script[] = SHOW
	"local last = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') "
	"if tonumber(ARGV[2]) < last then return string.format('%.0f', last) end "
	"if redis.call('DEL', KEYS[2]) == 1 then "
	"  redis.call('ZREM', KEYS[3], ARGV[1]) "
	"  show(ARGV[1]) "
	"end "
	"return ''";

static int bad_name(struct mrg_directory *directory)
{
	return directory_fail(directory, -EINVAL, "Use 1 to 128 characters of visible ASCII.",
			      "The name is empty, too long, or not visible ASCII.");
}

int mrg_directory_claim(struct mrg_directory *directory, const char *name, uint64_t *generation)
{
	struct directory_words words = { .count = 0 };
	redisReply *reply;
	int ret;

	if (!directory_good_name(name))
		return bad_name(directory);
	directory_add(&words, "EVAL", claim_script, "1", NULL);
	directory_key(directory, &words, "generations");
	directory_add(&words, name, NULL);
	ret = directory_ask(directory, &words, base_now_ms() + directory->timeout_ms, &reply);
	if (ret)
		return ret;
	if (reply->type == REDIS_REPLY_STRING)
		*generation = strtoull(reply->str, NULL, 10);
	else
		ret = directory_no_answer(directory);
	freeReplyObject(reply);
	return ret;
}

/* Runs one of the two scripts that need the right generation. */
static int change(struct mrg_directory *directory, const char *script, const char *name,
		  uint64_t generation, const void *value, size_t length)
{
	struct directory_words words = { .count = 0 };
	char numbers[3][24];
	uint64_t epoch = ((uint64_t)base_now_ms() << 20) ^ (uintptr_t)directory;
	redisReply *reply;
	int ret;

	snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, generation);
	snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu32, directory->lease_ms);
	snprintf(numbers[2], sizeof(numbers[2]), "%" PRIx64, epoch);
	directory_add(&words, "EVAL", script, "6", NULL);
	directory_key(directory, &words, "generations");
	directory_key(directory, &words, "entry:%s", name);
	directory_key(directory, &words, "leases");
	directory_key(directory, &words, "changes");
	directory_key(directory, &words, "epoch");
	directory_key(directory, &words, "changed");
	directory_add(&words, name, numbers[0], numbers[1], NULL);
	directory_bytes(&words, value, length);
	directory_add(&words, numbers[2], NULL);
	ret = directory_ask(directory, &words, base_now_ms() + directory->timeout_ms, &reply);
	if (ret)
		return ret;
	if (reply->type != REDIS_REPLY_STRING)
		ret = directory_no_answer(directory);
	else if (reply->len)
		ret = directory_fail(
			directory, -ESTALE, "Stop publishing: another process owns the name.",
			"Name %s was claimed with generation %s, and this one is %" PRIu64 ".",
			name, reply->str, generation);
	freeReplyObject(reply);
	return ret;
}

int mrg_directory_publish(struct mrg_directory *directory, const char *name, uint64_t generation,
			  const void *bytes, size_t length)
{
	size_t total;
	char *value;
	int ret;

	if (!directory_good_name(name))
		return bad_name(directory);
	if (length > MRG_DIRECTORY_MAX_BYTES)
		return directory_fail(directory, -EINVAL, "Publish fewer bytes.",
				      "The entry has %zu bytes, and the limit is %u.", length,
				      MRG_DIRECTORY_MAX_BYTES);
	value = directory_value(generation, bytes, length, &total);
	if (!value)
		return directory_no_memory(directory);
	ret = change(directory, publish_script, name, generation, value, total);
	free(value);
	return ret;
}

int mrg_directory_withdraw(struct mrg_directory *directory, const char *name, uint64_t generation)
{
	if (!directory_good_name(name))
		return bad_name(directory);
	return change(directory, withdraw_script, name, generation, "", 0);
}

static int take_entry(struct mrg_directory *directory, const char *name, const redisReply *reply,
		      uint64_t at_least, struct mrg_directory_entry *entry)
{
	struct mrg_directory_entry found = { .length = 0 };
	int ret;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return directory_no_answer(directory);
	if (reply->element[0]->type != REDIS_REPLY_STRING)
		return directory_fail(directory, -ENOENT, "Wait until it is published.",
				      "Nobody publishes %s.", name);
	ret = directory_parse(directory, name, reply->element[0]->str,
			      (size_t)reply->element[0]->len, &found);
	if (ret)
		return ret;
	if (found.generation < at_least) {
		ret = directory_fail(directory, -ESTALE, "Wait until its owner publishes again.",
				     "The server has generation %" PRIu64 " of %s, and %" PRIu64
				     " is known.",
				     found.generation, name, at_least);
		mrg_directory_entry_release(&found);
		return ret;
	}
	if (reply->element[1]->integer > 0)
		found.lease_ms = (uint64_t)reply->element[1]->integer;
	*entry = found;
	return 0;
}

int mrg_directory_find(struct mrg_directory *directory, const char *name, uint64_t at_least,
		       struct mrg_directory_entry *entry)
{
	static const char script[] = "local value = redis.pcall('GET', KEYS[1]) "
				     "if type(value) == 'table' then value = '' end "
				     "return { value, redis.call('PTTL', KEYS[1]) }";
	struct directory_words words = { .count = 0 };
	redisReply *reply;
	int ret;

	if (!directory_good_name(name))
		return bad_name(directory);
	directory_add(&words, "EVAL", script, "1", NULL);
	directory_key(directory, &words, "entry:%s", name);
	ret = directory_ask(directory, &words, base_now_ms() + directory->timeout_ms, &reply);
	if (ret)
		return ret;
	ret = take_entry(directory, name, reply, at_least, entry);
	freeReplyObject(reply);
	return ret;
}
