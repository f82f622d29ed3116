/* SPDX-License-Identifier: MIT */
/* GPU memory between processes, on doubles of the drivers. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <mrguard/share.h>

static struct mrg_gpu *gpu;
static struct mrg_share *share;
static struct mrg_range *range;
static struct mrg_import *import;
static struct mrg_error error;
static void *ctx;

static struct mrg_share *open_share(struct mrg_gpu *with)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 1000, .gpu = with };
	struct mrg_share *s;

	assert_int_equal(mrg_share_open(&s, &opts), 0);
	return s;
}

static int setup(void **state)
{
	(void)state;
	double_reset();
	unit_loaded = true;
	unsetenv("MRGUARD_SHARE_DIR");
	unsetenv("MRGUARD_SHARE_VMM");
	gpu = unit_gpu(0);
	share = open_share(gpu);
	double_primary_retain(&ctx, 0);
	double_ctx_push(ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	double_ctx_pop(&ctx);
	mrg_share_close(share);
	mrg_gpu_close(gpu);
	return 0;
}

static const struct unit_chunk three[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 20 * MIB, .handle_types = 9, .rdma = true },
};

static void refused(uint64_t addr, uint64_t length, int code, const char *word)
{
	assert_int_equal(mrg_share_publish(share, addr, length, &range), code);
	assert_int_equal(mrg_share_last_error(share, &error), 0);
	assert_int_equal(error.code, code);
	if (!strstr(error.cause, word) && !strstr(error.remedy, word))
		fail_msg("neither \"%s\" nor \"%s\" has \"%s\"", error.cause, error.remedy, word);
	/* Room for its end: nothing was cut. */
	assert_true(strlen(error.remedy) < sizeof(error.remedy) - 1);
	assert_int_equal(double_gpu.handles, 0);
}

static uint8_t *at(uint64_t addr)
{
	return (uint8_t *)(uintptr_t)addr;
}

static int import_range(struct mrg_share *with, const struct mrg_import_opts *opts)
{
	const void *bytes;
	size_t length = mrg_range_token(range, &bytes);

	return mrg_share_import(with, bytes, length, opts, &import);
}

/* Chunks of unequal sizes, from the middle of the first to the middle of the
 * last, and bytes on both sides of each boundary. */
static void a_peer_sees_the_range_across_its_chunks(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	uint64_t start = vmm.addr + MIB, length = 26 * MIB, there;
	long live = double_live();

	(void)state;
	assert_int_equal(mrg_share_publish(share, start, length, &range), 0);
	assert_int_equal(double_gpu.exports, 0); /* nobody asked yet */
	assert_int_equal(import_range(share, NULL), 0);
	assert_int_equal(double_gpu.exports, 3);
	assert_int_equal(mrg_import_length(import), length);
	assert_int_equal(mrg_import_devices(import), 1);
	there = mrg_import_address(import);
	assert_int_not_equal(there, start);
	*at(vmm.addr + 2 * MIB - 1) = 11;
	*at(vmm.addr + 2 * MIB) = 12;
	*at(vmm.addr + 8 * MIB - 1) = 13;
	*at(vmm.addr + 8 * MIB) = 14;
	assert_int_equal(*at(there + MIB - 1), 11);
	assert_int_equal(*at(there + MIB), 12);
	assert_int_equal(*at(there + 7 * MIB - 1), 13);
	assert_int_equal(*at(there + 7 * MIB), 14);
	*at(there + length - 1) = 15;
	assert_int_equal(*at(start + length - 1), 15);
	mrg_import_release(import);
	mrg_share_unpublish(range);
	assert_int_equal(double_live(), live);
	unit_vmm_free(vmm);
}

