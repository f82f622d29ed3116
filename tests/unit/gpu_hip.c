/* SPDX-License-Identifier: MIT */
/*
 * HIP, against a double that behaves as ROCm 5.7, 6.4, 7.0 and 7.1 do: the
 * numbers of its memory types, the argument of its import, whether it has a
 * call for a DMA-BUF by address.
 */
#define DOUBLE_HIP
#include "gpu/double/unit.h"

#include <errno.h>
#include <sys/resource.h>

#include "gpu/vmm.h"

#define ROCM(major, minor) ((major)*10000000 + (minor)*100000 + 1)

static const int releases[] = { ROCM(5, 7), ROCM(6, 4), ROCM(7, 0), ROCM(7, 1) };
#define RELEASES (sizeof(releases) / sizeof(releases[0]))

static struct mrg_gpu *gpu;
static struct mrg_mem mem;
static struct mrg_export out;

static void open_as(int release)
{
	double_reset();
	double_gpu.version = release;
	unit_loaded = true;
	gpu = unit_gpu(0);
	hip_last_error();
}

static const struct unit_chunk two[] = {
	{ .size = 2 * MIB, .handle_types = 1 },
	{ .size = 6 * MIB, .handle_types = 1 },
};

static void classify(uint64_t addr, uint64_t length, enum mrg_mem_kind kind)
{
	assert_int_equal(mrg_gpu_classify(gpu, addr, length, &mem), 0);
	if (mem.kind != kind)
		fail_msg("release %d: %s, not %s", double_gpu.version, mrg_mem_kind_name(mem.kind),
			 mrg_mem_kind_name(kind));
	mrg_mem_release(&mem);
}

static void kinds_are_told_with_either_numbering(void **state)
{
	(void)state;
	for (size_t i = 0; i < RELEASES; i++) {
		uint64_t device, managed, pinned;
		struct unit_vmm vmm;

		open_as(releases[i]);
		device = double_alloc(DOUBLE_LEGACY, MIB, 0);
		managed = double_alloc(DOUBLE_MANAGED, MIB, 0);
		pinned = double_alloc(DOUBLE_PINNED, MIB, 0);
		vmm = unit_vmm(two, 2);
		classify(device, MIB, MRG_MEM_HIP);
		classify(managed, MIB, MRG_MEM_HIP_MANAGED);
		classify(pinned, MIB, MRG_MEM_HOST_PINNED);
		classify(vmm.addr, vmm.size, MRG_MEM_HIP_VMM);
		classify((uint64_t)(uintptr_t)&mem, 8, MRG_MEM_HOST);
		unit_vmm_free(vmm);
		double_free(device);
		double_free(managed);
		double_free(pinned);
		mrg_gpu_close(gpu);
	}
}

static void our_failed_questions_do_not_become_the_applications_error(void **state)
{
	(void)state;
	open_as(ROCM(6, 4));
	classify((uint64_t)(uintptr_t)&mem, 8, MRG_MEM_HOST);
	assert_int_equal(hip_last_error(), 0);
	/* An error of its own is still there. */
	hip_set_device(77);
	classify((uint64_t)(uintptr_t)&mem, 8, MRG_MEM_HOST);
	assert_int_not_equal(hip_last_error(), 0);
	mrg_gpu_close(gpu);
}

static void the_current_device_is_left_as_it_was(void **state)
{
	uint64_t addr;
	int device;

	(void)state;
	open_as(ROCM(7, 0));
	double_gpu.devices = 2;
	addr = double_alloc(DOUBLE_LEGACY, MIB, 1);
	assert_int_equal(mrg_gpu_export(gpu, addr, MIB, NULL, &out), 0);
	assert_int_equal(out.mem.device, 1);
	hip_get_device(&device);
	assert_int_equal(device, 0);
	mrg_gpu_export_release(gpu, &out);
	double_free(addr);
	mrg_gpu_close(gpu);
}

/* The buffer object starts hip_offset bytes before the allocation.  A caller
 * that takes offset 0 for the pointer, or for the base, moves wrong bytes. */
static void check_offset(int release, size_t hip_offset, const char *source)
{
	uint64_t addr, at;

	open_as(release);
	double_gpu.hip_offset = hip_offset;
	addr = double_alloc(DOUBLE_LEGACY, 20 * MIB, 0);
	assert_int_equal(mrg_gpu_export(gpu, addr + 0x12000, 0x3000, NULL, &out), 0);
	assert_string_equal(out.source, source);
	assert_int_equal(out.count, 1);
	at = out.pieces[0].buf.offset + (addr + 0x12000 - out.pieces[0].buf.base);
	assert_int_equal(at, 0x12000 + hip_offset);
	mrg_gpu_export_release(gpu, &out);
	double_free(addr);
	mrg_gpu_close(gpu);
}

static void the_offset_is_that_of_the_pointer_in_the_dmabuf(void **state)
{
	(void)state;
	check_offset(ROCM(5, 7), 0, "hsa_amd_portable_export_dmabuf");
	check_offset(ROCM(6, 4), 0x1000, "hsa_amd_portable_export_dmabuf");
	check_offset(ROCM(7, 0), 0, "hipMemGetHandleForAddressRange");
	check_offset(ROCM(7, 1), 0x1000, "hsa_amd_portable_export_dmabuf");
}

