/* SPDX-License-Identifier: MIT */
/* One process: what ranges are, and their DMA-BUFs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit.h"

static struct mrg_gpu *gpu;

static void begin(void)
{
	kit_start();
	MUST(!mrg_gpu_open(&gpu, NULL));
}

/* ---- classify ---- */

static const char *rdma_word(enum mrg_rdma_able rdma)
{
	return rdma == MRG_RDMA_YES ? "yes" : rdma == MRG_RDMA_NO ? "no" : "unknown";
}

static void classify(uint64_t addr, uint64_t size, enum mrg_mem_kind kind)
{
	struct mrg_mem mem;
	double start = kit_now();

	MRG(gpu, gpu, mrg_gpu_classify(gpu, addr, size, &mem));
	snprintf(shared->text, sizeof(shared->text),
		 "%s, %llu bytes, %zu chunks, RDMA %s, from %s, %.0f us",
		 mrg_mem_kind_name(mem.kind), (unsigned long long)mem.size, mem.count,
		 rdma_word(mem.rdma), mem.source, (kit_now() - start) * 1e6);
	if (mem.kind != kind || mem.hole)
		_exit(1);
	shared->value[0] = (double)mem.count;
	shared->value[1] = (double)mem.size;
	mrg_mem_release(&mem);
}

static void classify_malloc(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc(&ptr, 64 * MIB + 100));
	classify(ptr + 512, 64 * MIB - 600, MRG_MEM_CUDA);
	MUST(shared->value[1] == 64 * MIB + 100);
}

static void classify_pool(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc_async(&ptr, 8 * MIB, NULL));
	classify(ptr, 8 * MIB, MRG_MEM_CUDA_POOL);
}

static void classify_managed(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc_managed(&ptr, 2 * MIB, 1));
	classify(ptr, 2 * MIB, MRG_MEM_CUDA_MANAGED);
}

static const struct kit_chunk three[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 20 * MIB, .handle_types = 1, .rdma = true },
};

static void classify_vmm(int peer)
{
	struct kit_vmm vmm;

	(void)peer;
	begin();
	vmm = kit_vmm(three, 3);
	classify(vmm.addr + MIB, 26 * MIB, MRG_MEM_CUDA_VMM);
	MUST(shared->value[0] == 3 && shared->value[1] == 28 * MIB);
}

static void classify_pinned(int peer)
{
	void *ptr;

	(void)peer;
	begin();
	CU(cu.host_alloc(&ptr, 4 * MIB, 0));
	classify((uint64_t)(uintptr_t)ptr, 4 * MIB, MRG_MEM_HOST_PINNED);
}

static void classify_host(int peer)
{
	void *ptr = malloc(4 * MIB);

	(void)peer;
	begin();
	memset(ptr, 1, 4 * MIB);
	classify((uint64_t)(uintptr_t)ptr, 4 * MIB, MRG_MEM_HOST);
}

static void classify_hugetlb(int peer)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "w");
	void *ptr;

	(void)peer;
	begin();
	if (file) {
		fputs("8\n", file);
		fclose(file);
	}
	ptr = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		   -1, 0);
	if (ptr == MAP_FAILED)
		kit_die("this machine gives no huge pages");
	classify((uint64_t)(uintptr_t)ptr, 4 * MIB, MRG_MEM_HUGETLB);
	munmap(ptr, 4 * MIB);
	file = fopen("/proc/sys/vm/nr_hugepages", "w");
	if (file) {
		fputs("0\n", file);
		fclose(file);
	}
}

static void classify_freed(int peer)
{
	struct mrg_mem mem;
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc(&ptr, 64 * MIB));
	CU(cu.free(ptr));
	MRG(gpu, gpu, mrg_gpu_classify(gpu, ptr, 4096, &mem));
	MUST(mem.kind == MRG_MEM_UNKNOWN && mem.hole == ptr);
	snprintf(shared->text, sizeof(shared->text), "%s, hole told", mrg_mem_kind_name(mem.kind));
}

/* Neither a context made, nor one left current. */
static void contexts_stay(int peer)
{
	struct kit_vmm vmm;
	struct mrg_mem mem;
	unsigned int flags;
	void *current;
	int active;

	(void)peer;
	kit_start_bare();
	MUST(!mrg_gpu_open(&gpu, NULL));
	vmm = kit_vmm(three, 3);
	MRG(gpu, gpu, mrg_gpu_classify(gpu, vmm.addr, vmm.size, &mem));
	MUST(mem.count == 3);
	CU(cu.primary_state(0, &flags, &active));
	CU(cu.get_current(&current));
	MUST(!active && !current);
	snprintf(shared->text, sizeof(shared->text),
		 "3 chunks found without a context, none made, none current");
}