/* An importer registers what it imported; it cannot pass it on. */
static void imported_memory_exports_dmabufs_and_is_not_shared_further(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	struct mrg_export out;
	struct mrg_mem mem;

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	assert_int_equal(import_range(share, NULL), 0);
	assert_int_equal(mrg_gpu_classify(gpu, mrg_import_address(import), vmm.size, &mem), 0);
	assert_int_equal(mem.rdma, MRG_RDMA_UNKNOWN);
	assert_true(mem.chunks[0].imported);
	mrg_mem_release(&mem);
	assert_int_equal(mrg_gpu_export(gpu, mrg_import_address(import), vmm.size, NULL, &out), 0);
	mrg_gpu_export_release(gpu, &out);
	{
		struct mrg_range *again;

		assert_int_equal(mrg_share_publish(share, mrg_import_address(import), vmm.size,
						   &again),
				 -EOPNOTSUPP);
		mrg_share_last_error(share, &error);
		assert_non_null(strstr(error.cause, "imported"));
	}
	mrg_import_release(import);
	mrg_share_unpublish(range);
	unit_vmm_free(vmm);
}

static struct unit_vmm one_chunk(int handle_types)
{
	const struct unit_chunk chunk = { .size = 2 * MIB,
					  .handle_types = handle_types,
					  .rdma = true };

	return unit_vmm(&chunk, 1);
}

static void handle_types_decide_and_name_the_setting(void **state)
{
	struct unit_vmm fd = one_chunk(1), fabric = one_chunk(8), both = one_chunk(9),
			none = one_chunk(0);

	(void)state;
	assert_int_equal(mrg_share_publish(share, fd.addr, fd.size, &range), 0);
	mrg_share_unpublish(range);
	assert_int_equal(mrg_share_publish(share, both.addr, both.size, &range), 0);
	mrg_share_unpublish(range);
	refused(fabric.addr, fabric.size, -EPERM, "expandable_segments:False");
	refused(fabric.addr, fabric.size, -EPERM, "fabric handles only");
	refused(none.addr, none.size, -EPERM, "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC");
	refused(none.addr, none.size, -EPERM, "without a shareable handle type");
	unit_vmm_free(fd);
	unit_vmm_free(fabric);
	unit_vmm_free(both);
	unit_vmm_free(none);
}

static void mixed_handle_types_name_the_chunk(void **state)
{
	const struct unit_chunk mixed[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 2 * MIB, .handle_types = 0, .rdma = true },
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	};
	struct unit_vmm vmm = unit_vmm(mixed, 3);

	(void)state;
	refused(vmm.addr, vmm.size, -EPERM, "Chunk 1");
	assert_int_equal(error.piece, 1);
	unit_vmm_free(vmm);
}

static void holes_devices_and_kinds_are_refused_by_name(void **state)
{
	const struct unit_chunk holes[] = {
		{ .size = 2 * MIB, .handle_types = 1 },
		{ .size = 2 * MIB, .hole = true },
		{ .size = 2 * MIB, .handle_types = 1 },
	};
	const struct unit_chunk devices[] = {
		{ .size = 2 * MIB, .handle_types = 1 },
		{ .size = 2 * MIB, .handle_types = 1, .device = 1 },
	};
	uint64_t pool = double_alloc(DOUBLE_POOL, MIB, 0);
	uint64_t managed = double_alloc(DOUBLE_MANAGED, MIB, 0);
	uint64_t legacy = double_alloc(DOUBLE_LEGACY, MIB, 0);
	struct unit_vmm a, b;

	(void)state;
	double_gpu.devices = 2;
	a = unit_vmm(holes, 3);
	b = unit_vmm(devices, 2);
	refused(a.addr, a.size, -EFAULT, "2097152 bytes into the range");
	refused(b.addr, b.size, -EXDEV, "device 1");
	refused(pool, MIB, -EOPNOTSUPP, "CUDA pool");
	refused(managed, MIB, -EOPNOTSUPP, "CUDA managed");
	refused((uint64_t)(uintptr_t)&error, 8, -EOPNOTSUPP, "memfd");
	refused(legacy, MIB + 1, -ERANGE, "1 bytes past it");
	refused(0x7000, 8, -EFAULT, "Nothing is mapped");
	unit_vmm_free(a);
	unit_vmm_free(b);
	double_free(pool);
	double_free(managed);
	double_free(legacy);
}

static void remap(struct unit_vmm vmm)
{
	assert_int_equal(double_unmap(vmm.addr, 2 * MIB), 0);
	unit_map(vmm.addr, &three[0]);
}

