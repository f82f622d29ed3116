/* SPDX-License-Identifier: MIT */
/* Causes that share an errno are distinguished, and named with value and remedy. */
#include "region_fake.h"
#include "explain/pin.h"

#define ADDR 0x700000000000ULL

static struct mrg_ctx *ctx;

/* Registers ordinary memory with verbs answering @err. */
static void host_fails(uint64_t addr, uint64_t length, int access, int err)
{
	struct mrg_mr *mr;

	host.calls = 0;
	host.fail_call = 1;
	host.fail_errno = err;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)addr, length, access, NULL, &mr), -err);
}

static void dmabuf_fails(int err)
{
	struct mrg_mr *mr;

	host.calls = 0;
	host.fail_call = 1;
	host.fail_errno = err;
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 64 * MIB, NULL, &mr), -err);
}

static void is(int err, const char *words)
{
	struct mrg_error error;

	assert_error(ctx, -err, "register piece", words);
	/* A sentence that is as long as the room for it has been cut. */
	assert_int_equal(mrg_last_error(ctx, &error), 0);
	assert_true(strlen(error.cause) < sizeof(error.cause) - 1);
	assert_true(strlen(error.remedy) < sizeof(error.remedy) - 1);
}

static void is_not(const char *words)
{
	struct mrg_error error;

	assert_int_equal(mrg_last_error(ctx, &error), 0);
	if (strstr(error.cause, words))
		fail_msg("\"%s\" is in \"%s\"", words, error.cause);
}

static void done(void)
{
	mrg_close(ctx);
	ctx = NULL;
}

/* 92 chunks of 20 MiB back to back, of which the export holds the first. */
static void short_fd_is_found_before_the_kernel_is_asked(void **state)
{
	const struct mrg_dmabuf buf = { .fd = 5, .base = 0x12397800000 };
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	host.dmabuf_size = 20971520;
	assert_int_equal(mrg_reg_dmabuf(ctx, &host.pd, &buf, 0x12397fd5800, 1916853120, all_access,
					NULL, &mr),
			 -EINVAL);
	assert_error(ctx, -EINVAL, "check fd", "20971520");
	assert_error(ctx, -EINVAL, "check fd", "chunk by chunk");
	assert_int_equal(host.calls, 0);
	done();
}

static void fd_that_is_no_dmabuf_is_told_from_a_closed_one(void **state)
{
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	host.no_dmabuf = true;
	host.dmabuf_size = 100;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, NULL, &mr), -EMEDIUMTYPE);
	assert_error(ctx, -EMEDIUMTYPE, "check fd", "no DMA-BUF");
	host.dmabuf_size = -EBADF;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, NULL, &mr), -EBADF);
	assert_error(ctx, -EBADF, "check fd", "Bad file descriptor");
	done();
}

/* A large file passes the size check; the kernel then says EINVAL. */
static void file_of_the_right_size_is_no_dmabuf_either(void **state)
{
	(void)state;
	host.no_dmabuf = true;
	dmabuf_fails(EINVAL);
	is(EINVAL, "is no DMA-BUF");
	done();
}

/* The real questions, on files of this process. */
static void files_are_told_from_dmabufs(void **state)
{
	FILE *file = tmpfile();

	(void)state;
	fputs("some bytes", file);
	fflush(file);
	assert_false(region_env_host.is_dmabuf(fileno(file)));
	assert_int_equal(region_env_host.dmabuf_size(fileno(file)), 10);
	fclose(file);
	assert_int_equal(region_env_host.dmabuf_size(-1), -EBADF);
	assert_false(region_env_host.is_dmabuf(-1));
}

