/* SPDX-License-Identifier: MIT */
/* Causes told apart, on copies of /proc with the figures of field reports. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/explain.h>

#define PID 4711
#define GIB (1ULL << 30)

static char root[64];

static FILE *file_in(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = file_in(name);

	fputs(text, file);
	fclose(file);
}

static int make_root(void **state)
{
	char path[128];

	(void)state;
	strcpy(root, "/tmp/mrguard-explain-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(path, sizeof(path), "%s/%d", root, PID);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/sys", root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/sys/vm", root);
	return mkdir(path, 0755);
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int drop_root(void **state)
{
	(void)state;
	return nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* A process of 900 VMAs, 0x10000 bytes every 0x20000 from 0x7f0000000000. */
static void a_process(const char *memlock, unsigned long pinned_kib, const char *capabilities,
		      unsigned long vmas)
{
	FILE *file = file_in("4711/limits");

	fprintf(file,
		"Limit                     Soft Limit           Hard Limit           Units     \n"
		"Max open files            1024                 4096                 files     \n"
		"Max locked memory         %-20s %-20s bytes     \n",
		memlock, memlock);
	fclose(file);
	file = file_in("4711/status");
	fprintf(file, "Name:\tpython3\nVmPin:\t%8lu kB\nCapEff:\t%s\n", pinned_kib, capabilities);
	fclose(file);
	write_file("4711/uid_map", "         0          0 4294967295\n");
	write_file("sys/vm/max_map_count", "65530\n");
	file = file_in("4711/maps");
	for (unsigned long i = 0; i < vmas; i++)
		fprintf(file, "%lx-%lx rw-p 00000000 00:00 0 \n", 0x7f0000000000 + i * 0x20000,
			0x7f0000010000 + i * 0x20000);
	fclose(file);
}

static struct mrg_explanation explain(struct mrg_explain_opts opts)
{
	struct mrg_explanation explanation;

	opts.size = sizeof(opts);
	opts.pid = PID;
	opts.proc = root;
	assert_int_equal(mrg_explain(&opts, &explanation), 0);
	return explanation;
}

static const struct mrg_finding *of(const struct mrg_explanation *explanation, enum mrg_cause cause)
{
	for (int i = 0; i < MRG_CAUSES; i++)
		if (explanation->findings[i].cause == cause)
			return &explanation->findings[i];
	return NULL;
}

static void assert_is(const struct mrg_explanation *explanation, enum mrg_cause cause,
		      enum mrg_likelihood likelihood)
{
	const struct mrg_finding *finding = of(explanation, cause);

	assert_non_null(finding);
	if (finding->likelihood != likelihood)
		print_error("%s: %s\n", mrg_cause_name(cause), finding->text);
	assert_int_equal(finding->likelihood, likelihood);
	/* A sentence that is as long as the room for it has been cut. */
	assert_true(strlen(finding->text) < sizeof(finding->text) - 1);
	assert_true(strlen(finding->remedy) < sizeof(finding->remedy) - 1);
	assert_int_equal(!finding->remedy[0], likelihood == MRG_IS_NOT);
}

#define NO_CAPS "0000000000000000"
#define IPC_LOCK "0000000000004000"

static void two_devices_pin_more_than_memlock_allows(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("137438953472", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){
		.error = ENOMEM,
		.addr = 0x7f0000000000,
		.length = 84424509440,
		.devices = 2,
		.max_mr_size = 256 * GIB,
		.mrs = 10,
		.max_mrs = 1000000,
	});
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS);
	assert_is(&out, MRG_CAUSE_MR_SIZE, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_VMA_LIMIT, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_KEYS, MRG_IS_NOT);
	assert_non_null(strstr(of(&out, MRG_CAUSE_MEMLOCK)->text, "157.3 GiB"));
	assert_non_null(strstr(of(&out, MRG_CAUSE_MEMLOCK)->text, "128 GiB"));
}

