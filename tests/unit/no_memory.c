/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of the public functions fails once.  Each function that can
 * say so says so, keeps nothing, and works the next time.
 */
#include "failing.h"

#ifndef FAILING_SANITIZED

/* The driver's double keeps its books whatever comes. */
static inline void *calloc_of_double(size_t count, size_t size)
{
	long at = __atomic_exchange_n(&failing_at, 0, __ATOMIC_RELAXED);
	void *p = calloc(count, size);

	__atomic_store_n(&failing_at, at, __ATOMIC_RELAXED);
	return p;
}
#define calloc calloc_of_double
#define DOUBLE_CUDA
#include "gpu/double/unit.h"
#undef MIB
#undef calloc

#include <sys/mman.h>

#include <mrguard/cap.h>
#include <mrguard/check.h>
#include <mrguard/explain.h>
#include <mrguard/gid.h>
#include <mrguard/gpu.h>
#include <mrguard/path.h>
#include <mrguard/pool.h>
#include <mrguard/share.h>
#include <mrguard/vma.h>

#include "registry/registry.h"
#include "region/own_marks.h"
#include "region/request.h"
#include "region_fake.h"

#define WRAPS 0x700000000000ULL

static struct mrg_sg wrapping[] = { { .addr = 0x100000000ULL, .len = 12ULL << 30 } };
static char page_in_the_file[MIB];

static const struct unit_chunk chunks[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
};
static struct unit_vmm vmm;
static void *context;

static int plans(void)
{
	const struct mrg_plan_opts opts = { .size = sizeof(opts),
					    .iova = WRAPS,
					    .length = 12ULL << 30,
					    .walk = MRG_WALK_TRUNCATING };
	struct mrg_plan *plan;
	size_t count;
	int ret = mrg_plan_make(wrapping, 1, &opts, &plan);

	if (ret)
		return ret;
	assert_non_null(mrg_plan_pieces(plan, &count));
	assert_non_null(mrg_plan_single(plan));
	assert_non_null(mrg_plan_reason(plan));
	mrg_plan_free(plan);
	return 0;
}

/* region_open() is mrg_open() with a host of the test's. */
static int registrations(void)
{
	struct mrg_ctx *ctx;
	struct mrg_seg segs[16];
	struct mrg_mr *mr;
	int ret = region_open(&ctx, &host.verbs, NULL, &host.env);

	if (ret)
		return ret;
	host.sg = wrapping;
	host.sg_count = 1;
	ret = reg_dmabuf(ctx, WRAPS, 12ULL << 30, NULL, &mr);
	if (!ret) {
		assert_true(mrg_keys(mr, WRAPS, 1 << 20, segs, 16) > 0);
		assert_int_equal(mrg_dereg(mr), 0);
	}
	if (!ret)
		ret = mrg_reg(ctx, &host.pd, page_in_the_file, sizeof(page_in_the_file), all_access,
			      NULL, &mr);
	if (!ret)
		assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
	return ret;
}

static int borders(void)
{
	uint64_t cuts[8];
	ssize_t count;

	host.sg = wrapping;
	host.sg_count = 1;
	count = region_cuts(&host.env, 5, "fake0", WRAPS, 0, 12ULL << 30, NULL, cuts, 8);
	assert_true(count < 0 || count > 2);
	return count < 0 ? (int)count : 0;
}

/* Of another process's GPU memory: published, and imported here. */
static int gpu_shares(void)
{
	struct mrg_gpu_opts gpu_opts = { .size = sizeof(gpu_opts), .sysfs = "/nonexistent" };
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 1000 };
	struct mrg_import *import;
	struct mrg_range *range;
	struct mrg_share *share;
	const void *bytes;
	size_t length;
	int ret = gpu_open_with(&opts.gpu, &gpu_opts, &unit_loader, unit_nodes());

	if (ret)
		return ret;
	ret = mrg_share_open(&share, &opts);
	if (!ret) {
		ret = mrg_share_publish(share, vmm.addr, vmm.size, &range);
		if (!ret) {
			length = mrg_range_token(range, &bytes);
			ret = mrg_share_import(share, bytes, length, NULL, &import);
			if (!ret)
				mrg_import_release(import);
			mrg_share_unpublish(range);
		}
		mrg_share_close(share);
	}
	mrg_gpu_close(opts.gpu);
	return ret;
}