/* Pool at P, sub-buffer at P + 0x12000; then an fd that starts at 0x1000. */
static void interior_address_gets_its_own_offset(void **state)
{
	const uint64_t pool = 0x7f0000000000;
	struct mrg_dmabuf buf = { .fd = 5, .base = pool };
	uint64_t offset = 4711;
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(mrg_dmabuf_offset(&buf, pool + 0x12000, &offset), 0);
	assert_int_equal(offset, 0x12000);
	buf.offset = 0x1000;
	assert_int_equal(mrg_dmabuf_offset(&buf, pool + 0x12000, &offset), 0);
	assert_int_equal(offset, 0x13000);
	assert_int_equal(mrg_dmabuf_offset(&buf, pool - 1, &offset), -ERANGE);
	buf.reserved[1] = 1;
	assert_int_equal(mrg_dmabuf_offset(&buf, pool + 0x12000, &offset), -EINVAL);
	buf.reserved[1] = 0;
	buf.offset = UINT64_MAX - 0x1000;
	assert_int_equal(mrg_dmabuf_offset(&buf, pool + 0x12000, &offset), -ERANGE);
	assert_int_equal(offset, 0x13000);

	buf.offset = 0x1000;
	ctx = open_fake();
	assert_int_equal(mrg_reg_dmabuf(ctx, &host.pd, &buf, pool + 0x12000, 0x3000, all_access,
					NULL, &mr),
			 0);
	assert_int_equal(host.live->offset, 0x13000);
	assert_int_equal(host.live->iova, pool + 0x12000);
	assert_int_equal(mrg_dereg(mr), 0);
	assert_int_equal(mrg_reg_dmabuf(ctx, &host.pd, &buf, pool - 0x1000, 0x3000, all_access,
					NULL, &mr),
			 -ERANGE);
	assert_error(ctx, -ERANGE, "check range", "below the base");
	done();
}

static void page_offsets_that_differ_are_named(void **state)
{
	const struct mrg_dmabuf buf = { .fd = 5, .base = 0x7f00dead0000, .offset = 0x200 };
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	assert_int_equal(mrg_reg_dmabuf(ctx, &host.pd, &buf, 0x7f00dead0200, 0x3000, all_access,
					NULL, &mr),
			 -EINVAL);
	assert_error(ctx, -EINVAL, "check offset", "0x7f00dead0200");
	assert_error(ctx, -EINVAL, "check offset", "0x400");
	assert_int_equal(host.calls, 0);
	done();
}

/* An unaligned pointer is no fault as long as both run in step. */
static void unaligned_address_keeps_its_iova(void **state)
{
	const struct mrg_dmabuf buf = { .fd = 5, .base = 0x7f00dead0000 };
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	assert_int_equal(mrg_reg_dmabuf(ctx, &host.pd, &buf, 0x7f00dead0200, 0x3000, all_access,
					NULL, &mr),
			 0);
	assert_int_equal(host.live->offset, 0x200);
	assert_int_equal(host.live->iova, 0x7f00dead0200);
	assert_int_equal(mrg_dereg(mr), 0);
	done();
}

static void access_without_local_write_is_named(void **state)
{
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, MIB, IBV_ACCESS_REMOTE_WRITE, NULL,
				 &mr),
			 -EINVAL);
	assert_error(ctx, -EINVAL, "check access", "IBV_ACCESS_LOCAL_WRITE");
	assert_int_equal(host.calls, 0);
	done();
}

static void empty_and_overflowing_ranges_are_refused(void **state)
{
	struct mrg_mr *mr;

	(void)state;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 0, all_access, NULL, &mr), -EINVAL);
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)(UINTPTR_MAX - 4095), 8192, all_access,
				 NULL, &mr),
			 -ERANGE);
	assert_error(ctx, -ERANGE, "check range", "overflow");
	done();
}

/* Two devices pin 78.6 GiB each, 128 GiB may be locked. */
static void memlock_counts_each_device(void **state)
{
	(void)state;
	host.max_mr_size = 256 * GIB;
	set_proc(128 * GIB, 84424509440, 500, 65530);
	host_fails(ADDR, 84424509440, all_access, ENOMEM);
	is(ENOMEM, "locked-memory limit");
	is(ENOMEM, "84424509440");
	is(ENOMEM, "137438953472");
	is(ENOMEM, "ulimit -l");
	is(ENOMEM, "each device");
	done();
}

