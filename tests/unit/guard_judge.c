/* SPDX-License-Identifier: MIT */
/* The guard's verdicts, on a made-up host. */
#include "region_fake.h"

#include "guard/judge.c"

__thread struct guard_thread guard_thread;

static struct guard_process process;
static size_t reopened;

bool guard_process_reopen_module(struct guard_process *p)
{
	(void)p;
	/* As if the program had closed the descriptor. */
	host.layout_error = host.layout_error == -EBADF ? 0 : host.layout_error;
	host.info_error = host.info_error == -EBADF ? 0 : host.info_error;
	return ++reopened == 1 && !host.layout_error && !host.info_error;
}

static void start(void)
{
	memset(&process, 0, sizeof(process));
	process.env = host.env;
	reopened = 0;
	assert_int_equal(region_open(&process.ctx, NULL, NULL, &process.env), 0);
}

static struct guard_finding judge(struct guard_request req)
{
	struct guard_finding finding;

	start();
	req.pd = &host.pd;
	guard_judge(&process, &req, &finding);
	assert_false(guard_thread.busy);
	mrg_close(process.ctx);
	return finding;
}

static struct guard_request dmabuf(uint64_t iova, uint64_t length)
{
	return (struct guard_request){
		.call = GUARD_REG_DMABUF_MR, .fd = 5, .iova = iova, .length = length
	};
}

static struct guard_request memory(uint64_t addr, uint64_t length)
{
	return (struct guard_request){
		.call = GUARD_REG_MR, .fd = -1, .addr = addr, .iova = addr, .length = length
	};
}

#define assert_found(f, v, g)                    \
	do {                                     \
		struct guard_finding f_ = (f);   \
		assert_int_equal(f_.verdict, v); \
		assert_int_equal(f_.grounds, g); \
	} while (0)

static void contiguous(uint64_t addr)
{
	static struct mrg_sg sg;

	sg = (struct mrg_sg){ addr, 64 * GIB };
	host.sg = &sg;
	host.sg_count = 1;
}

static void a_range_that_wraps_is_told_with_its_reason(void **state)
{
	struct guard_finding f;

	(void)state;
	contiguous(4 * GIB);
	f = judge(dmabuf(0x700000000000, 12 * GIB));
	assert_found(f, MRG_WRAPS, GUARD_LAYOUT);
	assert_int_equal(f.page_shift, 32);
	assert_non_null(strstr(f.reason, "One MR would wrap"));
	assert_int_equal(host.layouts, 1);
}

static void addresses_that_differ_in_bit_31_are_safe(void **state)
{
	(void)state;
	contiguous(6 * GIB);
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_LAYOUT);
}

static void an_exact_walk_needs_no_look(void **state)
{
	(void)state;
	host.walk = MRG_WALK_EXACT;
	contiguous(4 * GIB);
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_WALK_EXACT);
	assert_found(judge(memory(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_WALK_EXACT);
	assert_int_equal(host.layouts, 0);
}

static void one_window_needs_no_look(void **state)
{
	(void)state;
	assert_found(judge(dmabuf(0x700000000000, 2 * GIB)), MRG_SAFE, GUARD_ONE_WINDOW);
	assert_found(judge(memory(0x700000000000, 2 * GIB)), MRG_SAFE, GUARD_ONE_WINDOW);
	assert_int_equal(host.layouts, 0);
}

static void without_the_module_it_is_unknown_and_the_reason_says_so(void **state)
{
	(void)state;
	host.module_error = -ENOENT;
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_VERDICT_UNKNOWN, GUARD_NO_MODULE);
	assert_found(judge(dmabuf(0x700000000000, GIB)), MRG_SAFE, GUARD_ONE_WINDOW);
}

static void addresses_that_change_are_unknown(void **state)
{
	(void)state;
	contiguous(4 * GIB);
	host.moves = true;
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_VERDICT_UNKNOWN,
		     GUARD_LAYOUT_CHANGES);
	host.moves = false;
	host.iommu = MRG_IOMMU_MODE_TRANSLATED;
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_VERDICT_UNKNOWN,
		     GUARD_LAYOUT_CHANGES);
}

static void a_module_that_fails_leaves_it_unknown(void **state)
{
	(void)state;
	host.layout_error = -EIO;
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_VERDICT_UNKNOWN,
		     GUARD_LAYOUT_FAILED);
}

static void a_descriptor_that_the_program_closed_is_opened_again(void **state)
{
	(void)state;
	contiguous(4 * GIB);
	host.layout_error = -EBADF;
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_WRAPS, GUARD_LAYOUT);
	assert_int_equal(reopened, 1);
}

