/* SPDX-License-Identifier: MIT */
/* Any pointer, on doubles of CUDA and verbs: each way taken, and each refusal's list. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"
#undef MIB

#include <mrguard/any.h>

#include "region_fake.h"

#define WAYS 8

static struct mrg_ctx *ctx;
static struct mrg_gpu *gpu;
static struct mrg_mr *mr;
static struct mrg_error error;
static void *context, *second;
static struct mrg_way ways[WAYS];
static uint32_t count;
static int fds;

static int set_up(void **state)
{
	fake_setup(state);
	double_reset();
	double_gpu.devices = 2;
	unit_loaded = true;
	gpu = unit_gpu(0);
	double_primary_retain(&second, 1);
	double_primary_retain(&context, 0);
	double_ctx_push(context);
	ctx = open_fake();
	/* The double keeps its memory's file. */
	double_free(double_alloc(DOUBLE_LEGACY, 2 * MIB, 0));
	fds = unit_fds();
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(unit_fds(), fds);
	assert_int_equal(double_gpu.handles, 0);
	mrg_close(ctx);
	double_ctx_pop(&context);
	double_primary_release(0);
	double_primary_release(1);
	mrg_gpu_close(gpu);
	return fake_teardown(state);
}

static int reg(uint64_t addr, uint64_t length, int access)
{
	const struct mrg_any_opts opts = { .size = sizeof(opts),
					   .gpu = gpu,
					   .ways = ways,
					   .way_room = WAYS,
					   .way_count = &count };

	return mrg_reg_any(ctx, &host.pd, (void *)(uintptr_t)addr, length, access, &opts, &mr);
}

static void assert_way(size_t i, const char *name, int code)
{
	assert_true(i < count);
	assert_string_equal(ways[i].name, name);
	assert_int_equal(ways[i].error.code, code);
	assert_true(!code == !ways[i].error.cause[0]);
}

/* The segments are the range, in order. */
static void assert_covers(uint64_t addr, uint64_t length)
{
	struct mrg_seg segs[16];
	ssize_t n = mrg_keys(mr, addr, length, segs, 16);
	uint64_t sum = 0;

	assert_true(n > 0 && n <= 16);
	for (ssize_t i = 0; i < n; i++) {
		struct mrg_seg one;

		assert_int_equal(segs[i].wire, addr + sum);
		assert_int_equal(mrg_keys(mr, addr + sum, segs[i].length, &one, 1), 1);
		assert_int_equal(one.lkey, segs[i].lkey);
		sum += segs[i].length;
	}
	assert_int_equal(sum, length);
	assert_int_equal(mrg_keys(mr, addr + length, 1, segs, 16), -ERANGE);
}

/* Host memory by the drivers' word, too. */
static void memory_of_the_host_is_pinned(void **state)
{
	char *page = aligned_alloc(4096, 4096);

	(void)state;
	page[0] = 1;
	assert_int_equal(reg((uintptr_t)page, 4096, all_access), 0);
	assert_int_equal(count, 1);
	assert_way(0, "pinned memory", 0);
	assert_int_equal(ways[0].kind, MRG_MEM_HOST);
	assert_int_equal(host.live->fd, -1);
	assert_covers((uintptr_t)page, 4096);
	assert_int_equal(mrg_dereg(mr), 0);
	free(page);
}

