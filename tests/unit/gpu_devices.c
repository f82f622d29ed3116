/* SPDX-License-Identifier: MIT */
/* The list of GPUs, on hosts with and without drivers. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"

#include <errno.h>
#include <time.h>

static struct mrg_gpu_list list;

static void make_file(const char *root, const char *pci, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", root, pci, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void make_gpu(const char *root, const char *pci, const char *vendor)
{
	char command[160];

	snprintf(command, sizeof(command), "mkdir -p %s/bus/pci/devices/%s", root, pci);
	assert_int_equal(system(command), 0);
	make_file(root, pci, "vendor", vendor);
	make_file(root, pci, "class", "0x030200\n");
	make_file(root, pci, "device", "0x2335\n");
	make_file(root, pci, "resource",
		  "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n"
		  "0x0000400000000000 0x00004003ffffffff 0x000000000014220c\n");
}

static int setup(void **state)
{
	(void)state;
	double_reset();
	unit_loaded = false;
	unit_opens = 0;
	memset(&list, 0, sizeof(list));
	return 0;
}

static void each_device_is_told_with_what_it_can_do(void **state)
{
	struct mrg_gpu *gpu = unit_gpu(0);

	(void)state;
	double_gpu.devices = 2;
	double_gpu.need_init = true;
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_true(list.runtimes[0].usable);
	assert_int_equal(list.runtimes[0].version, 13000);
	assert_false(list.runtimes[1].usable);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.devices[1].vendor, "CUDA");
	assert_string_equal(list.devices[1].pci, "0000:1c:00.0");
	assert_int_equal(list.devices[1].memory, 1ull << 37);
	assert_true(list.devices[0].dmabuf.yes);
	assert_true(list.devices[0].vmm_rdma.yes);
	assert_true(list.devices[0].share_fd.yes);
	/* The attribute says yes; without a channel nothing works. */
	assert_false(list.devices[0].fabric.yes);
	assert_non_null(strstr(list.devices[0].fabric.why, "IMEX"));
	assert_false(list.devices[0].coherent.yes);
	assert_int_equal(double_gpu.contexts, 0);
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
}

static void a_gpu_without_dmabufs_is_told_why(void **state)
{
	struct mrg_gpu *gpu = unit_gpu(0);

	(void)state;
	double_gpu.attributes[0][CUDA_DEV_DMABUF] = 0;
	double_gpu.attributes[0][CUDA_DEV_VMM_RDMA] = 0;
	double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES] = 1;
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_false(list.devices[0].dmabuf.yes);
	assert_true(strlen(list.devices[0].dmabuf.why) > 10);
	assert_non_null(strstr(list.devices[0].vmm_rdma.why, "cudaMalloc"));
	assert_true(list.devices[0].coherent.yes);
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
}

static void reason_of(int result, const char *word)
{
	struct mrg_gpu *gpu = unit_gpu(0);

	double_gpu.need_init = true;
	double_gpu.init_result = result;
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_false(list.runtimes[0].usable);
	assert_int_equal(list.count, 0);
	if (!strstr(list.runtimes[0].why, word))
		fail_msg("\"%s\" lacks \"%s\"", list.runtimes[0].why, word);
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
}

static void a_driver_that_does_not_start_is_told_with_its_code(void **state)
{
	(void)state;
	reason_of(GPU_NO_DEVICE, "100");
	reason_of(GPU_SYSTEM_NOT_READY, "802");
	reason_of(GPU_UNKNOWN, "999");
}

/* cuInit() would fork nvidia-modprobe. */
static void without_device_nodes_the_driver_is_not_started(void **state)
{
	struct mrg_gpu *gpu;

	(void)state;
	assert_int_equal(gpu_open_with(&gpu, NULL, &unit_loader, "/nonexistent"), 0);
	double_gpu.need_init = true;
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_false(double_gpu.initialised);
	assert_non_null(strstr(list.runtimes[0].why, "no device node"));
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
}

static void gpus_without_a_runtime_are_found_on_the_pci_bus(void **state)
{
	char root[] = "/tmp/mrguard-pci-XXXXXX", command[64];
	struct mrg_gpu_opts opts = { .size = sizeof(opts),
				     .sysfs = root,
				     .flags = MRG_GPU_NO_CUDA };
	struct mrg_gpu *gpu;

	(void)state;
	assert_non_null(mkdtemp(root));
	make_gpu(root, "0000:1b:00.0", "0x10de\n");
	make_gpu(root, "0000:1c:00.0", "0x1002\n");
	make_gpu(root, "0000:1d:00.0", "0x8086\n");
	assert_int_equal(gpu_open_with(&gpu, &opts, &unit_loader, "/nonexistent"), 0);
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.devices[0].vendor, "none");
	assert_int_equal(list.devices[0].ordinal, -1);
	assert_string_equal(list.devices[0].name, "NVIDIA 2335");
	assert_int_equal(list.devices[0].bar, 1ull << 34);
	assert_non_null(strstr(list.devices[0].dmabuf.why, "without CUDA"));
	assert_string_equal(list.devices[1].name, "AMD 2335");
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
	/* One that CUDA shows is listed once. */
	opts.flags = 0;
	assert_int_equal(gpu_open_with(&gpu, &opts, &unit_loader, unit_nodes()), 0);
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.devices[0].vendor, "CUDA");
	assert_int_equal(list.devices[0].bar, 1ull << 34);
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

#define HANGS_S 20

/* The libraries of this very host, whatever it has. */
static void the_real_libraries_answer_without_a_crash(void **state)
{
	struct timespec start, end;
	struct mrg_export out;
	struct mrg_mem mem;
	struct mrg_gpu *gpu;
	double seconds;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_int_equal(mrg_gpu_open(&gpu, NULL), 0);
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	for (int i = 0; i < 2; i++)
		assert_true(list.runtimes[i].usable || list.runtimes[i].why[0]);
	assert_int_equal(mrg_gpu_classify(gpu, (uint64_t)(uintptr_t)&list, sizeof(list), &mem), 0);
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	assert_int_equal(mrg_gpu_classify(gpu, 0x700000000000, 4096, &mem), 0);
	assert_int_equal(mem.kind, MRG_MEM_UNKNOWN);
	assert_int_equal(mrg_gpu_export(gpu, (uint64_t)(uintptr_t)&list, 8, NULL, &out),
			 -EOPNOTSUPP);
	assert_int_equal(mrg_gpu_export(gpu, 0x700000000000, 4096, NULL, &out), -EFAULT);
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9;
	print_message("# %.3f s\n", seconds);
	assert_true(seconds < HANGS_S);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_device_is_told_with_what_it_can_do),
		TEST(a_gpu_without_dmabufs_is_told_why),
		TEST(a_driver_that_does_not_start_is_told_with_its_code),
		TEST(without_device_nodes_the_driver_is_not_started),
		TEST(gpus_without_a_runtime_are_found_on_the_pci_bus),
		TEST(the_real_libraries_answer_without_a_crash),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu devices", tests, NULL, NULL);
}
