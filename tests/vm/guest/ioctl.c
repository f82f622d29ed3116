/* SPDX-License-Identifier: MIT */
/* What holds for every ioctl of /dev/mrguard, and MRG_IOC_INFO. */
#include "ioctl_kit.h"

#include <pthread.h>
#include <sys/syscall.h>

/* ---- the structures do not move --------------------------------------------
 *
 * Every field at its natural alignment and none left out: then there is no
 * padding, and 32-bit callers have the same layout.
 */
#define AT(type, field, offset)                                                     \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field); \
	_Static_assert(!((offset) % sizeof(((struct type *)0)->field)), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size) && !((size) % 8), #type)

AT(mrg_ioc_info, size, 0);
AT(mrg_ioc_info, flags, 4);
AT(mrg_ioc_info, abi, 8);
AT(mrg_ioc_info, page_size, 12);
AT(mrg_ioc_info, features, 16);
AT(mrg_ioc_info, walk, 24);
AT(mrg_ioc_info, cap, 28);
AT(mrg_ioc_info, version, 32);
AT(mrg_ioc_info, cap_asked, 48);
AT(mrg_ioc_info, cap_capped, 56);
AT(mrg_ioc_info, cap_uncapped, 64);
SIZE(mrg_ioc_info, 72);

AT(mrg_ioc_holders, size, 0);
AT(mrg_ioc_holders, flags, 4);
AT(mrg_ioc_holders, pids_cap, 8);
AT(mrg_ioc_holders, pids_out, 12);
AT(mrg_ioc_holders, pids, 16);
AT(mrg_ioc_holders, total, 24);
AT(mrg_ioc_holders, reserved, 28);
SIZE(mrg_ioc_holders, 32);

AT(mrg_ioc_importer, domain, 0);
AT(mrg_ioc_importer, bus, 4);
AT(mrg_ioc_importer, devfn, 5);
AT(mrg_ioc_importer, reserved, 6);
SIZE(mrg_ioc_importer, 8);

AT(mrg_ioc_run, addr, 0);
AT(mrg_ioc_run, len, 8);
SIZE(mrg_ioc_run, 16);

AT(mrg_ioc_layout, size, 0);
AT(mrg_ioc_layout, flags, 4);
AT(mrg_ioc_layout, dmabuf_fd, 8);
AT(mrg_ioc_layout, runs_cap, 12);
AT(mrg_ioc_layout, importer, 16);
AT(mrg_ioc_layout, iova, 24);
AT(mrg_ioc_layout, offset, 32);
AT(mrg_ioc_layout, length, 40);
AT(mrg_ioc_layout, start, 48);
AT(mrg_ioc_layout, runs, 56);
AT(mrg_ioc_layout, dmabuf_size, 64);
AT(mrg_ioc_layout, total_entries, 72);
AT(mrg_ioc_layout, total_runs, 80);
AT(mrg_ioc_layout, max_seg_size, 88);
AT(mrg_ioc_layout, map_ns, 96);
AT(mrg_ioc_layout, runs_out, 104);
AT(mrg_ioc_layout, info, 108);
AT(mrg_ioc_layout, iommu, 112);
AT(mrg_ioc_layout, reserved, 116);
_Static_assert(offsetof(struct mrg_ioc_layout, exporter) == 120, "mrg_ioc_layout.exporter");
SIZE(mrg_ioc_layout, 152);

AT(mrg_ioc_blocks, size, 0);
AT(mrg_ioc_blocks, flags, 4);
AT(mrg_ioc_blocks, dmabuf_fd, 8);
AT(mrg_ioc_blocks, runs_cap, 12);
AT(mrg_ioc_blocks, importer, 16);
AT(mrg_ioc_blocks, iova, 24);
AT(mrg_ioc_blocks, offset, 32);
AT(mrg_ioc_blocks, length, 40);
AT(mrg_ioc_blocks, pgsz_bitmap, 48);
AT(mrg_ioc_blocks, runs, 56);
AT(mrg_ioc_blocks, start, 64);
AT(mrg_ioc_blocks, blocks, 72);
AT(mrg_ioc_blocks, blocks_cap, 80);
AT(mrg_ioc_blocks, blocks_out, 84);
AT(mrg_ioc_blocks, page_size, 88);
AT(mrg_ioc_blocks, total_blocks, 96);
AT(mrg_ioc_blocks, walked, 104);
AT(mrg_ioc_blocks, wrong, 112);
AT(mrg_ioc_blocks, first_wrong, 120);
AT(mrg_ioc_blocks, info, 128);
AT(mrg_ioc_blocks, reserved, 132);
SIZE(mrg_ioc_blocks, 136);

