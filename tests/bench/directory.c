/* SPDX-License-Identifier: MIT */
/*
 * What a directory of 10,000 nodes costs: its state on the server, a renewal, a
 * newcomer's first look, and a change's way to a watcher.  MRG_NODES says
 * another number.
 *
 * Counted: bytes of the server's memory, and instructions: the server's for
 * publishing, and the library's for publishing, a first look and a change.  None
 * grows with the number of nodes by more than its logarithm.
 */
#define TIMEOUT_MS 60000 /* emulated, and on a busy machine */

#include "bench/counted.h"
#include "unit/redis_server.h"

#include <hiredis/hiredis.h>

#define NODES 10000
#define BYTES 300 /* a descriptor with one device and one share */
#define RENEWALS 2000
#define CHANGES 200
#define BAR_BYTES 1500.0 /* of the server's memory, a node */
#define BAR_RATIO 3.0 /* a renewal among all nodes, to one among 100 */
#define BAR_LOOK_S 20.0
#define FEW 200
#define MANY 2000
#define BAR_GROWTH 1.5 /* of instructions, from FEW to MANY */

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
		assert_int_equal(mrg_directory_watch(eyes, TIMEOUT_MS, ignore, NULL), 1);
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
		"# %d nodes of %d bytes: %.0f bytes of state each; a renewal %.0f us (%.0f us among 100); first look %.2f s; publish and watch %.0f us\n",
		nodes, BYTES, state_bytes, many, few, look, change);
	assert_true(state_bytes <= BAR_BYTES);
	assert_true(!times_are_judged() || many <= BAR_RATIO * few);
	assert_true(!times_are_judged() || look <= BAR_LOOK_S);
}

/* ---- counted ---- */

enum part { PUBLISH, LOOK, CHANGE, PARTS };
static const char *const part_names[] = { "publishing", "a first look, a node", "a change" };
static const double bars[] = { 37500, 12500, 83000 }; /* with FEW; half above what was seen */

static void open_both(void)
{
	int ret;

	publisher = try_open(600000, NULL, &ret);
	eyes = try_open(600000, NULL, &ret);
	if (!publisher || !eyes)
		exit(99);
}

/* What the library does, beside a server that already has @count nodes. */
static int count_parts(int number, int count)
{
	port = number;
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	open_both();
	counted_begin();
	for (int i = 0; i < FEW; i++)
		publish(i, 0);
	counted_end();
	counted_begin();
	if (mrg_directory_watch(eyes, 0, ignore, NULL) != count)
		exit(99);
	counted_end();
	counted_begin();
	spread();
	counted_end();
	return 0;
}

/* The server under callgrind; Debian's is redis-check-rdb by another name. */
static void run_counted_server(const char *dir)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "ln -s \"$(command -v redis-check-rdb)\" %s/redis-server && exec valgrind -q "
		 "--tool=callgrind --callgrind-out-file=%s/sum %s/redis-server --bind 127.0.0.1 "
		 "--port %d --save '' --appendonly no --dir %s --hz 1 >/dev/null",
		 dir, dir, dir, port, dir);
	server = fork();
	if (server)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* All that a server did while @count nodes were published, and one watched. */
static double server_instructions(int count)
{
	char dir[] = "/tmp/mrguard-server-XXXXXX", command[64], path[64];
	struct counted sum;

	if (!mkdtemp(dir))
		exit(99);
	choose_port();
	run_counted_server(dir);
	await_server("");
	open_both();
	for (int i = 0; i < count; i++)
		publish(i, 0);
	mrg_directory_close(publisher);
	mrg_directory_close(eyes);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	server = 0;
	snprintf(path, sizeof(path), "%s/sum", dir);
	sum = counted_read(path);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	if (system(command))
		exit(99);
	return sum.instructions;
}

static void skip_without_valgrind(void)
{
	if (can_count())
		return;
	print_message("# valgrind is not installed\n");
	skip();
}

static void a_node_costs_the_server_as_much_among_many(void **state)
{
	double none, few, many;

	(void)state;
	skip_without_valgrind();
	none = server_instructions(0);
	few = (server_instructions(FEW) - none) / FEW;
	many = (server_instructions(MANY) - none) / MANY;
	print_message(
		"# publishing: %.0f instructions of the server with %d nodes, %.0f with %d, %.2f times\n",
		few, FEW, many, MANY, many / few);
	assert_true(few > 0 && many <= BAR_GROWTH * few);
}

static void count_among(int count, struct counted *sums)
{
	char part[32];

	choose_port();
	start_server("");
	open_both();
	for (int i = 0; i < count; i++)
		publish(i, 0);
	mrg_directory_close(publisher);
	mrg_directory_close(eyes);
	snprintf(part, sizeof(part), "%d %d", port, count);
	counted(part, sums, PARTS);
	stop_server();
	sums[PUBLISH].instructions /= FEW;
	sums[LOOK].instructions /= count;
	sums[CHANGE].instructions /= CHANGES;
}

static void a_node_costs_the_library_as_much_among_many(void **state)
{
	struct counted few[PARTS], many[PARTS];

	(void)state;
	skip_without_valgrind();
	count_among(FEW, few);
	count_among(MANY, many);
	for (int i = 0; i < PARTS; i++)
		print_message("# %s: %.0f instructions with %d nodes, %.0f with %d, %.2f times\n",
			      part_names[i], few[i].instructions, FEW, many[i].instructions, MANY,
			      many[i].instructions / few[i].instructions);
	for (int i = 0; i < PARTS; i++) {
		assert_true(few[i].instructions <= bars[i]);
		assert_true(many[i].instructions <= BAR_GROWTH * few[i].instructions);
	}
}

static int set_up(void **state)
{
	const char *text = getenv("MRG_NODES");

	(void)state;
	nodes = text ? atoi(text) : NODES;
	choose_port();
	start_server("");
	open_both();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mrg_directory_close(publisher);
	mrg_directory_close(eyes);
	stop_server();
	return 0;
}

/* Of what failed in between. */
static int end_server(void **state)
{
	(void)state;
	stop_server();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ten_thousand_nodes_stay_within_the_bars, set_up,
						tear_down),
		cmocka_unit_test_teardown(a_node_costs_the_server_as_much_among_many, end_server),
		cmocka_unit_test_teardown(a_node_costs_the_library_as_much_among_many, end_server),
	};

	if (argc == 3)
		return count_parts(atoi(argv[1]), atoi(argv[2]));
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cost of the directory", tests, NULL, NULL);
}
