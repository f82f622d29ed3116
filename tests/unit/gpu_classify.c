/* SPDX-License-Identifier: MIT */
/* What an address range is, asked of a double of libcuda and of the kernel. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct mrg_gpu *gpu;
static struct mrg_mem mem;

static int setup(void **state)
{
	(void)state;
	double_reset();
	unit_loaded = true;
	unit_opens = 0;
	gpu = unit_gpu(0);
	memset(&mem, 0x5a, sizeof(mem));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mrg_gpu_close(gpu);
	return 0;
}

static void classify(uint64_t addr, uint64_t length)
{
	assert_int_equal(mrg_gpu_classify(gpu, addr, length, &mem), 0);
}

static uint64_t pages(size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
		       0);

	return p == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)p;
}

static void host_memory_is_host(void **state)
{
	uint64_t addr = pages(1 << 20, 0);

	(void)state;
	classify(addr + 100, 9000);
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	assert_string_equal(mem.source, "/proc/self/maps");
	assert_int_equal(mem.device, -1);
	assert_int_equal(mem.page_size, sysconf(_SC_PAGESIZE));
	assert_int_equal(mem.hole, 0);
	assert_true(mem.base <= addr && mem.base + mem.size >= addr + (1 << 20));
	munmap((void *)(uintptr_t)addr, 1 << 20);
}

static void check_hole(bool use_ioctl, uint64_t addr, uint64_t hole)
{
	memset(&mem, 0, sizeof(mem));
	assert_int_equal(gpu_host_classify(gpu, addr, 12288, use_ioctl, &mem), 0);
	assert_int_equal(mem.hole, hole);
}

static void a_hole_in_host_memory_is_named_by_either_way_of_asking(void **state)
{
	uint64_t addr = pages(12288, 0);

	(void)state;
	munmap((void *)(uintptr_t)(addr + 4096), 4096);
	check_hole(true, addr, addr + 4096);
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	check_hole(false, addr, addr + 4096);
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	check_hole(false, addr + 4096, addr + 4096);
	assert_int_equal(mem.kind, MRG_MEM_UNKNOWN);
	munmap((void *)(uintptr_t)addr, 12288);
}

static void memory_without_access_counts_as_a_hole(void **state)
{
	uint64_t addr = pages(12288, 0);

	(void)state;
	assert_int_equal(mprotect((void *)(uintptr_t)(addr + 8192), 4096, PROT_NONE), 0);
	check_hole(true, addr, addr + 8192);
	check_hole(false, addr, addr + 8192);
	munmap((void *)(uintptr_t)addr, 12288);
}

static void huge_pages_are_told_with_their_size(void **state)
{
	uint64_t addr = pages(4 * MIB, MAP_HUGETLB);

	(void)state;
	if (!addr) {
		print_message("# this host has no free huge pages (vm.nr_hugepages)\n");
		skip();
	}
	for (int use_ioctl = 0; use_ioctl < 2; use_ioctl++) {
		memset(&mem, 0, sizeof(mem));
		assert_int_equal(gpu_host_classify(gpu, addr, 4 * MIB, use_ioctl, &mem), 0);
		assert_int_equal(mem.kind, MRG_MEM_HUGETLB);
		assert_int_equal(mem.page_size, 2 * MIB);
	}
	munmap((void *)(uintptr_t)addr, 4 * MIB);
}

static void cuda_is_not_loaded_for_a_process_without_it(void **state)
{
	(void)state;
	unit_loaded = false;
	classify((uint64_t)(uintptr_t)&mem, sizeof(mem));
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	assert_int_equal(unit_opens, 0);
	assert_int_equal(double_gpu.calls, 0);
}

static void cuda_is_not_initialised_by_a_question(void **state)
{
	(void)state;
	double_gpu.need_init = true;
	classify((uint64_t)(uintptr_t)&mem, sizeof(mem));
	assert_int_equal(mem.kind, MRG_MEM_HOST);
	assert_false(double_gpu.initialised);
}

static void cudaMalloc_memory_has_its_exact_size(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 5000, 0);

	(void)state;
	classify(addr + 8, 4000);
	assert_int_equal(mem.kind, MRG_MEM_CUDA);
	assert_int_equal(mem.base, addr);
	assert_int_equal(mem.size, 5000);
	assert_int_equal(mem.hole, 0);
	assert_int_equal(mem.rdma, MRG_RDMA_YES);
	assert_int_equal(mem.device, 0);
	assert_int_equal(mem.uuid[0], 0xd0);
	assert_string_equal(mem.pci, "0000:1B:00.0");
	classify(addr, 5001);
	assert_int_equal(mem.hole, addr + 5000);
	double_free(addr);
}

static void freed_memory_is_not_taken_for_gpu_memory(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);

	(void)state;
	double_free(addr);
	classify(addr, 4096);
	assert_int_equal(mem.kind, MRG_MEM_UNKNOWN);
	assert_int_equal(mem.hole, addr);
}

static void pool_managed_and_pinned_memory_are_told_apart(void **state)
{
	uint64_t pool = double_alloc(DOUBLE_POOL, MIB, 0);
	uint64_t managed = double_alloc(DOUBLE_MANAGED, MIB, 0);
	uint64_t pinned = double_alloc(DOUBLE_PINNED, MIB, 0);

	(void)state;
	classify(pool, MIB);
	assert_int_equal(mem.kind, MRG_MEM_CUDA_POOL);
	assert_int_equal(mem.rdma, MRG_RDMA_NO);
	classify(managed, MIB);
	assert_int_equal(mem.kind, MRG_MEM_CUDA_MANAGED);
	classify(pinned, MIB);
	assert_int_equal(mem.kind, MRG_MEM_HOST_PINNED);
	assert_string_equal(mem.source, "cuPointerGetAttributes");
	double_free(pool);
	double_free(managed);
	double_free(pinned);
}

static const struct unit_chunk three[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 20 * MIB, .handle_types = 9, .rdma = true },
};

static void vmm_memory_is_listed_chunk_by_chunk(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);

	(void)state;
	classify(vmm.addr + MIB, 26 * MIB);
	assert_int_equal(mem.kind, MRG_MEM_CUDA_VMM);
	assert_string_equal(mem.source, "cuMemRetainAllocationHandle");
	assert_int_equal(mem.count, 3);
	assert_int_equal(mem.base, vmm.addr);
	assert_int_equal(mem.size, 28 * MIB);
	assert_int_equal(mem.chunks[1].addr, vmm.addr + 2 * MIB);
	assert_int_equal(mem.chunks[2].size, 20 * MIB);
	assert_int_equal(mem.handle_types, MRG_HANDLE_POSIX_FD);
	assert_int_equal(mem.rdma, MRG_RDMA_YES);
	assert_int_equal(double_gpu.handles, 0);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void a_range_inside_one_chunk_lists_that_chunk(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);

	(void)state;
	classify(vmm.addr + 3 * MIB, 4096);
	assert_int_equal(mem.count, 1);
	assert_int_equal(mem.chunks[0].size, 6 * MIB);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void chunks_are_found_without_a_current_context(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);

	(void)state;
	classify(vmm.addr, vmm.size);
	assert_int_equal(mem.count, 3);
	assert_int_equal(double_gpu.contexts, 0);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void the_current_context_is_left_as_it_was(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 1);
	void *ctx;

	(void)state;
	double_gpu.devices = 2;
	double_primary_retain(&ctx, 0);
	double_ctx_push(ctx);
	classify(addr, MIB);
	assert_int_equal(mem.device, 1);
	assert_int_equal(double_current_device(), 0);
	double_ctx_pop(&ctx);
	double_primary_release(0);
	assert_int_equal(double_current_device(), -1);
	assert_int_equal(double_gpu.contexts, 0);
	double_free(addr);
}

static void holes_in_vmm_memory_are_named(void **state)
{
	const struct unit_chunk holes[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 2 * MIB, .hole = true },
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	};
	struct unit_vmm vmm = unit_vmm(holes, 3);

	(void)state;
	classify(vmm.addr, vmm.size);
	assert_int_equal(mem.hole, vmm.addr + 2 * MIB);
	assert_int_equal(mem.count, 1);
	mrg_mem_release(&mem);
	classify(vmm.addr + 2 * MIB, 4096);
	assert_int_equal(mem.kind, MRG_MEM_UNKNOWN);
	classify(vmm.addr + 4 * MIB, 2 * MIB + 4096);
	assert_int_equal(mem.hole, vmm.addr + 6 * MIB);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void chunks_on_several_devices_are_told(void **state)
{
	const struct unit_chunk two[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true, .device = 0 },
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true, .device = 1 },
	};
	struct unit_vmm vmm;

	(void)state;
	double_gpu.devices = 2;
	vmm = unit_vmm(two, 2);
	classify(vmm.addr, vmm.size);
	assert_true(mem.several_devices);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void chunks_in_host_memory_are_walked_though_their_base_reads_zero(void **state)
{
	const struct unit_chunk host[] = {
		{ .size = 2 * MIB, .handle_types = 1, .device = -1 },
		{ .size = 4 * MIB, .handle_types = 1, .device = -1 },
	};
	struct unit_vmm vmm = unit_vmm(host, 2);

	(void)state;
	double_gpu.base_zero = true;
	classify(vmm.addr + 4096, 5 * MIB);
	assert_int_equal(mem.kind, MRG_MEM_CUDA_VMM);
	assert_int_equal(mem.count, 2);
	assert_int_equal(mem.device, -1);
	assert_int_equal(mem.base, vmm.addr);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
}

static void each_failing_call_is_survived_without_a_leak(void **state)
{
	struct unit_vmm vmm = unit_vmm(three, 3);
	int codes[] = { GPU_INVALID_VALUE, GPU_INVALID_CONTEXT, GPU_UNKNOWN }, ret;
	long mapped = double_live();

	(void)state;
	for (size_t c = 0; c < 3; c++) {
		for (int i = 1;; i++) {
			double_gpu.calls = 0;
			double_gpu.fail_at = i;
			double_gpu.fail_result = codes[c];
			ret = mrg_gpu_classify(gpu, vmm.addr, vmm.size, &mem);
			if (!ret)
				mrg_mem_release(&mem);
			assert_int_equal(double_live(), mapped);
			assert_int_equal(double_gpu.contexts, 0);
			if (double_gpu.calls < i)
				break;
		}
	}
	double_gpu.fail_at = 0;
	unit_vmm_free(vmm);
}

static void ranges_that_are_none_are_refused(void **state)
{
	struct mrg_error error;

	(void)state;
	assert_int_equal(mrg_gpu_classify(gpu, 4096, 0, &mem), -EINVAL);
	assert_int_equal(mrg_gpu_classify(gpu, ~0ull, 4096, &mem), -EINVAL);
	assert_int_equal(mrg_gpu_last_error(gpu, &error), 0);
	assert_int_equal(error.code, -EINVAL);
	assert_int_equal(mem.count, 0x5a5a5a5a5a5a5a5a);
}

static void options_that_are_not_known_are_refused(void **state)
{
	struct {
		struct mrg_gpu_opts o;
		uint64_t more;
	} opts = {
		.o = { .size = sizeof(opts) },
	};
	struct mrg_gpu *other = NULL;

	(void)state;
	assert_int_equal(mrg_gpu_open(&other, &opts.o), 0);
	mrg_gpu_close(other);
	opts.more = 1;
	assert_int_equal(mrg_gpu_open(&other, &opts.o), -EINVAL);
	opts.o.size = sizeof(opts.o);
	opts.o.flags = 1u << 30;
	assert_int_equal(mrg_gpu_open(&other, &opts.o), -EINVAL);
	opts.o.flags = 0;
	opts.o.page_size = 5000;
	assert_int_equal(mrg_gpu_open(&other, &opts.o), -EINVAL);
}

static void a_child_after_fork_is_refused(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child)
		_exit(mrg_gpu_classify(gpu, 4096, 4096, &mem) == -ECHILD ? 0 : 1);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void a_driver_older_than_cuda_12_is_left_alone(void **state)
{
	(void)state;
	gpu->drivers[GPU_CUDA].loaded = gpu->drivers[GPU_CUDA].broken = true;
	classify((uint64_t)(uintptr_t)&mem, sizeof(mem));
	assert_int_equal(mem.kind, MRG_MEM_HOST);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(host_memory_is_host),
		TEST(a_hole_in_host_memory_is_named_by_either_way_of_asking),
		TEST(memory_without_access_counts_as_a_hole),
		TEST(huge_pages_are_told_with_their_size),
		TEST(cuda_is_not_loaded_for_a_process_without_it),
		TEST(cuda_is_not_initialised_by_a_question),
		TEST(cudaMalloc_memory_has_its_exact_size),
		TEST(freed_memory_is_not_taken_for_gpu_memory),
		TEST(pool_managed_and_pinned_memory_are_told_apart),
		TEST(vmm_memory_is_listed_chunk_by_chunk),
		TEST(a_range_inside_one_chunk_lists_that_chunk),
		TEST(chunks_are_found_without_a_current_context),
		TEST(the_current_context_is_left_as_it_was),
		TEST(holes_in_vmm_memory_are_named),
		TEST(chunks_on_several_devices_are_told),
		TEST(chunks_in_host_memory_are_walked_though_their_base_reads_zero),
		TEST(each_failing_call_is_survived_without_a_leak),
		TEST(ranges_that_are_none_are_refused),
		TEST(options_that_are_not_known_are_refused),
		TEST(a_child_after_fork_is_refused),
		TEST(a_driver_older_than_cuda_12_is_left_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu classify", tests, NULL, NULL);
}
