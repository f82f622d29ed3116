/* SPDX-License-Identifier: MIT */
/*
 * Names that stand for importers, against a tree made like /sys; the list of
 * devices is tested through the command, in tests/fixture/info.bats.
 */
#include <elf.h>
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
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/host.h>

static char root[] = "/tmp/rdma_devices.XXXXXX";
static char sysfs[sizeof(root) + 4];

static void make_dir(const char *path)
{
	char command[PATH_MAX + 64];

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
	if (!mkdtemp(root))
		return -1;
	snprintf(sysfs, sizeof(sysfs), "%s/sys", root);
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
	snprintf(command, sizeof(command), "rm -r %s", root);
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

/* ---- whose function picks the pages ------------------------------------------- */

/* Bytes of a note as the linker makes it: sizes, type NT_GNU_BUILD_ID, "GNU", the id. */
static const unsigned char note[] = { 4, 0, 0,	 0,   4,   0, 0, 0, 3, 0,
				      0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4 };

static void write_bytes(const char *path, const void *bytes, size_t size)
{
	char full[PATH_MAX], command[PATH_MAX + 32];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", full);
	assert_int_equal(system(command), 0);
	file = fopen(full, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

/* A module's file with one undefined symbol, below lib/modules of the running release. */
static void write_module(const char *line, const char *import)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Shdr sections[4];
		Elf64_Sym symbols[2];
		char names[64];
		unsigned char note[sizeof(note)];
	} file = { .head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			     .e_shoff = sizeof(Elf64_Ehdr),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = 4 },
		   .symbols = { { 0 }, { .st_name = 1 } } };
	char dep[256], path[PATH_MAX];
	struct utsname host;

	assert_int_equal(uname(&host), 0);
	snprintf(file.names + 1, sizeof(file.names) - 1, "%s", import);
	memcpy(file.note, note, sizeof(note));
	file.sections[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
					 .sh_offset = offsetof(__typeof__(file), symbols),
					 .sh_size = sizeof(file.symbols),
					 .sh_link = 2 };
	file.sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					 .sh_offset = offsetof(__typeof__(file), names),
					 .sh_size = sizeof(file.names) };
	file.sections[3] = (Elf64_Shdr){ .sh_type = SHT_NOTE,
					 .sh_offset = offsetof(__typeof__(file), note),
					 .sh_size = sizeof(file.note) };
	snprintf(path, sizeof(path), "lib/modules/%s/%s", host.release, line);
	write_bytes(path, &file, sizeof(file));
	snprintf(dep, sizeof(dep), "kernel/a/other_nic.ko: kernel/b.ko\n%s: kernel/b.ko\n", line);
	snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", host.release);
	write_bytes(path, dep, strlen(dep));
}

/* Loaded, with that taint, and a user of the RDMA core. */
static void load_module(const char *module, const char *taint)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "sys/module/%s/taint", module);
	write_bytes(path, taint, strlen(taint));
	snprintf(path, sizeof(path), "sys/module/%s/notes/.note.gnu.build-id", module);
	write_bytes(path, note, sizeof(note));
	snprintf(path, sizeof(path), "module/ib_core/holders/%s", module);
	make_dir(path);
}

/* mlx5_0's function is driven by mlx5_core, and its auxiliary device by @module. */
static void bind_module(const char *module)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "rm -rf %s/module %s/lib %s/devices/0002:5e:1f.7/driver",
		 sysfs, root, sysfs);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "rm -rf %s/devices/0002:5e:1f.7/mlx5_core.rdma.0 %s/drivers",
		 sysfs, sysfs);
	assert_int_equal(system(path), 0);
	make_dir("module/mlx5_core");
	make_dir("drivers/pci");
	make_dir("drivers/aux");
	make_dir("devices/0002:5e:1f.7/mlx5_core.rdma.0");
	make_link("module/mlx5_core", "drivers/pci/module");
	make_link("drivers/pci", "devices/0002:5e:1f.7/driver");
	snprintf(path, sizeof(path), "module/%s", module);
	make_dir(path);
	make_link(path, "drivers/aux/module");
	make_link("drivers/aux", "devices/0002:5e:1f.7/mlx5_core.rdma.0/driver");
}