static void what_the_kernel_refuses_is_left_to_it(void **state)
{
	struct guard_request req = dmabuf(0x700000000000, 12 * GIB);

	(void)state;
	req.offset = 0x10;
	assert_found(judge(req), MRG_REFUSED, GUARD_KERNEL_REFUSES);
	assert_found(judge(dmabuf(0, 0)), MRG_REFUSED, GUARD_KERNEL_REFUSES);
	assert_found(judge(memory(UINT64_MAX - 4095, 2 * 4096)), MRG_REFUSED, GUARD_KERNEL_REFUSES);
}

/* smaps of one VMA over the range. */
static void set_smaps(uint64_t start, uint64_t end, const char *flags)
{
	char path[160];
	FILE *f;

	snprintf(path, sizeof(path), "%s/self/smaps", host.proc);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
		"%llx-%llx rw-p 00000000 00:00 0 \nSize: 4 kB\nKernelPageSize: 4 kB\nVmFlags: rd wr %s\n",
		(unsigned long long)start, (unsigned long long)end, flags);
	fclose(f);
}

static void ordinary_memory_that_nothing_joins_is_safe(void **state)
{
	(void)state;
	set_smaps(0x700000000000, 0x700000000000 + 12 * GIB, "ac");
	assert_found(judge(memory(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_SCATTERED);
}

static void huge_pages_are_unknown(void **state)
{
	(void)state;
	set_smaps(0x700000000000, 0x700000000000 + 12 * GIB, "ht");
	assert_found(judge(memory(0x700000000000, 12 * GIB)), MRG_VERDICT_UNKNOWN, GUARD_MAY_JOIN);
}

/* With another iova the range is still looked at where it is. */
static void an_iova_of_its_own_does_not_hide_huge_pages(void **state)
{
	struct guard_request req = memory(0x700000000000, 12 * GIB);

	(void)state;
	req.iova = 0;
	set_smaps(0x700000000000, 0x700000000000 + 12 * GIB, "ht");
	assert_found(judge(req), MRG_VERDICT_UNKNOWN, GUARD_MAY_JOIN);
}

static void device_memory_by_its_address_is_unknown_with_peermem(void **state)
{
	struct guard_request req = memory(0x700000000000, 12 * GIB);
	struct guard_finding finding;

	(void)state;
	host.module_error = -ENOENT;
	set_smaps(0x700000000000, 0x700000000000 + 12 * GIB, "io pf");
	start();
	process.peermem = true;
	req.pd = &host.pd;
	guard_judge(&process, &req, &finding);
	mrg_close(process.ctx);
	assert_found(finding, MRG_VERDICT_UNKNOWN, GUARD_DEVICE_MEMORY);
	assert_int_equal(finding.path, GUARD_PEERMEM);
}

static void a_handler_that_meets_the_guard_at_work_takes_no_lock(void **state)
{
	struct guard_request req = dmabuf(0x700000000000, 12 * GIB);
	struct guard_finding finding;

	(void)state;
	contiguous(4 * GIB);
	start();
	req.pd = &host.pd;
	guard_thread.busy = true;
	/* It would wait for ever. */
	pthread_mutex_lock(&process.ctx->lock);
	guard_judge(&process, &req, &finding);
	pthread_mutex_unlock(&process.ctx->lock);
	guard_thread.busy = false;
	mrg_close(process.ctx);
	assert_found(finding, MRG_VERDICT_UNKNOWN, GUARD_NOT_JUDGED);
}

/* ---- under the cap --------------------------------------------------------------- */

static void set_cap(enum mrg_cap cap)
{
	host.cap = cap;
	set_module("mlx5_core", "");
	contiguous(4 * GIB);
}

static void under_the_cap_all_ranges_are_safe_without_a_look(void **state)
{
	(void)state;
	set_cap(MRG_CAP_EFFECTIVE);
	assert_found(judge(dmabuf(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_CAPPED);
	/* No smaps are there to be read. */
	assert_found(judge(memory(0x700000000000, 12 * GIB)), MRG_SAFE, GUARD_CAPPED);
	assert_int_equal(host.layouts, 0);
	host.infos = 0;
	assert_found(judge(dmabuf(0x700000000000, GIB)), MRG_SAFE, GUARD_ONE_WINDOW);
	assert_int_equal(host.infos, 1);
}

/* The process is older than the cap: asking is what makes the descriptor hold it. */
static void a_cap_that_comes_later_is_asked_for_at_each_registration(void **state)
{
	struct guard_request req = dmabuf(0x700000000000, 12 * GIB);
	struct guard_finding finding;

	(void)state;
	set_cap(MRG_CAP_OFF);
	start();
	req.pd = &host.pd;
	guard_judge(&process, &req, &finding);
	assert_found(finding, MRG_WRAPS, GUARD_LAYOUT);
	assert_true(finding.cap_would_help);
	host.cap = MRG_CAP_EFFECTIVE;
	guard_judge(&process, &req, &finding);
	assert_found(finding, MRG_SAFE, GUARD_CAPPED);
	assert_true(guard_judge_cap(&process, &req));
	host.cap = MRG_CAP_LOST;
	assert_false(guard_judge_cap(&process, &req));
	guard_judge(&process, &req, &finding);
	assert_found(finding, MRG_WRAPS, GUARD_LAYOUT);
	mrg_close(process.ctx);
}

static void a_closed_descriptor_is_opened_again_before_the_cap_is_counted_on(void **state)
{
	struct guard_request req = dmabuf(0x700000000000, 12 * GIB);
	struct guard_finding finding;

	(void)state;
	set_cap(MRG_CAP_EFFECTIVE);
	start();
	req.pd = &host.pd;
	host.info_error = -EBADF;
	guard_judge(&process, &req, &finding);
	assert_found(finding, MRG_SAFE, GUARD_CAPPED);
	assert_int_equal(reopened, 1);
	host.info_error = -EIO;
	guard_judge(&process, &req, &finding);
	assert_found(finding, MRG_WRAPS, GUARD_LAYOUT);
	mrg_close(process.ctx);
}

static void a_device_on_which_the_cap_has_no_effect_is_judged_without_it(void **state)
{
	struct guard_finding f;

	(void)state;
	set_cap(MRG_CAP_EFFECTIVE);
	set_module("mlx5_core", "OE");
	f = judge(dmabuf(0x700000000000, 12 * GIB));
	assert_found(f, MRG_WRAPS, GUARD_LAYOUT);
	assert_false(f.cap_would_help);
}

static void the_narrow_walk_is_judged_without_the_cap(void **state)
{
	static struct mrg_sg sg = { 0x100000000, 0xfffff000 };
	struct guard_finding f;

	(void)state;
	set_cap(MRG_CAP_EFFECTIVE);
	host.walk = MRG_WALK_PER_ENTRY_NARROW;
	host.sg = &sg;
	f = judge(dmabuf(0x700000000000, 0xfffff000));
	assert_found(f, MRG_HANGS, GUARD_LAYOUT);
	assert_false(f.cap_would_help);
}

static void a_failure_is_explained(void **state)
{
	struct guard_request req = dmabuf(0x700000000000, GIB);
	struct mrg_error why;

	(void)state;
	start();
	req.pd = &host.pd;
	guard_explain(&process, &req, 524, &why);
	assert_non_null(strstr(why.cause, "does not let device fake0"));
	assert_true(why.remedy[0]);
	mrg_close(process.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(a_range_that_wraps_is_told_with_its_reason),
		FAKE_TEST(addresses_that_differ_in_bit_31_are_safe),
		FAKE_TEST(an_exact_walk_needs_no_look),
		FAKE_TEST(one_window_needs_no_look),
		FAKE_TEST(without_the_module_it_is_unknown_and_the_reason_says_so),
		FAKE_TEST(addresses_that_change_are_unknown),
		FAKE_TEST(a_module_that_fails_leaves_it_unknown),
		FAKE_TEST(a_descriptor_that_the_program_closed_is_opened_again),
		FAKE_TEST(what_the_kernel_refuses_is_left_to_it),
		FAKE_TEST(ordinary_memory_that_nothing_joins_is_safe),
		FAKE_TEST(huge_pages_are_unknown),
		FAKE_TEST(an_iova_of_its_own_does_not_hide_huge_pages),
		FAKE_TEST(device_memory_by_its_address_is_unknown_with_peermem),
		FAKE_TEST(a_handler_that_meets_the_guard_at_work_takes_no_lock),
		FAKE_TEST(under_the_cap_all_ranges_are_safe_without_a_look),
		FAKE_TEST(a_cap_that_comes_later_is_asked_for_at_each_registration),
		FAKE_TEST(a_closed_descriptor_is_opened_again_before_the_cap_is_counted_on),
		FAKE_TEST(a_device_on_which_the_cap_has_no_effect_is_judged_without_it),
		FAKE_TEST(the_narrow_walk_is_judged_without_the_cap),
		FAKE_TEST(a_failure_is_explained),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("guard's verdicts", tests, NULL, NULL);
}
