/* SPDX-License-Identifier: MIT */
/*
 * Names that stand for importers, against a tree made like /sys; the list of
 * devices is tested through the command, in tests/fixture/info.bats.
 */
#include <errno.h>
#include <limits.h>
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

#include <mrguard/host.h>

static char sysfs[] = "/tmp/rdma_devices.XXXXXX";

static void make_dir(const char *path)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "mkdir -p %s/%s", sysfs, path);
	assert_int_equal(system(command), 0);
}

static void make_link(const char *to, const char *path)
{
	char target[PATH_MAX], full[PATH_MAX];

	snprintf(target, sizeof(target), "%s/%s", sysfs, to);
	snprintf(full, sizeof(full), "%s/%s", sysfs, path);
	assert_int_equal(symlink(target, full), 0);
}

static int make_tree(void **state)
{
	(void)state;
	if (!mkdtemp(sysfs))
		return -1;
	make_dir("class/infiniband/rxe0");
	make_dir("bus/pci/devices");
	make_dir("devices/0002:5e:1f.7/infiniband/mlx5_0");
	make_link("bus/pci", "devices/0002:5e:1f.7/subsystem");
	make_link("devices/0002:5e:1f.7", "bus/pci/devices/0002:5e:1f.7");
	make_link("devices/0002:5e:1f.7", "devices/0002:5e:1f.7/infiniband/mlx5_0/device");
	make_link("devices/0002:5e:1f.7/infiniband/mlx5_0", "class/infiniband/mlx5_0");
	make_dir("bus/pci/devices/0000:01:00.0");
	return 0;
}

static int drop_tree(void **state)
{
	char command[PATH_MAX];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", sysfs);
	return system(command);
}

static void expect_function(const char *name, uint32_t domain, uint8_t bus, uint8_t device,
			    uint8_t function)
{
	struct mrg_pci_addr pci;

	assert_int_equal(mrg_importer_find(sysfs, name, &pci), 0);
	assert_int_equal(pci.domain, domain);
	assert_int_equal(pci.bus, bus);
	assert_int_equal(pci.device, device);
	assert_int_equal(pci.function, function);
}

static void an_rdma_device_stands_for_its_function(void **state)
{
	(void)state;
	expect_function("mlx5_0", 2, 0x5e, 0x1f, 7);
}

static void a_pci_address_stands_for_itself(void **state)
{
	(void)state;
	expect_function("0002:5e:1f.7", 2, 0x5e, 0x1f, 7);
	expect_function("0002:5E:1F.7", 2, 0x5e, 0x1f, 7);
}

static void a_pci_address_without_domain_is_in_domain_0(void **state)
{
	(void)state;
	expect_function("01:00.0", 0, 1, 0, 0);
}

static void what_is_not_there_is_no_device(void **state)
{
	static const char *const names[] = { "mlx5_1", "0000:02:00.0", "5e:1f.7", "rxe0" };
	struct mrg_pci_addr pci = { .domain = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(mrg_importer_find(sysfs, names[i], &pci), -ENODEV);
	assert_int_equal(pci.domain, 77);
}

static void what_is_no_name_is_refused(void **state)
{
	static const char *const names[] = {
		"",
		".",
		"..",
		"../infiniband/mlx5_0",
		"0000:01:00",
		"01:00.8",
		"01:20.0",
		"001:00.0",
		"01:0.0",
		"01:00.0 ",
		" 01:00.0",
		"00001:01:00.00",
		"123456789:01:00.0",
		"x:00.0",
		"01:00.0:",
	};
	char longest[100];
	struct mrg_pci_addr pci;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (mrg_importer_find(sysfs, names[i], &pci) != -EINVAL)
			print_error("accepted: \"%s\"\n", names[i]);
		assert_int_equal(mrg_importer_find(sysfs, names[i], &pci), -EINVAL);
	}
	assert_int_equal(mrg_importer_find(sysfs, NULL, &pci), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(mrg_importer_find(sysfs, longest, &pci), -EINVAL);
}

static void the_list_is_the_callers_to_free_even_when_empty(void **state)
{
	struct mrg_rdma_dev *devs = NULL;

	(void)state;
	assert_int_equal(mrg_rdma_list("/nonexistent", &devs), 0);
	assert_non_null(devs);
	free(devs);
	assert_int_equal(mrg_rdma_list(sysfs, &devs), 2);
	assert_string_equal(devs[0].name, "mlx5_0");
	assert_string_equal(devs[1].name, "rxe0");
	assert_false(devs[1].has_pci);
	free(devs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_rdma_device_stands_for_its_function),
		cmocka_unit_test(a_pci_address_stands_for_itself),
		cmocka_unit_test(a_pci_address_without_domain_is_in_domain_0),
		cmocka_unit_test(what_is_not_there_is_no_device),
		cmocka_unit_test(what_is_no_name_is_refused),
		cmocka_unit_test(the_list_is_the_callers_to_free_even_when_empty),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
