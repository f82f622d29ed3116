/* SPDX-License-Identifier: MIT */
/* Registration: one MR where that is safe, pieces else, all of them or none. */
#include <pthread.h>

#include "region_fake.h"

#define ADDR 0x700000000000ULL

/* 12 GiB whose DMA address agrees with ADDR in the low 32 bits: it wraps. */
static struct mrg_sg wrapping[] = { { 0x100000000, 12 * GIB } };

static void show(struct mrg_sg *sg, size_t count)
{
	host.sg = sg;
	host.sg_count = count;
}

static void wrapping_buffer_is_rebased_into_one_mr(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_seg seg;
	struct mrg_mr *mr;

	(void)state;
	show(wrapping, 1);
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(mrg_plan_strategy(mrg_mr_plan(mr)), MRG_STRATEGY_REBASE);
	assert_int_equal(mrg_keys(mr, ADDR + 5 * GIB, 64, &seg, 1), 1);
	assert_int_equal(seg.wire - 5 * GIB, host.live->iova);
	assert_int_equal(host.live->iova ^ ADDR, 1ULL << 31);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void equal_iova_splits_instead(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .flags = MRG_REG_IOVA_EQUAL };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_seg segs[16];
	struct mrg_mr *mr;
	ssize_t n;

	(void)state;
	show(wrapping, 1);
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	assert_true(host.live_count > 1);
	for (struct fake_mr *p = host.live; p; p = p->next)
		assert_int_equal(p->iova, ADDR + p->offset);
	n = mrg_keys(mr, ADDR, 12 * GIB, segs, 16);
	assert_int_equal(n, host.live_count);
	for (ssize_t i = 0, at = 0; i < n; at += (ssize_t)segs[i++].length)
		assert_int_equal(segs[i].wire, ADDR + (uint64_t)at);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void exact_walk_gets_one_mr_and_asks_for_no_layout(void **state)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	host.walk = MRG_WALK_EXACT;
	ctx = open_fake();
	show(wrapping, 1);
	for (int strategy = MRG_STRATEGY_AUTO; strategy <= MRG_STRATEGY_REBASE; strategy++) {
		const struct mrg_reg_opts opts = { .size = sizeof(opts),
						   .strategy = (enum mrg_strategy)strategy };

		assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
		assert_int_equal(host.live_count, 1);
		assert_int_equal(host.live->iova, ADDR);
		assert_int_equal(mrg_dereg(mr), 0);
	}
	assert_int_equal(host.layouts, 0);
	mrg_close(ctx);
}

