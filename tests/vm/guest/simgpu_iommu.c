/* SPDX-License-Identifier: MIT */
/*
 * simgpu behind a translating IOMMU: what the importer sees are the IOMMU's
 * addresses, of each segment apart or, as some exporters do it, of an extent
 * as one piece.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "uapi/mrguard.h"

#include "tools/simgpu_spec.h"
#include "vm/guest/importer.h"

#define GIB (1ULL << 30)
#define WINDOW (4 * GIB) /* memmap=16G$4G */
#define WINDOW_END (20 * GIB)

static struct mrg_ioc_run runs[16];

static int64_t map(const char *spec, struct mrg_ioc_layout *arg)
{
	int fd = simgpu_spec_create(spec);

	assert_true(fd >= 0);
	*arg = (struct mrg_ioc_layout){
		.size = sizeof(*arg),
		.dmabuf_fd = fd,
		.importer = importer,
		.runs = (uintptr_t)runs,
		.runs_cap = 16,
	};
	assert_int_equal(ioctl(mrguard, MRG_IOC_LAYOUT, arg), 0);
	close(fd);
	return (int64_t)arg->total_entries;
}

static void importer_sees_the_iommus_addresses(void **state)
{
	struct mrg_ioc_layout layout;

	(void)state;
	assert_int_equal(map("12G", &layout), 6);
	assert_int_equal(layout.iommu, MRG_LAYOUT_IOMMU_TRANSLATED);
	for (int i = 0; i < 6; i++)
		assert_false(runs[i].addr >= WINDOW && runs[i].addr < WINDOW_END);
}

static void extent_mapped_as_one_piece_is_contiguous(void **state)
{
	struct mrg_ioc_layout layout;

	(void)state;
	assert_int_equal(map("12G,whole", &layout), 6);
	assert_int_equal(layout.total_runs, 1);
	for (int i = 1; i < 6; i++)
		assert_int_equal(runs[i].addr, runs[i - 1].addr + runs[i - 1].len);
}

static void mappings_are_given_back(void **state)
{
	struct simgpu_stat st = { .fd = -1 };
	struct mrg_ioc_layout layout;

	(void)state;
	/* 2.4 TB of addresses in all, were they not given back. */
	for (int i = 0; i < 200; i++)
		assert_int_equal(map(i % 2 ? "12G,whole" : "12G,seg=1G", &layout), i % 2 ? 6 : 12);
	assert_int_equal(ioctl(simgpu, SIMGPU_IOC_STAT, &st), 0);
	assert_int_equal(st.mapped, 0);
	assert_int_equal(st.attached, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(importer_sees_the_iommus_addresses),
		cmocka_unit_test(extent_mapped_as_one_piece_is_contiguous),
		cmocka_unit_test(mappings_are_given_back),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, importer_set_up, importer_tear_down);
}
