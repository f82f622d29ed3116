/* SPDX-License-Identifier: MIT */
/*
 * What a directory of 10,000 nodes costs: its state on the server, a renewal, a
 * newcomer's first look, and a change's way to a watcher.  MRG_NODES says
 * another number.
 */
#include "unit/redis_server.h"

#include <hiredis/hiredis.h>

#define NODES 10000
#define BYTES 300 /* a descriptor with one device and one share */
#define RENEWALS 2000
#define CHANGES 200
#define BAR_BYTES 1500.0 /* of the server's memory, a node */
#define BAR_RATIO 3.0 /* a renewal among all nodes, to one among 100 */
#define BAR_LOOK_S 20.0

static struct mrg_directory *publisher, *eyes;
static uint8_t value[BYTES];
static int nodes;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double server_bytes(void)
{
	redisContext *redis = redisConnect("127.0.0.1", port);
	redisReply *reply = redisCommand(redis, "INFO memory");
	double bytes = strtod(strstr(reply->str, "used_memory:") + 12, NULL);

	freeReplyObject(reply);
	redisFree(redis);
	return bytes;
}

static void publish(int node, uint8_t first)
{
	char name[24];

	snprintf(name, sizeof(name), "node%d", node);
	value[0] = first;
	assert_int_equal(mrg_directory_publish(publisher, name, 1, value, sizeof(value)), 0);
}

static double renew(int among)
{
	double start = seconds();

	for (int i = 0; i < RENEWALS; i++)
		publish(i * 7919 % among, 0);
	return (seconds() - start) / RENEWALS * 1e6;
}

static void ignore(void *arg, enum mrg_directory_what what, const struct mrg_directory_entry *entry)
{
	(void)arg, (void)what, (void)entry;
}

static double spread(void)
{
	double start = seconds();

	for (int i = 0; i < CHANGES; i++) {
		publish(i, (uint8_t)(1 + i % 200));
		assert_int_equal(mrg_directory_watch(eyes, 5000, ignore, NULL), 1);
	}
	return (seconds() - start) / CHANGES * 1e6;
}

static void ten_thousand_nodes_stay_within_the_bars(void **state)
{
	double empty, state_bytes, few, many, look, change;

	(void)state;
	empty = server_bytes();
	for (int i = 0; i < 100; i++)
		publish(i, 0);
	few = renew(100);
	for (int i = 100; i < nodes; i++)
		publish(i, 0);
	many = renew(nodes);
	state_bytes = (server_bytes() - empty) / nodes;
	look = seconds();
	assert_int_equal(mrg_directory_watch(eyes, 0, ignore, NULL), nodes);
	look = seconds() - look;
	change = spread();
	print_message(
		"# %d nodes of %d bytes: %.0f bytes of state each; a renewal %.0f us (%.0f us among 100); first look %.2f s; publish and be told %.0f us\n",
		nodes, BYTES, state_bytes, many, few, look, change);
	assert_true(state_bytes <= BAR_BYTES);
	assert_true(many <= BAR_RATIO * few);
	assert_true(look <= BAR_LOOK_S);
}

static int set_up(void **state)
{
	const char *text = getenv("MRG_NODES");
	int ret;

	(void)state;
	nodes = text ? atoi(text) : NODES;
	choose_port();
	start_server("");
	publisher = try_open(600000, NULL, &ret);
	eyes = try_open(600000, NULL, &ret);
	return publisher && eyes ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	mrg_directory_close(publisher);
	mrg_directory_close(eyes);
	stop_server();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_nodes_stay_within_the_bars),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cost of the directory", tests, set_up, tear_down);
}
