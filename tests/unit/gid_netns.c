/* SPDX-License-Identifier: MIT */
/*
 * GIDs by the routes of a real kernel: a network namespace of this process's
 * own, with rails that are veth pairs, policy rules and route tables.  The GID
 * tables are recorded ones.  The namespace ends with the process.
 */
#include <fcntl.h>
#include <sched.h>

#include <netlink/netlink.h>

#include "route/gid_facts.h"
#include "gid_host.h"

static bool in_namespace;
static struct mrg_gid_facts *facts;
static struct mrg_error error;

/* 0 = done */
static int ip(const char *words)
{
	char command[256];

	snprintf(command, sizeof(command), "ip %s 2>/dev/null", words);
	return system(command);
}

static void add_rail(int number)
{
	char words[128], device[16], netdev[16], address[32];

	snprintf(words, sizeof(words), "link add eth%d type veth peer name far%d", number, number);
	assert_int_equal(ip(words), 0);
	snprintf(words, sizeof(words), "addr add 10.113.%d.2/24 dev eth%d", number, number);
	assert_int_equal(ip(words), 0);
	snprintf(words, sizeof(words), "link set eth%d up", number);
	assert_int_equal(ip(words), 0);
	snprintf(words, sizeof(words), "link set far%d up", number);
	assert_int_equal(ip(words), 0);
	snprintf(device, sizeof(device), "mlx5_%d", number);
	snprintf(netdev, sizeof(netdev), "eth%d", number);
	snprintf(address, sizeof(address), "10.113.%d.2", number);
	put_netdev(netdev, true);
	put_device(device, "Ethernet");
	put_gid(device, 1, "fe80::1", V2, netdev);
	put_gid(device, 2, address, V1, netdev);
	put_gid(device, 3, address, V2, netdev);
}

/* Recorded tables, and the kernel's routes. */
static void open_facts(void)
{
	assert_int_equal(mrg_gid_open(&facts, root), 0);
	route_gid_recorded_close(facts->recorded);
	facts->recorded = NULL;
	assert_int_equal(route_gid_netlink_open(&facts->socket), 0);
}

static int set_up(void **state)
{
	if (make_root(state))
		return -1;
	in_namespace = geteuid() == 0 && !unshare(CLONE_NEWNET) && !ip("link set lo up");
	if (!in_namespace)
		return 0;
	add_rail(5);
	add_rail(7);
	assert_int_equal(ip("link add eth10 type veth peer name far10"), 0);
	assert_int_equal(ip("addr add 10.16.0.1/24 dev eth10"), 0);
	assert_int_equal(ip("link set eth10 up"), 0);
	assert_int_equal(ip("link set far10 up"), 0);
	assert_int_equal(ip("route add default via 10.16.0.254 dev eth10"), 0);
	open_facts();
	return 0;
}

static int tear_down(void **state)
{
	mrg_gid_close(facts);
	facts = NULL;
	return remove_root(state);
}

static void need_namespace(void)
{
	if (in_namespace)
		return;
	print_message("# skipped: needs root, to make a network namespace\n");
	skip();
}

static int choose(const char *device, const char *peer, struct mrg_gid_choice *choice)
{
	uint8_t gid[1][16];

	assert_int_equal(mrg_gid_parse(peer, gid[0]), 0);
	return mrg_gid_choose(facts, device, 1, gid, 1, NULL, choice, &error);
}

static void says(const char *word)
{
	if (!strstr(error.cause, word))
		print_message("# \"%s\" lacks \"%s\"\n", error.cause, word);
	assert_non_null(strstr(error.cause, word));
}

static void the_kernel_leads_to_a_peer_by_the_rail_of_its_subnet(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(choose("mlx5_5", "10.113.5.20", &choice), 0);
	assert_int_equal(choice.entry.index, 3);
	assert_int_equal(choice.table, 254);
	assert_int_equal(choose("mlx5_7", "10.113.5.20", &choice), -ENETUNREACH);
	says("mlx5_7");
	says("eth5");
	says("table 254");
}

static void the_kernels_default_route_is_no_rail(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(choose("mlx5_5", "10.113.9.1", &choice), -ENETUNREACH);
	says("10.113.9.1");
	says("eth10");
}

static void a_rule_for_the_source_leads_by_its_own_table(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(ip("rule add from 10.113.7.2 lookup 107"), 0);
	assert_int_equal(ip("route add default via 10.113.7.1 dev eth7 table 107"), 0);
	assert_int_equal(choose("mlx5_7", "10.113.9.1", &choice), 0);
	assert_int_equal(choice.table, 107);
	assert_int_equal(choose("mlx5_5", "10.113.9.1", &choice), -ENETUNREACH);
}

static void an_unreachable_route_is_told(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(ip("route add unreachable 10.113.66.0/24"), 0);
	assert_int_equal(choose("mlx5_5", "10.113.66.1", &choice), -ENETUNREACH);
	says("no route table leads from 10.113.5.2 (eth5) to 10.113.66.1");
}

static void an_address_of_this_host_is_reached(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(choose("mlx5_5", "10.113.7.2", &choice), 0);
	assert_int_equal(choice.entry.index, 3);
}

static void a_link_local_peer_is_asked_on_the_gids_own_netdev(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(ip("-6 addr add fe80::1/64 dev eth5 nodad"), 0);
	assert_int_equal(choose("mlx5_5", "fe80::77", &choice), 0);
	assert_int_equal(choice.entry.index, 1);
}

static void a_rail_that_goes_down_reaches_nobody(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	assert_int_equal(ip("link set eth5 down"), 0);
	assert_int_equal(choose("mlx5_5", "10.113.5.20", &choice), -ENETUNREACH);
	assert_int_equal(ip("link set eth5 up"), 0);
	assert_int_equal(choose("mlx5_5", "10.113.5.20", &choice), 0);
}

/* The handle's socket becomes a file. */
static void a_kernel_that_cannot_be_asked_is_no_missing_route(void **state)
{
	struct mrg_gid_choice choice;
	int other;

	(void)state;
	need_namespace();
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(dup2(other, nl_socket_get_fd(facts->socket)) >= 0);
	close(other);
	assert_int_equal(choose("mlx5_5", "10.113.5.20", &choice), -EIO);
	says("cannot be asked");
	mrg_gid_close(facts);
	open_facts();
	assert_int_equal(choose("mlx5_5", "10.113.5.20", &choice), 0);
}

static void a_vrfs_table_is_the_one_that_counts(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	need_namespace();
	if (ip("link add vrf1 type vrf table 200")) {
		print_message("# skipped: this kernel has no VRF\n");
		skip();
	}
	assert_int_equal(ip("link set vrf1 up"), 0);
	assert_int_equal(ip("link set eth7 master vrf1"), 0);
	assert_int_equal(choose("mlx5_7", "10.113.7.20", &choice), 0);
	assert_int_equal(choice.table, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_leads_to_a_peer_by_the_rail_of_its_subnet),
		cmocka_unit_test(the_kernels_default_route_is_no_rail),
		cmocka_unit_test(a_rule_for_the_source_leads_by_its_own_table),
		cmocka_unit_test(an_unreachable_route_is_told),
		cmocka_unit_test(an_address_of_this_host_is_reached),
		cmocka_unit_test(a_link_local_peer_is_asked_on_the_gids_own_netdev),
		cmocka_unit_test(a_rail_that_goes_down_reaches_nobody),
		cmocka_unit_test(a_kernel_that_cannot_be_asked_is_no_missing_route),
		cmocka_unit_test(a_vrfs_table_is_the_one_that_counts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("GIDs and the kernel's routes", tests, set_up,
					   tear_down);
}