AT(mrg_ioc_vma, size, 0);
AT(mrg_ioc_vma, flags, 4);
AT(mrg_ioc_vma, pid, 8);
AT(mrg_ioc_vma, reserved, 12);
AT(mrg_ioc_vma, start, 16);
AT(mrg_ioc_vma, end, 24);
AT(mrg_ioc_vma, map_count, 32);
AT(mrg_ioc_vma, vmas, 40);
AT(mrg_ioc_vma, dontcopy, 48);
AT(mrg_ioc_vma, joinable, 56);
AT(mrg_ioc_vma, stuck_anon, 64);
AT(mrg_ioc_vma, stuck_special, 72);
AT(mrg_ioc_vma, stuck_file, 80);
AT(mrg_ioc_vma, stuck_other, 88);
AT(mrg_ioc_vma, mapped, 96);
AT(mrg_ioc_vma, special, 104);
AT(mrg_ioc_vma, unwritten, 112);
AT(mrg_ioc_vma, page_size, 120);
SIZE(mrg_ioc_vma, 128);

_Static_assert(_IOC_NR(MRG_IOC_INFO) == 0 && _IOC_NR(MRG_IOC_LAYOUT) == 1 &&
		       _IOC_NR(MRG_IOC_BLOCKS) == 2 && _IOC_NR(MRG_IOC_VMA) == 3 &&
		       _IOC_NR(MRG_IOC_HOLDERS) == 4,
	       "numbers stay");

/* ---- what holds for every call ------------------------------------------- */

static int buffer = -1; /* 12 GiB at 4 GiB, invented */
static struct mrg_ioc_run one_run = { 0x100000000, 64 * KIB };

static struct mrg_ioc_info good_info(void)
{
	return (struct mrg_ioc_info){ .size = sizeof(struct mrg_ioc_info) };
}

static struct mrg_ioc_vma good_vma(void)
{
	return (struct mrg_ioc_vma){ .size = sizeof(struct mrg_ioc_vma) };
}

/* A caller's structure, a size word at its start, with room to grow. */
union any {
	uint32_t size;
	struct mrg_ioc_info info;
	struct mrg_ioc_layout layout;
	struct mrg_ioc_blocks blocks;
	struct mrg_ioc_vma vma;
	struct mrg_ioc_holders holders;
	uint8_t bytes[2 * LARGEST_PAGE];
};

struct door {
	const char *name;
	unsigned long cmd;
	uint32_t size;
	size_t flags; /* where flags and reserved fields are */
	size_t reserved;
	size_t first_out; /* where the output begins that every call writes */
};

static const struct door doors[] = {
	{ "info", MRG_IOC_INFO, sizeof(struct mrg_ioc_info), offsetof(struct mrg_ioc_info, flags),
	  offsetof(struct mrg_ioc_info, cap), offsetof(struct mrg_ioc_info, abi) },
	{ "layout", MRG_IOC_LAYOUT, sizeof(struct mrg_ioc_layout),
	  offsetof(struct mrg_ioc_layout, flags), offsetof(struct mrg_ioc_layout, reserved),
	  offsetof(struct mrg_ioc_layout, dmabuf_size) },
	{ "blocks", MRG_IOC_BLOCKS, sizeof(struct mrg_ioc_blocks),
	  offsetof(struct mrg_ioc_blocks, flags), offsetof(struct mrg_ioc_blocks, reserved),
	  offsetof(struct mrg_ioc_blocks, page_size) },
	{ "vma", MRG_IOC_VMA, sizeof(struct mrg_ioc_vma), offsetof(struct mrg_ioc_vma, flags),
	  offsetof(struct mrg_ioc_vma, reserved), offsetof(struct mrg_ioc_vma, map_count) },
	{ "holders", MRG_IOC_HOLDERS, sizeof(struct mrg_ioc_holders),
	  offsetof(struct mrg_ioc_holders, flags), offsetof(struct mrg_ioc_holders, reserved),
	  offsetof(struct mrg_ioc_holders, pids_out) },
};

