/* SPDX-License-Identifier: MIT */
/* MRG_IOC_BLOCKS: what the running kernel's own pick and walk give. */
#include "ioctl_kit.h"

static struct mrg_ioc_run one_run = { 0x100000000, 64 * KIB };

/*
 * 12 GiB as six entries.  What a right walk gives follows from the address; what
 * a truncating one gives was measured on 6.1.170.
 */
struct row {
	uint64_t iova, addr, page;
	uint32_t blocks, wrong;
	uint64_t first_wrong;
	uint64_t truncated[12];
};

#define PAST 2 /* of this row iova and address are a page further */

static const struct row rows[] = {
	{ 0x700000000000,
	  0x100000000,
	  1ULL << 32,
	  3,
	  2,
	  1ULL << 32,
	  { 0x100000000, 0x100000000, 0x100000000 } },
	{ 0x700200000000, 0x400000000, 1ULL << 33, 2, 1, 1ULL << 33, { 0x400000000, 0x400000000 } },
	{ 0x700000000000,
	  0x100000000,
	  1ULL << 32,
	  4,
	  2,
	  2ULL << 32,
	  { 0x100000000, 0x200000000, 0x200000000, 0x200000000 } },
	{ 0x700100000000, 0x100000000, 1ULL << 34, 1, 0, UINT64_MAX, { 0 } },
	{ 0x700080000000,
	  0x100000000,
	  1ULL << 31,
	  6,
	  0,
	  UINT64_MAX,
	  { 0x100000000, 0x180000000, 0x200000000, 0x280000000, 0x300000000, 0x380000000 } },
	{ 0x700300000000,
	  0x340000000,
	  1ULL << 30,
	  12,
	  0,
	  UINT64_MAX,
	  { 0x340000000, 0x380000000, 0x3c0000000, 0x400000000, 0x440000000, 0x480000000,
	    0x4c0000000, 0x500000000, 0x540000000, 0x580000000, 0x5c0000000, 0x600000000 } },
};

static struct row row_of(int r)
{
	struct row row = rows[r];

	if (r == PAST) {
		row.iova += PAGE;
		row.addr += PAGE;
		row.first_wrong -= PAGE;
	}
	return row;
}

static void expect_row(const struct row *row, const struct mrg_ioc_blocks *got,
		       const uint64_t *blocks)
{
	uint32_t wrong = truncating() ? row->wrong : 0;

	assert_int_equal(got->page_size, row->page);
	assert_int_equal(got->total_blocks, row->blocks);
	assert_int_equal(got->walked, row->blocks);
	assert_int_equal(got->blocks_out, row->blocks);
	assert_int_equal(got->wrong, wrong);
	assert_int_equal(got->first_wrong, wrong ? row->first_wrong : UINT64_MAX);
	assert_int_equal(got->info, 0);
	for (uint32_t i = 0; i < row->blocks; i++)
		assert_int_equal(blocks[i], truncating() ?
						    row->truncated[i] :
						    (row->addr & ~(row->page - 1)) + i * row->page);
}

static void the_kernel_gives_the_six_rows_for_a_list(void **state)
{
	(void)state;
	for (int r = 0; r < 6; r++) {
		const struct row row = row_of(r);
		struct mrg_ioc_run runs[6];
		struct mrg_ioc_blocks arg;
		uint64_t blocks[12];

		for (uint64_t i = 0; i < 6; i++)
			runs[i] = (struct mrg_ioc_run){ row.addr + i * 2 * GIB, 2 * GIB };
		arg = blocks_of(runs, 6, row.iova, 12 * GIB);
		arg.blocks = (uintptr_t)blocks;
		arg.blocks_cap = 12;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
		expect_row(&row, &arg, blocks);
	}
}

static void the_kernel_gives_the_six_rows_for_a_dmabuf(void **state)
{
	(void)state;
	for (int r = 0; r < 6; r++) {
		const struct row row = row_of(r);
		struct mrg_ioc_blocks arg = blocks_of(NULL, 0, row.iova, 0);
		uint64_t blocks[12];
		char spec[64];

		snprintf(spec, sizeof(spec), "12G@%#llx,seg=2G,fake", (unsigned long long)row.addr);
		arg.flags = MRG_BLOCKS_DMABUF;
		arg.dmabuf_fd = make_buffer(spec);
		arg.importer = importer;
		arg.blocks = (uintptr_t)blocks;
		arg.blocks_cap = 12;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
		expect_row(&row, &arg, blocks);
		close(arg.dmabuf_fd);
	}
}

