/* SPDX-License-Identifier: MIT */
/*
 * The directory, with a real Redis of the test's own: on loopback, without a
 * file, and ended by its process ID.
 */
#include <sys/un.h>

#include "redis_server.h"

#define SLACK_MS 15000 /* of a loaded machine: what takes longer hangs */

static int set_up(void **state)
{
	(void)state;
	choose_port();
	start_server("");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	stop_server();
	return 0;
}

static struct mrg_directory *open_with_lease(uint32_t lease_ms)
{
	struct mrg_directory *directory;
	int ret;

	directory = try_open(lease_ms, NULL, &ret);
	assert_int_equal(ret, 0);
	return directory;
}

static uint64_t claim(struct mrg_directory *directory, const char *name)
{
	uint64_t generation = 0;

	assert_int_equal(mrg_directory_claim(directory, name, &generation), 0);
	return generation;
}

static int publish(struct mrg_directory *directory, const char *name, uint64_t generation,
		   const char *text)
{
	return mrg_directory_publish(directory, name, generation, text, strlen(text));
}

/* "+name=text ", "*name=text ", "-name " */
static char seen[4096];

static void watcher(void *arg, enum mrg_directory_what what,
		    const struct mrg_directory_entry *entry)
{
	char line[256];

	(void)arg;
	if (what == MRG_DIRECTORY_GONE)
		snprintf(line, sizeof(line), "-%s ", entry->name);
	else
		snprintf(line, sizeof(line), "%c%s=%.*s ",
			 what == MRG_DIRECTORY_APPEARED ? '+' : '*', entry->name,
			 (int)entry->length, (const char *)entry->bytes);
	strcat(seen, line);
}

static ssize_t watch(struct mrg_directory *directory, uint32_t wait_ms)
{
	seen[0] = '\0';
	return mrg_directory_watch(directory, wait_ms, watcher, NULL);
}

/* ---- entries ---- */

static void what_one_publishes_another_finds(void **state)
{
	struct mrg_directory *a = open_with_lease(0), *b = open_with_lease(0);
	struct mrg_directory_entry entry;
	uint64_t generation = claim(a, "node1");
	const char bytes[] = "with\0zero";

	(void)state;
	assert_int_equal(mrg_directory_find(b, "node1", 0, &entry), -ENOENT);
	assert_int_equal(mrg_directory_publish(a, "node1", generation, bytes, sizeof(bytes)), 0);
	assert_int_equal(mrg_directory_find(b, "node1", generation, &entry), 0);
	assert_int_equal(entry.generation, generation);
	assert_int_equal(entry.length, sizeof(bytes));
	assert_memory_equal(entry.bytes, bytes, sizeof(bytes));
	assert_in_range(entry.lease_ms, 10000, 15000);
	mrg_directory_entry_release(&entry);
	assert_int_equal(mrg_directory_withdraw(a, "node1", generation), 0);
	assert_int_equal(mrg_directory_withdraw(a, "node1", generation), 0);
	assert_int_equal(mrg_directory_find(b, "node1", 0, &entry), -ENOENT);
	mrg_directory_close(a);
	mrg_directory_close(b);
}

static void an_owner_of_old_is_fenced_off(void **state)
{
	struct mrg_directory *old = open_with_lease(0), *fresh = open_with_lease(0);
	uint64_t first = claim(old, "node1"), second;
	struct mrg_directory_entry entry;

	(void)state;
	assert_int_equal(publish(old, "node1", first, "old"), 0);
	second = claim(fresh, "node1");
	assert_true(second > first);
	assert_int_equal(publish(old, "node1", first, "old"), -ESTALE);
	assert_int_equal(mrg_directory_last_error(old, &error), 0);
	assert_non_null(strstr(error.cause, "node1"));
	assert_int_equal(mrg_directory_withdraw(old, "node1", first), -ESTALE);
	assert_int_equal(publish(fresh, "node1", second, "new"), 0);
	assert_int_equal(mrg_directory_find(old, "node1", second + 1, &entry), -ESTALE);
	assert_int_equal(mrg_directory_find(old, "node1", second, &entry), 0);
	assert_memory_equal(entry.bytes, "new", 3);
	mrg_directory_entry_release(&entry);
	mrg_directory_close(old);
	mrg_directory_close(fresh);
}