#define for_each_door(d) \
	for (const struct door *d = doors; d < doors + sizeof(doors) / sizeof(doors[0]); d++)

static void fill_good(const struct door *d, union any *arg)
{
	memset(arg, 0, sizeof(*arg));
	if (d->cmd == MRG_IOC_INFO)
		arg->info = good_info();
	else if (d->cmd == MRG_IOC_LAYOUT)
		arg->layout = layout_of(buffer, NULL, 0);
	else if (d->cmd == MRG_IOC_BLOCKS)
		arg->blocks = blocks_of(&one_run, 1, 0x100000000, one_run.len);
	else if (d->cmd == MRG_IOC_VMA)
		arg->vma = good_vma();
	else
		arg->holders.size = sizeof(arg->holders);
}

static void expect(const struct door *d, void *arg, int want)
{
	int got = call(d->cmd, arg);

	if (got != want)
		print_error("%s: %d, not %d\n", d->name, got, want);
	assert_int_equal(got, want);
}

static void every_call_works_with_a_good_structure(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		fill_good(d, &arg);
		expect(d, &arg, 0);
	}
}

static void a_size_too_small_for_flags_is_refused(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		for (uint32_t size = 0; size < 8; size++) {
			fill_good(d, &arg);
			arg.size = size;
			expect(d, &arg, -EINVAL);
		}
	}
}

static void a_longer_structure_with_a_zero_tail_is_taken_and_its_tail_left_alone(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		fill_good(d, &arg);
		arg.size = PAGE;
		memset(arg.bytes + PAGE, 0xa5, PAGE);
		expect(d, &arg, 0);
		for (size_t i = d->size; i < 2 * PAGE; i++)
			assert_int_equal(arg.bytes[i], i < PAGE ? 0 : 0xa5);
	}
}

static void a_longer_structure_with_any_other_tail_is_refused(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		const size_t places[] = { d->size, d->size + 7, d->size + 8, PAGE - 1 };

		for (int i = 0; i < 4; i++) {
			fill_good(d, &arg);
			arg.size = PAGE;
			arg.bytes[places[i]] = 1;
			expect(d, &arg, -E2BIG);
		}
	}
}

static void a_structure_of_more_than_a_page_is_refused(void **state)
{
	const uint32_t sizes[] = { PAGE + 1, PAGE + 8, 1U << 31, UINT32_MAX };
	union any arg;

	(void)state;
	for_each_door(d) {
		for (int i = 0; i < 4; i++) {
			fill_good(d, &arg);
			arg.size = sizes[i];
			expect(d, &arg, -E2BIG);
		}
	}
}

/* Where the cut takes away what a call cannot do without, it says so. */
static void a_shorter_structure_is_read_as_zeroes_and_not_written_beyond(void **state)
{
	union any arg, before;

	(void)state;
	for_each_door(d) {
		for (uint32_t size = 8; size <= d->size; size++) {
			fill_good(d, &arg);
			arg.size = size;
			memset(arg.bytes + size, 0xff, d->size - size);
			before = arg;
			if (call(d->cmd, &arg))
				assert_true(size < d->first_out);
			assert_memory_equal(arg.bytes + size, before.bytes + size,
					    sizeof(arg) - size);
		}
	}
}

static void undefined_flags_are_refused_one_by_one(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		for (int bit = d->cmd == MRG_IOC_INFO || d->cmd == MRG_IOC_HOLDERS ? 0 : 1;
		     bit < 32; bit++) {
			uint32_t flags = 1U << bit;

			fill_good(d, &arg);
			memcpy(arg.bytes + d->flags, &flags, sizeof(flags));
			expect(d, &arg, -EINVAL);
		}
	}
}

