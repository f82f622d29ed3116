/* SPDX-License-Identifier: MIT */
/* Any pointer of HIP, on doubles: an allocation, chunks with a DMA-BUF each, peermem. */
#define DOUBLE_HIP
#include "gpu/double/unit.h"
#undef MIB

#include <mrguard/any.h>

#include "region_fake.h"

static struct mrg_ctx *ctx;
static struct mrg_gpu *gpu;
static struct mrg_mr *mr;
static struct mrg_way ways[4];
static uint32_t count;

static int set_up(void **state)
{
	fake_setup(state);
	double_reset();
	double_gpu.version = 70000001;
	unit_loaded = true;
	gpu = unit_gpu(0);
	ctx = open_fake();
	return 0;
}

static int tear_down(void **state)
{
	mrg_close(ctx);
	mrg_gpu_close(gpu);
	return fake_teardown(state);
}

static int reg(uint64_t addr, uint64_t length)
{
	const struct mrg_any_opts opts = {
		.size = sizeof(opts), .gpu = gpu, .ways = ways, .way_room = 4, .way_count = &count
	};

	return mrg_reg_any(ctx, &host.pd, (void *)(uintptr_t)addr, length, all_access, &opts, &mr);
}

static void an_allocation_is_one_dmabuf(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);
	struct mrg_seg seg;

	(void)state;
	assert_int_equal(reg(addr + 4096, MIB), 0);
	assert_int_equal(count, 1);
	assert_string_equal(ways[0].name, "DMA-BUF");
	assert_int_equal(ways[0].kind, MRG_MEM_HIP);
	assert_int_equal(host.live->offset, 4096);
	assert_int_equal(mrg_keys(mr, addr + 4096, MIB, &seg, 1), 1);
	assert_int_equal(mrg_dereg(mr), 0);
	double_free(addr);
}

static void each_chunk_has_a_dmabuf_and_the_range_one_handle(void **state)
{
	static const struct unit_chunk chunks[] = {
		{ .size = 2 * MIB, .handle_types = 1 },
		{ .size = 6 * MIB, .handle_types = 1 },
	};
	struct unit_vmm vmm = unit_vmm(chunks, 2);
	struct mrg_seg segs[2];

	(void)state;
	assert_int_equal(reg(vmm.addr, vmm.size), 0);
	assert_int_equal(mrg_mr_count(mr), 2);
	assert_int_equal(mrg_keys(mr, vmm.addr, vmm.size, segs, 2), 2);
	assert_int_equal(segs[1].wire, vmm.addr + 2 * MIB);
	assert_int_equal(segs[1].length, 6 * MIB);
	assert_int_equal(mrg_dereg(mr), 0);
	unit_vmm_free(vmm);
}

static void the_drivers_own_peer_client_is_the_next_way(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 2 * MIB, 0);

	(void)state;
	host.fail_call = 1;
	host.fail_errno = EOPNOTSUPP;
	assert_int_equal(reg(addr, MIB), -EOPNOTSUPP);
	assert_int_equal(count, 2);
	assert_false(ways[1].tried);
	write_file("1.0", "%s/sys/kernel/mm/memory_peers/amdkfd/version", host.root);
	host.fail_call = host.calls + 1;
	assert_int_equal(reg(addr, MIB), 0);
	assert_string_equal(ways[1].name, "peermem");
	assert_int_equal(host.live->fd, -1);
	assert_int_equal(mrg_dereg(mr), 0);
	double_free(addr);
}

#define ANY_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ANY_TEST(an_allocation_is_one_dmabuf),
		ANY_TEST(each_chunk_has_a_dmabuf_and_the_range_one_handle),
		ANY_TEST(the_drivers_own_peer_client_is_the_next_way),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("any pointer, HIP", tests, NULL, NULL);
}