static enum mrg_pick pick_of(const char *name)
{
	struct mrg_rdma_dev *devs;
	enum mrg_pick pick = MRG_PICK_UNKNOWN;
	ssize_t count = mrg_rdma_list(sysfs, &devs);

	assert_true(count > 0);
	for (ssize_t i = 0; i < count; i++)
		if (!strcmp(devs[i].name, name))
			pick = devs[i].pick;
	free(devs);
	return pick;
}

static void a_driver_of_the_kernel_s_tree_takes_the_kernel_s_pick(void **state)
{
	(void)state;
	bind_module("mlx5_ib");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
	load_module("mlx5_ib", "\n");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_KERNEL);
	assert_int_equal(pick_of("rxe0"), MRG_PICK_UNKNOWN);
}

static void a_driver_from_elsewhere_is_believed_by_its_file_s_imports(void **state)
{
	(void)state;
	bind_module("mlx5_ib");
	load_module("mlx5_ib", "OE\n");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
	write_module("updates/mlx5-ib.ko", "ib_umem_find_best_pgsz");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_KERNEL);
	write_module("updates/mlx5-ib.ko", "ib_umem_get");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_OWN);
	write_module("updates/mlx5-ib.ko", "xib_umem_find_best_pgsz");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_OWN);
}

/* It may have been replaced since it was loaded. */
static void a_file_that_is_not_the_loaded_module_s_tells_nothing(void **state)
{
	(void)state;
	bind_module("mlx5_ib");
	load_module("mlx5_ib", "O\n");
	write_module("updates/mlx5_ib.ko", "ib_umem_find_best_pgsz");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_KERNEL);
	write_bytes("sys/module/mlx5_ib/notes/.note.gnu.build-id", "another build id....", 20);
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
}

static void a_file_that_cannot_be_read_tells_nothing(void **state)
{
	static const size_t sizes[] = { 0, 10, 64, 200, 400, 440 };
	struct utsname host;
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(uname(&host), 0);
	bind_module("mlx5_ib");
	load_module("mlx5_ib", "O\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_module("updates/mlx5_ib.ko", "ib_umem_find_best_pgsz");
		snprintf(path, sizeof(path), "%s/lib/modules/%s/updates/mlx5_ib.ko", root,
			 host.release);
		assert_int_equal(truncate(path, (off_t)sizes[i]), 0);
		assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
	}
	snprintf(path, sizeof(path), "lib/modules/%s/updates/mlx5_ib.ko", host.release);
	write_bytes(path,
		    "\xfd"
		    "7zXZ",
		    5);
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
}

/* A user of the RDMA core that does not drive the device says nothing about it. */
static void a_device_whose_driver_is_not_found_is_unknown(void **state)
{
	(void)state;
	bind_module("mlx5_vdpa");
	load_module("rdma_cm", "\n");
	assert_int_equal(pick_of("mlx5_0"), MRG_PICK_UNKNOWN);
}

static void a_pick_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(mrg_pick_name(MRG_PICK_UNKNOWN), "unknown");
	assert_string_equal(mrg_pick_name(MRG_PICK_KERNEL), "kernel");
	assert_string_equal(mrg_pick_name(MRG_PICK_OWN), "own");
	assert_string_equal(mrg_pick_name((enum mrg_pick)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_rdma_device_stands_for_its_function),
		cmocka_unit_test(a_pci_address_stands_for_itself),
		cmocka_unit_test(a_pci_address_without_domain_is_in_domain_0),
		cmocka_unit_test(what_is_not_there_is_no_device),
		cmocka_unit_test(what_is_no_name_is_refused),
		cmocka_unit_test(a_driver_of_the_kernel_s_tree_takes_the_kernel_s_pick),
		cmocka_unit_test(a_driver_from_elsewhere_is_believed_by_its_file_s_imports),
		cmocka_unit_test(a_file_that_is_not_the_loaded_module_s_tells_nothing),
		cmocka_unit_test(a_file_that_cannot_be_read_tells_nothing),
		cmocka_unit_test(a_device_whose_driver_is_not_found_is_unknown),
		cmocka_unit_test(a_pick_has_a_name),
		cmocka_unit_test(the_list_is_the_callers_to_free_even_when_empty),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