static void an_entry_ends_with_its_lease_unless_it_is_renewed(void **state)
{
	struct mrg_directory *directory = open_with_lease(600);
	uint64_t dies = claim(directory, "dies"), lives = claim(directory, "lives");
	struct mrg_directory_entry entry;

	(void)state;
	assert_int_equal(publish(directory, "dies", dies, "x"), 0);
	assert_int_equal(publish(directory, "lives", lives, "x"), 0);
	for (int i = 0; i < 5; i++) {
		pause_ms(150);
		assert_int_equal(publish(directory, "lives", lives, "x"), 0);
	}
	assert_int_equal(mrg_directory_find(directory, "dies", 0, &entry), -ENOENT);
	assert_int_equal(mrg_directory_find(directory, "lives", 0, &entry), 0);
	mrg_directory_entry_release(&entry);
	mrg_directory_close(directory);
}

static void names_and_sizes_have_limits(void **state)
{
	struct mrg_directory *directory = open_with_lease(0);
	char longest[MRG_DIRECTORY_MAX_NAME + 2];
	uint64_t generation;
	uint8_t *large = calloc(1, MRG_DIRECTORY_MAX_BYTES + 1);

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(mrg_directory_claim(directory, longest, &generation), -EINVAL);
	assert_int_equal(mrg_directory_claim(directory, "", &generation), -EINVAL);
	assert_int_equal(mrg_directory_claim(directory, "a b", &generation), -EINVAL);
	longest[sizeof(longest) - 2] = '\0';
	generation = claim(directory, longest);
	assert_int_equal(mrg_directory_publish(directory, longest, generation, large,
					       MRG_DIRECTORY_MAX_BYTES),
			 0);
	assert_int_equal(mrg_directory_publish(directory, longest, generation, large,
					       MRG_DIRECTORY_MAX_BYTES + 1),
			 -EINVAL);
	free(large);
	mrg_directory_close(directory);
}

/* ---- watching ---- */

