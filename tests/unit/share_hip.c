/* SPDX-License-Identifier: MIT */
/* HIP memory between processes, on a double of ROCm 5.7, 6.4, 7.0 and 7.1. */
#define DOUBLE_HIP
#include "gpu/double/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <mrguard/share.h>

#include "share/message.h"

#define ROCM(major, minor) ((major)*10000000 + (minor)*100000 + 1)

/* How often the kernel still refuses a message with a handle, for a while. */
static atomic_int refusals;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	int left = message->msg_iov[0].iov_len == sizeof(struct share_handle) ?
			   atomic_load(&refusals) :
			   0;

	if (left > 0) {
		atomic_store(&refusals, left - 1);
		errno = left % 2 ? ENOBUFS : EAGAIN;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static const struct unit_chunk three[] = {
	{ .size = 2 * MIB, .handle_types = 1 },
	{ .size = 6 * MIB, .handle_types = 1 },
	{ .size = 20 * MIB, .handle_types = 1 },
};

static struct mrg_gpu *gpu;
static struct mrg_share *share;
static struct mrg_range *range;
static struct mrg_import *import;

static void open_as(int release)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 30000 };

	double_reset();
	double_gpu.version = release;
	double_gpu.hip_needs_open_fd = release >= ROCM(7, 0);
	unit_loaded = true;
	gpu = unit_gpu(0);
	opts.gpu = gpu;
	assert_int_equal(mrg_share_open(&share, &opts), 0);
}

static void close_all(void)
{
	mrg_share_close(share);
	mrg_gpu_close(gpu);
}

static int import_range(struct mrg_share *with)
{
	const void *bytes;
	size_t length = mrg_range_token(range, &bytes);

	return mrg_share_import(with, bytes, length, NULL, &import);
}

static void chunks_pass_in_each_release(void **state)
{
	const int releases[] = { ROCM(5, 7), ROCM(6, 4), ROCM(7, 0), ROCM(7, 1) };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct unit_vmm vmm;
		volatile char *here, *there;

		open_as(releases[i]);
		vmm = unit_vmm(three, 3);
		here = (char *)(uintptr_t)vmm.addr;
		assert_int_equal(mrg_share_publish(share, vmm.addr + MIB, 26 * MIB, &range), 0);
		assert_int_equal(import_range(share), 0);
		there = (char *)(uintptr_t)mrg_import_address(import);
		here[8 * MIB] = 5;
		assert_int_equal(there[7 * MIB], 5);
		mrg_import_release(import);
		mrg_share_unpublish(range);
		unit_vmm_free(vmm);
		assert_int_equal(double_live(), 0);
		close_all();
	}
}

/* Some releases hand out a closed descriptor at the second export. */
static void each_chunk_is_exported_once_however_many_import_it(void **state)
{
	struct unit_vmm vmm;
	int fds;

	(void)state;
	open_as(ROCM(7, 0));
	vmm = unit_vmm(three, 3);
	fds = unit_fds();
	assert_int_equal(mrg_share_publish(share, vmm.addr, vmm.size, &range), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(import_range(share), 0);
		mrg_import_release(import);
	}
	assert_int_equal(double_gpu.exports, 3);
	mrg_share_unpublish(range);
	close_all();
	assert_int_equal(unit_fds(), fds);
	unit_vmm_free(vmm);
}

static int peer(const void *bytes, size_t length, int device)
{
	struct mrg_gpu *peer_gpu = unit_gpu(0);
	struct mrg_share_opts opts = { .size = sizeof(opts), .gpu = peer_gpu };
	struct mrg_share *with;
	int now;

	mrg_share_open(&with, &opts);
	if (mrg_share_import(with, bytes, length, NULL, &import))
		return 1;
	if (*(char *)(uintptr_t)mrg_import_address(import) != 42)
		return 2;
	mrg_import_release(import);
	mrg_share_close(with);
	hip_get_device(&now);
	return now != device || double_gpu.opened ? 3 : 0;
}

static void hipMalloc_memory_goes_by_handle_with_its_offset(void **state)
{
	uint64_t addr;
	const void *bytes;
	size_t length;
	int status;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_as(i ? ROCM(7, 1) : ROCM(5, 7));
		double_gpu.devices = 2;
		addr = double_alloc(DOUBLE_LEGACY, 4 * MIB, 1);
		*(char *)(uintptr_t)(addr + MIB + 3) = 42;
		assert_int_equal(mrg_share_publish(share, addr + MIB + 3, MIB, &range), 0);
		length = mrg_range_token(range, &bytes);
		pid = fork();
		if (!pid)
			_exit(peer(bytes, length, 0));
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
		mrg_share_unpublish(range);
		double_free(addr);
		close_all();
	}
}

static void a_handle_is_sent_again_when_the_kernel_lacks_buffers(void **state)
{
	const void *bytes;
	uint64_t addr;
	size_t length;
	int status;
	pid_t pid;

	(void)state;
	open_as(ROCM(5, 7));
	double_gpu.devices = 2;
	addr = double_alloc(DOUBLE_LEGACY, 4 * MIB, 1);
	*(char *)(uintptr_t)addr = 42;
	assert_int_equal(mrg_share_publish(share, addr, MIB, &range), 0);
	length = mrg_range_token(range, &bytes);
	refusals = 4;
	pid = fork();
	if (!pid)
		_exit(peer(bytes, length, 0));
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(refusals, 0);
	mrg_share_unpublish(range);
	double_free(addr);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_pass_in_each_release),
		cmocka_unit_test(each_chunk_is_exported_once_however_many_import_it),
		cmocka_unit_test(hipMalloc_memory_goes_by_handle_with_its_offset),
		cmocka_unit_test(a_handle_is_sent_again_when_the_kernel_lacks_buffers),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("share HIP memory", tests, NULL, NULL);
}
