/* SPDX-License-Identifier: MIT */
/* DMA-BUFs for a range, and each reason for which there is none. */
#define DOUBLE_CUDA
#include "gpu/double/unit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct mrg_gpu *gpu;
static struct mrg_export out;
static struct mrg_error error;
static void *ctx;

static int setup(void **state)
{
	(void)state;
	double_reset();
	unit_loaded = true;
	gpu = unit_gpu(0);
	double_primary_retain(&ctx, 0);
	double_ctx_push(ctx);
	memset(&error, 0, sizeof(error));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	double_ctx_pop(&ctx);
	mrg_gpu_close(gpu);
	return 0;
}

static void export(uint64_t addr, uint64_t length)
{
	assert_int_equal(mrg_gpu_export(gpu, addr, length, NULL, &out), 0);
}

static void refused(uint64_t addr, uint64_t length, int code, const char *word)
{
	int fds = unit_fds();

	assert_int_equal(mrg_gpu_export(gpu, addr, length, NULL, &out), code);
	assert_int_equal(mrg_gpu_last_error(gpu, &error), 0);
	assert_int_equal(error.code, code);
	if (!strstr(error.cause, word) && !strstr(error.remedy, word))
		fail_msg("neither \"%s\" nor \"%s\" has \"%s\"", error.cause, error.remedy, word);
	assert_int_equal(unit_fds(), fds);
	assert_int_equal(double_gpu.handles, 0);
}

static void an_odd_sub_range_is_rounded_outward_to_pages(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 20 * MIB, 0);
	const struct mrg_export_piece *p;
	uint64_t at;

	(void)state;
	export(addr + 4096 + 513, 9001);
	assert_int_equal(out.count, 1);
	p = out.pieces;
	assert_int_equal(p->buf.base, addr + 4096);
	assert_int_equal(p->buf.offset, 0);
	assert_int_equal(p->addr, addr + 4096 + 513);
	assert_int_equal(p->length, 9001);
	assert_int_equal(p->size, 12288);
	assert_int_equal(lseek(p->buf.fd, 0, SEEK_END), 12288);
	at = p->buf.offset + (p->addr - p->buf.base);
	assert_int_equal(at, 513);
	assert_true(fcntl(p->buf.fd, F_GETFD) & FD_CLOEXEC);
	assert_string_equal(out.source, "cuMemGetHandleForAddressRange");
	mrg_gpu_export_release(gpu, &out);
	double_free(addr);
}

static void rounding_follows_the_page_size_of_the_host(void **state)
{
	struct mrg_gpu_opts opts = { .size = sizeof(opts), .page_size = 65536 };
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 20 * MIB, 0);
	struct mrg_gpu *other;

	(void)state;
	assert_int_equal(gpu_open_with(&other, &opts, &unit_loader, "/"), 0);
	assert_int_equal(mrg_gpu_export(other, addr + 65536 + 4096, 100, NULL, &out), 0);
	assert_int_equal(out.pieces[0].buf.base, addr + 65536);
	assert_int_equal(out.pieces[0].size, 65536);
	mrg_gpu_export_release(other, &out);
	mrg_gpu_close(other);
	double_free(addr);
}

/*
 * Report: on 64 KiB pages (GB200) an export that starts or ends on a page of
 * 4 KiB is refused, and so is an iova that does not keep the pointer's low 16
 * bits.  A buffer that begins inside one page and ends inside another:
 */