static void short_buffer_asks_for_no_layout(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 64 * MIB, NULL, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(host.layouts, 0);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void safe_buffer_stays_one_mr_on_an_affected_kernel(void **state)
{
	struct mrg_sg safe[] = { { 0x100000000, 12 * GIB } };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	show(safe, 1);
	assert_int_equal(reg_dmabuf(ctx, 0x700080000000, 12 * GIB, NULL, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(host.live->iova, 0x700080000000);
	assert_int_equal(host.layouts, 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

/* Each window of 2 GiB is right whatever the addresses are. */
static void assert_windows(const struct mrg_mr *mr)
{
	assert_true(host.live_count >= 6);
	for (struct fake_mr *p = host.live; p; p = p->next)
		assert_int_equal(p->iova >> 31, (p->iova + p->mr.length - 1) >> 31);
	assert_int_equal(mrg_mr_count(mr), host.live_count);
}

static void check_conservative(const char *words)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;
	char text[512];

	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	assert_windows(mr);
	assert_true(mrg_mr_describe(mr, text, sizeof(text)) < sizeof(text));
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, text);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void without_module_the_plan_is_conservative_and_says_so(void **state)
{
	(void)state;
	host.walk = MRG_WALK_UNKNOWN;
	host.module_error = -ENOENT;
	check_conservative("/dev/mrguard: No such file");
	host.module_error = -EACCES;
	check_conservative("/dev/mrguard: Permission denied");
}

static void without_layout_the_plan_is_conservative_and_says_so(void **state)
{
	(void)state;
	host.layout_error = -EPERM;
	check_conservative("module answered: Operation not permitted");
	host.layout_error = 0;
	host.no_layout_feature = true;
	check_conservative("has no layouts");
}

static void without_importer_the_plan_is_conservative_and_says_so(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/class/infiniband/fake0/device", host.sys);
	assert_int_equal(unlink(path), 0);
	check_conservative("no PCI function");
}

static void addresses_behind_a_translating_iommu_are_not_trusted(void **state)
{
	(void)state;
	show(wrapping, 1);
	host.iommu = MRG_IOMMU_MODE_TRANSLATED;
	check_conservative("IOMMU gives each mapping new ones");
	host.iommu = MRG_IOMMU_MODE_UNKNOWN;
	check_conservative("IOMMU gives each mapping new ones");
}

static void addresses_that_the_exporter_can_move_are_not_trusted(void **state)
{
	(void)state;
	show(wrapping, 1);
	host.moves = true;
	check_conservative("exporter can move it");
}

/* Registers and deregisters; returns how often the module was asked. */
static size_t layouts_asked(struct mrg_ctx *ctx, uint64_t addr, uint64_t length,
			    const struct mrg_reg_opts *opts)
{
	size_t before = host.layouts;
	struct mrg_mr *mr;

	assert_int_equal(reg_dmabuf(ctx, addr, length, opts, &mr), 0);
	assert_non_null(mrg_mr_plan(mr));
	assert_int_equal(mrg_mr_count(mr), host.live_count);
	assert_int_equal(mrg_dereg(mr), 0);
	return host.layouts - before;
}

static void the_same_dmabuf_is_asked_about_once(void **state)
{
	struct mrg_reg_opts opts = { .size = sizeof(opts) };
	struct mrg_ctx *ctx = open_fake();

	(void)state;
	show(wrapping, 1);
	host.dmabuf_id = (struct region_dmabuf_id){ 7, 1000 };
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 0);
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, &opts), 0);
	/* Another range, address, wish or DMA-BUF is another question. */
	assert_int_equal(layouts_asked(ctx, ADDR, 11 * GIB, NULL), 1);
	assert_int_equal(layouts_asked(ctx, ADDR + GIB, 12 * GIB, NULL), 1);
	opts.flags = MRG_REG_IOVA_EQUAL;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, &opts), 1);
	opts.max_mr_size = GIB;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, &opts), 1);
	host.dmabuf_id.inode = 8;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	host.dmabuf_id.created_ns = 1001;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 0);
	mrg_close(ctx);
}

static void what_is_remembered_is_bounded_and_outlived_by_handles(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	show(wrapping, 1);
	host.dmabuf_id = (struct region_dmabuf_id){ 1, 1 };
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	for (host.dmabuf_id.inode = 2; host.dmabuf_id.inode < 200; host.dmabuf_id.inode++) {
		struct mrg_mr *other;

		assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &other), 0);
		assert_int_equal(mrg_dereg(other), 0);
	}
	assert_int_equal(mrg_plan_strategy(mrg_mr_plan(mr)), MRG_STRATEGY_REBASE);
	assert_int_equal(mrg_dereg(mr), 0);
	host.dmabuf_id.inode = 1;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	mrg_close(ctx);
}

static void addresses_that_change_are_not_remembered(void **state)
{
	struct mrg_ctx *ctx = open_fake();

	(void)state;
	show(wrapping, 1);
	host.dmabuf_id = (struct region_dmabuf_id){ 7, 1000 };
	host.iommu = MRG_IOMMU_MODE_TRANSLATED;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	host.iommu = MRG_IOMMU_MODE_NONE;
	host.moves = true;
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	assert_int_equal(layouts_asked(ctx, ADDR, 12 * GIB, NULL), 1);
	mrg_close(ctx);
}

static void *ask_for_plan(void *arg)
{
	return (void *)mrg_mr_plan(arg);
}

