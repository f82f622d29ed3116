/* SPDX-License-Identifier: MIT */
/* Which GID is taken, on recorded hosts; most of them are reports of failures. */
#include "gid_host.h"

#define ZERO "::"

static struct mrg_error error;

static int choose_of(const char *device, const char *const *peers, size_t count, uint32_t flags,
		     struct mrg_gid_choice *choice)
{
	const struct mrg_gid_opts opts = { .size = sizeof(opts), .flags = flags };
	struct mrg_gid_facts *facts;
	uint8_t gids[4][16];
	int ret;

	for (size_t i = 0; i < count; i++)
		assert_int_equal(mrg_gid_parse(peers[i], gids[i]), 0);
	assert_int_equal(mrg_gid_open(&facts, root), 0);
	ret = mrg_gid_choose(facts, device, 1, gids, count, &opts, choice, &error);
	mrg_gid_close(facts);
	return ret;
}

/* The index taken, or -errno. */
static int index_for(const char *device, const char *peer)
{
	struct mrg_gid_choice choice;
	int ret = choose_of(device, &peer, peer != NULL, 0, &choice);

	return ret ? ret : choice.entry.index;
}

static void says(const char *word)
{
	if (!strstr(error.cause, word))
		print_message("# \"%s\" lacks \"%s\"\n", error.cause, word);
	assert_non_null(strstr(error.cause, word));
}

