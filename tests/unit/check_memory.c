/* SPDX-License-Identifier: MIT */
/*
 * A check that lacks memory says so.  Allocations fail one after the other, and
 * each line of the report must then be the one of an untroubled run, or
 * "unknown"; no check may be missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/check.h>

#include "failing.h"

#ifndef FAILING_SANITIZED
static char root[] = "/tmp/mrguard-check-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = strchr(full + sizeof(root), '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		assert_true(!mkdir(full, 0755) || errno == EEXIST);
		*at = '/';
	}
	if (!text)
		return;
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void link_to(const char *target, const char *path)
{
	char full[512];

	put(path, NULL);
	snprintf(full, sizeof(full), "%s/%s", root, path);
	assert_int_equal(symlink(target, full), 0);
}

#define NIC "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
#define GPU "sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0"
#define PORT NIC "/infiniband/mlx5_0/ports/1"

/* A host with one NIC and one GPU, so that each list has something to lose. */
static int make_host(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	put("proc/sys/kernel/osrelease", "6.12.0-test\n");
	put("proc/version", "Linux version 6.12.0-test\n");
	put("proc/sys/vm/max_map_count", "65530\n");
	put("proc/net/route", "Iface\tDestination\n");
	put("lib/modules/6.12.0-test/modules.dep", "kernel/nvidia-peermem.ko:\n");
	put("lib/modules/6.12.0-test/updates/dkms/ib_core.ko", "");
	put("boot/config-6.12.0-test", "CONFIG_PCI_P2PDMA=y\n");
	put(NIC "/vendor", "0x15b3\n");
	put(NIC "/device", "0x1021\n");
	put(NIC "/class", "0x020000\n");
	put(PORT "/link_layer", "Ethernet\n");
	put(PORT "/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
	put(PORT "/gid_attrs/types/0", "RoCE v2\n");
	put(PORT "/gid_attrs/ndevs/0", "eth0\n");
	put("sys/class/net/eth0/mtu", "9000\n");
	link_to("../../../0000:01:00.0", NIC "/infiniband/mlx5_0/device");
	link_to("../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_0",
		"sys/class/infiniband/mlx5_0");
	put(GPU "/vendor", "0x10de\n");
	put(GPU "/device", "0x2330\n");
	put(GPU "/class", "0x030200\n");
	put(GPU "/resource", "0x0 0x0 0x0\n0x100000000 0x1ffffffff 0x0\n");
	link_to("../../../devices/pci0000:00/0000:00:02.0/0000:02:00.0",
		"sys/bus/pci/devices/0000:02:00.0");
	link_to("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0",
		"sys/bus/pci/devices/0000:01:00.0");
	put("sys/fs/cgroup/system.slice/some.service/cgroup.procs", "4711\n");
	put("proc/4711/limits",
	    "Max open files  1048576 1048576 files\nMax locked memory  unlimited unlimited bytes\n");
	put(".mrguard/host", "arch x86_64\npage_size 4096\n");
	put(".mrguard/fork", "2\n");
	put(".mrguard/dmabuf-mlx5_0", "9\n");
	put(".mrguard/map_count", "count 100\npid 4711\nseen 1\nnot_seen 0\n");
	put(".mrguard/module", "version 1.0\nabi 1\nwalk exact\n");
	return 0;
}

static int drop_host(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static int check(long failing, struct mrg_check_report **report, bool *failed)
{
	const struct mrg_check_opts opts = { .size = sizeof(opts),
					     .root = root,
					     .unit = "some.service" };
	int ret;

	failing_arm(failing, ENOMEM);
	ret = mrg_check_run(&opts, report);
	*failed = failing && failing_count() >= failing;
	failing_arm(0, 0);
	return ret;
}

static bool same(const struct mrg_check_result *a, const struct mrg_check_result *b)
{
	return a->verdict == b->verdict && !strcmp(a->id, b->id) &&
	       !strcmp(a->subject, b->subject) && !strcmp(a->evidence, b->evidence);
}

static bool is_in(const struct mrg_check_result *line, const struct mrg_check_report *report)
{
	const struct mrg_check_result *lines;
	size_t count;

	lines = mrg_check_results(report, &count);
	for (size_t i = 0; i < count; i++)
		if (same(line, &lines[i]))
			return true;
	return false;
}

static bool says_unknown(const struct mrg_check_report *report, const char *id)
{
	const struct mrg_check_result *lines;
	size_t count;

	lines = mrg_check_results(report, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(lines[i].id, id) && lines[i].verdict == MRG_CHECK_UNKNOWN)
			return true;
	return false;
}

/* Each line of the one is in the other, or its check is unknown there. */
static void compare(const struct mrg_check_report *whole, const struct mrg_check_report *poor,
		    long failing)
{
	const struct mrg_check_result *lines;
	size_t count;

	lines = mrg_check_results(whole, &count);
	for (size_t i = 0; i < count; i++)
		if (!is_in(&lines[i], poor) && !says_unknown(poor, lines[i].id))
			fail_msg("allocation %ld: %s has lost \"%s\"", failing, lines[i].id,
				 lines[i].evidence);
	lines = mrg_check_results(poor, &count);
	for (size_t i = 0; i < count; i++)
		if (lines[i].verdict != MRG_CHECK_UNKNOWN && !is_in(&lines[i], whole))
			fail_msg("allocation %ld: %s has made up \"%s\"", failing, lines[i].id,
				 lines[i].evidence);
}

static void want_of_memory_makes_a_check_unknown(void **state)
{
	struct mrg_check_report *whole, *poor;
	long unknown = 0, refused = 0, n;
	bool failed;

	(void)state;
	assert_int_equal(check(0, &whole, &failed), 0);
	for (n = 1;; n++) {
		int ret = check(n, &poor, &failed);

		if (!failed) {
			assert_int_equal(ret, 0);
			mrg_check_free(poor);
			break;
		}
		if (ret) {
			assert_int_equal(ret, -ENOMEM);
			refused++;
			continue;
		}
		compare(whole, poor, n);
		unknown += mrg_check_worst(poor) != mrg_check_worst(whole) ||
			   says_unknown(poor, "gid");
		mrg_check_free(poor);
	}
	printf("# %ld allocations: %ld reports refused\n", n - 1, refused);
	/* Three are the tree's and the report's own; the lists cost many more. */
	assert_true(n > 12);
	assert_true(refused < 6);
	assert_true(unknown > 0);
	mrg_check_free(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(want_of_memory_makes_a_check_unknown, make_host,
						drop_host),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("check memory", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("1..0 # SKIP a sanitizer's allocator cannot be replaced");
	return 0;
}
#endif