/* The plan that nobody needed is made when somebody asks, once. */
static void late_plan_is_made_once_for_all_threads(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	pthread_t threads[8];
	struct mrg_mr *mr;
	void *plans[8];
	size_t count;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, NULL, &mr), 0);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, ask_for_plan, mr);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &plans[i]);
		assert_ptr_equal(plans[i], plans[0]);
	}
	assert_int_equal(mrg_plan_single(plans[0])->verdict, MRG_SAFE);
	assert_int_equal(mrg_plan_pieces(plans[0], &count)->length, MIB);
	assert_int_equal(count, 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

/* Where the planner is left out, it would have said the same. */
static void plain_cases_are_the_planners_too(void **state)
{
	static const enum mrg_walk walks[] = { MRG_WALK_UNKNOWN,    MRG_WALK_EXACT,
					       MRG_WALK_TRUNCATING, MRG_WALK_TRUNCATING_UNBOUNDED,
					       MRG_WALK_PER_ENTRY,  MRG_WALK_PER_ENTRY_NARROW };
	static const uint64_t lengths[] = {
		1, 4096, MIB, GIB, 2 * GIB - 4096, 2 * GIB, 2 * GIB + 4096, 4 * GIB, 12 * GIB
	};
	static const uint64_t starts[] = { 0, 4096, 0x123, GIB, 2 * GIB - 4096, 2 * GIB, 3 * GIB };
	uint64_t x = 1;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct mrg_reg_opts opts = { .size = sizeof(opts), .flags = MRG_REG_IOVA_EQUAL };
		const struct mrg_piece *pieces;
		struct fake_mr *live;
		struct mrg_ctx *ctx;
		struct mrg_mr *mr;
		size_t count;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		host.walk = walks[(x >> 20) % 6];
		host.module_error = (x >> 30) % 2 ? -ENOENT : 0;
		host.layout_error = -EIO;
		opts.max_page_shift = (x >> 32) % 2 ? 0 : 29 + (uint32_t)((x >> 40) % 9);
		opts.max_mr_size = (x >> 33) % 3 ? 0 : 3 * GIB;
		ctx = open_fake();
		assert_int_equal(reg_dmabuf(ctx, ADDR + starts[(x >> 44) % 7],
					    lengths[(x >> 50) % 9], &opts, &mr),
				 0);
		pieces = mrg_plan_pieces(mrg_mr_plan(mr), &count);
		assert_int_equal(count, host.live_count);
		live = host.live;
		for (size_t p = count; p--; live = live->next) {
			assert_int_equal(live->iova, pieces[p].iova);
			assert_int_equal(live->mr.length, pieces[p].length);
		}
		assert_int_equal(mrg_dereg(mr), 0);
		mrg_close(ctx);
	}
}

static void module_can_be_left_out(void **state)
{
	const struct mrg_open_opts opts = { .size = sizeof(opts), .flags = MRG_OPEN_NO_MODULE };
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	show(wrapping, 1);
	assert_int_equal(region_open(&ctx, NULL, &opts, &host.env), 0);
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	assert_windows(mr);
	assert_int_equal(host.layouts, 0);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void check_driver(const char *driver, const char *taint, size_t mrs)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	set_driver(driver);
	write_file(taint, "%s/module/bnxt_re/taint", host.sys);
	write_file("\n", "%s/module/ib_core/taint", host.sys);
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, NULL, &mr), 0);
	if (mrs)
		assert_int_equal(host.live_count, mrs);
	else
		assert_windows(mr);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void driver_without_large_pages_needs_no_split(void **state)
{
	(void)state;
	host.module_error = -ENOENT;
	host.walk = MRG_WALK_UNKNOWN;
	check_driver("bnxt_en", "\n", 1);
	check_driver("bnxt_en", "OE\n", 0);
	check_driver("mlx5_core", "\n", 0);
}

static void callers_own_page_limit_is_used(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .max_page_shift = 31 };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(host.layouts, 0);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void failure_at_each_piece_leaves_nothing(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = GIB };
	static const int errors[] = { ENOMEM, EINVAL, EIO, EOPNOTSUPP, 524, EFAULT };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_error error;
	struct mrg_mr *mr;

	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
		for (size_t piece = 0; piece < 12; piece++) {
			host.calls = 0;
			host.fail_call = piece + 1;
			host.fail_errno = errors[e];
			mr = (struct mrg_mr *)1;
			assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), -errors[e]);
			assert_ptr_equal(mr, (struct mrg_mr *)1);
			assert_int_equal(host.live_count, 0);
			assert_int_equal(host.calls, piece + 1);
			assert_int_equal(mrg_last_error(ctx, &error), 0);
			assert_int_equal(error.code, -errors[e]);
			assert_int_equal(error.piece, piece);
			assert_string_equal(error.stage, "register piece");
			assert_true(error.cause[0] && error.remedy[0]);
		}
	host.calls = host.fail_call = 0;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	assert_int_equal(host.live_count, 12);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

