/* SPDX-License-Identifier: MIT */
/* mrg_dev_*(): what the library makes of /dev/mrguard, on each kind of machine. */
#include "ioctl_kit.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <mrguard/host.h>

static struct mrg_dev *dev;
static struct mrg_pci_addr nic;

static int machine_is(const char *name)
{
	const char *machine = getenv("MRG_MACHINE");

	return machine && !strcmp(machine, name);
}

/* ---- open and info --------------------------------------------------------- */

static int reopen(void)
{
	struct mrg_dev *again = NULL;
	int ret = mrg_dev_open(&again);

	mrg_dev_close(again);
	return ret;
}

static void info_names_the_walk(void **state)
{
	const char *walk = getenv("MRG_WALK");
	struct mrg_dev_info info;

	(void)state;
	assert_int_equal(mrg_dev_info(dev, &info), 0);
	assert_string_equal(mrg_walk_name(info.walk), walk);
	assert_true(info.has_layout && info.has_vma && info.has_walk);
	assert_int_equal(info.cap, MRG_CAP_OFF);
	assert_int_equal(info.abi, MRG_ABI_VERSION);
	assert_string_equal(info.version, mrg_version());
	assert_int_equal(system("modprobe -r mrguard_walk >&2"), 0);
	assert_int_equal(mrg_dev_info(dev, &info), 0);
	assert_false(info.has_walk);
	assert_int_equal(info.walk, MRG_WALK_UNKNOWN);
	assert_int_equal(system("modprobe mrguard_walk >&2"), 0);
}

static void who_may_not_open_the_node_is_told_so(void **state)
{
	int ret;

	(void)state;
	assert_int_equal(seteuid(65534), 0);
	ret = reopen();
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(ret, -EACCES);
}

static void no_module_and_another_device_in_its_place_are_told_apart(void **state)
{
	(void)state;
	mrg_dev_close(dev);
	close(mrguard);
	assert_int_equal(system("modprobe -r mrguard_walk mrguard >&2"), 0);
	assert_int_equal(reopen(), -ENOENT);
	assert_int_equal(mknod("/dev/mrguard", S_IFCHR | 0600, makedev(1, 3)), 0);
	assert_int_equal(reopen(), -EPROTO);
	unlink("/dev/mrguard");
	assert_int_equal(mknod("/dev/mrguard", S_IFREG | 0600, 0), 0);
	assert_int_equal(reopen(), -EPROTO);
	unlink("/dev/mrguard");
	assert_int_equal(system("modprobe -a mrguard mrguard_walk >&2"), 0);
	assert_int_equal(mrg_dev_open(&dev), 0);
	mrguard = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	assert_true(mrguard >= 0);
}

/* ---- layouts --------------------------------------------------------------- */

static void a_layout_says_how_the_importer_is_translated(void **state)
{
	struct mrg_layout layout;
	int fd = make_buffer("12G,fake");

	(void)state;
	assert_int_equal(mrg_dev_layout(dev, fd, &nic, 0x700000000100, 3 * GIB + 0x100, 0,
					MRG_LAYOUT_COALESCE, &layout),
			 0);
	assert_int_equal(layout.count, 1);
	assert_int_equal(layout.start, 3 * GIB);
	assert_int_equal(layout.sg[0].addr, 7 * GIB);
	assert_int_equal(layout.sg[0].len, 9 * GIB);
	assert_int_equal(layout.entries, 5);
	assert_int_equal(layout.dmabuf_size, 12 * GIB);
	assert_int_equal(layout.max_seg_size, 2 * GIB);
	assert_int_equal(layout.iommu, machine_is("iommu")	 ? MRG_IOMMU_MODE_TRANSLATED :
				       machine_is("passthrough") ? MRG_IOMMU_MODE_IDENTITY :
								   MRG_IOMMU_MODE_NONE);
	assert_false(layout.equivalent);
	assert_string_equal(layout.exporter, "simgpu");
	mrg_layout_release(&layout);
	assert_null(layout.sg);
	mrg_layout_release(NULL);
	close(fd);
}

static void a_few_thousand_runs_come_whole(void **state)
{
	struct simgpu_spec spec;
	struct mrg_layout layout;
	int fd = make_buffer("64M,seg=16K,shuffle=3,fake");

	(void)state;
	assert_int_equal(simgpu_spec_parse("64M,seg=16K,shuffle=3,fake", &spec), 0);
	assert_int_equal(mrg_dev_layout(dev, fd, &nic, 0, 0, 0, 0, &layout), 0);
	assert_int_equal(layout.count, 4096);
	assert_memory_equal(layout.sg, spec.list, 4096 * sizeof(*layout.sg));
	mrg_layout_release(&layout);
	simgpu_spec_free(&spec);
	close(fd);
}