/* Worked out by hand for pages of 4 KiB, apart from any code here; all scales with them. */
static void cases_worked_out_by_hand_come_out(void **state)
{
	const struct mrg_ioc_run odd[] = { { 0x1000000000, 4 * GIB - PAGE },
					   { 0x1100000000 - PAGE, 4 * GIB - PAGE },
					   { 0x1200000000 - 2 * PAGE, 2 * PAGE } };
	const struct mrg_ioc_run small = { 15 * PAGE, 7 * PAGE };
	const struct mrg_ioc_run five[] = { { 0x1000200000, 2 * GIB },
					    { 0x1080200000, 2 * GIB },
					    { 0x1100200000, GIB } };
	struct mrg_ioc_blocks arg = blocks_of(odd, 3, 0x7f0000000000, 8 * GIB);

	(void)state;
	arg.pgsz_bitmap = 0x1ffffffff & ~(PAGE - 1);
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 4 * GIB);
	assert_int_equal(arg.total_blocks, 2);
	assert_int_equal(arg.wrong, truncating());
	assert_int_equal(arg.first_wrong, truncating() ? 4 * GIB : UINT64_MAX);
	arg.pgsz_bitmap = 0xffffffff & ~(PAGE - 1);
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.total_blocks, 4);
	assert_int_equal(arg.wrong, 0);
	arg = blocks_of(&small, 1, small.addr, small.len);
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 32 * PAGE);
	assert_int_equal(arg.total_blocks, 1);
	arg = blocks_of(five, 3, 0x7f0000200000, 5 * GIB);
	arg.pgsz_bitmap = 0x1ffffffff & ~(PAGE - 1);
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 4 * GIB);
	assert_int_equal(arg.total_blocks, 2);
	assert_int_equal(arg.wrong, 0);
}

static void a_part_of_a_list_is_walked_as_its_own_list_would_be(void **state)
{
	const struct mrg_ioc_run runs[] = { { 0x100000000, 8 * MIB },
					    { 0x200000000, 8 * MIB },
					    { 0x300000000, 8 * MIB } };
	uint64_t blocks[8];
	struct mrg_ioc_blocks arg = blocks_of(runs, 3, 0x7f0000600000, 12 * MIB);

	(void)state;
	arg.offset = 6 * MIB;
	arg.blocks = (uintptr_t)blocks;
	arg.blocks_cap = 8;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 8 * MIB);
	assert_int_equal(arg.blocks_out, 3);
	assert_int_equal(arg.wrong, 0);
	assert_int_equal(blocks[0], 0x100000000);
	assert_int_equal(blocks[1], 0x200000000);
	assert_int_equal(blocks[2], 0x300000000);
}

static void block_addresses_come_in_pages(void **state)
{
	const struct mrg_ioc_run run = { 0x100000000, 1024 * PAGE };
	uint64_t all[1024], some[10];
	struct mrg_ioc_blocks arg = blocks_of(&run, 1, 0, run.len);

	(void)state;
	arg.pgsz_bitmap = PAGE;
	arg.blocks = (uintptr_t)all;
	arg.blocks_cap = 1024;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 1024);
	for (uint64_t i = 0; i < 1024; i++)
		assert_int_equal(all[i], run.addr + i * PAGE);
	arg.blocks = (uintptr_t)some;
	arg.blocks_cap = 10;
	arg.start = 1020;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 4);
	assert_memory_equal(some, all + 1020, 4 * sizeof(*some));
	arg.start = 1024;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 0);
	arg.start = UINT64_MAX;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 0);
}

static void more_blocks_than_can_be_walked_are_counted_all_the_same(void **state)
{
	struct mrg_ioc_run runs[40 * LARGEST_PAGE / (4 * KIB)] = { { 0, 0 } };
	uint64_t n = 40 * PAGE / (4 * KIB);
	struct mrg_ioc_blocks arg = blocks_of(runs, (uint32_t)n, 0, n * 2 * GIB);

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		runs[i] = (struct mrg_ioc_run){ 0x100000000 + i * 2 * GIB, 2 * GIB };
	arg.pgsz_bitmap = PAGE;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -EOVERFLOW);
	assert_int_equal(arg.page_size, PAGE);
	assert_int_equal(arg.total_blocks, n * 2 * GIB / PAGE);
	assert_int_equal(arg.walked, 0);
	assert_int_equal(arg.first_wrong, UINT64_MAX);
}