static int shares(void)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 1000 };
	struct mrg_memfd memfd = { .fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING),
				   .length = MIB };
	struct mrg_import *import;
	struct mrg_range *range;
	struct mrg_share *share;
	const void *bytes;
	size_t length;
	int ret = mrg_share_open(&share, &opts);

	assert_int_equal(ftruncate(memfd.fd, MIB), 0);
	assert_int_equal(fcntl(memfd.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	if (!ret) {
		ret = mrg_share_publish_memfds(share, &memfd, 1, &range);
		if (!ret) {
			length = mrg_range_token(range, &bytes);
			ret = mrg_share_import(share, bytes, length, NULL, &import);
			if (!ret)
				mrg_import_release(import);
			mrg_share_unpublish(range);
		}
		mrg_share_close(share);
	}
	close(memfd.fd);
	return ret;
}

static int gpus(void)
{
	struct mrg_gpu_opts opts = { .size = sizeof(opts), .sysfs = "/nonexistent" };
	struct mrg_export dmabufs;
	struct mrg_gpu_list list;
	struct mrg_mem mem;
	struct mrg_gpu *gpu;
	int ret = gpu_open_with(&gpu, &opts, &unit_loader, unit_nodes());

	if (ret)
		return ret;
	ret = mrg_gpu_classify(gpu, vmm.addr, vmm.size, &mem);
	if (!ret)
		mrg_mem_release(&mem);
	if (!ret)
		ret = mrg_gpu_devices(gpu, &list);
	if (!ret) {
		mrg_gpu_list_release(&list);
		ret = mrg_gpu_export(gpu, vmm.addr, vmm.size, NULL, &dmabufs);
	}
	if (!ret)
		mrg_gpu_export_release(gpu, &dmabufs);
	mrg_gpu_close(gpu);
	return ret;
}

static int hosts(void)
{
	struct mrg_vma_opts vma = { .size = sizeof(vma) };
	struct mrg_explain_opts why = { .size = sizeof(why),
					.call = MRG_CALL_REG_MR,
					.error = ENOMEM };
	struct mrg_explanation explanation;
	struct mrg_vma_report *report;
	struct mrg_gid_facts *gids;
	struct mrg_gid_entry *entries;
	struct mrg_rdma_dev *devs;
	struct mrg_cap_mr *mrs;
	struct mrg_fork_info fork_info;
	struct mrg_near_place place = { .pci = "0000:01:00.0" };
	struct mrg_near_nic nic;
	struct mrg_pci_addr pci;
	struct mrg_gid_choice choice;
	const char *names[] = { "fake0" };
	ssize_t count = mrg_rdma_list(host.sys, &devs);
	int ret;

	if (count < 0)
		return (int)count;
	free(devs);
	ret = mrg_vma_report_make(&vma, &report);
	if (ret)
		return ret;
	mrg_vma_report_free(report);
	ret = mrg_explain(&why, &explanation);
	if (ret)
		return ret;
	count = mrg_cap_before(&mrs);
	if (count == -ENOMEM)
		return (int)count;
	if (count >= 0)
		free(mrs);
	ret = mrg_importer_find(host.sys, "fake0", &pci);
	if (ret)
		return ret;
	ret = mrg_near(host.root, &place, names, 1, &nic);
	if (ret)
		return ret;
	ret = mrg_fork_query(&fork_info);
	if (ret == -ENOMEM)
		return ret;
	ret = mrg_gid_open(&gids, host.root);
	if (ret)
		return ret;
	count = mrg_gid_list(gids, "fake0", 1, &entries);
	if (count >= 0)
		free(entries);
	ret = count == -ENOMEM ? -ENOMEM : 0;
	/* The host has no GID, which is another error. */
	if (!ret && mrg_gid_choose(gids, "fake0", 1, NULL, 0, NULL, &choice, NULL) == -ENOMEM)
		ret = -ENOMEM;
	mrg_gid_close(gids);
	return ret;
}

static int pools(void)
{
	const struct mrg_buf *buf;
	struct mrg_pool *pool;
	struct mrg_ctx *ctx;
	int ret = region_open(&ctx, &host.verbs, NULL, &host.env);

	if (ret)
		return ret;
	ret = mrg_pool_open(&pool, ctx, &host.pd, NULL);
	if (!ret) {
		ret = mrg_pool_get(pool, 5000, &buf);
		if (!ret) {
			struct mrg_seg seg;

			/* The handle that its keys are of. */
			assert_int_equal(mrg_keys(buf->mr, (uintptr_t)buf->addr, 1, &seg, 1), 1);
			assert_int_equal(seg.lkey, buf->lkey);
			assert_int_equal(seg.wire, buf->wire);
			assert_int_equal(mrg_pool_put(buf), 0);
		}
		mrg_pool_trim(pool, 0);
		mrg_pool_close(pool);
	}
	mrg_close(ctx);
	return ret;
}

static int name_device(struct mrg_registry *in, struct registry_device *device)
{
	(void)in;
	strcpy(device->name, "fake0");
	return 0;
}

/* A descriptor's way to a peer and back. */
static int describes(struct mrg_buffer *buffer)
{
	struct mrg_path_reason reasons[MRG_PROTO_COUNT];
	struct mrg_descriptor desc, read;
	struct mrg_path path;
	void *bytes;
	ssize_t length;
	int ret = mrg_buffer_describe(buffer, 0, &desc);

	if (ret)
		return ret;
	length = mrg_descriptor_encode(&desc, &bytes);
	if (length >= 0) {
		ret = mrg_descriptor_decode(bytes, (size_t)length, &read, NULL);
		free(bytes);
	} else {
		ret = (int)length;
	}
	if (!ret) {
		mrg_path_choose(&desc, &read, NULL, &path, NULL);
		assert_true(mrg_explain_path(&desc, &read, NULL, reasons, NULL) > 0);
		mrg_descriptor_release(&read);
	}
	mrg_descriptor_release(&desc);
	return ret;
}

static int registers(struct mrg_registry *registry)
{
	const struct mrg_buffer_opts opts = { .size = sizeof(opts),
					      .protocols = MRG_PROTO_BIT(MRG_PROTO_VERBS),
					      .access = all_access };
	struct mrg_buffer *buffer, *found;
	int ret = mrg_buffer_register(registry, (uintptr_t)page_in_the_file,
				      sizeof(page_in_the_file), &opts, &buffer);

	if (ret)
		return ret;
	assert_int_equal(mrg_buffer_require(buffer, MRG_PROTO_BIT(MRG_PROTO_VERBS)), 0);
	assert_int_equal(mrg_registry_find(registry, MRG_PROTO_VERBS, 0,
					   (uintptr_t)page_in_the_file, 1, NULL, &found),
			 0);
	mrg_buffer_put(found);
	ret = describes(buffer);
	assert_int_equal(mrg_buffer_unregister(buffer, 0), 0);
	return ret;
}

/* So many that the index has several levels. */
static int crowd(struct mrg_registry *registry)
{
	const struct mrg_buffer_opts opts = { .size = sizeof(opts),
					      .protocols = MRG_PROTO_BIT(MRG_PROTO_VERBS),
					      .access = all_access };
	struct mrg_buffer *buffers[100];
	size_t count = 0;
	int ret = 0;

	for (size_t i = 0; i < 100 && !ret; i++) {
		ret = mrg_buffer_register(registry, (uintptr_t)page_in_the_file + i * 4096, 4096,
					  &opts, &buffers[i]);
		count += !ret;
	}
	while (count)
		assert_int_equal(mrg_buffer_unregister(buffers[--count], 0), 0);
	return ret;
}

static int with_registry(int (*use)(struct mrg_registry *registry))
{
	const struct mrg_registry_device device = { .pd = &host.pd };
	struct mrg_registry_opts opts = { .size = sizeof(opts),
					  .devices = &device,
					  .device_count = 1 };
	struct registry_ops ops = registry_ops_real;
	struct mrg_registry *registry;
	int ret = region_open(&opts.ctx, &host.verbs, NULL, &host.env);

	if (ret)
		return ret;
	ops.device = name_device;
	ret = registry_open_with(&registry, &opts, &ops);
	if (!ret) {
		ret = use(registry);
		assert_int_equal(mrg_registry_close(registry), 0);
	}
	mrg_close(opts.ctx);
	return ret;
}

static int registries(void)
{
	return with_registry(registers);
}

static int crowds(void)
{
	return with_registry(crowd);
}

static int checks(void)
{
	const struct mrg_check_opts opts = { .size = sizeof(opts), .root = host.root };
	struct mrg_check_report *report;
	int ret = mrg_check_run(&opts, &report);

	if (!ret)
		mrg_check_free(report);
	return ret;
}

#define LIFE(name)                                                          \
	static void name##_say_what_they_lack(void **state)                 \
	{                                                                   \
		(void)state;                                                \
		/* The control: failures did arrive. */                     \
		assert_true(failing_each(name, ENOMEM, ENOMEM, #name) > 0); \
	}
LIFE(plans)
LIFE(registrations)
LIFE(shares)
LIFE(gpu_shares)
LIFE(borders)
LIFE(gpus)
LIFE(hosts)
LIFE(pools)
LIFE(registries)
LIFE(crowds)
LIFE(checks)

/* At the limit of VMAs libibverbs leaves pages marked; they are unmarked later. */
static void pages_left_marked_are_not_forgotten(void **state)
{
	char *pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct region_range range = { (uintptr_t)pages, (uintptr_t)pages + 4096 };
	struct region_range_list marked;
	bool clipped;

	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(region_own_marks_enter(range, false), 0);
	assert_int_equal(madvise(pages, 4096, MADV_DONTFORK), 0);
	failing_arm(1, ENOMEM);
	region_own_marks_leave(range, true);
	failing_arm(0, 0);
	assert_int_equal(region_range_marked(range, &marked, &clipped), 0);
	assert_int_equal(marked.count, 1);
	region_range_list_release(&marked);
	region_own_marks_retry();
	assert_int_equal(region_range_marked(range, &marked, &clipped), 0);
	assert_int_equal(marked.count, 0);
	munmap(pages, 4096);
}

static int set_up(void **state)
{
	fake_setup(state);
	double_reset();
	unit_loaded = true;
	vmm = unit_vmm(chunks, 2);
	unit_nodes();
	double_primary_retain(&context, 0);
	double_ctx_push(context);
	return 0;
}

static int tear_down(void **state)
{
	double_ctx_pop(&context);
	unit_vmm_free(vmm);
	return fake_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name##_say_what_they_lack, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plans),	  TEST(registrations),
		TEST(shares),	  TEST(gpu_shares),
		TEST(borders),	  TEST(gpus),
		TEST(hosts),	  TEST(pools),
		TEST(registries), TEST(crowds),
		TEST(checks),	  cmocka_unit_test(pages_left_marked_are_not_forgotten),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("without memory", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("1..0 # SKIP a sanitizer's allocator cannot be replaced");
	return 0;
}
#endif