static void
on_pages_of_64_kib_an_export_is_whole_ones_and_the_iova_keeps_its_low_16_bits(void **state)
{
	struct mrg_gpu_opts opts = { .size = sizeof(opts), .page_size = 65536 };
	uint64_t addr = double_alloc(DOUBLE_LEGACY, 20 * MIB, 0);
	uint64_t ptr = addr + 5 * 65536 + 0x3a40, len = 2 * 65536 + 0x1001, offset;
	struct mrg_gpu *other;

	(void)state;
	assert_int_equal(gpu_open_with(&other, &opts, &unit_loader, "/"), 0);
	assert_int_equal(mrg_gpu_export(other, ptr, len, NULL, &out), 0);
	assert_int_equal(out.count, 1);
	assert_int_equal(out.pieces[0].buf.base, addr + 5 * 65536);
	assert_int_equal(out.pieces[0].size, 3 * 65536);
	assert_int_equal(lseek(out.pieces[0].buf.fd, 0, SEEK_END), 3 * 65536);
	assert_int_equal(out.pieces[0].addr, ptr);
	assert_int_equal(out.pieces[0].length, len);
	assert_int_equal(mrg_dmabuf_offset(&out.pieces[0].buf, ptr, &offset), 0);
	assert_int_equal(offset, 0x3a40);
	assert_int_equal((offset ^ ptr) & 0xffff, 0);
	mrg_gpu_export_release(other, &out);
	mrg_gpu_close(other);
	double_free(addr);
}

static struct unit_vmm equal_chunks(size_t count, uint64_t size)
{
	struct unit_chunk *chunks = calloc(count, sizeof(*chunks));
	struct unit_vmm vmm;

	for (size_t i = 0; i < count; i++)
		chunks[i] = (struct unit_chunk){ .size = size, .handle_types = 1, .rdma = true };
	vmm = unit_vmm(chunks, count);
	free(chunks);
	return vmm;
}

/* The report: 92 chunks of 20 MiB, a tensor of 1916853120 bytes at 8214528 in
 * the first; exporting what the driver calls the address range gave EINVAL. */
static void a_tensor_over_92_chunks_gets_one_dmabuf_that_holds_it(void **state)
{
	struct unit_vmm vmm = equal_chunks(92, 20 * MIB);
	uint64_t addr = vmm.addr + 8214528;

	(void)state;
	export(addr, 1916853120);
	assert_int_equal(out.count, 1);
	assert_int_equal(out.mem.count, 92);
	assert_true(out.pieces[0].size >= addr - out.pieces[0].buf.base + 1916853120);
	assert_int_equal(double_gpu.dmabufs, 1);
	mrg_gpu_export_release(gpu, &out);
	unit_vmm_free(vmm);
}

static void a_driver_that_refuses_spans_is_asked_chunk_by_chunk(void **state)
{
	struct unit_vmm vmm = equal_chunks(3, 2 * MIB);
	uint64_t covered = 0;

	(void)state;
	double_gpu.dmabuf_refusals = 1;
	export(vmm.addr + MIB + 1, 4 * MIB);
	assert_int_equal(out.count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(out.pieces[i].addr, vmm.addr + MIB + 1 + covered);
		covered += out.pieces[i].length;
	}
	assert_int_equal(covered, 4 * MIB);
	mrg_gpu_export_release(gpu, &out);
	unit_vmm_free(vmm);
}

static void a_hole_is_an_error_with_its_address(void **state)
{
	const struct unit_chunk chunks[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 2 * MIB, .hole = true },
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	};
	struct unit_vmm vmm = unit_vmm(chunks, 3);
	char hole[32];

	(void)state;
	snprintf(hole, sizeof(hole), "0x%llx", (unsigned long long)(vmm.addr + 2 * MIB));
	refused(vmm.addr, vmm.size, -EFAULT, hole);
	refused(vmm.addr + 2 * MIB, 4096, -EFAULT, hole);
	refused(vmm.addr + 4 * MIB, 3 * MIB, -EFAULT, "Nothing is mapped");
	assert_int_equal(double_gpu.dmabufs, 0);
	unit_vmm_free(vmm);
}

static void a_range_past_the_allocation_is_refused_though_libcuda_would_take_it(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);

	(void)state;
	refused(addr, MIB + 4096, -ERANGE, "4096 bytes past it");
	refused(addr + MIB - 1, 2, -ERANGE, "neighbours");
	export(addr, MIB);
	mrg_gpu_export_release(gpu, &out);
	double_free(addr);
}