/* More than one call's worth.  Where calls see different addresses, pages are refused. */
static void more_entries_than_one_call_gives_come_whole_or_not_at_all(void **state)
{
	static const char text[] = "5G,seg=4K,shuffle=7,fake";
	struct mrg_layout layout = { .count = 42 };
	struct simgpu_spec spec;
	int fd = make_buffer(text), ret;

	(void)state;
	ret = mrg_dev_layout(dev, fd, &nic, 0, 0, 0, 0, &layout);
	close(fd);
	if (machine_is("iommu")) {
		assert_int_equal(ret, -EOVERFLOW);
		assert_int_equal(layout.count, 42);
		return;
	}
	assert_int_equal(ret, 0);
	assert_int_equal(layout.count, 5 * GIB / (4 * KIB));
	assert_int_equal(simgpu_spec_parse(text, &spec), 0);
	assert_memory_equal(layout.sg, spec.list, layout.count * sizeof(*layout.sg));
	simgpu_spec_free(&spec);
	mrg_layout_release(&layout);
}

static volatile int stop;

struct swap {
	int target;
	int buffers[2];
};

static void *swap_buffers(void *arg)
{
	const struct swap *s = arg;

	for (int i = 0; !stop; i++) {
		dup2(s->buffers[i & 1], s->target);
		usleep(200);
	}
	return NULL;
}

/* Another buffer behind the same descriptor is what a buffer that moved looks like. */
static void a_buffer_that_moves_gives_one_state_or_eagain(void **state)
{
	struct swap s = { make_buffer("4K,fake"),
			  { make_buffer("4M@4G,seg=4K,fake"), make_buffer("8M@64G,seg=4K,fake") } };
	pthread_t thread;
	int whole = 0;

	(void)state;
	stop = 0;
	dup2(s.buffers[0], s.target);
	assert_int_equal(pthread_create(&thread, NULL, swap_buffers, &s), 0);
	for (int i = 0; i < 300; i++) {
		struct mrg_layout l;
		int ret = mrg_dev_layout(dev, s.target, &nic, 0, 0, 0, 0, &l);

		assert_true(!ret || ret == -EAGAIN);
		if (ret)
			continue;
		whole++;
		assert_int_equal(l.count, l.entries);
		assert_int_equal(l.dmabuf_size, l.count * 4 * KIB);
		for (size_t k = 0; k < l.count; k++)
			assert_int_equal(l.sg[k].addr,
					 (l.count == 1024 ? 4 * GIB : 64 * GIB) + k * 4 * KIB);
		mrg_layout_release(&l);
	}
	stop = 1;
	pthread_join(thread, NULL);
	assert_true(whole > 0);
	close(s.target);
	close(s.buffers[0]);
	close(s.buffers[1]);
}

static void errors_come_through_and_leave_the_result_alone(void **state)
{
	struct mrg_pci_addr nobody = { .bus = 0xfe };
	struct mrg_layout layout = { .count = 42 };
	int fd = make_buffer("1G,fake");

	(void)state;
	assert_int_equal(mrg_dev_layout(dev, -1, &nic, 0, 0, 0, 0, &layout), -EBADF);
	assert_int_equal(mrg_dev_layout(dev, mrguard, &nic, 0, 0, 0, 0, &layout), -EMEDIUMTYPE);
	assert_int_equal(mrg_dev_layout(dev, fd, &nobody, 0, 0, 0, 0, &layout), -ENODEV);
	assert_int_equal(mrg_dev_layout(dev, fd, &nic, 0, GIB, 0, 0, &layout), -EINVAL);
	assert_int_equal(mrg_dev_layout(dev, fd, &nic, 0, 0, 0, 2, &layout), -EINVAL);
	assert_int_equal(layout.count, 42);
	close(fd);
}

/* ---- blocks ---------------------------------------------------------------- */

static void long_runs_are_walked_as_entries(void **state)
{
	const struct mrg_sg run = { 0x1000000000, 12 * GIB };
	struct mrg_kernel_blocks got;
	uint64_t addrs[6];

	(void)state;
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0x700080000000, 0, 12 * GIB, ~(PAGE - 1), 0,
					addrs, 6, &got),
			 6);
	assert_int_equal(got.page_size, 2 * GIB);
	assert_int_equal(got.total_blocks, 6);
	assert_int_equal(got.wrong, 0);
	assert_int_equal(got.first_wrong, MRG_NO_OFFSET);
	assert_false(got.endless);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(addrs[i], run.addr + i * 2 * GIB);
}

static void more_block_addresses_than_one_call_gives_come_in_one_piece(void **state)
{
	const struct mrg_sg run = { 0x1000000000, 6 * GIB };
	const size_t n = 6 * GIB / PAGE;
	uint64_t *addrs = malloc(n * sizeof(*addrs));
	struct mrg_kernel_blocks got;

	(void)state;
	assert_non_null(addrs);
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0, 0, 6 * GIB, PAGE, 0, addrs, n, &got), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(addrs[i], run.addr + i * PAGE);
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0, 0, 6 * GIB, PAGE, n - 3, addrs, n, &got),
			 3);
	assert_int_equal(addrs[0], run.addr + (n - 3) * PAGE);
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0, 0, 6 * GIB, PAGE, 0, NULL, n, &got), 0);
	assert_int_equal(got.total_blocks, n);
	free(addrs);
}