static void reserved_fields_must_be_zero(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		for (size_t byte = 0; byte < 4; byte++) {
			fill_good(d, &arg);
			arg.bytes[d->reserved + byte] = 1;
			expect(d, &arg, -EINVAL);
		}
	}
	fill_good(&doors[1], &arg);
	arg.layout.importer.reserved = 1;
	expect(&doors[1], &arg, -EINVAL);
}

/* Flush against a page that is not there: one byte too many read or written faults. */
static void nothing_beyond_the_structure_is_touched(void **state)
{
	uint8_t *two =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union any arg;

	(void)state;
	assert_ptr_not_equal(two, MAP_FAILED);
	mprotect(two + PAGE, PAGE, PROT_NONE);
	for_each_door(d) {
		fill_good(d, &arg);
		memcpy(two + PAGE - d->size, &arg, d->size);
		expect(d, two + PAGE - d->size, 0);
		arg.size = d->size + 8;
		memcpy(two + PAGE - d->size, &arg, d->size);
		expect(d, two + PAGE - d->size, -EFAULT);
		expect(d, two + PAGE - 2, -EFAULT);
	}
	munmap(two, 2 * PAGE);
}

static void a_structure_that_cannot_be_read_or_written_gives_efault(void **state)
{
	uint8_t *page =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union any arg;

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	for_each_door(d) {
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		fill_good(d, &arg);
		memcpy(page, &arg, d->size);
		mprotect(page, PAGE, PROT_READ);
		expect(d, page, -EFAULT);
		assert_memory_equal(page, &arg, d->size);
		mprotect(page, PAGE, PROT_NONE);
		expect(d, page, -EFAULT);
		expect(d, NULL, -EFAULT);
		expect(d, (void *)-PAGE, -EFAULT);
	}
	munmap(page, PAGE);
}

static void the_size_in_a_command_does_not_matter_and_its_type_does(void **state)
{
	union any arg;

	(void)state;
	for_each_door(d) {
		fill_good(d, &arg);
		assert_int_equal(call(_IOWR(MRG_IOC_TYPE, _IOC_NR(d->cmd), uint64_t), &arg), 0);
		assert_int_equal(call(_IOWR('x', _IOC_NR(d->cmd), uint64_t), &arg), -ENOTTY);
	}
	for (unsigned int nr = sizeof(doors) / sizeof(doors[0]); nr < 256; nr++)
		assert_int_equal(call(_IOWR(MRG_IOC_TYPE, nr, uint64_t), &arg), -ENOTTY);
}

#ifdef __x86_64__
/*
 * A 32-bit call from this 64-bit program, which arm64 has no way to make; the
 * structure must lie below 4 GiB.
 */
static int call32(unsigned long cmd, void *low)
{
	int ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(54 /* ioctl */), "b"(mrguard), "c"((uint32_t)cmd),
			   "d"((uint32_t)(uintptr_t)low)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

static void a_32_bit_caller_gets_the_same(void **state)
{
	union any *low = mmap(NULL, sizeof(*low), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0),
		  arg;

	(void)state;
	assert_ptr_not_equal(low, MAP_FAILED);
	for_each_door(d) {
		fill_good(d, &arg);
		*low = arg;
		expect(d, &arg, 0);
		assert_int_equal(call32(d->cmd, low), 0);
		if (d->cmd == MRG_IOC_LAYOUT)
			low->layout.map_ns = arg.layout.map_ns;
		assert_memory_equal(low, &arg, d->size);
	}
	munmap(low, sizeof(*low));
}
#endif

/* ---- info ---------------------------------------------------------------- */

static void info_finds_the_walk_that_this_kernel_is_known_for(void **state)
{
	struct mrg_ioc_info info = good_info();

	(void)state;
	assert_int_equal(call(MRG_IOC_INFO, &info), 0);
	assert_int_equal(info.walk, expected_walk());
	assert_int_equal(info.features, MRG_FEATURE_LAYOUT | MRG_FEATURE_VMA | MRG_FEATURE_WALK);
	assert_int_equal(info.abi, MRG_ABI_VERSION);
	assert_int_equal(info.page_size, PAGE);
	assert_string_equal(info.version, MRG_VERSION);
}

static void without_mrguard_walk_all_but_the_walk_works(void **state)
{
	struct mrg_ioc_blocks blocks = blocks_of(&one_run, 1, 0, one_run.len);
	struct mrg_ioc_layout layout = layout_of(buffer, NULL, 0);
	struct mrg_ioc_info info = good_info();
	struct mrg_ioc_vma vma = good_vma();

	(void)state;
	assert_int_equal(system("modprobe -r mrguard_walk >&2"), 0);
	assert_int_equal(call(MRG_IOC_INFO, &info), 0);
	assert_int_equal(info.features, MRG_FEATURE_LAYOUT | MRG_FEATURE_VMA);
	assert_int_equal(info.walk, 0);
	assert_int_equal(call(MRG_IOC_LAYOUT, &layout), 0);
	assert_int_equal(layout.total_entries, 6);
	assert_int_equal(call(MRG_IOC_VMA, &vma), 0);
	assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), -EOPNOTSUPP);
	assert_int_equal(system("modprobe mrguard_walk >&2"), 0);
	assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), 0);
}