static void one_device_needs_two_mrs_and_memlock_is_fine(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("137438953472", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){
		.error = ENOMEM,
		.length = 84424509440,
		.devices = 1,
		.max_mr_size = 64 * GIB,
		.mrs = 10,
		.max_mrs = 1000000,
	});
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_MR_SIZE, MRG_IS);
	assert_non_null(strstr(of(&out, MRG_CAUSE_MR_SIZE)->text, "2 MRs"));
	assert_int_equal(out.findings[0].cause, MRG_CAUSE_MR_SIZE);
	assert_non_null(strstr(out.summary, "MR size"));
}

static void eio_of_a_long_mr_is_its_length(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){
		.error = EIO,
		.length = 95 * GIB,
		.max_mr_size = 0x1000000000,
	});
	assert_is(&out, MRG_CAUSE_MR_SIZE, MRG_IS);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS_NOT);
}

static void without_evidence_no_single_cause_is_claimed(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("137438953472", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){ .error = ENOMEM });
	for (int i = 0; i < MRG_CAUSES; i++)
		assert_int_not_equal(out.findings[i].likelihood, MRG_IS);
	assert_non_null(strstr(out.summary, "no cause is proven"));
	assert_non_null(strstr(out.summary, "memlock"));
	assert_non_null(strstr(out.summary, "device keys"));
	assert_null(strstr(out.summary, "VMA limit"));
}

static void memlock_is_judged_on_the_process_asked_about(void **state)
{
	struct mrg_explanation out;
	const struct mrg_explain_opts cq = { .call = MRG_CALL_CREATE_CQ, .error = ENOMEM };

	(void)state;
	a_process("65536", 0, NO_CAPS, 900);
	out = explain(cq);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS);
	assert_non_null(strstr(out.summary, "64 KiB"));
	assert_non_null(strstr(of(&out, MRG_CAUSE_MEMLOCK)->remedy, "LimitMEMLOCK"));

	a_process("67108864", 0, NO_CAPS, 900);
	out = explain(cq);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS_NOT);

	a_process("67108864", 65500, NO_CAPS, 900);
	out = explain(cq);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS);

	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain(cq);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS_NOT);
}

static void cap_ipc_lock_counts_in_the_first_user_namespace_alone(void **state)
{
	struct mrg_explanation out;
	const struct mrg_explain_opts reg = { .error = ENOMEM, .length = GIB };

	(void)state;
	a_process("65536", 0, IPC_LOCK, 900);
	out = explain(reg);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS_NOT);
	assert_non_null(strstr(of(&out, MRG_CAUSE_MEMLOCK)->text, "CAP_IPC_LOCK"));

	write_file("4711/uid_map", "         0     100000      65536\n");
	out = explain(reg);
	assert_is(&out, MRG_CAUSE_MEMLOCK, MRG_IS);
}

static void at_the_vma_limit_each_call_is_told_so(void **state)
{
	static const struct {
		enum mrg_call call;
		int error;
		enum mrg_likelihood likelihood;
	} cases[] = {
		{ MRG_CALL_REG_MR, EAGAIN, MRG_IS },
		{ MRG_CALL_REG_MR, ENOMEM, MRG_IS },
		{ MRG_CALL_MADVISE, EAGAIN, MRG_IS },
		{ MRG_CALL_MMAP, ENOMEM, MRG_IS },
		{ MRG_CALL_CREATE_QP, ENOMEM, MRG_IS },
		{ MRG_CALL_REG_MR, EINVAL, MRG_IS_NOT },
		{ MRG_CALL_REG_DMABUF_MR, ENOMEM, MRG_IS_NOT },
	};

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 65529);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mrg_explanation out = explain((struct mrg_explain_opts){
			.call = cases[i].call, .error = cases[i].error });

		assert_is(&out, MRG_CAUSE_VMA_LIMIT, cases[i].likelihood);
	}
}

static void near_the_vma_limit_it_may_be(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 65500);
	out = explain((struct mrg_explain_opts){ .call = MRG_CALL_MMAP, .error = ENOMEM });
	assert_is(&out, MRG_CAUSE_VMA_LIMIT, MRG_MAY_BE);
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){ .call = MRG_CALL_MMAP, .error = ENOMEM });
	assert_is(&out, MRG_CAUSE_VMA_LIMIT, MRG_IS_NOT);
	assert_non_null(strstr(of(&out, MRG_CAUSE_VMA_LIMIT)->text, "not near"));
	assert_non_null(strstr(out.summary, "none of the known causes"));
}