static void memory_without_the_rdma_flag_is_refused_by_name(void **state)
{
	const struct unit_chunk chunks[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
		{ .size = 2 * MIB, .handle_types = 1 },
	};
	struct unit_vmm vmm = unit_vmm(chunks, 2);
	struct mrg_export_opts try = { .size = sizeof(try), .flags = MRG_EXPORT_UNFLAGGED };

	(void)state;
	refused(vmm.addr, vmm.size, -EPERM, "gpuDirectRDMACapable");
	assert_int_equal(error.piece, 1);
	assert_non_null(strstr(error.remedy, "cannot be set afterwards"));
	assert_int_equal(mrg_gpu_export(gpu, vmm.addr, vmm.size, &try, &out), 0);
	mrg_gpu_export_release(gpu, &out);
	unit_vmm_free(vmm);
}

static void a_gpu_that_does_not_do_rdma_to_vmm_memory_is_named(void **state)
{
	struct unit_vmm vmm = equal_chunks(1, 2 * MIB);

	(void)state;
	double_gpu.attributes[0][CUDA_DEV_VMM_RDMA] = 0;
	refused(vmm.addr, vmm.size, -EPERM, "with cudaMalloc()");
	unit_vmm_free(vmm);
}

static void compressible_memory_never_reaches_the_driver(void **state)
{
	const struct unit_chunk chunk = { .size = 2 * MIB, .handle_types = 1, .compressed = true };
	struct unit_vmm vmm = unit_vmm(&chunk, 1);

	(void)state;
	refused(vmm.addr, vmm.size, -EPERM, "compressible");
	assert_int_equal(double_gpu.dmabufs, 0);
	unit_vmm_free(vmm);
}

static void pool_memory_is_refused_and_when_forced_stays_in_bounds(void **state)
{
	struct mrg_export_opts try = { .size = sizeof(try), .flags = MRG_EXPORT_UNFLAGGED };
	uint64_t addr = double_alloc(DOUBLE_POOL, 32 * MIB, 0);

	(void)state;
	refused(addr, 32 * MIB, -EPERM, "CUDA pool");
	assert_int_equal(mrg_gpu_export(gpu, addr, 32 * MIB, &try, &out), 0);
	mrg_gpu_export_release(gpu, &out);
	/* One page more is a SIGSEGV in libcuda: the double aborts. */
	assert_int_equal(mrg_gpu_export(gpu, addr, 32 * MIB + 4096, &try, &out), -ERANGE);
	double_free(addr);
}

static void a_pool_without_known_bounds_is_not_asked(void **state)
{
	struct mrg_export_opts try = { .size = sizeof(try), .flags = MRG_EXPORT_UNFLAGGED };
	uint64_t addr = double_alloc(DOUBLE_POOL, 32 * MIB, 0);

	(void)state;
	double_ctx_pop(&ctx);
	double_primary_release(0);
	assert_int_equal(mrg_gpu_export(gpu, addr, 64 * MIB, &try, &out), -ENOTCONN);
	double_primary_retain(&ctx, 0);
	double_ctx_push(ctx);
	double_free(addr);
}

static void managed_and_host_memory_have_no_dmabuf(void **state)
{
	uint64_t managed = double_alloc(DOUBLE_MANAGED, MIB, 0);

	(void)state;
	refused(managed, MIB, -EOPNOTSUPP, "Managed memory");
	refused((uint64_t)(uintptr_t)&error, sizeof(error), -EOPNOTSUPP, "mrg_reg()");
	double_free(managed);
}

static void memory_of_several_devices_is_refused(void **state)
{
	const struct unit_chunk chunks[] = {
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true, .device = 0 },
		{ .size = 2 * MIB, .handle_types = 1, .rdma = true, .device = 1 },
	};
	struct unit_vmm vmm;

	(void)state;
	double_gpu.devices = 2;
	vmm = unit_vmm(chunks, 2);
	refused(vmm.addr, vmm.size, -EXDEV, "device 0");
	assert_int_equal(error.piece, 1);
	unit_vmm_free(vmm);
}

