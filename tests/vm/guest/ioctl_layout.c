/* SPDX-License-Identifier: MIT */
/* MRG_IOC_LAYOUT: the list that the importer would get, and who may ask for it. */
#include "ioctl_kit.h"

static int buffer = -1; /* 12 GiB at 4 GiB, invented */

static void a_layout_tells_what_was_mapped(void **state)
{
	struct mrg_ioc_run runs[8];
	struct mrg_ioc_layout arg = layout_of(buffer, runs, 8);

	(void)state;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
	assert_int_equal(arg.dmabuf_size, 12 * GIB);
	assert_int_equal(arg.total_entries, 6);
	assert_int_equal(arg.total_runs, 1);
	assert_int_equal(arg.runs_out, 6);
	assert_int_equal(arg.max_seg_size, 2 * GIB);
	assert_int_equal(arg.info, 0);
	assert_int_equal(arg.iommu, MRG_LAYOUT_IOMMU_NONE);
	assert_string_equal(arg.exporter, "simgpu");
	assert_true(arg.map_ns > 0);
	for (uint64_t i = 0; i < 6; i++) {
		assert_int_equal(runs[i].addr, 4 * GIB + i * 2 * GIB);
		assert_int_equal(runs[i].len, 2 * GIB);
	}
	arg = layout_of(buffer, runs, 8);
	arg.flags = MRG_LAYOUT_COALESCE;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
	assert_int_equal(arg.runs_out, 1);
	assert_int_equal(runs[0].addr, 4 * GIB);
	assert_int_equal(runs[0].len, 12 * GIB);
}

static void a_part_is_cut_to_whole_pages(void **state)
{
	struct mrg_ioc_run runs[8];
	struct mrg_ioc_layout arg = layout_of(buffer, runs, 8);

	(void)state;
	arg.offset = 2 * GIB - 100;
	arg.iova = 0x7f0000000000 + PAGE - 100;
	arg.length = 200;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
	assert_int_equal(arg.total_entries, 2);
	assert_int_equal(arg.total_runs, 1);
	assert_int_equal(runs[0].addr, 6 * GIB - PAGE);
	assert_int_equal(runs[0].len, PAGE);
	assert_int_equal(runs[1].addr, 6 * GIB);
	assert_int_equal(runs[1].len, PAGE);
	arg.length = 100;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
	assert_int_equal(arg.total_entries, 1);
}

static void wrong_ranges_are_refused(void **state)
{
	struct mrg_ioc_layout ok = layout_of(buffer, NULL, 0), arg;

	(void)state;
#define REFUSED(field, value, err)                                    \
	do {                                                          \
		arg = ok;                                             \
		arg.field = (value);                                  \
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), -(err)); \
	} while (0)
	REFUSED(offset, 12 * GIB, EINVAL);
	REFUSED(offset, UINT64_MAX - PAGE + 1, EINVAL);
	REFUSED(offset, 1, EINVAL);
	REFUSED(length, 12 * GIB + 1, EINVAL);
	REFUSED(length, UINT64_MAX, EINVAL);
	REFUSED(iova, 1, EINVAL);
	REFUSED(iova, UINT64_MAX - 12 * GIB + 1, EINVAL);
	ok.offset = 8 * GIB;
	REFUSED(length, 4 * GIB + 1, EINVAL);
	REFUSED(length, UINT64_MAX - 8 * GIB, EINVAL);
	arg = ok;
	arg.length = 4 * GIB;
	arg.iova = UINT64_MAX - 4 * GIB + 1 - PAGE;
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
}

static void an_fd_that_is_no_dmabuf_is_told_from_no_fd(void **state)
{
	struct mrg_ioc_layout ok = layout_of(buffer, NULL, 0), arg;

	(void)state;
	REFUSED(dmabuf_fd, -1, EBADF);
	REFUSED(dmabuf_fd, 1000, EBADF);
	REFUSED(dmabuf_fd, mrguard, EMEDIUMTYPE);
	REFUSED(dmabuf_fd, 0, EMEDIUMTYPE);
}