static int unload(const char *module)
{
	return syscall(SYS_delete_module, module, O_NONBLOCK) ? -errno : 0;
}

static void an_open_device_keeps_the_module(void **state)
{
	int again = open("/dev/mrguard", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(again >= 0);
	assert_int_equal(unload("mrguard"), -EAGAIN);
	assert_int_equal(system("modprobe -r mrguard_walk >&2"), 0);
	assert_int_equal(unload("mrguard"), -EAGAIN);
	close(mrguard);
	assert_int_equal(unload("mrguard"), -EAGAIN);
	close(again);
	assert_int_equal(unload("mrguard"), 0);
	assert_int_equal(system("modprobe -a mrguard mrguard_walk >&2"), 0);
	mrguard = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	assert_true(mrguard >= 0);
}

static volatile int stop;

static void *ask_for_blocks(void *failures)
{
	while (!stop) {
		struct mrg_ioc_blocks blocks = blocks_of(&one_run, 1, 0x100000000, one_run.len);
		int ret = call(MRG_IOC_BLOCKS, &blocks);

		if (ret && ret != -EOPNOTSUPP)
			++*(unsigned long *)failures;
	}
	return NULL;
}

static void mrguard_walk_comes_and_goes_while_it_is_asked(void **state)
{
	unsigned long failures[4] = { 0 };
	int rounds = getenv("MRG_FULL") && *getenv("MRG_FULL") ? 200 : 20;
	pthread_t threads[4];

	(void)state;
	stop = 0;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_blocks, &failures[i]),
				 0);
	for (int i = 0; i < rounds; i++) {
		int ret = unload("mrguard_walk");

		assert_true(!ret || ret == -EAGAIN);
		if (!ret)
			assert_int_equal(system("modprobe mrguard_walk >&2"), 0);
	}
	stop = 1;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(failures[i], 0);
	}
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
	return kit_close("mrguard_walk mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_works_with_a_good_structure),
		cmocka_unit_test(a_size_too_small_for_flags_is_refused),
		cmocka_unit_test(
			a_longer_structure_with_a_zero_tail_is_taken_and_its_tail_left_alone),
		cmocka_unit_test(a_longer_structure_with_any_other_tail_is_refused),
		cmocka_unit_test(a_structure_of_more_than_a_page_is_refused),
		cmocka_unit_test(a_shorter_structure_is_read_as_zeroes_and_not_written_beyond),
		cmocka_unit_test(undefined_flags_are_refused_one_by_one),
		cmocka_unit_test(reserved_fields_must_be_zero),
		cmocka_unit_test(nothing_beyond_the_structure_is_touched),
		cmocka_unit_test(a_structure_that_cannot_be_read_or_written_gives_efault),
		cmocka_unit_test(the_size_in_a_command_does_not_matter_and_its_type_does),
#ifdef __x86_64__
		cmocka_unit_test(a_32_bit_caller_gets_the_same),
#endif
		cmocka_unit_test(info_finds_the_walk_that_this_kernel_is_known_for),
		cmocka_unit_test(without_mrguard_walk_all_but_the_walk_works),
		cmocka_unit_test(an_open_device_keeps_the_module),
		cmocka_unit_test(mrguard_walk_comes_and_goes_while_it_is_asked),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