static void the_proprietary_kernel_modules_are_named(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);

	(void)state;
	double_gpu.attributes[0][CUDA_DEV_DMABUF] = 0;
	refused(addr, MIB, -EOPNOTSUPP,
		access("/proc/driver/nvidia/version", F_OK) ? "open kernel modules" : "");
	double_free(addr);
}

static void write_bars(const char *root, uint64_t bar)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "mkdir -p %s/bus/pci/devices/0000:1b:00.0", root);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "%s/bus/pci/devices/0000:1b:00.0/resource", root);
	file = fopen(path, "w");
	fprintf(file, "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n");
	fprintf(file, "0x0000400000000000 0x%016llx 0x000000000014220c\n",
		0x400000000000ull + bar - 1);
	fprintf(file, "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
	fclose(file);
}

static void a_bar_smaller_than_the_range_is_named_with_both_sizes(void **state)
{
	char root[] = "/tmp/mrguard-bar-XXXXXX", command[64];
	struct mrg_gpu_opts opts = { .size = sizeof(opts), .sysfs = root };
	struct unit_vmm vmm = equal_chunks(257, 2 * MIB);
	struct mrg_gpu *other;

	(void)state;
	assert_non_null(mkdtemp(root));
	write_bars(root, 256 * MIB);
	assert_int_equal(gpu_open_with(&other, &opts, &unit_loader, "/"), 0);
	assert_int_equal(mrg_gpu_export(other, vmm.addr, vmm.size, NULL, &out), -ENOSPC);
	assert_int_equal(mrg_gpu_last_error(other, &error), 0);
	assert_non_null(strstr(error.cause, "268435456"));
	assert_non_null(strstr(error.remedy, "Resizable BAR"));
	assert_int_equal(mrg_gpu_export(other, vmm.addr, 256 * MIB, NULL, &out), 0);
	mrg_gpu_export_release(other, &out);
	/* A coherent GPU is not reached through the BAR. */
	double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES] = 1;
	assert_int_equal(mrg_gpu_export(other, vmm.addr, vmm.size, NULL, &out), 0);
	mrg_gpu_export_release(other, &out);
	mrg_gpu_close(other);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
	unit_vmm_free(vmm);
}

static void the_pcie_mapping_is_asked_of_coherent_gpus_alone(void **state)
{
	struct mrg_export_opts pcie = { .size = sizeof(pcie), .flags = MRG_EXPORT_PCIE };
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);

	(void)state;
	assert_int_equal(mrg_gpu_export(gpu, addr, MIB, &pcie, &out), 0);
	assert_false(out.pcie);
	mrg_gpu_export_release(gpu, &out);
	double_gpu.attributes[0][CUDA_DEV_HOST_PAGE_TABLES] = 1;
	assert_int_equal(mrg_gpu_export(gpu, addr, MIB, &pcie, &out), 0);
	assert_true(out.pcie);
	mrg_gpu_export_release(gpu, &out);
	double_free(addr);
}

static void a_dmabuf_of_the_wrong_size_is_not_handed_out(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);

	(void)state;
	double_gpu.short_dmabuf = 4096;
	refused(addr, MIB, -EIO, "1044480");
	double_free(addr);
}

static void running_out_of_descriptors_is_not_called_out_of_memory(void **state)
{
	struct rlimit old, low;
	uint64_t addr = double_alloc(DOUBLE_LEGACY, MIB, 0);
	int ret;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &low);
	ret = mrg_gpu_export(gpu, addr, MIB, NULL, &out);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(mrg_gpu_last_error(gpu, &error), 0);
	assert_non_null(strstr(error.remedy, "ulimit -n"));
	double_free(addr);
}