static void too_many_blocks_leave_page_and_total(void **state)
{
	const struct mrg_sg run = { 0x1000000000, 16ULL << 40 };
	struct mrg_kernel_blocks got;

	(void)state;
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0, 0, run.len, PAGE, 0, NULL, 0, &got),
			 -EOVERFLOW);
	assert_int_equal(got.page_size, PAGE);
	assert_int_equal(got.total_blocks, run.len / PAGE);
}

static void a_list_beyond_the_limit_is_refused(void **state)
{
	const struct mrg_sg run = { 0, (MRG_BLOCKS_MAX_RUNS + 1ULL) << 31 };
	struct mrg_kernel_blocks got;

	(void)state;
	assert_int_equal(mrg_dev_blocks(dev, &run, 1, 0, 0, run.len, 1ULL << 40, 0, NULL, 0, &got),
			 -E2BIG);
}

static void a_dmabuf_is_walked_for_its_importer(void **state)
{
	int fd = make_buffer("12G@0x100000000,fake"),
	    wraps = !strcmp(getenv("MRG_WALK"), "truncating");
	struct mrg_kernel_blocks got;
	uint64_t addrs[3];

	(void)state;
	assert_int_equal(mrg_dev_dmabuf_blocks(dev, fd, &nic, 0x700000000000, 0, 0, ~(PAGE - 1), 0,
					       addrs, 3, &got),
			 3);
	assert_int_equal(got.page_size, 4 * GIB);
	assert_int_equal(got.wrong, wraps ? 2 : 0);
	assert_int_equal(addrs[2], wraps ? 4 * GIB : 12 * GIB);
	close(fd);
}

/* ---- VMAs ------------------------------------------------------------------ */

static void vma_counts_come_through(void **state)
{
	char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mrg_vma_counts c;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, 3 * PAGE);
	assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTFORK), 0);
	assert_int_equal(mrg_dev_vma(dev, 0, (uintptr_t)p, (uintptr_t)p + 3 * PAGE, &c), 0);
	assert_int_equal(c.vmas, 3);
	assert_int_equal(c.dontcopy, 1);
	assert_int_equal(c.joinable, 2);
	assert_int_equal(c.mapped, 3 * PAGE);
	assert_int_equal(c.page_size, PAGE);
	assert_int_equal(mrg_dev_vma(dev, 0, 0, 0, &c), 0);
	assert_true(c.map_count > 3);
	assert_int_equal(c.vmas, 0);
	assert_int_equal(mrg_dev_vma(dev, 4194303, 0, 0, &c), -ESRCH);
	munmap(p, 3 * PAGE);
}

static void nothing_is_left_behind(void **state)
{
	struct simgpu_stat st = simgpu_now();

	(void)state;
	assert_int_equal(st.buffers, 0);
	assert_int_equal(st.attached, 0);
	assert_int_equal(st.mapped, 0);
}

static int set_up(void **state)
{
	(void)state;
	if (kit_open("mrguard mrguard_walk edu_bind simgpu", "edu_bind"))
		return -1;
	nic = (struct mrg_pci_addr){
		.domain = importer.domain,
		.bus = importer.bus,
		.device = importer.devfn >> 3,
		.function = importer.devfn & 7,
	};
	return mrg_dev_open(&dev);
}

static int tear_down(void **state)
{
	(void)state;
	mrg_dev_close(dev);
	return kit_close("mrguard_walk mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_names_the_walk),
		cmocka_unit_test(who_may_not_open_the_node_is_told_so),
		cmocka_unit_test(no_module_and_another_device_in_its_place_are_told_apart),
		cmocka_unit_test(a_layout_says_how_the_importer_is_translated),
		cmocka_unit_test(a_few_thousand_runs_come_whole),
		cmocka_unit_test(more_entries_than_one_call_gives_come_whole_or_not_at_all),
		cmocka_unit_test(a_buffer_that_moves_gives_one_state_or_eagain),
		cmocka_unit_test(errors_come_through_and_leave_the_result_alone),
		cmocka_unit_test(long_runs_are_walked_as_entries),
		cmocka_unit_test(more_block_addresses_than_one_call_gives_come_in_one_piece),
		cmocka_unit_test(too_many_blocks_leave_page_and_total),
		cmocka_unit_test(a_list_beyond_the_limit_is_refused),
		cmocka_unit_test(a_dmabuf_is_walked_for_its_importer),
		cmocka_unit_test(vma_counts_come_through),
		cmocka_unit_test(nothing_is_left_behind),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