static void a_device_without_keys_is_named(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){
		.call = MRG_CALL_REG_DMABUF_MR,
		.error = ENOMEM,
		.length = GIB,
		.max_mr_size = 64 * GIB,
		.mrs = 16777216,
		.max_mrs = 16777216,
	});
	assert_is(&out, MRG_CAUSE_KEYS, MRG_IS);
	assert_non_null(strstr(out.summary, "16,777,216"));
}

static void a_hole_is_found_by_its_address(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){
		.error = EFAULT, .addr = 0x7f0000008000, .length = 0x10000 });
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS);
	assert_non_null(strstr(out.summary, "0x7f0000010000"));
	out = explain((struct mrg_explain_opts){
		.error = EFAULT, .addr = 0x7f0000008000, .length = 0x8000 });
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS_NOT);
	out = explain((struct mrg_explain_opts){ .error = EFAULT });
	assert_is(&out, MRG_CAUSE_HOLE, MRG_NOT_SEEN);
}

static void huge_smaps(void)
{
	write_file("4711/smaps",
		   "7f0000000000-7f0002200000 rw-p 00000000 00:0f 9    /anon_hugepage (deleted)\n"
		   "Size:              34816 kB\nKernelPageSize:     2048 kB\n"
		   "VmFlags: rd wr mr mw me de ht sd \n");
}

/* 33 MiB in 16 parts of 2.0625 MiB; and the same from the start. */
static void a_part_that_cuts_huge_pages_is_told_with_both_sizes(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	huge_smaps();
	out = explain((struct mrg_explain_opts){
		.error = EINVAL, .addr = 0x7f0000000000, .length = (33ull << 20) / 16 });
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS);
	assert_non_null(strstr(out.summary, "2 MiB"));
	assert_non_null(strstr(out.summary, "2,162,688"));
	out = explain((struct mrg_explain_opts){
		.error = EINVAL, .addr = 0x7f0000200000, .length = 4ull << 20 });
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS_NOT);
}

static void an_mr_limit_below_the_huge_page_is_told_with_both_sizes(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	huge_smaps();
	out = explain((struct mrg_explain_opts){ .error = EINVAL,
						 .addr = 0x7f0000000000,
						 .length = 34ull << 20,
						 .max_mr_size = 1 << 20 });
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS);
	assert_non_null(strstr(of(&out, MRG_CAUSE_HUGE_PAGE)->text, "1 MiB"));
	assert_non_null(strstr(of(&out, MRG_CAUSE_HUGE_PAGE)->text, "2 MiB"));
}

static void huge_pages_of_512_mib_are_judged_as_such(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain((struct mrg_explain_opts){ .error = EINVAL,
						 .addr = 0x400026200000,
						 .length = 10485760,
						 .page_size = 512ull << 20 });
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS);
	assert_non_null(strstr(out.summary, "512 MiB"));
}

static void assert_says(const struct mrg_explanation *explanation, enum mrg_cause cause,
			const char *words)
{
	const struct mrg_finding *finding = of(explanation, cause);

	if (!strstr(finding->text, words) && !strstr(finding->remedy, words))
		fail_msg("\"%s\" is neither in \"%s\" nor in \"%s\"", words, finding->text,
			 finding->remedy);
}

static struct mrg_explanation efault_at(uint64_t addr, uint64_t length)
{
	return explain(
		(struct mrg_explain_opts){ .error = EFAULT, .addr = addr, .length = length });
}

/* A process with CUDA: what cudaMalloc() gives is in no line of maps. */
static void a_gpu_process(const char *modules)
{
	a_process("unlimited", 0, NO_CAPS, 900);
	write_file("modules", modules);
	write_file(
		"4711/maps",
		"7f0000000000-7f0000010000 rw-p 00000000 00:00 0 \n"
		"7f0000100000-7f0000200000 ---p 00000000 00:00 0 \n"
		"7f0000300000-7f0000400000 rw-s 00000000 00:06 1 /dev/nvidia-uvm\n"
		"7f0000500000-7f0000600000 r--p 00000000 00:00 0 \n"
		"7f0000700000-7f0000701000 r-xp 00000000 08:01 7 /usr/lib/libcuda.so.580.159.04\n");
}