static void a_watcher_is_told_each_change_once(void **state)
{
	struct mrg_directory *directory = open_with_lease(0), *eyes = open_with_lease(0);
	uint64_t generation = claim(directory, "b");

	(void)state;
	assert_int_equal(publish(directory, "a", claim(directory, "a"), "1"), 0);
	assert_int_equal(publish(directory, "b", generation, "2"), 0);
	assert_int_equal(watch(eyes, 0), 2);
	assert_string_equal(seen, "+a=1 +b=2 ");
	assert_int_equal(watch(eyes, 0), 0);
	assert_int_equal(publish(directory, "b", generation, "2"), 0);
	assert_int_equal(watch(eyes, 100), 0);
	assert_int_equal(publish(directory, "b", generation, "3"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "*b=3 ");
	assert_int_equal(mrg_directory_withdraw(directory, "b", generation), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "-b ");
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

static void *publish_later(void *arg)
{
	struct mrg_directory *directory = arg;

	pause_ms(200);
	publish(directory, "late", claim(directory, "late"), "x");
	return NULL;
}

static void a_watcher_that_waits_is_woken(void **state)
{
	struct mrg_directory *directory = open_with_lease(0), *eyes = open_with_lease(0);
	int64_t start = now_ms();
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, publish_later, directory);
	assert_int_equal(watch(eyes, 20000), 1);
	assert_string_equal(seen, "+late=x ");
	assert_in_range(now_ms() - start, 150, 200 + SLACK_MS);
	pthread_join(thread, NULL);
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

static void a_watcher_is_told_of_a_lease_that_ends_though_nobody_renews(void **state)
{
	struct mrg_directory *directory = open_with_lease(300), *eyes = open_with_lease(0);
	int64_t start = now_ms();

	(void)state;
	assert_int_equal(publish(directory, "dies", claim(directory, "dies"), "x"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_int_equal(watch(eyes, 20000), 1);
	assert_string_equal(seen, "-dies ");
	assert_in_range(now_ms() - start, 250, 300 + SLACK_MS);
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

static void many_entries_come_in_several_answers(void **state)
{
	struct mrg_directory *directory = open_with_lease(0), *eyes = open_with_lease(0);
	char name[16];

	(void)state;
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(publish(directory, name, 1, ""), 0);
	}
	assert_int_equal(watch(eyes, 0), 600);
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

/* ---- what others write below the prefix ---- */

static void tell_server(const char *words)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char reply[64];

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(send(fd, words, strlen(words), MSG_NOSIGNAL), strlen(words));
	assert_true(recv(fd, reply, sizeof(reply), 0) > 0);
	assert_int_not_equal(reply[0], '-');
	close(fd);
}

static void what_is_no_string_spoils_its_own_name_alone(void **state)
{
	struct mrg_directory *brief = open_with_lease(300), *eyes = open_with_lease(0);
	struct mrg_directory *directory = open_with_lease(0);
	uint64_t bad = claim(directory, "bad"), good = claim(directory, "good");
	struct mrg_directory_entry entry;

	(void)state;
	assert_int_equal(publish(brief, "bad", bad, "x"), 0);
	tell_server("DEL {mrguard}:entry:bad\r\n");
	tell_server("LPUSH {mrguard}:entry:bad x\r\n");
	assert_int_equal(mrg_directory_find(eyes, "bad", 0, &entry), -EBADMSG);
	pause_ms(350);
	assert_int_equal(publish(directory, "good", good, "x"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "+good=x ");
	assert_int_equal(publish(directory, "bad", bad, "y"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "+bad=y ");
	mrg_directory_close(brief);
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

static void a_generation_is_twenty_digits(void **state)
{
	static const char *const wrong[] = {
		" -000000000000000001",
		"+0000000000000000001",
		"0000000000000000000x",
		"99999999999999999999",
	};
	struct mrg_directory *directory = open_with_lease(0);
	struct mrg_directory_entry entry;
	char words[128];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(words, sizeof(words), "SET {mrguard}:entry:a \"mrguard2 %s\\nx\"\r\n",
			 wrong[i]);
		tell_server(words);
		assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -EBADMSG);
	}
	mrg_directory_close(directory);
}

static void set_entry_a(const char *value)
{
	char words[192];

	snprintf(words, sizeof(words), "SET {mrguard}:entry:a \"%s\"\r\n", value);
	tell_server(words);
}

static void unknown_fields_are_skipped_or_refused_by_their_first_letter(void **state)
{
	struct mrg_directory *directory = open_with_lease(0);
	struct mrg_directory_entry entry;

	(void)state;
	set_entry_a("mrguard2 00000000000000000007 zone=a rack\\nx");
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), 0);
	assert_int_equal(entry.generation, 7);
	assert_int_equal(entry.length, 1);
	assert_int_equal(entry.bytes[0], 'x');
	mrg_directory_entry_release(&entry);
	set_entry_a("mrguard2 00000000000000000007 zone=a Cipher=b\\nx");
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -EPROTONOSUPPORT);
	assert_int_equal(mrg_directory_last_error(directory, &error), 0);
	assert_non_null(strstr(error.cause, "Cipher=b"));
	set_entry_a("mrguard3 anything\\nx");
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -EPROTONOSUPPORT);
	assert_int_equal(mrg_directory_last_error(directory, &error), 0);
	assert_non_null(strstr(error.cause, "version 3"));
	set_entry_a("mrguard2 00000000000000000007");
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -EBADMSG);
	mrg_directory_close(directory);
}