/* Piece 6 fails, and of the five before it only the last lets go at once. */
static void fail_and_keep_four(struct mrg_ctx *ctx, const struct mrg_reg_opts *opts)
{
	struct mrg_mr *mr;

	host.calls = host.dereg_calls = 0;
	host.fail_call = 6;
	host.fail_errno = EIO;
	host.dereg_fails = 2;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, opts, &mr), -EIO);
	assert_int_equal(host.live_count, 4);
	host.fail_call = 0;
}

static void mr_that_a_roll_back_cannot_take_back_goes_later(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = GIB };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	fail_and_keep_four(ctx, &opts);
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	assert_int_equal(host.live_count, 12);
	assert_int_equal(mrg_dereg(mr), 0);
	fail_and_keep_four(ctx, &opts);
	mrg_close(ctx);
	assert_int_equal(host.live_count, 0);
}

static void piece_that_does_not_let_go_stays_in_the_handle(void **state)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = GIB };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_seg seg;
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	host.dereg_fails = 5;
	assert_int_equal(mrg_dereg(mr), -EBUSY);
	assert_int_equal(host.live_count, 8);
	assert_error(ctx, -EBUSY, "deregister", "piece 7");
	assert_int_equal(mrg_keys(mr, ADDR, 64, &seg, 1), -ERANGE);
	assert_int_equal(mrg_dereg(mr), 0);
	assert_int_equal(host.live_count, 0);
	mrg_close(ctx);
}

static void only_on_demand_registration_is_tried_again(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_mr *mr;

	(void)state;
	host.fail_errno = EAGAIN;
	host.fail_call = 1;
	host.fail_times = 3;
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, MIB, all_access, NULL, &mr), -EAGAIN);
	assert_int_equal(host.calls, 1);
	host.calls = 0;
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, MIB,
				 all_access | IBV_ACCESS_ON_DEMAND, NULL, &mr),
			 0);
	assert_int_equal(host.calls, 4);
	assert_int_equal(mrg_dereg(mr), 0);
	host.calls = 0;
	host.fail_times = 1000;
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, MIB,
				 all_access | IBV_ACCESS_ON_DEMAND, NULL, &mr),
			 -EAGAIN);
	assert_in_range(host.calls, 2, 16);
	mrg_close(ctx);
}

/* Device limits, and the same as the caller's cap. */
static void largest_mr_is_never_exceeded_nor_shrunk_silently(void **state)
{
	const struct mrg_reg_opts capped = { .size = sizeof(capped), .max_mr_size = 2 * GIB };
	struct mrg_ctx *ctx;
	struct mrg_seg segs[2];
	struct mrg_mr *mr;

	(void)state;
	host.walk = MRG_WALK_EXACT;
	for (int by_device = 0; by_device < 2; by_device++) {
		host.max_mr_size = by_device ? 2 * GIB : UINT64_MAX;
		ctx = open_fake();
		assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 5 * GIB, all_access,
					 by_device ? NULL : &capped, &mr),
				 0);
		assert_int_equal(host.live_count, 3);
		assert_int_equal(mrg_keys(mr, ADDR + 2 * GIB - 4096, 4096, segs, 2), 1);
		assert_int_equal(mrg_keys(mr, ADDR + 2 * GIB, 4096, segs, 2), 1);
		assert_int_equal(mrg_keys(mr, ADDR + 2 * GIB - 2048, 4096, segs, 2), 2);
		assert_int_equal(segs[0].length, 2048);
		assert_int_not_equal(segs[0].rkey, segs[1].rkey);
		assert_int_equal(mrg_keys(mr, ADDR + 5 * GIB - 1, 2, segs, 2), -ERANGE);
		assert_int_equal(mrg_dereg(mr), 0);
		mrg_close(ctx);
	}
}