static const char *yes_no(const struct mrg_gpu_cap *cap)
{
	return cap->yes ? "yes" : "no";
}

static void devices(int peer)
{
	struct mrg_gpu_list list;
	const struct mrg_gpu_device *d;

	(void)peer;
	begin();
	MRG(gpu, gpu, mrg_gpu_devices(gpu, &list));
	MUST(list.runtimes[0].usable && list.count);
	d = &list.devices[0];
	snprintf(
		shared->text, sizeof(shared->text),
		"%s %s, driver %s: DMA-BUF %s, VMM with RDMA %s, by fd %s, fabric %s, coherent %s, BAR %llu GiB",
		d->name, d->pci, list.runtimes[0].kernel, yes_no(&d->dmabuf), yes_no(&d->vmm_rdma),
		yes_no(&d->share_fd), yes_no(&d->fabric), yes_no(&d->coherent),
		(unsigned long long)(d->bar >> 30));
	MUST(d->fabric.yes || d->fabric.why[0]);
	mrg_gpu_list_release(&list);
}

/* ---- export ---- */

static void export_ok(uint64_t addr, uint64_t size, size_t chunks)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), expected;
	struct mrg_export out;
	double start, made, closed;

	start = kit_now();
	MRG(gpu, gpu, mrg_gpu_export(gpu, addr, size, NULL, &out));
	made = kit_now();
	expected = ((addr + size + page - 1) & ~(page - 1)) - (addr & ~(page - 1));
	MUST(out.count == 1 && out.mem.count == chunks);
	MUST(out.pieces[0].size == expected);
	MUST((uint64_t)lseek(out.pieces[0].buf.fd, 0, SEEK_END) == expected);
	MUST(out.pieces[0].buf.base == (addr & ~(page - 1)));
	closed = kit_now();
	mrg_gpu_export_release(gpu, &out);
	snprintf(shared->text, sizeof(shared->text),
		 "one fd of %llu bytes, export %.2f ms, close %.2f ms",
		 (unsigned long long)expected, (made - start) * 1e3, (kit_now() - closed) * 1e3);
}

static void export_chunks(size_t count, uint64_t size)
{
	struct kit_vmm vmm;
	int fds;

	begin();
	vmm = kit_vmm_equal(count, size);
	fds = kit_fds();
	export_ok(vmm.addr, vmm.size, count);
	MUST(kit_fds() == fds);
}

static void export_1(int peer)
{
	(void)peer;
	export_chunks(1, 20 * MIB);
}

static void export_92(int peer)
{
	(void)peer;
	export_chunks(92, 20 * MIB);
}

static void export_200(int peer)
{
	(void)peer;
	export_chunks(200, 2 * MIB);
}

static void export_malloc(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc(&ptr, 5000));
	export_ok(ptr + 512, 4000, 0);
}

static void export_odd(int peer)
{
	struct kit_vmm vmm;

	(void)peer;
	begin();
	vmm = kit_vmm(three, 3);
	export_ok(vmm.addr + MIB + 4096 + 513, 7 * MIB + 1, 3);
}

static void export_pcie(int peer)
{
	struct mrg_export_opts opts = { .size = sizeof(opts), .flags = MRG_EXPORT_PCIE };
	struct mrg_export out;
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc(&ptr, 2 * MIB));
	MRG(gpu, gpu, mrg_gpu_export(gpu, ptr, 2 * MIB, &opts, &out));
	snprintf(shared->text, sizeof(shared->text), "exported, PCIe mapping: %s",
		 out.pcie ? "yes" : "no");
	mrg_gpu_export_release(gpu, &out);
}

/* The report: 92 chunks; the tensor starts inside the first, and its end lies
 * past what the driver calls the address range. */
static void export_report(int peer)
{
	struct kit_vmm vmm;

	(void)peer;
	begin();
	vmm = kit_vmm_equal(92, 20 * MIB);
	export_ok(vmm.addr + 8214528, 1916853120, 92);
}

static void refuse(uint64_t addr, uint64_t size, const struct mrg_export_opts *opts, int code,
		   const char *word)
{
	struct mrg_export out;
	struct mrg_error error = { 0 };
	int ret = mrg_gpu_export(gpu, addr, size, opts, &out);

	mrg_gpu_last_error(gpu, &error);
	snprintf(shared->text, sizeof(shared->text), "%d: %s", ret, error.cause);
	if (ret != code || (!strstr(error.cause, word) && !strstr(error.remedy, word)))
		_exit(1);
}