/* The lease ends by TIME, the entry by the time at which a script began. */
static void a_lease_that_ends_before_its_entry_expires_is_told(void **state)
{
	struct mrg_directory *directory = open_with_lease(60000), *eyes = open_with_lease(0);
	uint64_t generation = claim(directory, "ends");

	(void)state;
	assert_int_equal(publish(directory, "ends", generation, "x"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	tell_server("ZADD {mrguard}:leases 1 ends\r\n");
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "-ends ");
	assert_int_equal(watch(eyes, 0), 0);
	assert_int_equal(publish(directory, "ends", generation, "x"), 0);
	assert_int_equal(watch(eyes, 0), 1);
	assert_string_equal(seen, "+ends=x ");
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

/* ---- a server that fails ---- */

static void nobody_there_is_told_at_once(void **state)
{
	int ret;

	(void)state;
	stop_server();
	try_open(0, NULL, &ret);
	assert_int_equal(ret, -ECONNREFUSED);
	assert_non_null(strstr(error.cause, "127.0.0.1"));
}

static void a_restarted_server_is_used_again_and_fences_still(void **state)
{
	struct mrg_directory *old = open_with_lease(0), *fresh = open_with_lease(0);
	uint64_t first = claim(old, "node1"), second;

	(void)state;
	assert_int_equal(publish(old, "node1", first, "x"), 0);
	stop_server();
	start_server("");
	/* The server has lost all: the owner's next renewal puts it back. */
	assert_int_equal(publish(old, "node1", first, "x"), 0);
	second = claim(fresh, "node1");
	assert_true(second > first);
	assert_int_equal(publish(old, "node1", first, "x"), -ESTALE);
	mrg_directory_close(old);
	mrg_directory_close(fresh);
}

static void a_claim_after_a_loss_of_data_is_above_all_before(void **state)
{
	struct mrg_directory *directory = open_with_lease(0);
	uint64_t first = claim(directory, "node1");

	(void)state;
	stop_server();
	start_server("");
	assert_true(claim(directory, "node1") > first);
	mrg_directory_close(directory);
}

static void a_watcher_outlives_a_restart_and_doubts_for_a_lease_only(void **state)
{
	struct mrg_directory *directory = open_with_lease(5000), *eyes = open_with_lease(1500);
	uint64_t lives = claim(directory, "lives"), dies = claim(directory, "dies");
	ssize_t ret;

	(void)state;
	assert_int_equal(publish(directory, "lives", lives, "x"), 0);
	assert_int_equal(publish(directory, "dies", dies, "x"), 0);
	assert_int_equal(watch(eyes, 0), 2);
	stop_server();
	assert_int_equal(watch(eyes, 100), -ECONNREFUSED);
	start_server("");
	assert_int_equal(publish(directory, "lives", lives, "x"), 0);
	ret = watch(eyes, 0);
	assert_int_equal(ret, 0);
	assert_int_equal(watch(eyes, 20000), 1);
	assert_string_equal(seen, "-dies ");
	mrg_directory_close(directory);
	mrg_directory_close(eyes);
}

static void a_server_that_stops_answering_costs_the_timeout_and_no_more(void **state)
{
	struct mrg_directory *directory = open_with_lease(0);
	struct mrg_directory_entry entry;
	int64_t start;

	(void)state;
	kill(server, SIGSTOP);
	start = now_ms();
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -ETIMEDOUT);
	assert_in_range(now_ms() - start, TIMEOUT_MS - 50, TIMEOUT_MS + SLACK_MS);
	start = now_ms();
	assert_int_equal(watch(directory, 0), -ETIMEDOUT);
	assert_in_range(now_ms() - start, 0, TIMEOUT_MS + SLACK_MS);
	kill(server, SIGCONT);
	assert_int_equal(mrg_directory_find(directory, "a", 0, &entry), -ENOENT);
	mrg_directory_close(directory);
}

static void a_watcher_that_waits_learns_that_the_server_went(void **state)
{
	struct mrg_directory *eyes = open_with_lease(0);
	int64_t start = now_ms();
	pid_t killer;

	(void)state;
	killer = fork();
	if (!killer) {
		pause_ms(200);
		kill(server, SIGKILL);
		_exit(0);
	}
	assert_int_equal(watch(eyes, 20000), -ECONNRESET);
	assert_in_range(now_ms() - start, 150, 200 + SLACK_MS);
	waitpid(killer, NULL, 0);
	mrg_directory_close(eyes);
}

static void a_password_is_needed_and_never_told(void **state)
{
	struct mrg_directory *directory;
	int ret;

	(void)state;
	stop_server();
	start_server("sesame");
	try_open(0, NULL, &ret);
	assert_int_equal(ret, -EACCES);
	try_open(0, "guessed-wrong", &ret);
	assert_int_equal(ret, -EACCES);
	assert_null(strstr(error.cause, "guessed-wrong"));
	directory = try_open(0, "sesame", &ret);
	assert_int_equal(ret, 0);
	mrg_directory_close(directory);
}

/* A server that sends what it likes, forever or not at all. */
struct liar {
	int fd;
	const char *text;
	bool drips;
};

static void *lie(void *arg)
{
	struct liar *liar = arg;
	int fd = accept(liar->fd, NULL, NULL);

	for (int i = 0; i < (liar->drips ? 60 : 1); i++) {
		if (send(fd, liar->text, strlen(liar->text), MSG_NOSIGNAL) < 0)
			break;
		pause_ms(liar->drips ? 50 : 0);
	}
	if (!liar->drips)
		pause_ms(100);
	close(fd);
	return NULL;
}

static int open_at_liar(const char *text, bool drips)
{
	struct liar liar = { .text = text, .drips = drips };
	pthread_t thread;
	int real = port, ret;

	liar.fd = listen_anywhere(&port);
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	pthread_create(&thread, NULL, lie, &liar);
	try_open(0, NULL, &ret);
	pthread_join(thread, NULL);
	close(liar.fd);
	port = real;
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	return ret;
}

static void what_is_no_redis_is_told_in_bounded_time(void **state)
{
	int64_t start;

	(void)state;
	assert_int_equal(open_at_liar("HTTP/1.1 400 Bad Request\r\n\r\n", false), -EPROTO);
	assert_int_equal(open_at_liar("-LOADING not yet\r\n", false), -EAGAIN);
	assert_int_equal(open_at_liar("", false), -ECONNRESET);
	start = now_ms();
	assert_int_equal(open_at_liar("+", true), -ETIMEDOUT);
	assert_true(now_ms() - start < 3000 + SLACK_MS);
}

static void malformed_addresses_are_refused(void **state)
{
	static const char *const wrong[] = { ":1",   "h:0",    "h:65536", "h:x",  "h:+1",
					     "h: 1", "[::1]:", "[::1]x",  "[::1", "[]:1" };
	struct mrg_directory *directory = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct mrg_directory_opts opts = { .size = sizeof(opts), .server = wrong[i] };

		assert_int_equal(mrg_directory_open(&directory, &opts, &error), -EINVAL);
		assert_null(directory);
	}
}