/* A buffer of 63 GiB + 5 MiB behind a translating IOMMU without room for it. */
static void iommu_without_room_gets_pieces_of_1_gib(void **state)
{
	struct mrg_seg local[8], remote[8];
	struct mrg_seg_pair pairs[16];
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	char text[512];

	(void)state;
	host.walk = MRG_WALK_EXACT;
	set_iommu("DMA-FQ");
	host.fail_above = 2 * GIB;
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 63 * GIB + 5 * MIB, NULL, &mr), 0);
	assert_int_equal(host.live_count, 64);
	mrg_mr_describe(mr, text, sizeof(text));
	assert_non_null(strstr(text, "1 GiB"));

	/* 3 MiB that cross a line here and, 2 MiB later, one over there. */
	assert_int_equal(mrg_keys(mr, ADDR + GIB - 512 * 1024, 3 * MIB, local, 8), 2);
	remote[0] = (struct mrg_seg){ .wire = 0x1000, .length = 512 * 1024 + 2 * MIB };
	remote[1] = (struct mrg_seg){ .wire = 0x9000000, .length = 512 * 1024 };
	assert_int_equal(mrg_seg_pairs(local, 2, remote, 2, pairs, 16), 3);
	assert_int_equal(pairs[1].local.length, 2 * MIB);
	assert_int_equal(pairs[1].remote.wire, 0x1000 + 512 * 1024);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void memlock_is_not_taken_for_lack_of_iommu_room(void **state)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	host.walk = MRG_WALK_EXACT;
	set_iommu("DMA");
	set_proc(128 * GIB, 100 * GIB, 50, 65530);
	host.fail_above = 2 * GIB;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 63 * GIB, all_access, NULL, &mr),
			 -ENOMEM);
	assert_int_equal(host.calls, 1);
	assert_error(ctx, -ENOMEM, "register piece", "locked-memory limit");
	mrg_close(ctx);
}

static size_t host_mrs(const char *iommu, enum mrg_walk walk)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;
	size_t count;

	set_iommu(iommu);
	host.walk = walk;
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 12 * GIB, all_access, NULL, &mr), 0);
	count = host.live_count;
	for (struct fake_mr *p = host.live; p; p = p->next)
		assert_ptr_equal(p->mr.addr, (void *)p->iova);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
	return count;
}

static void host_memory_is_cut_only_where_an_iommu_joins_it(void **state)
{
	(void)state;
	assert_int_equal(host_mrs(NULL, MRG_WALK_TRUNCATING), 1);
	assert_int_equal(host_mrs("identity", MRG_WALK_TRUNCATING), 1);
	assert_int_equal(host_mrs("DMA", MRG_WALK_TRUNCATING), 6);
	assert_int_equal(host_mrs("DMA-FQ", MRG_WALK_UNKNOWN), 6);
	assert_int_equal(host_mrs("DMA-FQ", MRG_WALK_EXACT), 1);
	assert_int_equal(host_mrs("blocked", MRG_WALK_TRUNCATING), 6);
}

static void set_smaps(uint64_t start, uint64_t end, unsigned int page_kib, const char *flags)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "%llx-%llx rw-p 00000000 00:0f 4711 /anon_hugepage (deleted)\n"
		 "Size:           12582912 kB\nKernelPageSize: %8u kB\nMMUPageSize:    %8u kB\n"
		 "VmFlags: rd wr mr mw me %s \n",
		 (unsigned long long)start, (unsigned long long)end, page_kib, page_kib, flags);
	write_file(text, "%s/self/smaps", host.proc);
}