/* 78.6 GiB on one device of at most 64 GiB: two MRs, memlock is wide enough. */
static void mr_limit_alone_is_no_failure(void **state)
{
	struct mrg_mr *mr;

	(void)state;
	host.max_mr_size = 64 * GIB;
	set_proc(128 * GIB, 0, 500, 65530);
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 84424509440, all_access, NULL, &mr),
			 0);
	assert_int_equal(host.live_count, 2);
	assert_int_equal(mrg_dereg(mr), 0);
	done();
}

static void enomem_without_evidence_names_no_single_cause(void **state)
{
	(void)state;
	set_proc(128 * GIB, 0, 500, 65530);
	host_fails(ADDR, 12 * MIB, all_access, ENOMEM);
	is(ENOMEM, "The cause is neither the locked-memory limit nor the VMA limit (500 of 65530)");
	is_not("is reached");
	done();
}

/* CAP_IPC_LOCK counts in the first user namespace alone. */
static void memlock_does_not_bind_who_may_lock(void **state)
{
	const char *status = "VmPin:\t 1048576 kB\nCapEff:\t0000000000004000\n";

	(void)state;
	set_proc(GIB, GIB, 500, 65530);
	write_file(status, "%s/self/status", host.proc);
	host_fails(ADDR, 12 * MIB, all_access, ENOMEM);
	is_not("limit is reached");
	done();
	write_file("         0     100000      65536\n", "%s/self/uid_map", host.proc);
	host_fails(ADDR, 12 * MIB, all_access, ENOMEM);
	is(ENOMEM, "locked-memory limit is reached");
	done();
}

static void vma_limit_is_named_for_both_errnos(void **state)
{
	(void)state;
	set_proc(128 * GIB, 0, 65530, 65530);
	host_fails(ADDR, 12 * MIB, all_access, ENOMEM);
	is(ENOMEM, "65530 of 65530 (vm.max_map_count)");
	done();
	host_fails(ADDR, 12 * MIB, all_access, EAGAIN);
	is(EAGAIN, "65530 of 65530 (vm.max_map_count)");
	done();
	set_proc(128 * GIB, 0, 900, 65530);
	host_fails(ADDR, 12 * MIB, all_access, EAGAIN);
	is(EAGAIN, "has 900 of 65530");
	is_not("is reached");
	done();
}

static void hole_and_read_only_memory_are_told_from_device_memory(void **state)
{
	static const char *const maps =
		"700000000000-700000002000 rw-p 00000000 00:00 0 \n"
		"700000003000-700000005000 r--p 00000000 00:00 0 \n"
		"700000005000-700000008000 rw-s 00000000 00:06 1 /dev/nvidia-uvm\n"
		"700000008000-700000009000 rw-s 00000000 00:06 1 /dev/infiniband/uverbs0\n"
		"700000009000-70000000a000 rw-s 00000000 00:06 1 /dev/shm/kv\n";

	(void)state;
	write_file(maps, "%s/self/maps", host.proc);
	host_fails(ADDR, 0x4000, all_access, EFAULT);
	is(EFAULT, "0x700000002000 in the range is not mapped");
	is(EFAULT, "Register only mapped memory");
	is_not("device pointer");
	done();
	host_fails(ADDR + 0x3000, 0x1000, all_access, EFAULT);
	is(EFAULT, "0x700000003000 in the range is mapped read-only");
	done();
	host_fails(ADDR + 0x4000, 0x1000, IBV_ACCESS_REMOTE_READ, EFAULT);
	is(EFAULT, "device memory");
	done();
	host_fails(ADDR + 0x8000, 0x1000, all_access, EFAULT);
	is(EFAULT, "/dev/infiniband/uverbs0: device memory");
	done();
	host_fails(ADDR + 0x9000, 0x1000, all_access, EFAULT);
	is_not("/dev/shm/kv");
	done();
	host_fails(ADDR, 0x3000, all_access, ENOMEM);
	is(ENOMEM, "0x700000002000 in the range is not mapped");
	done();
}

/* What the kernel's flags tell where no name does. */
static void device_mapping_without_a_name_is_known_by_its_flags(void **state)
{
	static const char map[] = "700000000000-700000002000 rw-s 00000000 00:00 0 \n";
	char smaps[256];

	(void)state;
	write_file(map, "%s/self/maps", host.proc);
	snprintf(smaps, sizeof(smaps), "%sVmFlags: rd wr sh mr mw me ms io pf de dd \n", map);
	write_file(smaps, "%s/self/smaps", host.proc);
	host_fails(ADDR, 0x2000, all_access, EFAULT);
	is(EFAULT, "mapping of a device without a name");
	done();
}