static void on_demand_is_tried_first_where_asked_for_and_pinning_next(void **state)
{
	char *page = aligned_alloc(4096, 4096);

	(void)state;
	page[0] = 1;
	assert_int_equal(reg((uintptr_t)page, 4096, all_access | IBV_ACCESS_ON_DEMAND), 0);
	assert_int_equal(count, 1);
	assert_way(0, "on-demand paging", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	host.fail_call = host.calls + 1;
	host.fail_errno = EOPNOTSUPP;
	assert_int_equal(reg((uintptr_t)page, 4096, all_access | IBV_ACCESS_ON_DEMAND), 0);
	assert_int_equal(count, 2);
	assert_way(0, "on-demand paging", -EOPNOTSUPP);
	assert_way(1, "pinned memory", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	free(page);
}

static void memory_of_cuda_becomes_a_dmabuf_at_any_pointer(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 20 * MIB, 0);

	(void)state;
	assert_int_equal(reg(addr + 4096 + 513, 9001, all_access | IBV_ACCESS_ON_DEMAND), 0);
	assert_int_equal(count, 1);
	assert_way(0, "DMA-BUF", 0);
	assert_int_equal(ways[0].kind, MRG_MEM_CUDA);
	assert_true(host.live->fd >= 0);
	assert_int_equal(host.live->offset, 513);
	assert_covers(addr + 4096 + 513, 9001);
	assert_int_equal(unit_fds(), fds);
	assert_int_equal(mrg_dereg(mr), 0);
	double_free(addr);
}

static const struct unit_chunk flagged[] = {
	{ .size = 2 * MIB, .rdma = true },
	{ .size = 6 * MIB, .rdma = true },
	{ .size = 20 * MIB, .rdma = true },
};

static void several_chunks_are_one_dmabuf(void **state)
{
	struct unit_vmm vmm = unit_vmm(flagged, 3);

	(void)state;
	assert_int_equal(reg(vmm.addr + MIB, 26 * MIB, all_access), 0);
	assert_int_equal(mrg_mr_count(mr), 1);
	assert_covers(vmm.addr + MIB, 26 * MIB);
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

static void chunks_that_the_driver_exports_one_by_one_are_one_handle(void **state)
{
	struct unit_vmm vmm = unit_vmm(flagged, 3);
	char text[2048];

	(void)state;
	double_gpu.dmabuf_refusals = 1;
	assert_int_equal(reg(vmm.addr + MIB, 26 * MIB, all_access), 0);
	assert_int_equal(count, 1);
	assert_int_equal(mrg_mr_count(mr), 3);
	assert_int_equal(mrg_mr_length(mr), 26 * MIB);
	assert_non_null(mrg_mr_verbs(mr, 2));
	assert_null(mrg_mr_verbs(mr, 3));
	assert_null(mrg_mr_plan(mr));
	assert_covers(vmm.addr + MIB, 26 * MIB);
	assert_covers(vmm.addr + MIB, 26 * MIB);
	assert_true(mrg_mr_describe(mr, text, sizeof(text)) < sizeof(text));
	assert_non_null(strstr(text, "3 MRs in 3 parts."));
	assert_non_null(strstr(text, "Part 3: DMA-BUF: 1 MR"));
	assert_int_equal(mrg_mr_describe(mr, NULL, 0), strlen(text));
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

static const struct unit_chunk mixed[] = {
	{ .size = 2 * MIB, .rdma = true },
	{ .size = 4 * MIB, .rdma = true, .device = 1 },
	{ .size = 2 * MIB, .rdma = true, .device = 1 },
	{ .size = 2 * MIB, .device = -1 },
	{ .size = 2 * MIB, .rdma = true },
};

static void a_range_over_two_gpus_and_the_host_is_one_handle_of_parts(void **state)
{
	struct unit_vmm vmm = unit_vmm(mixed, 5);

	(void)state;
	assert_int_equal(reg(vmm.addr, vmm.size, all_access), 0);
	assert_int_equal(count, 4);
	assert_way(0, "DMA-BUF", 0);
	assert_int_equal(ways[0].length, 2 * MIB);
	assert_way(1, "DMA-BUF", 0);
	assert_int_equal(ways[1].addr, vmm.addr + 2 * MIB);
	assert_int_equal(ways[1].length, 6 * MIB);
	assert_way(2, "pinned memory", 0);
	assert_way(3, "DMA-BUF", 0);
	assert_covers(vmm.addr, vmm.size);
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

/* Parts of several DMA-BUFs each, and one that fails in the middle. */
static void a_part_that_fails_takes_back_those_before_it(void **state)
{
	struct unit_vmm vmm = unit_vmm(mixed, 5);

	(void)state;
	for (size_t call = 1; call <= 4; call++) {
		host.fail_call = host.calls + call;
		host.fail_errno = EINVAL;
		assert_int_equal(reg(vmm.addr, vmm.size, all_access), -EINVAL);
		assert_int_equal(host.live_count, 0);
	}
	unit_vmm_free(vmm);
}

static void mrs_that_do_not_go_stay_in_the_handle(void **state)
{
	struct unit_vmm vmm = unit_vmm(mixed, 5);

	(void)state;
	assert_int_equal(reg(vmm.addr, vmm.size, all_access), 0);
	host.dereg_fails = host.dereg_calls + 2;
	assert_int_equal(mrg_dereg(mr), -EBUSY);
	assert_int_equal(mrg_mr_count(mr), 3);
	assert_int_equal(mrg_keys(mr, vmm.addr, 1, NULL, 0), -ERANGE);
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

static void refused(const char *cause, const char *remedy)
{
	assert_int_equal(mrg_last_error(ctx, &error), 0);
	if (!strstr(error.cause, cause) || !strstr(error.remedy, remedy))
		fail_msg("\"%s\" / \"%s\" is not in \"%s\" / \"%s\"", cause, remedy, error.cause,
			 error.remedy);
	assert_int_equal(host.live_count, 0);
}

static void memory_without_the_flag_names_every_way_and_why_not(void **state)
{
	const struct unit_chunk plain[] = { { .size = 2 * MIB } };
	struct unit_vmm vmm = unit_vmm(plain, 1);

	(void)state;
	assert_int_equal(reg(vmm.addr, vmm.size, all_access), -EPERM);
	refused("CUDA VMM memory: DMA-BUF (EPERM), peermem (ruled out)", "gpuDirectRDMACapable");
	assert_int_equal(count, 2);
	assert_way(0, "DMA-BUF", -EPERM);
	assert_true(ways[0].tried);
	assert_way(1, "peermem", -ENODEV);
	assert_false(ways[1].tried);
	assert_non_null(strstr(ways[1].error.remedy, "modprobe nvidia_peermem"));
	unit_vmm_free(vmm);
}

static void peermem_is_a_way_only_where_its_link_is_seen(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);

	(void)state;
	double_gpu.attributes[0][124] = 0;
	write_file("", "%s/sys/module/nvidia_peermem/refcnt", host.root);
	assert_int_equal(reg(addr, MIB, all_access), -EOPNOTSUPP);
	assert_way(1, "peermem", -ENODEV);
	assert_non_null(strstr(ways[1].error.cause, "nothing shows"));
	write_file("", "%s/sys/module/ib_core/holders/nvidia_peermem", host.root);
	assert_int_equal(reg(addr, MIB, all_access), 0);
	assert_way(1, "peermem", 0);
	assert_int_equal(host.live->fd, -1);
	assert_int_equal(mrg_dereg(mr), 0);
	host.fail_call = host.calls + 1;
	host.fail_errno = EFAULT;
	assert_int_equal(reg(addr, MIB, all_access), -EOPNOTSUPP);
	assert_way(0, "DMA-BUF", -EOPNOTSUPP);
	assert_way(1, "peermem", -EFAULT);
	double_free(addr);
}

static void managed_memory_is_registered_on_demand_or_not_at_all(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_MANAGED, 2 * MIB, 0);

	(void)state;
	assert_int_equal(reg(addr, MIB, all_access), -EOPNOTSUPP);
	refused("moves between host and device", "IBV_ACCESS_ON_DEMAND");
	assert_int_equal(count, 1);
	assert_int_equal(reg(addr, MIB, all_access | IBV_ACCESS_ON_DEMAND), 0);
	assert_way(0, "on-demand paging", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	double_free(addr);
}

static void a_hole_or_an_end_past_the_allocation_ends_the_search(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);
	const struct unit_chunk holed[] = { { .size = 2 * MIB, .rdma = true },
					    { .size = 2 * MIB, .hole = true } };
	uint64_t at = 0;

	(void)state;
	assert_int_equal(reg(addr, 4 * MIB, all_access), -ERANGE);
	assert_int_equal(count, 1);
	assert_int_equal(double_reserve(&at, 4 * MIB, 0, 0, 0), 0);
	unit_map(at, &holed[0]);
	assert_int_equal(reg(at, 4 * MIB, all_access), -EFAULT);
	assert_int_equal(count, 1);
	refused("Nothing is mapped", "");
	assert_int_equal(double_unmap(at, 2 * MIB), 0);
	assert_int_equal(double_address_free(at, 4 * MIB), 0);
	double_free(addr);
}

static void a_coherent_gpu_has_a_second_mapping(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);

	(void)state;
	double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES] = 1;
	host.fail_call = host.calls + 1;
	host.fail_errno = 524;
	assert_int_equal(reg(addr, MIB, all_access), 0);
	assert_int_equal(count, 2);
	assert_way(0, "DMA-BUF", -524);
	assert_way(1, "DMA-BUF over PCIe", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	host.fail_call = host.calls + 1;
	host.fail_times = 2;
	assert_int_equal(reg(addr, MIB, all_access), -524);
	refused("DMA-BUF (failed), DMA-BUF over PCIe (failed), peermem (ruled out)", "");
	double_free(addr);
}

/* Its driver's name is read when the device is first asked about. */
static void efa_takes_the_mapping_over_pcie_first(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);

	(void)state;
	mrg_close(ctx);
	set_driver("efa");
	ctx = open_fake();
	assert_int_equal(reg(addr, MIB, all_access), 0);
	assert_way(0, "DMA-BUF", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES] = 1;
	assert_int_equal(reg(addr, MIB, all_access), 0);
	assert_int_equal(count, 1);
	assert_way(0, "DMA-BUF over PCIe", 0);
	assert_int_equal(mrg_dereg(mr), 0);
	double_free(addr);
}

static void a_gpu_without_a_context_is_said_to_lack_it(void **state)
{
	const struct unit_chunk chunk[] = { { .size = 2 * MIB, .rdma = true, .device = 1 } };
	struct unit_vmm vmm = unit_vmm(chunk, 1);

	(void)state;
	double_primary_release(1);
	assert_int_equal(reg(vmm.addr, MIB, all_access), -ENOTCONN);
	refused("DMA-BUF (ENOTCONN)", "MRG_GPU_CONTEXT");
	double_primary_retain(&second, 1);
	unit_vmm_free(vmm);
}

static void options_and_ranges_are_checked(void **state)
{
	struct mrg_any_opts opts = { .size = sizeof(opts), .flags = 1 };
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);
	void *ptr = (void *)(uintptr_t)addr;

	(void)state;
	assert_int_equal(mrg_reg_any(ctx, &host.pd, ptr, MIB, all_access, &opts, &mr), -EINVAL);
	assert_int_equal(mrg_reg_any(ctx, &host.pd, ptr, 0, all_access, NULL, &mr), -EINVAL);
	assert_int_equal(mrg_reg_any(ctx, &host.pd, (void *)UINTPTR_MAX, 2, all_access, NULL, &mr),
			 -ERANGE);
	assert_int_equal(reg(addr, MIB, IBV_ACCESS_REMOTE_WRITE), -EINVAL);
	double_free(addr);
}