static void hugetlb_memory_is_cut_at_huge_page_borders(void **state)
{
	struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = 33 * MIB };
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	set_smaps(ADDR, ADDR + 12 * GIB, 2048, "de ht sd");
	/* Huge pages can lie in a row for 4 GiB without an IOMMU. */
	assert_int_equal(host_mrs(NULL, MRG_WALK_TRUNCATING), 6);
	assert_int_equal(host_mrs(NULL, MRG_WALK_EXACT), 1);

	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, GIB, all_access, &opts, &mr), 0);
	assert_int_equal(host.live_count, 32);
	for (struct fake_mr *p = host.live; p; p = p->next)
		assert_int_equal(p->iova % (2 * MIB), 0);
	assert_int_equal(mrg_dereg(mr), 0);

	opts.max_mr_size = MIB;
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, GIB, all_access, &opts, &mr),
			 -EINVAL);
	assert_error(ctx, -EINVAL, "plan", "huge page of 2 MiB");
	assert_error(ctx, -EINVAL, "plan", "largest MR of 1 MiB");
	assert_error(ctx, -EINVAL, "plan", "use smaller huge pages");
	mrg_close(ctx);
}

static void ordinary_mapping_flags_are_no_huge_pages(void **state)
{
	(void)state;
	set_smaps(ADDR, ADDR + 12 * GIB, 4, "ac sd");
	assert_int_equal(host_mrs(NULL, MRG_WALK_TRUNCATING), 1);
}

static void on_demand_memory_is_never_cut_for_the_walk(void **state)
{
	struct mrg_ctx *ctx;
	struct mrg_mr *mr;

	(void)state;
	set_iommu("DMA");
	ctx = open_fake();
	assert_int_equal(mrg_reg(ctx, &host.pd, (void *)ADDR, 12 * GIB,
				 all_access | IBV_ACCESS_ON_DEMAND, NULL, &mr),
			 0);
	assert_int_equal(host.live_count, 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

/* What malloc() gives: no page boundary at either end. */
static void memory_may_start_and_end_inside_a_page(void **state)
{
	struct mrg_ctx *ctx = open_fake();
	struct mrg_seg seg;
	struct mrg_mr *mr;

	(void)state;
	assert_int_equal(
		mrg_reg(ctx, &host.pd, (void *)(ADDR + 0x123), 4999, all_access, NULL, &mr), 0);
	assert_ptr_equal(host.live->mr.addr, (void *)(ADDR + 0x123));
	assert_int_equal(host.live->mr.length, 4999);
	assert_int_equal(mrg_keys(mr, ADDR + 0x123, 4999, &seg, 1), 1);
	assert_int_equal(mrg_keys(mr, ADDR + 0x122, 1, &seg, 1), -ERANGE);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void limit_of_an_mr_cuts_between_units(void **state)
{
	const uint64_t unit = 48 * MIB;
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .unit = unit, .max_mr_size = GIB };
	struct mrg_ctx *ctx;
	struct mrg_seg segs[32];
	struct mrg_mr *mr;

	(void)state;
	host.walk = MRG_WALK_EXACT;
	ctx = open_fake();
	assert_int_equal(reg_dmabuf(ctx, ADDR, 12 * GIB, &opts, &mr), 0);
	assert_true(host.live_count > 12);
	for (uint64_t at = 0; at + unit <= 12 * GIB; at += unit)
		assert_int_equal(mrg_keys(mr, ADDR + at, unit, segs, 32), 1);
	assert_int_equal(mrg_dereg(mr), 0);
	mrg_close(ctx);
}

static void unknown_options_are_refused(void **state)
{
	struct {
		struct mrg_reg_opts opts;
		uint64_t later;
	} longer = { 0 };
	struct mrg_ctx *ctx = open_fake();
	struct mrg_open_opts open = { .size = sizeof(open), .flags = 1u << 30 };
	struct mrg_ctx *other = NULL;
	struct mrg_mr *mr;

	(void)state;
	longer.opts.size = sizeof(longer);
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), 0);
	assert_int_equal(mrg_dereg(mr), 0);
	longer.later = 1;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), -EINVAL);
	assert_error(ctx, -EINVAL, "check options", "unknown");
	longer.later = 0;
	longer.opts.flags = 1u << 31;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), -EINVAL);
	longer.opts.flags = MRG_REG_IOVA_EQUAL;
	longer.opts.strategy = MRG_STRATEGY_REBASE;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), -EINVAL);
	longer.opts.flags = 0;
	longer.opts.max_page_shift = 11;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), -EINVAL);
	longer.opts.max_page_shift = 0;
	longer.opts.reserved = 1;
	assert_int_equal(reg_dmabuf(ctx, ADDR, MIB, &longer.opts, &mr), -EINVAL);
	assert_int_equal(region_open(&other, NULL, &open, &host.env), -EINVAL);
	open.flags = 0;
	open.max_page_shift = 64;
	assert_int_equal(region_open(&other, NULL, &open, &host.env), -EINVAL);
	assert_error(NULL, -EINVAL, "check options", "64");
	assert_null(other);
	mrg_close(ctx);
}