static void set_peermem(enum explain_pin_peermem peermem)
{
	static const char *const modules[] = {
		[PEERMEM_ABSENT] = "ib_core 548864 1 ib_uverbs, Live 0x0\n",
		[PEERMEM_IDLE] = "nvidia_peermem 16384 0 - Live 0x0\n"
				 "ib_core 548864 1 ib_uverbs, Live 0x0\n",
		[PEERMEM_LINKED] = "nvidia_peermem 16384 0 - Live 0x0\n"
				   "ib_core 548864 2 nvidia_peermem,ib_uverbs, Live 0x0\n",
	};

	write_file(modules[peermem], "%s/modules", host.proc);
}

/* cudaMalloc() gives addresses that no line of maps holds. */
static void unmapped_address_may_be_freed_or_a_device_pointer(void **state)
{
	(void)state;
	write_file("500000000000-500000002000 rw-p 00000000 00:00 0 \n", "%s/self/maps", host.proc);
	set_peermem(PEERMEM_ABSENT);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "it was freed, or it is a device pointer");
	is(EFAULT, "no peermem module is loaded");
	is(EFAULT, "mrg_gpu_classify()");
	is(EFAULT, "mrg_reg_dmabuf()");
	done();
	host_fails(ADDR, MIB, all_access, EINVAL);
	is(EINVAL, "it was freed, or it is a device pointer");
	done();
}

/* What cuMemAddressReserve() leaves in maps. */
static void reservation_without_access_is_not_called_read_only(void **state)
{
	(void)state;
	write_file("700000000000-700040000000 ---p 00000000 00:00 0 \n", "%s/self/maps", host.proc);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "PROT_NONE");
	is(EFAULT, "gpuDirectRDMACapable (cannot be set afterwards)");
	is_not("read-only");
	done();
}

static void uvm_mapping_is_judged_by_peermem(void **state)
{
	(void)state;
	write_file("700000000000-700040000000 rw-s 00000000 00:06 1 /dev/nvidia-uvm\n",
		   "%s/self/maps", host.proc);
	set_peermem(PEERMEM_ABSENT);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "/dev/nvidia-uvm");
	is(EFAULT, "no peermem module is loaded");
	is(EFAULT, "mrg_gpu_export()");
	done();
	set_peermem(PEERMEM_IDLE);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "loaded, but not linked to ib_core");
	done();
	set_peermem(PEERMEM_LINKED);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "peermem is loaded and did not take it");
	is(EFAULT, "gpuDirectRDMACapable at cuMemCreate()");
	done();
}

/* What a driver answers. */
static struct explain_pin_facts told;

static void tell(struct explain_pin_facts *facts)
{
	facts->kind = told.kind;
	facts->unflagged = told.unflagged;
	facts->chunks = told.chunks;
	facts->end = told.end;
}

static void gpu_fails(struct explain_pin_facts answer, enum explain_pin_peermem peermem, int err)
{
	told = answer;
	host.env.ask_drivers = tell;
	set_peermem(peermem);
	/* Neither the hole nor the reservation is the cause. */
	write_file("700000000000-700040000000 ---p 00000000 00:00 0 \n", "%s/self/maps", host.proc);
	host_fails(ADDR, MIB, all_access, err);
	is_not("PROT_NONE");
}