/* Nothing but the first function changes hands; it is given back. */
static void with_driver(const char *driver, int want)
{
	struct mrg_ioc_layout arg = layout_of(buffer, NULL, 0);
	char name[16], path[96];
	int got;

	function_name(&importer, name);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver/unbind", name);
	assert_int_equal(write_file(path, name), 0);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver_override", name);
	assert_int_equal(write_file(path, driver ? driver : "none"), 0);
	assert_int_equal(write_file("/sys/bus/pci/drivers_probe", name), 0);
	got = call(MRG_IOC_LAYOUT, &arg);
	if (driver) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver/unbind", name);
		assert_int_equal(write_file(path, name), 0);
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver_override", name);
	assert_int_equal(write_file(path, "\n"), 0);
	assert_int_equal(write_file("/sys/bus/pci/drivers_probe", name), 0);
	assert_int_equal(got, want);
}

static void only_a_bound_function_that_does_dma_can_import(void **state)
{
	struct mrg_ioc_layout ok = layout_of(buffer, NULL, 0), arg;

	(void)state;
	REFUSED(importer.bus, 0xfe, ENODEV);
	REFUSED(importer.domain, 0xffff, ENODEV);
	REFUSED(importer.domain, UINT32_MAX, ENODEV);
#undef REFUSED
	with_driver(NULL, -ENXIO);
	assert_int_equal(system("modprobe pci-stub >&2"), 0);
	with_driver("pci-stub", -ENXIO);
	assert_int_equal(call(MRG_IOC_LAYOUT, &ok), 0);
}

static void what_the_exporter_answers_is_passed_on(void **state)
{
	const int errors[] = { ENOMEM, EIO, EINVAL, ENODEV, EBUSY, 524 };

	(void)state;
	for (int attach = 0; attach < 2; attach++) {
		for (int i = 0; i < 6; i++) {
			struct mrg_ioc_layout arg = layout_of(-1, NULL, 0);
			struct mrg_ioc_blocks blocks = blocks_of(NULL, 0, 0, 0);
			char spec[64];

			snprintf(spec, sizeof(spec), "4G,fake,fail=%d%s", errors[i],
				 attach ? ",failattach" : "");
			arg.dmabuf_fd = make_buffer(spec);
			assert_int_equal(call(MRG_IOC_LAYOUT, &arg), -errors[i]);
			blocks.flags = MRG_BLOCKS_DMABUF;
			blocks.dmabuf_fd = arg.dmabuf_fd;
			blocks.importer = importer;
			assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), -errors[i]);
			close(arg.dmabuf_fd);
		}
	}
}

/* ---- layout: random lists, pages and parts --------------------------------- */

#define MAX_ENTRIES 64

struct list {
	struct mrg_ioc_run runs[MAX_ENTRIES];
	uint32_t n;
	uint64_t length;
};

/* Whole pages, about half of them contiguous with the one before. */
static int random_buffer(uint64_t *seed, struct list *list)
{
	struct simgpu_extent extents[MAX_ENTRIES];
	struct simgpu_create create = {
		.size = sizeof(create),
		.flags = SIMGPU_FAKE,
		.extents = (uintptr_t)extents,
	};
	int fd;

	list->n = 1 + (uint32_t)random_below(seed, MAX_ENTRIES);
	list->length = 0;
	for (uint32_t i = 0; i < list->n; i++) {
		struct mrg_ioc_run *run = &list->runs[i];

		run->len = PAGE << random_below(seed, 8);
		if (i && random_below(seed, 2))
			run->addr = run[-1].addr + run[-1].len;
		else
			run->addr = PAGE << random_below(seed, 30);
		extents[i] = (struct simgpu_extent){ run->addr, run->len };
		list->length += run->len;
	}
	create.extents_n = list->n;
	fd = ioctl(simgpu, SIMGPU_IOC_CREATE, &create);
	assert_true(fd >= 0);
	return fd;
}

/* What the module should give, made here: cut to the range, then joined if asked. */
static void cut_and_join(const struct list *in, uint64_t from, uint64_t to, int join,
			 struct list *out)
{
	uint64_t pos = 0;