/* Answers to PING alone, and takes what comes after it a little at a time. */
static void *sip(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);
	ssize_t got;
	char room[4096];

	got = recv(fd, room, sizeof(room), 0);
	send(fd, "+PONG\r\n", 7, MSG_NOSIGNAL);
	for (int i = 0; i < 60 && got > 0; i++) {
		pause_ms(100);
		got = recv(fd, room, sizeof(room), 0);
	}
	close(fd);
	return NULL;
}

/* On a Unix socket, where little can be under way. */
static void a_server_that_takes_little_at_a_time_costs_the_timeout(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t *large = calloc(1, MRG_DIRECTORY_MAX_BYTES);
	struct mrg_directory *directory;
	pthread_t thread;
	int64_t start;
	int ret;

	(void)state;
	snprintf(address, sizeof(address), "/tmp/mrguard-sip.%d", getpid());
	strcpy(at.sun_path, address);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	pthread_create(&thread, NULL, sip, &fd);
	directory = try_open(0, NULL, &ret);
	assert_int_equal(ret, 0);
	start = now_ms();
	assert_int_equal(mrg_directory_publish(directory, "a", 1, large, MRG_DIRECTORY_MAX_BYTES),
			 -ETIMEDOUT);
	assert_in_range(now_ms() - start, TIMEOUT_MS - 50, TIMEOUT_MS + SLACK_MS);
	mrg_directory_close(directory);
	pthread_join(thread, NULL);
	unlink(at.sun_path);
	close(fd);
	free(large);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(what_one_publishes_another_finds),
		WITH_SERVER(an_owner_of_old_is_fenced_off),
		WITH_SERVER(an_entry_ends_with_its_lease_unless_it_is_renewed),
		WITH_SERVER(names_and_sizes_have_limits),
		WITH_SERVER(a_watcher_is_told_each_change_once),
		WITH_SERVER(a_watcher_that_waits_is_woken),
		WITH_SERVER(a_watcher_is_told_of_a_lease_that_ends_though_nobody_renews),
		WITH_SERVER(many_entries_come_in_several_answers),
		WITH_SERVER(what_is_no_string_spoils_its_own_name_alone),
		WITH_SERVER(a_lease_that_ends_before_its_entry_expires_is_told),
		WITH_SERVER(a_generation_is_twenty_digits),
		WITH_SERVER(unknown_fields_are_skipped_or_refused_by_their_first_letter),
		WITH_SERVER(nobody_there_is_told_at_once),
		WITH_SERVER(a_restarted_server_is_used_again_and_fences_still),
		WITH_SERVER(a_claim_after_a_loss_of_data_is_above_all_before),
		WITH_SERVER(a_watcher_outlives_a_restart_and_doubts_for_a_lease_only),
		WITH_SERVER(a_server_that_stops_answering_costs_the_timeout_and_no_more),
		WITH_SERVER(a_watcher_that_waits_learns_that_the_server_went),
		WITH_SERVER(a_password_is_needed_and_never_told),
		cmocka_unit_test(a_server_that_takes_little_at_a_time_costs_the_timeout),
		cmocka_unit_test(what_is_no_redis_is_told_in_bounded_time),
		cmocka_unit_test(malformed_addresses_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("directory", tests, NULL, NULL);
}