static void memory_made_anew_at_its_address_has_a_new_generation(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	struct mrg_range *again, *anew;

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &again), 0);
	assert_int_equal(mrg_range_generation(range), mrg_range_generation(again));
	mrg_share_unpublish(again);
	assert_int_equal(import_range(share, NULL), 0);
	mrg_import_release(import);
	remap(vmm);
	/* The old token does not open the new memory. */
	assert_int_equal(import_range(share, NULL), -ESTALE);
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &anew), 0);
	assert_int_not_equal(mrg_range_generation(range), mrg_range_generation(anew));
	mrg_share_unpublish(range);
	range = anew;
	assert_int_equal(import_range(share, NULL), 0);
	mrg_import_release(import);
	mrg_share_unpublish(range);
	unit_vmm_free(vmm);
}

static void freed_memory_is_stale_and_not_a_crash(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	unit_vmm_free(vmm);
	assert_int_equal(import_range(share, NULL), -ESTALE);
	mrg_share_unpublish(range);
}

static void vmm_sharing_can_be_turned_off(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	struct mrg_share *off;

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	setenv("MRGUARD_SHARE_VMM", "0", 1);
	off = open_share(gpu);
	assert_int_equal(import_range(off, NULL), -EOPNOTSUPP);
	mrg_share_last_error(off, &error);
	assert_non_null(strstr(error.cause, "MRGUARD_SHARE_VMM=0"));
	mrg_share_unpublish(range);
	assert_int_equal(mrg_share_publish(off, vmm.addr, vmm.size, &range), -EOPNOTSUPP);
	mrg_share_close(off);
	unit_vmm_free(vmm);
}

static void peers_get_access_one_by_one_and_others_are_passed_over(void **state)
{
	struct mrg_import_opts all = { .size = sizeof(all), .flags = MRG_IMPORT_ALL_DEVICES };
	struct unit_vmm vmm;

	(void)state;
	double_gpu.devices = 4; /* the last is nobody's peer */
	vmm = unit_vmm(three, 3);
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	assert_int_equal(import_range(share, &all), 0);
	assert_int_equal(mrg_import_devices(import), 3);
	mrg_import_release(import);
	mrg_share_unpublish(range);
	unit_vmm_free(vmm);
}

static void a_gpu_that_the_importer_does_not_see_is_told(void **state)
{
	struct unit_chunk chunk = three[0];
	struct unit_vmm vmm;

	(void)state;
	double_gpu.devices = 2;
	chunk.device = 1;
	vmm = unit_vmm(&chunk, 1);
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	double_gpu.devices = 1;
	assert_int_equal(import_range(share, NULL), -ENODEV);
	mrg_share_last_error(share, &error);
	assert_non_null(strstr(error.remedy, "CUDA_VISIBLE_DEVICES"));
	mrg_share_unpublish(range);
	double_gpu.devices = 2;
	unit_vmm_free(vmm);
}

static void a_handle_without_gpu_imports_no_gpu_memory(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	struct mrg_share *host = open_share(NULL);

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	assert_int_equal(import_range(host, NULL), -ENODEV);
	mrg_share_close(host);
	mrg_share_unpublish(range);
	unit_vmm_free(vmm);
}

static void fifteen_hundred_chunks_pass_at_a_limit_of_1024_descriptors(void **state)
{
	struct unit_chunk *chunks = calloc(1500, sizeof(*chunks));
	struct rlimit before, low;
	struct unit_vmm vmm;
	int fds;

	(void)state;
	for (int i = 0; i < 1500; i++)
		chunks[i] = three[0];
	vmm = unit_vmm(chunks, 1500);
	free(chunks);
	getrlimit(RLIMIT_NOFILE, &before);
	low = before;
	low.rlim_cur = 1024;
	setrlimit(RLIMIT_NOFILE, &low);
	fds = unit_fds();
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	assert_int_equal(import_range(share, NULL), 0);
	*at(vmm.addr + 2999 * MIB) = 77;
	assert_int_equal(*at(mrg_import_address(import) + 2999 * MIB), 77);
	mrg_import_release(import);
	mrg_share_unpublish(range);
	setrlimit(RLIMIT_NOFILE, &before);
	/* Beside the server's own three. */
	for (int i = 0; i < 100 && unit_fds() > fds + 3; i++)
		usleep(10000);
	assert_int_equal(unit_fds(), fds + 3);
	unit_vmm_free(vmm);
}