/* The room for ways may be short; the count is whole. */
static void ways_are_counted_where_there_is_no_room(void **state)
{
	struct unit_vmm vmm = unit_vmm(mixed, 5);
	struct mrg_any_opts opts = {
		.size = sizeof(opts), .gpu = gpu, .ways = ways, .way_room = 1, .way_count = &count
	};

	(void)state;
	memset(ways, 0, sizeof(ways));
	assert_int_equal(mrg_reg_any(ctx, &host.pd, (void *)(uintptr_t)vmm.addr, vmm.size,
				     all_access, &opts, &mr),
			 0);
	assert_int_equal(count, 4);
	assert_non_null(ways[0].name);
	assert_null(ways[1].name);
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

/* The context's own handle finds no driver in this process. */
static void without_a_gpu_library_no_handle_is_needed(void **state)
{
	char *page = aligned_alloc(4096, 4096);

	(void)state;
	assert_int_equal(mrg_reg_any(ctx, &host.pd, page, 4096, all_access, NULL, &mr), 0);
	assert_covers((uintptr_t)page, 4096);
	assert_int_equal(mrg_dereg(mr), 0);
	free(page);
}

#define ANY_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ANY_TEST(memory_of_the_host_is_pinned),
		ANY_TEST(on_demand_is_tried_first_where_asked_for_and_pinning_next),
		ANY_TEST(memory_of_cuda_becomes_a_dmabuf_at_any_pointer),
		ANY_TEST(several_chunks_are_one_dmabuf),
		ANY_TEST(chunks_that_the_driver_exports_one_by_one_are_one_handle),
		ANY_TEST(a_range_over_two_gpus_and_the_host_is_one_handle_of_parts),
		ANY_TEST(a_part_that_fails_takes_back_those_before_it),
		ANY_TEST(mrs_that_do_not_go_stay_in_the_handle),
		ANY_TEST(memory_without_the_flag_names_every_way_and_why_not),
		ANY_TEST(peermem_is_a_way_only_where_its_link_is_seen),
		ANY_TEST(managed_memory_is_registered_on_demand_or_not_at_all),
		ANY_TEST(a_hole_or_an_end_past_the_allocation_ends_the_search),
		ANY_TEST(a_coherent_gpu_has_a_second_mapping),
		ANY_TEST(efa_takes_the_mapping_over_pcie_first),
		ANY_TEST(a_gpu_without_a_context_is_said_to_lack_it),
		ANY_TEST(options_and_ranges_are_checked),
		ANY_TEST(ways_are_counted_where_there_is_no_room),
		ANY_TEST(without_a_gpu_library_no_handle_is_needed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("any pointer", tests, NULL, NULL);
}