static void a_device_without_context_is_named_unless_one_may_be_made(void **state)
{
	uint64_t addr = double_alloc(DOUBLE_POOL, 2 * MIB, 1);
	struct unit_vmm vmm;
	const struct unit_chunk chunk = {
		.size = 2 * MIB, .handle_types = 1, .rdma = true, .device = 1
	};
	struct mrg_gpu *active;

	(void)state;
	double_gpu.devices = 2;
	vmm = unit_vmm(&chunk, 1);
	refused(vmm.addr, vmm.size, -ENOTCONN, "device 1 has no context");
	active = unit_gpu(MRG_GPU_CONTEXT);
	assert_int_equal(mrg_gpu_export(active, vmm.addr, vmm.size, NULL, &out), 0);
	assert_int_equal(double_current_device(), 0);
	assert_int_equal(double_gpu.contexts, 2);
	mrg_gpu_export_release(active, &out);
	mrg_gpu_close(active);
	assert_int_equal(double_gpu.contexts, 1);
	unit_vmm_free(vmm);
	double_free(addr);
}

static void each_failing_call_is_survived_without_a_leak(void **state)
{
	struct unit_vmm vmm = equal_chunks(3, 2 * MIB);
	long mapped = double_live();
	int fds = unit_fds(), ret;

	(void)state;
	for (int i = 1;; i++) {
		double_gpu.calls = 0;
		double_gpu.fail_at = i;
		double_gpu.fail_result = GPU_UNKNOWN;
		ret = mrg_gpu_export(gpu, vmm.addr, vmm.size, NULL, &out);
		if (!ret)
			mrg_gpu_export_release(gpu, &out);
		assert_int_equal(double_live(), mapped);
		assert_int_equal(double_gpu.contexts, 1);
		assert_int_equal(unit_fds(), fds);
		assert_int_equal(double_current_device(), 0);
		if (double_gpu.calls < i)
			break;
	}
	double_gpu.fail_at = 0;
	unit_vmm_free(vmm);
}

static void options_that_are_not_known_are_refused(void **state)
{
	struct mrg_export_opts opts = { .size = sizeof(opts), .flags = 1u << 30 };

	(void)state;
	assert_int_equal(mrg_gpu_export(gpu, 4096, 4096, &opts, &out), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_odd_sub_range_is_rounded_outward_to_pages),
		TEST(rounding_follows_the_page_size_of_the_host),
		TEST(on_pages_of_64_kib_an_export_is_whole_ones_and_the_iova_keeps_its_low_16_bits),
		TEST(a_tensor_over_92_chunks_gets_one_dmabuf_that_holds_it),
		TEST(a_driver_that_refuses_spans_is_asked_chunk_by_chunk),
		TEST(a_hole_is_an_error_with_its_address),
		TEST(a_range_past_the_allocation_is_refused_though_libcuda_would_take_it),
		TEST(memory_without_the_rdma_flag_is_refused_by_name),
		TEST(a_gpu_that_does_not_do_rdma_to_vmm_memory_is_named),
		TEST(compressible_memory_never_reaches_the_driver),
		TEST(pool_memory_is_refused_and_when_forced_stays_in_bounds),
		TEST(a_pool_without_known_bounds_is_not_asked),
		TEST(managed_and_host_memory_have_no_dmabuf),
		TEST(memory_of_several_devices_is_refused),
		TEST(the_proprietary_kernel_modules_are_named),
		TEST(a_bar_smaller_than_the_range_is_named_with_both_sizes),
		TEST(the_pcie_mapping_is_asked_of_coherent_gpus_alone),
		TEST(a_dmabuf_of_the_wrong_size_is_not_handed_out),
		TEST(running_out_of_descriptors_is_not_called_out_of_memory),
		TEST(a_device_without_context_is_named_unless_one_may_be_made),
		TEST(each_failing_call_is_survived_without_a_leak),
		TEST(options_that_are_not_known_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu export", tests, NULL, NULL);
}