static void refuse_hole(int peer)
{
	const struct kit_chunk holes[] = { three[0], { .size = 2 * MIB, .hole = true }, three[0] };
	struct kit_vmm vmm;

	(void)peer;
	begin();
	vmm = kit_vmm(holes, 3);
	refuse(vmm.addr, vmm.size, NULL, -EFAULT, "Nothing is mapped");
}

static void refuse_unflagged(int peer)
{
	const struct kit_chunk chunks[] = { three[0], { .size = 2 * MIB, .handle_types = 1 } };
	struct kit_vmm vmm;

	(void)peer;
	begin();
	vmm = kit_vmm(chunks, 2);
	refuse(vmm.addr, vmm.size, NULL, -EPERM, "gpuDirectRDMACapable");
}

static void refuse_past_end(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc(&ptr, 2 * MIB));
	refuse(ptr, 2 * MIB + 4096, NULL, -ERANGE, "4096 bytes past it");
}

/* Past a pool's mapped end libcuda crashes. */
static void refuse_pool(int peer)
{
	struct mrg_export_opts try = { .size = sizeof(try), .flags = MRG_EXPORT_UNFLAGGED };
	struct mrg_export out;
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc_async(&ptr, 32 * MIB, NULL));
	CU(cu.synchronize());
	refuse(ptr, 32 * MIB + 64 * MIB, &try, -ERANGE, "past it");
	MRG(gpu, gpu, mrg_gpu_export(gpu, ptr, 32 * MIB, &try, &out));
	mrg_gpu_export_release(gpu, &out);
	refuse(ptr, 32 * MIB, NULL, -EPERM, "not RDMA-capable");
}

static void refuse_managed(int peer)
{
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.alloc_managed(&ptr, 2 * MIB, 1));
	refuse(ptr, 2 * MIB, NULL, -EOPNOTSUPP, "Managed memory");
}

/* Freed under an open export, then used again: the memory is held, and the
 * pointer is known as freed. */
static void export_then_free(int peer)
{
	struct mrg_export out;
	size_t before, held, after, total;
	uint64_t ptr;

	(void)peer;
	begin();
	CU(cu.info(&before, &total));
	CU(cu.alloc(&ptr, kit_scaled(GIB)));
	MRG(gpu, gpu, mrg_gpu_export(gpu, ptr, 4096, NULL, &out));
	CU(cu.free(ptr));
	CU(cu.info(&held, &total));
	mrg_gpu_export_release(gpu, &out);
	CU(cu.info(&after, &total));
	snprintf(shared->text, sizeof(shared->text),
		 "%zu MiB held by a page's DMA-BUF after free, %zu MiB after its release",
		 (before - held) >> 20, (before - after) >> 20);
	MUST(after == before);
}

static const struct {
	const char *bar;
	kit_child child;
} tests[] = {
	{ "classify cudaMalloc", classify_malloc },
	{ "classify pool", classify_pool },
	{ "classify managed", classify_managed },
	{ "classify VMM of three unequal chunks", classify_vmm },
	{ "classify pinned host memory", classify_pinned },
	{ "classify host memory", classify_host },
	{ "classify hugetlb", classify_hugetlb },
	{ "classify freed memory", classify_freed },
	{ "contexts stay as they were", contexts_stay },
	{ "devices and what they can do", devices },
	{ "export 1 chunk", export_1 },
	{ "export 92 chunks", export_92 },
	{ "export 200 chunks", export_200 },
	{ "export part of a 5000-byte cudaMalloc", export_malloc },
	{ "export a sub-range at an odd offset", export_odd },
	{ "export the reported tensor over 92 chunks", export_report },
	{ "export with the PCIe flag", export_pcie },
	{ "error: hole", refuse_hole },
	{ "error: missing RDMA flag", refuse_unflagged },
	{ "error: past the allocation", refuse_past_end },
	{ "error: pool, and no crash past its end", refuse_pool },
	{ "error: managed memory", refuse_managed },
	{ "freed under an open export", export_then_free },
};

int main(void)
{
	char what[128];

	if (!kit_available(what, sizeof(what))) {
		printf("1..0 # SKIP no CUDA GPU: %s\n", what);
		return 0;
	}
	printf("# %s\n", what);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int ret = kit_one(tests[i].child);

		kit_row(!ret, tests[i].bar, "%s", shared->text);
	}
	return kit_done();
}