static void *fail_elsewhere(void *arg)
{
	struct mrg_error error;
	struct mrg_mr *mr;

	assert_int_equal(mrg_last_error(arg, &error), -ENODATA);
	assert_int_equal(reg_dmabuf(arg, ADDR, 0, NULL, &mr), -EINVAL);
	assert_int_equal(mrg_last_error(arg, &error), 0);
	return NULL;
}

static void last_error_is_each_threads_own(void **state)
{
	struct mrg_ctx *ctx = open_fake(), *second = open_fake();
	struct mrg_error error;
	struct mrg_mr *mr;
	pthread_t thread;

	(void)state;
	assert_int_equal(mrg_last_error(ctx, &error), -ENODATA);
	host.dmabuf_size = 4096;
	assert_int_equal(reg_dmabuf(ctx, ADDR, 8192, NULL, &mr), -EINVAL);
	pthread_create(&thread, NULL, fail_elsewhere, ctx);
	pthread_join(thread, NULL);
	assert_error(ctx, -EINVAL, "check fd", "4096");
	assert_int_equal(mrg_last_error(second, &error), -ENODATA);
	mrg_close(second);
	mrg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(wrapping_buffer_is_rebased_into_one_mr),
		FAKE_TEST(equal_iova_splits_instead),
		FAKE_TEST(exact_walk_gets_one_mr_and_asks_for_no_layout),
		FAKE_TEST(short_buffer_asks_for_no_layout),
		FAKE_TEST(safe_buffer_stays_one_mr_on_an_affected_kernel),
		FAKE_TEST(without_module_the_plan_is_conservative_and_says_so),
		FAKE_TEST(without_layout_the_plan_is_conservative_and_says_so),
		FAKE_TEST(without_importer_the_plan_is_conservative_and_says_so),
		FAKE_TEST(addresses_behind_a_translating_iommu_are_not_trusted),
		FAKE_TEST(addresses_that_the_exporter_can_move_are_not_trusted),
		FAKE_TEST(the_same_dmabuf_is_asked_about_once),
		FAKE_TEST(what_is_remembered_is_bounded_and_outlived_by_handles),
		FAKE_TEST(addresses_that_change_are_not_remembered),
		FAKE_TEST(late_plan_is_made_once_for_all_threads),
		FAKE_TEST(plain_cases_are_the_planners_too),
		FAKE_TEST(module_can_be_left_out),
		FAKE_TEST(driver_without_large_pages_needs_no_split),
		FAKE_TEST(callers_own_page_limit_is_used),
		FAKE_TEST(failure_at_each_piece_leaves_nothing),
		FAKE_TEST(mr_that_a_roll_back_cannot_take_back_goes_later),
		FAKE_TEST(piece_that_does_not_let_go_stays_in_the_handle),
		FAKE_TEST(only_on_demand_registration_is_tried_again),
		FAKE_TEST(largest_mr_is_never_exceeded_nor_shrunk_silently),
		FAKE_TEST(iommu_without_room_gets_pieces_of_1_gib),
		FAKE_TEST(memlock_is_not_taken_for_lack_of_iommu_room),
		FAKE_TEST(host_memory_is_cut_only_where_an_iommu_joins_it),
		FAKE_TEST(hugetlb_memory_is_cut_at_huge_page_borders),
		FAKE_TEST(ordinary_mapping_flags_are_no_huge_pages),
		FAKE_TEST(on_demand_memory_is_never_cut_for_the_walk),
		FAKE_TEST(memory_may_start_and_end_inside_a_page),
		FAKE_TEST(limit_of_an_mr_cuts_between_units),
		FAKE_TEST(unknown_options_are_refused),
		FAKE_TEST(last_error_is_each_threads_own),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}