static void a_page_that_no_size_fits_is_no_error_but_no_page(void **state)
{
	struct mrg_ioc_blocks arg = blocks_of(&one_run, 1, one_run.addr + PAGE, one_run.len);

	(void)state;
	arg.pgsz_bitmap = 0;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 0);
	assert_int_equal(arg.total_blocks, 0);
	arg.pgsz_bitmap = 2 * MIB;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 0);
}

static void lists_that_are_none_are_refused(void **state)
{
	struct mrg_ioc_run runs[2] = { { 0, 0 } };
	struct mrg_ioc_blocks ok = blocks_of(runs, 2, 0x100000000, 4 * PAGE), arg;

	(void)state;
#define LIST(a0, l0, a1, l1)                                  \
	do {                                                  \
		runs[0] = (struct mrg_ioc_run){ (a0), (l0) }; \
		runs[1] = (struct mrg_ioc_run){ (a1), (l1) }; \
	} while (0)
#define REFUSED(field, value, err)                                    \
	do {                                                          \
		arg = ok;                                             \
		arg.field = (value);                                  \
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -(err)); \
	} while (0)
	LIST(0x100000000, 2 * PAGE, 0x200000000, 2 * PAGE);
	arg = ok;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	REFUSED(dmabuf_fd, 0, EINVAL);
	REFUSED(importer.bus, 1, EINVAL);
	REFUSED(length, 0, EINVAL);
	REFUSED(length, 4 * PAGE + 1, EINVAL);
	REFUSED(length, UINT64_MAX, EINVAL);
	REFUSED(offset, 4 * PAGE, EINVAL);
	REFUSED(offset, PAGE, EINVAL);
	REFUSED(offset, UINT64_MAX - PAGE + 1, EINVAL);
	REFUSED(iova, 1, EINVAL);
	REFUSED(iova, UINT64_MAX - PAGE + 1, EINVAL);
	REFUSED(runs_cap, 0, EINVAL);
	REFUSED(runs_cap, MRG_BLOCKS_MAX_RUNS + 1, E2BIG);
	REFUSED(runs_cap, UINT32_MAX, E2BIG);
	REFUSED(runs, 8, EFAULT);
	REFUSED(flags, MRG_BLOCKS_DMABUF, EINVAL);
	const uint64_t bad[][4] = {
		{ 0x100000001, 2 * PAGE, 0x200000000, 2 * PAGE },
		{ 0x100000000, 0, 0x200000000, 4 * PAGE },
		{ 0x100000000, 2 * PAGE + 1, 0x200000000, 2 * PAGE },
		{ 0x100000000, 1ULL << 32, 0x200000000, 2 * PAGE },
		{ 0x100000000, 4 * PAGE, 0x200000000, 0 },
		{ -PAGE, 2 * PAGE, 0x200000000, 2 * PAGE },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		LIST(bad[i][0], bad[i][1], bad[i][2], bad[i][3]);
		arg = ok;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -EINVAL);
	}
	LIST(0x100000000, 2 * PAGE, -PAGE, PAGE - 1);
	arg = ok;
	arg.length = 3 * PAGE - 1;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
#undef LIST
#undef REFUSED
}

/* ---- set-up -------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	return kit_open("mrguard mrguard_walk edu_bind simgpu", "edu_bind");
}

static int tear_down(void **state)
{
	(void)state;
	return kit_close("mrguard_walk mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_gives_the_six_rows_for_a_list),
		cmocka_unit_test(the_kernel_gives_the_six_rows_for_a_dmabuf),
		cmocka_unit_test(cases_worked_out_by_hand_come_out),
		cmocka_unit_test(a_part_of_a_list_is_walked_as_its_own_list_would_be),
		cmocka_unit_test(block_addresses_come_in_pages),
		cmocka_unit_test(more_blocks_than_can_be_walked_are_counted_all_the_same),
		cmocka_unit_test(a_page_that_no_size_fits_is_no_error_but_no_page),
		cmocka_unit_test(lists_that_are_none_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