	out->n = 0;
	for (uint32_t i = 0; i < in->n; pos += in->runs[i++].len) {
		uint64_t a = pos > from ? pos : from, b = pos + in->runs[i].len;
		struct mrg_ioc_run *last = out->n ? &out->runs[out->n - 1] : NULL;
		struct mrg_ioc_run run;

		b = b < to ? b : to;
		if (a >= b)
			continue;
		run = (struct mrg_ioc_run){ in->runs[i].addr + (a - pos), b - a };
		if (join && last && last->addr + last->len == run.addr)
			last->len += run.len;
		else
			out->runs[out->n++] = run;
	}
}

static void expect_pages(const struct list *want, struct mrg_ioc_layout arg, uint32_t cap)
{
	struct mrg_ioc_run got[MAX_ENTRIES];

	arg.runs = (uintptr_t)got;
	arg.runs_cap = cap;
	for (arg.start = 0; arg.start < want->n; arg.start += cap) {
		uint64_t left = want->n - arg.start, n = left < cap ? left : cap;

		memset(got, 0, sizeof(got));
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
		assert_int_equal(arg.runs_out, n);
		assert_int_equal(arg.info, left > cap ? MRG_LAYOUT_INFO_MORE : 0);
		assert_memory_equal(got, want->runs + arg.start, n * sizeof(*got));
	}
}

static void random_layouts_come_whole_in_pages_and_in_parts(void **state)
{
	int rounds = getenv("MRG_FULL") && *getenv("MRG_FULL") ? 20000 : 1000;
	uint64_t seed = 20261129;

	(void)state;
	for (int i = 0; i < rounds; i++) {
		struct list list, want;
		struct mrg_ioc_layout arg;
		uint64_t from, to;
		int fd = random_buffer(&seed, &list);

		from = random_below(&seed, list.length / PAGE) * PAGE;
		to = from + (1 + random_below(&seed, (list.length - from) / PAGE)) * PAGE;
		arg = layout_of(fd, NULL, 0);
		arg.offset = from;
		arg.length = to - from;
		cut_and_join(&list, from, to, 0, &want);
		expect_pages(&want, arg, 1 + (uint32_t)random_below(&seed, MAX_ENTRIES));
		arg.flags = MRG_LAYOUT_COALESCE;
		cut_and_join(&list, from, to, 1, &want);
		expect_pages(&want, arg, 1 + (uint32_t)random_below(&seed, MAX_ENTRIES));
		close(fd);
	}
}

static void a_start_beyond_the_end_gives_nothing(void **state)
{
	struct mrg_ioc_run run = { 1, 2 };
	struct mrg_ioc_layout arg = layout_of(buffer, &run, 1);

	(void)state;
	for (uint64_t start = 6; start; start = start == 6 ? UINT64_MAX : 0) {
		arg.start = start;
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
		assert_int_equal(arg.runs_out, 0);
		assert_int_equal(arg.info, 0);
		assert_int_equal(run.addr, 1);
	}
}

static void nothing_stays_attached_or_mapped(void **state)
{
	struct simgpu_stat st = simgpu_now();

	(void)state;
	assert_int_equal(st.attached, 0);
	assert_int_equal(st.mapped, 0);
	assert_int_equal(st.buffers, 1);
	assert_true(st.maps > 0);
}

/* ---- set-up -------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	if (kit_open("mrguard mrguard_walk edu_bind simgpu", "edu_bind"))
		return -1;
	buffer = simgpu_spec_create("12G,fake");
	return buffer < 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(buffer);
	return kit_close("mrguard_walk mrguard simgpu edu_bind pci-stub");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_layout_tells_what_was_mapped),
		cmocka_unit_test(a_part_is_cut_to_whole_pages),
		cmocka_unit_test(wrong_ranges_are_refused),
		cmocka_unit_test(an_fd_that_is_no_dmabuf_is_told_from_no_fd),
		cmocka_unit_test(only_a_bound_function_that_does_dma_can_import),
		cmocka_unit_test(what_the_exporter_answers_is_passed_on),
		cmocka_unit_test(random_layouts_come_whole_in_pages_and_in_parts),
		cmocka_unit_test(a_start_beyond_the_end_gives_nothing),
		cmocka_unit_test(nothing_stays_attached_or_mapped),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
