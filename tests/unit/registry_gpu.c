/* SPDX-License-Identifier: MIT */
/* GPU memory in the registry, on doubles of driver and verbs: exports are made
 * when they are needed, once, and for no longer than that. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"
#undef MIB

#include <errno.h>

#include "registry/registry.h"
#include "region_fake.h"

static struct mrg_ctx *region;
static struct mrg_gpu *gpu;
static struct mrg_share *share;
static struct mrg_registry *registry;
static struct registry_ops ops;
static void *context;

static const struct unit_chunk chunks[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 20 * MIB, .handle_types = 1, .rdma = true },
};

static int name_device(struct mrg_registry *in, struct registry_device *device)
{
	(void)in;
	strcpy(device->name, "fake0");
	return 0;
}

/* One device twice: two of an adapter's ports, say. */
static int set_up(void **state)
{
	struct mrg_registry_device devices[2] = { { .pd = &host.pd }, { .pd = &host.pd } };
	struct mrg_registry_opts opts = { .size = sizeof(opts),
					  .devices = devices,
					  .device_count = 2 };
	struct mrg_share_opts with = { .size = sizeof(with) };

	fake_setup(state);
	double_reset();
	unit_loaded = true;
	region = opts.ctx = open_fake();
	gpu = opts.gpu = with.gpu = unit_gpu(0);
	assert_int_equal(mrg_share_open(&share, &with), 0);
	opts.share = share;
	ops = registry_ops_real;
	ops.device = name_device;
	assert_int_equal(registry_open_with(&registry, &opts, &ops), 0);
	double_primary_retain(&context, 0);
	double_ctx_push(context);
	return 0;
}

static int tear_down(void **state)
{
	double_ctx_pop(&context);
	assert_int_equal(mrg_registry_close(registry), 0);
	mrg_share_close(share);
	mrg_gpu_close(gpu);
	mrg_close(region);
	return fake_teardown(state);
}

#define VERBS MRG_PROTO_BIT(MRG_PROTO_VERBS)
#define SHARES (MRG_PROTO_BIT(MRG_PROTO_CUDA_VMM) | MRG_PROTO_BIT(MRG_PROTO_CUDA_IPC))

static struct mrg_buffer *must_reg(uint64_t addr, uint64_t length, uint32_t protocols,
				   uint32_t lazy)
{
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts), .protocols = protocols, .lazy = lazy, .access = all_access
	};
	struct mrg_buffer *buffer = NULL;
	struct mrg_error error;

	if (mrg_buffer_register(registry, addr, length, &opts, &buffer) &&
	    !mrg_registry_last_error(registry, &error))
		print_message("# %s\n", error.cause);
	assert_non_null(buffer);
	return buffer;
}

static void vmm_memory_is_exported_once_for_all_devices_and_not_kept(void **state)
{
	struct unit_vmm vmm = unit_vmm(chunks, 3);
	struct mrg_buffer *buffer;
	int fds = unit_fds();

	(void)state;
	host.dmabuf_size = (int64_t)vmm.size;
	buffer = must_reg(vmm.addr, vmm.size, VERBS, 0);
	assert_int_equal(double_gpu.dmabufs, 1);
	assert_int_equal(host.live_count, 2);
	assert_int_equal(unit_fds(), fds);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	unit_vmm_free(vmm);
}

static void a_share_alone_exports_no_dmabuf_until_a_remote_peer_asks(void **state)
{
	struct unit_vmm vmm = unit_vmm(chunks, 3);
	struct mrg_buffer *buffer = must_reg(vmm.addr, vmm.size, VERBS | SHARES, VERBS);
	struct mrg_descriptor desc;

	(void)state;
	assert_int_equal(mrg_buffer_describe(buffer, SHARES, &desc), 0);
	assert_int_equal(mrg_descriptor_protocols(&desc), MRG_PROTO_BIT(MRG_PROTO_CUDA_VMM));
	mrg_descriptor_release(&desc);
	assert_int_equal(double_gpu.dmabufs, 0);
	assert_int_equal(host.calls, 0);
	host.dmabuf_size = (int64_t)vmm.size;
	assert_int_equal(mrg_buffer_describe(buffer, 0, &desc), 0);
	assert_int_equal(desc.device_count, 2);
	assert_int_equal(desc.share_count, 1);
	mrg_descriptor_release(&desc);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	unit_vmm_free(vmm);
}

static void memory_of_cudamalloc_is_shared_by_ipc(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 4 * MIB, 0);
	struct mrg_buffer *buffer = must_reg(addr, 4 * MIB, SHARES, 0);

	(void)state;
	assert_int_equal(mrg_buffer_protocols(buffer), MRG_PROTO_BIT(MRG_PROTO_CUDA_IPC));
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	assert_int_equal(double_free(addr), 0);
}