static void an_unmapped_address_of_a_gpu_process_may_be_a_device_pointer(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_gpu_process("ib_core 548864 1 ib_uverbs, Live 0x0\n");
	out = efault_at(0x7e0000000000, 1 << 20);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_MAY_BE);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_MAY_BE);
	assert_says(&out, MRG_CAUSE_DEVICE_MEMORY, "no peermem module is loaded");
	assert_says(&out, MRG_CAUSE_DEVICE_MEMORY, "mrg_gpu_export()");
	assert_non_null(strstr(out.summary, "hole, device memory"));
	out = efault_at(0x7f0000100000, 1 << 20);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_MAY_BE);
	assert_says(&out, MRG_CAUSE_HOLE, "PROT_NONE");
	assert_says(&out, MRG_CAUSE_DEVICE_MEMORY,
		    "gpuDirectRDMACapable (cannot be set afterwards)");
	/* A process that runs out of ordinary memory is not such a case. */
	out = efault_at(0x7f0000008000, 1 << 20);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS_NOT);
	/* Nor one of a process without a GPU driver. */
	a_process("unlimited", 0, NO_CAPS, 900);
	out = efault_at(0x7e0000000000, 1 << 20);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS);
	assert_says(&out, MRG_CAUSE_HOLE, "has no GPU driver");
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS_NOT);
}

static void a_device_mapping_is_named_with_the_state_of_peermem(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_gpu_process("ib_core 548864 1 ib_uverbs, Live 0x0\n");
	out = efault_at(0x7f0000300000, 1 << 20);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS_NOT);
	assert_non_null(strstr(out.summary, "/dev/nvidia-uvm"));
	assert_says(&out, MRG_CAUSE_DEVICE_MEMORY, "no peermem module is loaded");
	a_gpu_process("nvidia_peermem 16384 0 - Live 0x0\n"
		      "ib_core 548864 2 nvidia_peermem,ib_uverbs, Live 0x0\n");
	out = efault_at(0x7f0000300000, 1 << 20);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS);
	assert_says(&out, MRG_CAUSE_DEVICE_MEMORY, "Neither can be fixed afterwards");
	out = efault_at(0x7f0000500000, 1 << 20);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_MAY_BE);
	assert_says(&out, MRG_CAUSE_HOLE, "read-only");
	out = explain((struct mrg_explain_opts){ .error = EFAULT });
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_NOT_SEEN);
}

static void huge_pages_are_not_ruled_out_without_an_address(void **state)
{
	struct mrg_explanation out;
	struct mrg_explain_opts opts = { .error = EINVAL,
					 .length = 4ull << 20,
					 .page_size = 2ull << 20 };

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = explain(opts);
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_NOT_SEEN);
	assert_says(&out, MRG_CAUSE_HUGE_PAGE, "address is not given");
	opts.length = 3ull << 20;
	out = explain(opts);
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS);
	assert_says(&out, MRG_CAUSE_HUGE_PAGE, "wherever it begins");
	opts.length = 0;
	opts.addr = 0x7f0000000000;
	out = explain(opts);
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_NOT_SEEN);
	opts.length = 4ull << 20;
	out = explain(opts);
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS_NOT);
}

static void mrg_reg_is_no_remedy_where_it_refuses_as_well(void **state)
{
	struct mrg_explanation out;
	struct mrg_explain_opts opts = { .error = EINVAL,
					 .addr = 0x7f0000000000,
					 .length = 34ull << 20,
					 .max_mr_size = 1 << 20 };

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	huge_smaps();
	for (int i = 0; i < 2; i++) {
		out = explain(opts);
		assert_is(&out, MRG_CAUSE_MR_SIZE, MRG_IS);
		assert_says(&out, MRG_CAUSE_MR_SIZE, "mrg_reg(3) refuses it too");
		assert_says(&out, MRG_CAUSE_MR_SIZE, "smaller huge pages");
		assert_null(strstr(of(&out, MRG_CAUSE_MR_SIZE)->remedy, "as many MRs"));
		opts.error = ENOMEM;
	}
	opts.max_mr_size = 16 << 20;
	out = explain(opts);
	assert_says(&out, MRG_CAUSE_MR_SIZE, "3 MRs");
	assert_says(&out, MRG_CAUSE_MR_SIZE, "as many MRs as it takes");
}