static void a_private_ipv4_comes_before_link_local(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_netdev("eth-rdma0", true);
	put_gid("mlx5_0", 0, "fe80::1", V2, "eth-rdma0");
	put_gid("mlx5_0", 1, "10.102.0.101", V2, "eth-rdma0");
	put("10.102.0.0/16 dev eth-rdma0 src 10.102.0.101", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", "10.102.3.4"), 1);
	assert_int_equal(index_for("mlx5_0", NULL), 1);
}

static void roce_v2_comes_before_v1_of_the_same_address(void **state)
{
	const char *peer = "10.14.0.80";
	struct mrg_gid_choice choice;

	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 0, "fe80::1", V1, "eth0");
	put_gid("mlx5_0", 1, "fe80::1", V2, "eth0");
	put_gid("mlx5_0", 2, "10.14.0.72", V1, "eth0");
	put_gid("mlx5_0", 3, "10.14.0.72", V2, "eth0");
	put("10.14.0.64/26 dev eth0 src 10.14.0.72", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", peer), 3);
	assert_int_equal(choose_of("mlx5_0", &peer, 1, MRG_GID_V1, &choice), 0);
	assert_int_equal(choice.entry.index, 2);
	assert_int_equal(choice.table, 254);
}

static void a_bridge_of_containers_loses_to_a_card(void **state)
{
	(void)state;
	put_device("rxe0", "Ethernet");
	put_netdev("docker0", false);
	put_netdev("eth0", true);
	put_gid("rxe0", 0, "172.17.0.1", V2, "docker0");
	put_gid("rxe0", 1, "192.168.7.3", V2, "eth0");
	assert_int_equal(index_for("rxe0", NULL), 1);
	put("default via 192.168.7.1 dev eth0 src 192.168.7.3\n"
	    "172.17.0.0/16 dev docker0 src 172.17.0.1",
	    "/.mrguard/routes");
	assert_int_equal(index_for("rxe0", "10.1.1.1"), 1);
}

static void a_sparse_table_is_read_to_its_end(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	for (int i = 0; i < 256; i++)
		put_gid("mlx5_0", i, ZERO, NULL, NULL);
	put_gid("mlx5_0", 4, "10.9.0.1", NULL, "eth0");
	put_gid("mlx5_0", 6, "10.9.0.1", V1, "eth0");
	put_gid("mlx5_0", 7, "10.9.0.1", V2, "eth0");
	put_gid("mlx5_0", 8, "fe80::9", V1, "eth0");
	put_gid("mlx5_0", 9, "fe80::9", V2, "eth0");
	put("10.9.0.0/24 dev eth0 src 10.9.0.1", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", "10.9.0.2"), 7);
	assert_int_equal(index_for("mlx5_0", NULL), 7);
}

static void put_bond_and_vxlan(void)
{
	put_device("mlx5_bond_0", "Ethernet");
	put_netdev("bond1", false);
	put("802.3ad 4", "/sys/class/net/bond1/bonding/mode");
	put_netdev("b3.vxlan.30100", false);
	put_gid("mlx5_bond_0", 0, "fe80::5", V1, "bond1");
	put_gid("mlx5_bond_0", 1, "fe80::5", V2, "bond1");
	put_gid("mlx5_bond_0", 2, "10.153.0.175", V1, "b3.vxlan.30100");
	put_gid("mlx5_bond_0", 3, "10.153.0.175", V2, "b3.vxlan.30100");
	put_gid("mlx5_bond_0", 4, "10.153.0.175", V1, "bond1");
	put_gid("mlx5_bond_0", 5, "10.153.0.175", V2, "bond1");
}

static void of_one_address_on_vxlan_and_bond_the_bonds_is_taken(void **state)
{
	(void)state;
	put_bond_and_vxlan();
	assert_int_equal(index_for("mlx5_bond_0", NULL), 5);
	put("10.153.0.0/16 dev bond1 src 10.153.0.175", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_bond_0", "10.153.0.9"), 5);
}

static void the_route_and_not_the_kind_of_netdev_decides(void **state)
{
	(void)state;
	put_bond_and_vxlan();
	put("10.153.0.0/16 dev b3.vxlan.30100 src 10.153.0.175", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_bond_0", "10.153.0.9"), 3);
}

/* Rails 2 to 8, each on its own subnet, and a default route that is not RDMA's. */
static void put_rails(void)
{
	char routes[1024] = "default via 10.16.0.254 dev eth10 src 10.16.0.1\n"
			    "10.112.0.0/16 dev eth2 src 10.113.2.2\n";
	char device[32], netdev[32], address[32];

	for (int i = 2; i <= 8; i++) {
		snprintf(device, sizeof(device), "mlx5_%d", i);
		snprintf(netdev, sizeof(netdev), "eth%d", i);
		snprintf(address, sizeof(address), "10.113.%d.2", i);
		put_device(device, "Ethernet");
		put_gid(device, 0, "fe80::1", V1, netdev);
		put_gid(device, 1, "fe80::1", V2, netdev);
		put_gid(device, 2, address, V1, netdev);
		put_gid(device, 3, address, V2, netdev);
		snprintf(routes + strlen(routes), sizeof(routes) - strlen(routes),
			 "10.113.%d.0/24 dev eth%d src 10.113.%d.2\n", i, i, i);
	}
	put(routes, "/.mrguard/routes");
}

static void a_peer_is_reached_from_the_rail_of_its_subnet_alone(void **state)
{
	(void)state;
	put_rails();
	assert_int_equal(index_for("mlx5_5", "10.113.5.20"), 3);
	assert_int_equal(index_for("mlx5_7", "10.113.5.20"), -ENETUNREACH);
	says("mlx5_7");
	says("10.113.5.20");
	says("table 254");
	says("eth5");
}

static void a_peer_behind_the_default_route_is_unroutable_from_a_rail(void **state)
{
	(void)state;
	put_rails();
	for (int i = 2; i <= 8; i++) {
		char device[32];

		snprintf(device, sizeof(device), "mlx5_%d", i);
		assert_int_equal(index_for(device, "10.113.9.1"), -ENETUNREACH);
		says(device);
		says("10.113.9.1");
		says("eth10");
	}
}

static void a_policy_rule_for_the_source_address_counts(void **state)
{
	(void)state;
	put_rails();
	put("default via 10.16.0.254 dev eth10 src 10.16.0.1\n"
	    "default via 10.113.7.1 dev eth7 table 107 from 10.113.7.2",
	    "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_7", "10.113.9.1"), 3);
	assert_int_equal(index_for("mlx5_6", "10.113.9.1"), -ENETUNREACH);
}

static void without_any_route_the_error_says_so(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 3, "10.9.0.1", V2, "eth0");
	assert_int_equal(index_for("mlx5_0", "10.9.0.2"), -ENETUNREACH);
	says("no route table leads from 10.9.0.1 (eth0) to 10.9.0.2");
}

static void the_address_that_the_kernel_sends_from_comes_before_others(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 2, "10.9.0.1", V2, "eth0");
	put_gid("mlx5_0", 4, "10.9.0.7", V2, "eth0");
	put("10.9.0.0/24 dev eth0 src 10.9.0.7", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", "10.9.0.2"), 4);
}

static void families_and_scopes_are_not_mixed(void **state)
{
	static const char *const peers[] = { "fd00::2", "fe80::2" };
	struct mrg_gid_choice choice;

	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 0, "fe80::1", V2, "eth0");
	put_gid("mlx5_0", 1, "10.9.0.1", V2, "eth0");
	put_gid("mlx5_0", 2, "169.254.3.4", V2, "eth0");
	put("10.9.0.0/24 dev eth0\nfe80::/64 dev eth0", "/.mrguard/routes");
	assert_int_equal(choose_of("mlx5_0", peers, 2, 0, &choice), 0);
	assert_int_equal(choice.entry.index, 0);
	assert_int_equal(choice.peer, 1);
	assert_int_equal(index_for("mlx5_0", "fd00::2"), -ENETUNREACH);
	assert_int_equal(index_for("mlx5_0", "fe80::2"), 0);
}

static void a_netdev_that_is_not_visible_is_known_by_the_source_address(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 2, "10.8.0.1", V2, NULL);
	put_gid("mlx5_0", 4, "10.9.0.1", V2, NULL);
	put("10.9.0.0/24 dev eth0 src 10.9.0.1", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", "10.9.0.2"), 4);
}

static void a_gid_of_another_namespace_is_the_last_choice(void **state)
{
	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_netdev("eth1", true);
	put_gid("mlx5_0", 3, "203.0.113.250", V2, NULL);
	put_gid("mlx5_0", 5, "203.0.113.251", V2, "eth9");
	assert_int_equal(index_for("mlx5_0", NULL), 3);
	put_gid("mlx5_0", 7, "203.0.113.252", V2, "eth1");
	assert_int_equal(index_for("mlx5_0", NULL), 7);
	/* Even where the kernel would send from an address of both. */
	put("203.0.113.0/24 dev eth1 src 203.0.113.250", "/.mrguard/routes");
	assert_int_equal(index_for("mlx5_0", "203.0.113.9"), 7);
}

static void the_environment_comes_first(void **state)
{
	const char *peer = "10.14.0.80";
	struct mrg_gid_choice choice;

	(void)state;
	roce_v2_comes_before_v1_of_the_same_address(state);
	setenv("MRGUARD_GID_INDEX", "1", 1);
	assert_int_equal(choose_of("mlx5_0", &peer, 1, 0, &choice), 0);
	assert_int_equal(choice.entry.index, 1);
	assert_true(choice.by_env);
	setenv("MRGUARD_GID_INDEX", "mlx5_1=1,mlx5_0=2", 1);
	assert_int_equal(index_for("mlx5_0", peer), 2);
	setenv("MRGUARD_GID_INDEX", "mlx5_1=1", 1);
	assert_int_equal(index_for("mlx5_0", peer), 3);
	setenv("MRGUARD_GID_INDEX", "9", 1);
	assert_int_equal(index_for("mlx5_0", peer), -EINVAL);
	says("no GID at index 9");
	for (int i = 0; i < 4; i++) {
		static const char *const wrong[] = { "x", "1x", "mlx5_0=", "-1" };

		setenv("MRGUARD_GID_INDEX", wrong[i], 1);
		assert_int_equal(index_for("mlx5_0", peer), -EINVAL);
		says("malformed");
	}
}

static void a_gid_is_found_again_after_its_index_moved(void **state)
{
	struct mrg_gid_facts *facts;
	struct mrg_gid_entry entry;
	uint8_t gid[16];

	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 3, "10.9.0.1", V2, "eth0");
	mrg_gid_parse("10.9.0.1", gid);
	assert_int_equal(mrg_gid_open(&facts, root), 0);
	assert_int_equal(mrg_gid_find(facts, "mlx5_0", 1, gid, MRG_GID_ROCE_V2, &entry), 0);
	assert_int_equal(entry.index, 3);
	put_gid("mlx5_0", 3, ZERO, NULL, NULL);
	assert_int_equal(mrg_gid_find(facts, "mlx5_0", 1, gid, MRG_GID_ROCE_V2, &entry), -ENOENT);
	put_gid("mlx5_0", 4, "10.9.0.1", V1, "eth0");
	put_gid("mlx5_0", 5, "10.9.0.1", V2, "eth0");
	assert_int_equal(mrg_gid_find(facts, "mlx5_0", 1, gid, MRG_GID_ROCE_V2, &entry), 0);
	assert_int_equal(entry.index, 5);
	mrg_gid_close(facts);
}