/* Field report G10: three states, one errno, three answers. */
static void gpu_memory_gets_one_answer_for_each_state_of_it(void **state)
{
	const struct explain_pin_facts vmm = { .kind = MRG_MEM_CUDA_VMM, .chunks = 92 };
	const struct explain_pin_facts unflagged = { .kind = MRG_MEM_CUDA_VMM,
						     .chunks = 1,
						     .unflagged = true };
	const struct explain_pin_facts plain = { .kind = MRG_MEM_CUDA };

	(void)state;
	gpu_fails(vmm, PEERMEM_ABSENT, EFAULT);
	is(EFAULT, "CUDA VMM memory in 92 chunks");
	is(EFAULT, "no peermem module is loaded");
	is(EFAULT, "mrg_gpu_export() and register that with mrg_reg_dmabuf()");
	is_not("RDMA flag");
	done();
	gpu_fails(unflagged, PEERMEM_LINKED, EFAULT);
	is(EFAULT, "allocated without the RDMA flag");
	is(EFAULT, "cannot be fixed afterwards");
	is(EFAULT, "set allocFlags.gpuDirectRDMACapable at cuMemCreate()");
	done();
	gpu_fails(plain, PEERMEM_ABSENT, EFAULT);
	is(EFAULT, "is CUDA memory on a GPU");
	is(EFAULT, "no peermem module is loaded");
	is_not("VMM");
	done();
	gpu_fails(plain, PEERMEM_LINKED, EINVAL);
	is(EINVAL, "peermem is loaded and did not take it");
	done();
	gpu_fails(vmm, PEERMEM_LINKED, EFAULT);
	is(EFAULT, "Peermem takes one allocation at a time");
	done();
	gpu_fails(unflagged, PEERMEM_ABSENT, ENOMEM);
	is(ENOMEM, "cannot be fixed afterwards, and peermem does not help");
	done();
}

static void other_gpu_memory_is_told_apart(void **state)
{
	(void)state;
	gpu_fails((struct explain_pin_facts){ .kind = MRG_MEM_CUDA_POOL, .unflagged = true },
		  PEERMEM_LINKED, EFAULT);
	is(EFAULT, "CUDA pool memory");
	is(EFAULT, "cudaMallocAsync");
	done();
	gpu_fails((struct explain_pin_facts){ .kind = MRG_MEM_CUDA_MANAGED }, PEERMEM_LINKED,
		  EFAULT);
	is(EFAULT, "pages move");
	done();
	gpu_fails((struct explain_pin_facts){ .kind = MRG_MEM_CUDA, .end = ADDR + 5000 },
		  PEERMEM_LINKED, EFAULT);
	is(EFAULT, "ends at 0x700000001388");
	done();
	gpu_fails((struct explain_pin_facts){ .kind = MRG_MEM_HIP }, PEERMEM_ABSENT, EFAULT);
	is(EFAULT, "HIP memory");
	is_not("peermem");
	done();
}

static void range_that_cannot_be_looked_at_is_not_called_mapped(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/self/maps", host.proc);
	unlink(path);
	host_fails(ADDR, MIB, all_access, EFAULT);
	is(EFAULT, "/proc/self/maps cannot be read");
	is_not("The range is mapped");
	done();
	host_fails(ADDR, MIB, all_access, EINVAL);
	is(EINVAL, "ibv_reg_mr() fails with EINVAL");
	done();
}

/* Behind an IOMMU that translates: 4 GiB fail, then a piece of 1 GiB. */
static void both_errnos_of_a_try_in_smaller_pieces_are_told(void **state)
{
	struct mrg_mr *mr;

	(void)state;
	set_iommu("DMA-FQ\n");
	host.fail_above = GIB;
	host.fail_call = 2;
	host.fail_errno = EREMOTEIO;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 4 * GIB, all_access, NULL, &mr),
			 -EREMOTEIO);
	is(EREMOTEIO, "Remote I/O error (121)");
	is(EREMOTEIO, "EREMOTEIO, after ENOMEM with larger pieces");
	done();
}

static void cut_huge_page_is_named(void **state)
{
	(void)state;
	write_file("700000000000-700040000000 rw-s 00000000 00:0f 1 /anon_hugepage (deleted)\n"
		   "KernelPageSize:     2048 kB\nVmFlags: rd wr sh mr mw me ms de ht sd \n",
		   "%s/self/smaps", host.proc);
	host_fails(ADDR + 0x1000, 0x10000, all_access, EINVAL);
	is(EINVAL, "cuts huge pages of 2097152 bytes");
	is(EINVAL, "RDMAV_HUGEPAGES_SAFE=1");
	done();
	host_fails(ADDR, 2 * MIB, all_access, EINVAL);
	is_not("huge pages");
	done();
}