static struct mrg_explanation dmabuf(struct mrg_explain_opts opts)
{
	opts.call = MRG_CALL_REG_DMABUF_MR;
	return explain(opts);
}

/* 92 chunks of 20 MiB, of which the export holds the first. */
static void a_dmabuf_that_is_too_short_is_told_in_bytes(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = dmabuf((struct mrg_explain_opts){ .error = EINVAL,
						.addr = 0x12397fd5800,
						.length = 1916853120,
						.offset = 0x7d5800,
						.dmabuf_size = 20971520,
						.max_mr_size = 64 * GIB });
	assert_is(&out, MRG_CAUSE_DMABUF_SIZE, MRG_IS);
	assert_is(&out, MRG_CAUSE_PAGE_OFFSET, MRG_IS_NOT);
	assert_non_null(strstr(out.summary, "holds 20971520 bytes"));
	assert_says(&out, MRG_CAUSE_DMABUF_SIZE, "chunk by chunk");
	out = dmabuf((struct mrg_explain_opts){ .error = EINVAL,
						.addr = 0x7f00dead0200,
						.length = 0x3000,
						.dmabuf_size = 1 << 20,
						.max_mr_size = 64 * GIB });
	assert_is(&out, MRG_CAUSE_DMABUF_SIZE, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_PAGE_OFFSET, MRG_IS);
	assert_non_null(strstr(out.summary, "at byte 0x200"));
	out = dmabuf((struct mrg_explain_opts){ .error = EINVAL });
	assert_is(&out, MRG_CAUSE_DMABUF_SIZE, MRG_NOT_SEEN);
	assert_is(&out, MRG_CAUSE_PAGE_OFFSET, MRG_NOT_SEEN);
	assert_is(&out, MRG_CAUSE_EXPORTER, MRG_MAY_BE);
	assert_is(&out, MRG_CAUSE_HUGE_PAGE, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_DEVICE_MEMORY, MRG_IS_NOT);
}

static void lack_of_dmabuf_mrs_and_the_exporters_refusal_are_causes(void **state)
{
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	out = dmabuf((struct mrg_explain_opts){ .error = EPROTONOSUPPORT });
	assert_is(&out, MRG_CAUSE_DMABUF_SUPPORT, MRG_MAY_BE);
	assert_says(&out, MRG_CAUSE_DMABUF_SUPPORT, "Linux 5.12");
	assert_int_equal(out.findings[0].cause, MRG_CAUSE_DMABUF_SUPPORT);
	out = dmabuf((struct mrg_explain_opts){ .error = EOPNOTSUPP });
	assert_is(&out, MRG_CAUSE_DMABUF_SUPPORT, MRG_NOT_SEEN);
	assert_is(&out, MRG_CAUSE_EXPORTER, MRG_MAY_BE);
	out = dmabuf((struct mrg_explain_opts){ .error = 524 });
	assert_is(&out, MRG_CAUSE_EXPORTER, MRG_IS);
	assert_is(&out, MRG_CAUSE_DMABUF_SUPPORT, MRG_IS_NOT);
	assert_non_null(strstr(out.summary, "error 524 (ENOTSUPP): exporter"));
	out = dmabuf((struct mrg_explain_opts){ .error = EFAULT });
	assert_is(&out, MRG_CAUSE_EXPORTER, MRG_MAY_BE);
	out = explain((struct mrg_explain_opts){ .error = 524 });
	assert_is(&out, MRG_CAUSE_EXPORTER, MRG_IS_NOT);
	assert_is(&out, MRG_CAUSE_DMABUF_SIZE, MRG_IS_NOT);
}