static void a_share_that_the_memory_is_not_for_is_named(void **state)
{
	const struct mrg_buffer_opts opts = {
		.size = sizeof(opts),
		.protocols = MRG_PROTO_BIT(MRG_PROTO_HIP_IPC),
	};
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 4 * MIB, 0);
	struct mrg_buffer *buffer = NULL;
	struct mrg_error error;

	(void)state;
	assert_int_equal(mrg_buffer_register(registry, addr, 4 * MIB, &opts, &buffer), -EOPNOTSUPP);
	assert_null(buffer);
	assert_int_equal(mrg_registry_last_error(registry, &error), 0);
	assert_non_null(strstr(error.cause, "cuda-ipc"));
	assert_int_equal(double_free(addr), 0);
}

/* A driver that puts no two chunks into one DMA-BUF. */
static void several_dmabufs_make_one_buffer(void **state)
{
	static const struct unit_chunk alike[] = {
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
	};
	struct unit_vmm vmm = unit_vmm(alike, 3);
	struct mrg_descriptor desc;
	struct mrg_buffer *buffer;
	struct mrg_seg segs[3] = { 0 };

	(void)state;
	double_gpu.dmabuf_refusals = 1;
	host.dmabuf_size = 4 * MIB;
	buffer = must_reg(vmm.addr, vmm.size, VERBS, 0);
	assert_int_equal(host.live_count, 6);
	assert_int_equal(mrg_buffer_keys(buffer, 1, vmm.addr + MIB, 8 * MIB, segs, 3), 3);
	assert_int_equal(segs[0].length, 3 * MIB);
	assert_int_equal(segs[1].length, 4 * MIB);
	assert_int_equal(segs[2].length, MIB);
	assert_int_equal(mrg_buffer_keys(buffer, 1, vmm.addr + MIB, 8 * MIB, segs, 2), 3);
	assert_int_equal(mrg_buffer_keys(buffer, 1, vmm.addr + MIB, 12 * MIB, segs, 3), -ERANGE);
	assert_int_equal(mrg_buffer_describe(buffer, 0, &desc), 0);
	assert_int_equal(desc.devices[0].count, 3);
	mrg_descriptor_release(&desc);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	unit_vmm_free(vmm);
}

/* The third DMA-BUF is refused, and the device does not let go of the first. */
static void an_mr_that_cannot_be_undone_is_kept_and_tried_again(void **state)
{
	static const struct unit_chunk alike[] = {
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 4 * MIB, .handle_types = 1, .rdma = true },
	};
	const struct mrg_buffer_opts opts = { .size = sizeof(opts),
					      .protocols = VERBS,
					      .access = all_access };
	struct unit_vmm vmm = unit_vmm(alike, 3);
	struct mrg_registry_stats stats;
	struct mrg_buffer *buffer = NULL;

	(void)state;
	double_gpu.dmabuf_refusals = 1;
	host.dmabuf_size = 4 * MIB;
	host.fail_call = 3;
	host.fail_errno = EINVAL;
	host.dereg_fails = 1;
	assert_int_equal(mrg_buffer_register(registry, vmm.addr, vmm.size, &opts, &buffer),
			 -EINVAL);
	assert_null(buffer);
	assert_int_equal(host.live_count, 1);
	mrg_registry_stats(registry, &stats);
	assert_int_equal(stats.leftover, 1);
	/* It is no part of a later registration of the range. */
	host.fail_call = 0;
	double_gpu.dmabuf_refusals = 1;
	buffer = must_reg(vmm.addr, vmm.size, VERBS, 0);
	assert_int_equal(host.live_count, 7);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	host.dereg_fails = host.dereg_calls + 1;
	assert_int_equal(mrg_registry_close(registry), -EBUSY);
	assert_int_equal(host.live_count, 1);
	unit_vmm_free(vmm);
	/* tear_down() closes, and finds no MR. */
}

#define ON_DOUBLES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_DOUBLES(vmm_memory_is_exported_once_for_all_devices_and_not_kept),
		ON_DOUBLES(a_share_alone_exports_no_dmabuf_until_a_remote_peer_asks),
		ON_DOUBLES(memory_of_cudamalloc_is_shared_by_ipc),
		ON_DOUBLES(a_share_that_the_memory_is_not_for_is_named),
		ON_DOUBLES(several_dmabufs_make_one_buffer),
		ON_DOUBLES(an_mr_that_cannot_be_undone_is_kept_and_tried_again),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registry of GPU memory", tests, NULL, NULL);
}