static void lack_of_dmabuf_support_names_who_lacks_it(void **state)
{
	(void)state;
	host.provider_answer = EOPNOTSUPP;
	host.kernel_answer = -EBADF;
	dmabuf_fails(EOPNOTSUPP);
	is(EOPNOTSUPP, "libibverbs provider lacks the call");
	done();
	host.kernel_answer = -EOPNOTSUPP;
	dmabuf_fails(EOPNOTSUPP);
	is(EOPNOTSUPP, "Kernel or driver of fake0 do not take DMA-BUFs");
	done();
	host.provider_answer = EBADF;
	dmabuf_fails(EOPNOTSUPP);
	is(EOPNOTSUPP, "refused this one");
	done();
	dmabuf_fails(EPROTONOSUPPORT);
	is(EPROTONOSUPPORT, "refused this one");
	done();
}

static void error_524_is_the_exporters_refusal(void **state)
{
	(void)state;
	dmabuf_fails(524);
	is(524, "does not let device fake0");
	is(524, "mapping type");
	done();
}

static void exporter_without_room_is_not_called_memlock(void **state)
{
	(void)state;
	set_proc(GIB, GIB, 500, 65530);
	dmabuf_fails(ENOMEM);
	is(ENOMEM, "exporter could not map it");
	is_not("locked-memory limit is reached");
	done();
}

static void unknown_errno_is_passed_on_with_its_name(void **state)
{
	(void)state;
	dmabuf_fails(EREMOTEIO);
	is(EREMOTEIO, "Remote I/O error (121)");
	done();
}

static void limits_that_cannot_be_read_are_not_guessed(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/self/limits", host.proc);
	unlink(path);
	host_fails(ADDR, 12 * MIB, all_access, ENOMEM);
	is_not("Not the locked-memory limit");
	is_not("is reached");
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(short_fd_is_found_before_the_kernel_is_asked),
		FAKE_TEST(fd_that_is_no_dmabuf_is_told_from_a_closed_one),
		FAKE_TEST(file_of_the_right_size_is_no_dmabuf_either),
		FAKE_TEST(files_are_told_from_dmabufs),
		FAKE_TEST(interior_address_gets_its_own_offset),
		FAKE_TEST(page_offsets_that_differ_are_named),
		FAKE_TEST(unaligned_address_keeps_its_iova),
		FAKE_TEST(access_without_local_write_is_named),
		FAKE_TEST(empty_and_overflowing_ranges_are_refused),
		FAKE_TEST(memlock_counts_each_device),
		FAKE_TEST(mr_limit_alone_is_no_failure),
		FAKE_TEST(enomem_without_evidence_names_no_single_cause),
		FAKE_TEST(memlock_does_not_bind_who_may_lock),
		FAKE_TEST(vma_limit_is_named_for_both_errnos),
		FAKE_TEST(hole_and_read_only_memory_are_told_from_device_memory),
		FAKE_TEST(device_mapping_without_a_name_is_known_by_its_flags),
		FAKE_TEST(unmapped_address_may_be_freed_or_a_device_pointer),
		FAKE_TEST(reservation_without_access_is_not_called_read_only),
		FAKE_TEST(uvm_mapping_is_judged_by_peermem),
		FAKE_TEST(gpu_memory_gets_one_answer_for_each_state_of_it),
		FAKE_TEST(other_gpu_memory_is_told_apart),
		FAKE_TEST(range_that_cannot_be_looked_at_is_not_called_mapped),
		FAKE_TEST(both_errnos_of_a_try_in_smaller_pieces_are_told),
		FAKE_TEST(cut_huge_page_is_named),
		FAKE_TEST(lack_of_dmabuf_support_names_who_lacks_it),
		FAKE_TEST(error_524_is_the_exporters_refusal),
		FAKE_TEST(exporter_without_room_is_not_called_memlock),
		FAKE_TEST(unknown_errno_is_passed_on_with_its_name),
		FAKE_TEST(limits_that_cannot_be_read_are_not_guessed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("causes of failed registrations", tests, NULL, NULL);
}