static void malformed_questions_are_refused(void **state)
{
	struct mrg_explain_opts good = {
		.size = sizeof(good), .error = ENOMEM, .pid = PID, .proc = root
	};
	struct mrg_explain_opts opts = good;
	struct mrg_explanation out;

	(void)state;
	a_process("unlimited", 0, NO_CAPS, 900);
	assert_int_equal(mrg_explain(NULL, &out), -EINVAL);
	opts.error = 0;
	assert_int_equal(mrg_explain(&opts, &out), -EINVAL);
	opts = good;
	opts.call = (enum mrg_call)17;
	assert_int_equal(mrg_explain(&opts, &out), -EINVAL);
	opts = good;
	opts.addr = UINT64_MAX;
	opts.length = 2;
	assert_int_equal(mrg_explain(&opts, &out), -EINVAL);
	opts = good;
	opts.pid = 1234567;
	assert_int_equal(mrg_explain(&opts, &out), -ESRCH);
	assert_int_equal(mrg_explain(&good, &out), 0);
}

/* Often the moment to ask: a registration failed for the same reason. */
static void a_process_that_cannot_be_read_is_not_told_missing(void **state)
{
	struct mrg_explain_opts opts = { .size = sizeof(opts), .error = ENOMEM };
	struct rlimit before, none;
	struct mrg_explanation out;
	int ret;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ret = mrg_explain(&opts, &out);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ret, -EMFILE);
}

static void ones_own_process_can_be_asked_about(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *area =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mrg_explain_opts opts = {
		.size = sizeof(opts), .error = EFAULT, .addr = (uintptr_t)area, .length = 3 * page
	};
	struct mrg_explanation out;

	(void)state;
	assert_true(area != MAP_FAILED);
	assert_int_equal(mrg_explain(&opts, &out), 0);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS_NOT);
	munmap(area + page, page);
	assert_int_equal(mrg_explain(&opts, &out), 0);
	assert_is(&out, MRG_CAUSE_HOLE, MRG_IS);
	munmap(area, 3 * page);
}

static void names_can_be_read_back(void **state)
{
	enum mrg_call call;

	(void)state;
	for (int i = 0; i <= MRG_CALL_MADVISE; i++) {
		assert_int_equal(mrg_call_parse(mrg_call_name((enum mrg_call)i), &call), 0);
		assert_int_equal(call, i);
	}
	assert_int_equal(mrg_call_parse("ibv_post_send", &call), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_devices_pin_more_than_memlock_allows),
		cmocka_unit_test(one_device_needs_two_mrs_and_memlock_is_fine),
		cmocka_unit_test(eio_of_a_long_mr_is_its_length),
		cmocka_unit_test(without_evidence_no_single_cause_is_claimed),
		cmocka_unit_test(memlock_is_judged_on_the_process_asked_about),
		cmocka_unit_test(cap_ipc_lock_counts_in_the_first_user_namespace_alone),
		cmocka_unit_test(at_the_vma_limit_each_call_is_told_so),
		cmocka_unit_test(near_the_vma_limit_it_may_be),
		cmocka_unit_test(a_device_without_keys_is_named),
		cmocka_unit_test(a_hole_is_found_by_its_address),
		cmocka_unit_test(a_part_that_cuts_huge_pages_is_told_with_both_sizes),
		cmocka_unit_test(an_mr_limit_below_the_huge_page_is_told_with_both_sizes),
		cmocka_unit_test(huge_pages_of_512_mib_are_judged_as_such),
		cmocka_unit_test(an_unmapped_address_of_a_gpu_process_may_be_a_device_pointer),
		cmocka_unit_test(a_device_mapping_is_named_with_the_state_of_peermem),
		cmocka_unit_test(huge_pages_are_not_ruled_out_without_an_address),
		cmocka_unit_test(mrg_reg_is_no_remedy_where_it_refuses_as_well),
		cmocka_unit_test(a_dmabuf_that_is_too_short_is_told_in_bytes),
		cmocka_unit_test(lack_of_dmabuf_mrs_and_the_exporters_refusal_are_causes),
		cmocka_unit_test(malformed_questions_are_refused),
		cmocka_unit_test(a_process_that_cannot_be_read_is_not_told_missing),
		cmocka_unit_test(ones_own_process_can_be_asked_about),
		cmocka_unit_test(names_can_be_read_back),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_root, drop_root);
}