static void infiniband_needs_no_route(void **state)
{
	(void)state;
	put_device("mlx5_0", "InfiniBand");
	put_gid("mlx5_0", 0, "fe80::506b:4b03", V1, NULL);
	assert_int_equal(index_for("mlx5_0", "10.9.0.2"), 0);
}

static void what_is_not_there_is_told(void **state)
{
	struct mrg_gid_choice choice;

	(void)state;
	put_device("mlx5_0", "Ethernet");
	put_gid("mlx5_0", 0, ZERO, V1, NULL);
	assert_int_equal(index_for("mlx5_9", NULL), -ENODEV);
	says("mlx5_9");
	assert_int_equal(index_for("../../etc", NULL), -ENODEV);
	assert_int_equal(index_for("mlx5_0", NULL), -ENODATA);
	says("port 1 of mlx5_0");
	assert_int_equal(choose_of("mlx5_0", NULL, 0, MRG_GID_V1 | MRG_GID_V2, &choice), -EINVAL);
}

#define ON_HOST(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_HOST(a_private_ipv4_comes_before_link_local),
		ON_HOST(roce_v2_comes_before_v1_of_the_same_address),
		ON_HOST(a_bridge_of_containers_loses_to_a_card),
		ON_HOST(a_sparse_table_is_read_to_its_end),
		ON_HOST(of_one_address_on_vxlan_and_bond_the_bonds_is_taken),
		ON_HOST(the_route_and_not_the_kind_of_netdev_decides),
		ON_HOST(a_peer_is_reached_from_the_rail_of_its_subnet_alone),
		ON_HOST(a_peer_behind_the_default_route_is_unroutable_from_a_rail),
		ON_HOST(a_policy_rule_for_the_source_address_counts),
		ON_HOST(without_any_route_the_error_says_so),
		ON_HOST(the_address_that_the_kernel_sends_from_comes_before_others),
		ON_HOST(families_and_scopes_are_not_mixed),
		ON_HOST(a_netdev_that_is_not_visible_is_known_by_the_source_address),
		ON_HOST(a_gid_of_another_namespace_is_the_last_choice),
		ON_HOST(the_environment_comes_first),
		ON_HOST(a_gid_is_found_again_after_its_index_moved),
		ON_HOST(infiniband_needs_no_route),
		ON_HOST(what_is_not_there_is_told),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("GID choice", tests, NULL, NULL);
}