/* ---- cudaMalloc memory ---- */

static int peer_of_ipc(const void *bytes, size_t length)
{
	struct mrg_gpu *peer_gpu = unit_gpu(0);
	struct mrg_share *with = open_share(peer_gpu);
	int ret = mrg_share_import(with, bytes, length, NULL, &import);

	if (ret)
		return 1;
	if (*at(mrg_import_address(import)) != 42)
		return 2;
	*at(mrg_import_address(import) + mrg_import_length(import) - 1) = 43;
	mrg_import_release(import);
	mrg_share_close(with);
	mrg_gpu_close(peer_gpu);
	return double_gpu.opened ? 3 : 0;
}

static void cudaMalloc_memory_goes_by_handle_with_its_offset(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 3 * MIB + 5000, 0);
	const void *bytes;
	size_t length;
	int status;
	pid_t pid;

	(void)state;
	*at(addr + MIB + 3) = 42;
	assert_int_equal(mrg_share_publish(share, addr + MIB + 3, 2 * MIB, &range), 0);
	length = mrg_range_token(range, &bytes);
	pid = fork();
	if (!pid)
		_exit(peer_of_ipc(bytes, length));
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(*at(addr + 3 * MIB + 2), 43);
	/* Not in the process that made it. */
	assert_int_equal(import_range(share, NULL), -EOPNOTSUPP);
	mrg_share_unpublish(range);
	double_free(addr);
}

static void freed_cudaMalloc_memory_is_stale(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);
	struct mrg_gpu *peer_gpu = unit_gpu(0);
	struct mrg_share *with = open_share(peer_gpu);

	(void)state;
	assert_int_equal(mrg_share_publish(share, addr, MIB, &range), 0);
	double_free(addr);
	assert_int_equal(import_range(with, NULL), -ESTALE);
	mrg_share_unpublish(range);
	mrg_share_close(with);
	mrg_gpu_close(peer_gpu);
}

/* ---- faults ---- */

/* Each driver call of both ends fails once. */
static void every_failing_driver_call_is_survived_without_a_leak(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	int fds, ret, failures = 0;
	long live;

	(void)state;
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	mrg_share_unpublish(range);
	fds = unit_fds();
	live = double_live();
	for (int i = 1;; i++) {
		double_gpu.calls = 0;
		double_gpu.fail_at = i;
		double_gpu.fail_result = GPU_UNKNOWN;
		ret = mrg_share_publish(share, vmm.addr, vmm.size, &range);
		if (!ret) {
			ret = import_range(share, NULL);
			if (!ret)
				mrg_import_release(import);
			mrg_share_unpublish(range);
		}
		failures += !!ret;
		double_gpu.fail_at = 0;
		for (int w = 0; w < 200 && unit_fds() != fds; w++)
			usleep(1000);
		assert_int_equal(unit_fds(), fds);
		assert_int_equal(double_live(), live);
		if (double_gpu.calls < i)
			break;
	}
	assert_true(failures > 20);
	unit_vmm_free(vmm);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_peer_sees_the_range_across_its_chunks),
		TEST(imported_memory_exports_dmabufs_and_is_not_shared_further),
		TEST(handle_types_decide_and_name_the_setting),
		TEST(mixed_handle_types_name_the_chunk),
		TEST(holes_devices_and_kinds_are_refused_by_name),
		TEST(memory_made_anew_at_its_address_has_a_new_generation),
		TEST(freed_memory_is_stale_and_not_a_crash),
		TEST(vmm_sharing_can_be_turned_off),
		TEST(peers_get_access_one_by_one_and_others_are_passed_over),
		TEST(a_gpu_that_the_importer_does_not_see_is_told),
		TEST(a_handle_without_gpu_imports_no_gpu_memory),
		TEST(fifteen_hundred_chunks_pass_at_a_limit_of_1024_descriptors),
		TEST(cudaMalloc_memory_goes_by_handle_with_its_offset),
		TEST(freed_cudaMalloc_memory_is_stale),
		TEST(every_failing_driver_call_is_survived_without_a_leak),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("share GPU memory", tests, NULL, NULL);
}
