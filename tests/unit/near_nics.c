/* SPDX-License-Identifier: MIT */
/* NICs by distance, on a recorded host. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <mrguard/path.h>

static char root[64];

static void make_dirs(const char *path)
{
	char command[1024];

	snprintf(command, sizeof(command), "mkdir -p '%s%s'", root, path);
	assert_int_equal(system(command), 0);
}

static void link_to(const char *path, const char *target)
{
	char from[1024];

	snprintf(from, sizeof(from), "%s%s", root, path);
	assert_int_equal(symlink(target, from), 0);
}

/* A function at @where below /sys/devices, and its node. */
static void put_function(const char *where, int node)
{
	char path[512], file[800];
	FILE *out;

	snprintf(path, sizeof(path), "/sys/devices/%s", where);
	make_dirs(path);
	snprintf(file, sizeof(file), "%s%s/numa_node", root, path);
	out = fopen(file, "w");
	assert_non_null(out);
	fprintf(out, "%d\n", node);
	fclose(out);
	snprintf(file, sizeof(file), "/sys/bus/pci/devices%s", strrchr(where, '/'));
	link_to(file, path);
}

static void put_nic(const char *name, const char *where, int node)
{
	char path[512], link[128];

	put_function(where, node);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", name);
	make_dirs(path);
	snprintf(path, sizeof(path), "/sys/devices/%s", where);
	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", name);
	link_to(link, path);
}

#define PORT0 "pci0000:00/0000:00:01.0"
#define SWITCH0 PORT0 "/0000:01:00.0"

static const char *const devices[] = { "far", "node", "root", "switch", "gone" };

static int make_host(void **state)
{
	(void)state;
	strcpy(root, "/tmp/mrguard-near-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	make_dirs("/sys/bus/pci/devices");
	put_function(SWITCH0 "/0000:02:00.0/0000:03:00.0", 0); /* the GPU */
	put_nic("switch", SWITCH0 "/0000:02:01.0/0000:04:00.0", 0);
	put_nic("root", PORT0 "/0000:01:00.1", 0);
	put_nic("node", "pci0000:20/0000:20:01.0/0000:21:00.0", 0);
	put_nic("far", "pci0000:80/0000:80:01.0/0000:81:00.0", 1);
	return 0;
}

static int remove_host(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void nics_come_by_their_distance_to_a_gpu(void **state)
{
	static const enum mrg_distance want[] = {
		MRG_DISTANCE_SWITCH, MRG_DISTANCE_ROOT,	   MRG_DISTANCE_NODE,
		MRG_DISTANCE_FAR,    MRG_DISTANCE_UNKNOWN,
	};
	static const char *const names[] = { "switch", "root", "node", "far", "gone" };
	const struct mrg_near_place gpu = { .pci = "0000:03:00.0", .node = -1 };
	struct mrg_near_nic nics[5];

	(void)state;
	assert_int_equal(mrg_near(root, &gpu, devices, 5, nics), 0);
	for (int i = 0; i < 5; i++) {
		assert_string_equal(devices[nics[i].index], names[i]);
		assert_int_equal(nics[i].distance, want[i]);
	}
}

static void for_host_memory_the_node_decides_and_equals_keep_their_order(void **state)
{
	const struct mrg_near_place node = { .node = 1 };
	struct mrg_near_nic nics[5];

	(void)state;
	assert_int_equal(mrg_near(root, &node, devices, 5, nics), 0);
	assert_string_equal(devices[nics[0].index], "far");
	assert_int_equal(nics[0].distance, MRG_DISTANCE_NODE);
	assert_string_equal(devices[nics[1].index], "node");
	assert_string_equal(devices[nics[2].index], "root");
	assert_string_equal(devices[nics[3].index], "switch");
	assert_int_equal(nics[3].distance, MRG_DISTANCE_FAR);
}

static void of_an_unknown_place_no_distance_is_made_up(void **state)
{
	const struct mrg_near_place nowhere = { .pci = "0000:77:00.0", .node = -1 };
	struct mrg_near_nic nics[5];

	(void)state;
	assert_int_equal(mrg_near(root, &nowhere, devices, 5, nics), 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(nics[i].index, i);
		assert_int_equal(nics[i].distance, MRG_DISTANCE_UNKNOWN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nics_come_by_their_distance_to_a_gpu),
		cmocka_unit_test(for_host_memory_the_node_decides_and_equals_keep_their_order),
		cmocka_unit_test(of_an_unknown_place_no_distance_is_made_up),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("near NICs", tests, make_host, remove_host);
}