static void vmm_memory_is_one_dmabuf_a_chunk(void **state)
{
	struct unit_vmm vmm;

	(void)state;
	open_as(ROCM(7, 0));
	vmm = unit_vmm(two, 2);
	assert_int_equal(mrg_gpu_export(gpu, vmm.addr + MIB, 4 * MIB, NULL, &out), 0);
	assert_string_equal(out.source, "hipMemExportToShareableHandle");
	assert_int_equal(out.count, 2);
	assert_int_equal(out.pieces[0].buf.base, vmm.addr);
	assert_int_equal(out.pieces[0].length, MIB);
	assert_int_equal(out.pieces[1].buf.base, vmm.addr + 2 * MIB);
	assert_int_equal(out.pieces[1].length, 3 * MIB);
	mrg_gpu_export_release(gpu, &out);
	assert_int_equal(double_gpu.handles, 0);
	unit_vmm_free(vmm);
	mrg_gpu_close(gpu);
}

/* The runtime answers a lack of descriptors as it does a lack of memory. */
static void running_out_of_descriptors_is_not_called_out_of_memory(void **state)
{
	struct mrg_error error;
	struct rlimit old, low;
	struct unit_vmm vmm;
	int ret;

	(void)state;
	open_as(ROCM(7, 0));
	vmm = unit_vmm(two, 2);
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &low);
	ret = mrg_gpu_export(gpu, vmm.addr, vmm.size, NULL, &out);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(mrg_gpu_last_error(gpu, &error), 0);
	assert_non_null(strstr(error.cause, "can open no more files"));
	assert_non_null(strstr(error.remedy, "GPU memory did not"));
	unit_vmm_free(vmm);
	mrg_gpu_close(gpu);
}

static void managed_memory_is_refused(void **state)
{
	uint64_t addr;

	(void)state;
	open_as(ROCM(6, 4));
	addr = double_alloc(DOUBLE_MANAGED, MIB, 0);
	assert_int_equal(mrg_gpu_export(gpu, addr, MIB, NULL, &out), -EOPNOTSUPP);
	double_free(addr);
	mrg_gpu_close(gpu);
}

/* Chunk by chunk out and in again.  The double aborts where a descriptor goes
 * to a release that wants a pointer to it. */
static void round_trip(int release, bool needs_open_fd)
{
	struct gpu_window window;
	struct unit_vmm vmm;
	uint8_t key[16];
	int fds, fd;
	char *there;

	open_as(release);
	double_gpu.hip_needs_open_fd = needs_open_fd;
	vmm = unit_vmm(two, 2);
	assert_int_equal(mrg_gpu_classify(gpu, vmm.addr, vmm.size, &mem), 0);
	fds = unit_fds();
	memcpy(key, mem.uuid, 16);
	assert_int_equal(gpu_window_open(gpu, GPU_HIP, key, -1, vmm.size, &window), 0);
	for (size_t i = 0; i < mem.count; i++) {
		assert_int_equal(gpu_export_chunk(gpu, GPU_HIP, mem.chunks[i].addr,
						  mem.chunks[i].id, &fd),
				 0);
		assert_int_equal(gpu_window_add(&window, fd, mem.chunks[i].size), 0);
	}
	assert_int_equal(gpu_window_settle(&window), 0);
	assert_int_equal(gpu_window_finish(&window, true), 1);
	assert_int_equal(unit_fds(), fds);
	there = (char *)(uintptr_t)window.addr;
	((char *)(uintptr_t)vmm.addr)[5 * MIB] = 42;
	assert_int_equal(there[5 * MIB], 42);
	gpu_window_close(&window);
	mrg_mem_release(&mem);
	unit_vmm_free(vmm);
	assert_int_equal(double_live(), 0);
	mrg_gpu_close(gpu);
}

static void chunks_come_back_whatever_the_import_takes(void **state)
{
	(void)state;
	for (size_t i = 0; i < RELEASES; i++)
		round_trip(releases[i], false);
}

static void descriptors_stay_open_until_access_is_set(void **state)
{
	(void)state;
	round_trip(ROCM(7, 1), true);
}

static void a_release_without_the_calls_is_named(void **state)
{
	struct mrg_gpu_list list;

	(void)state;
	open_as(ROCM(6, 4));
	gpu->drivers[GPU_HIP].loaded = gpu->drivers[GPU_HIP].broken = true;
	strcpy(gpu->drivers[GPU_HIP].why, "The runtime, libamdhip64.so, has no hipMemMap().");
	assert_int_equal(mrg_gpu_devices(gpu, &list), 0);
	assert_false(list.runtimes[1].usable);
	assert_non_null(strstr(list.runtimes[1].why, "hipMemMap"));
	mrg_gpu_list_release(&list);
	mrg_gpu_close(gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_are_told_with_either_numbering),
		cmocka_unit_test(our_failed_questions_do_not_become_the_applications_error),
		cmocka_unit_test(the_current_device_is_left_as_it_was),
		cmocka_unit_test(the_offset_is_that_of_the_pointer_in_the_dmabuf),
		cmocka_unit_test(vmm_memory_is_one_dmabuf_a_chunk),
		cmocka_unit_test(running_out_of_descriptors_is_not_called_out_of_memory),
		cmocka_unit_test(managed_memory_is_refused),
		cmocka_unit_test(chunks_come_back_whatever_the_import_takes),
		cmocka_unit_test(descriptors_stay_open_until_access_is_set),
		cmocka_unit_test(a_release_without_the_calls_is_named),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpu HIP", tests, NULL, NULL);
}
