/* SPDX-License-Identifier: MIT */
/* /dev/mrguard keeps its promises: the structures, each call, each errno. */
#include "ioctl_kit.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- the structures do not move --------------------------------------------
 *
 * Every field at its natural alignment and none left out: then there is no
 * padding, and 32-bit callers have the same layout.
 */
#define AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field); \
	_Static_assert(!((offset) % sizeof(((struct type *)0)->field)), #type "." #field)
#define SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size) && !((size) % 8), #type)

AT(mrg_ioc_info, size, 0);
AT(mrg_ioc_info, flags, 4);
AT(mrg_ioc_info, abi, 8);
AT(mrg_ioc_info, page_size, 12);
AT(mrg_ioc_info, features, 16);
AT(mrg_ioc_info, walk, 24);
AT(mrg_ioc_info, reserved, 28);
AT(mrg_ioc_info, version, 32);
SIZE(mrg_ioc_info, 48);

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
	       _IOC_NR(MRG_IOC_BLOCKS) == 2 && _IOC_NR(MRG_IOC_VMA) == 3, "numbers stay");

/* ---- what holds for every call ------------------------------------------- */

static int buffer = -1;	/* 12 GiB at 4 GiB, invented */
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
	uint8_t bytes[2 * PAGE];
};

struct door {
	const char *name;
	unsigned long cmd;
	uint32_t size;
	size_t flags;		/* where flags and reserved fields are */
	size_t reserved;
	size_t first_out;	/* where the output begins that every call writes */
};

static const struct door doors[] = {
	{ "info", MRG_IOC_INFO, sizeof(struct mrg_ioc_info), offsetof(struct mrg_ioc_info, flags),
	  offsetof(struct mrg_ioc_info, reserved), offsetof(struct mrg_ioc_info, abi) },
	{ "layout", MRG_IOC_LAYOUT, sizeof(struct mrg_ioc_layout),
	  offsetof(struct mrg_ioc_layout, flags), offsetof(struct mrg_ioc_layout, reserved),
	  offsetof(struct mrg_ioc_layout, dmabuf_size) },
	{ "blocks", MRG_IOC_BLOCKS, sizeof(struct mrg_ioc_blocks),
	  offsetof(struct mrg_ioc_blocks, flags), offsetof(struct mrg_ioc_blocks, reserved),
	  offsetof(struct mrg_ioc_blocks, page_size) },
	{ "vma", MRG_IOC_VMA, sizeof(struct mrg_ioc_vma), offsetof(struct mrg_ioc_vma, flags),
	  offsetof(struct mrg_ioc_vma, reserved), offsetof(struct mrg_ioc_vma, map_count) },
};

#define EACH_DOOR(d) (const struct door *d = doors; d < doors + 4; d++)

static void fill_good(const struct door *d, union any *arg)
{
	memset(arg, 0, sizeof(*arg));
	if (d->cmd == MRG_IOC_INFO)
		arg->info = good_info();
	else if (d->cmd == MRG_IOC_LAYOUT)
		arg->layout = layout_of(buffer, NULL, 0);
	else if (d->cmd == MRG_IOC_BLOCKS)
		arg->blocks = blocks_of(&one_run, 1, 0x100000000, one_run.len);
	else
		arg->vma = good_vma();
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
	for EACH_DOOR(d) {
		fill_good(d, &arg);
		expect(d, &arg, 0);
	}
}

static void a_size_too_small_for_flags_is_refused(void **state)
{
	union any arg;

	(void)state;
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
		for (int bit = d->cmd == MRG_IOC_INFO ? 0 : 1; bit < 32; bit++) {
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
	for EACH_DOOR(d) {
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
	uint8_t *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union any arg;

	(void)state;
	assert_ptr_not_equal(two, MAP_FAILED);
	mprotect(two + PAGE, PAGE, PROT_NONE);
	for EACH_DOOR(d) {
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
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union any arg;

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	for EACH_DOOR(d) {
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
	for EACH_DOOR(d) {
		fill_good(d, &arg);
		assert_int_equal(call(_IOWR(MRG_IOC_TYPE, _IOC_NR(d->cmd), uint64_t), &arg), 0);
		assert_int_equal(call(_IOWR('x', _IOC_NR(d->cmd), uint64_t), &arg), -ENOTTY);
	}
	for (unsigned int nr = 4; nr < 256; nr++)
		assert_int_equal(call(_IOWR(MRG_IOC_TYPE, nr, uint64_t), &arg), -ENOTTY);
}

/* A 32-bit call from this 64-bit program; the structure must lie below 4 GiB. */
static int call32(unsigned long cmd, void *low)
{
	int ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(54 /* ioctl */), "b"(mrguard),
			 "c"((uint32_t)cmd), "d"((uint32_t)(uintptr_t)low)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

static void a_32_bit_caller_gets_the_same(void **state)
{
	union any *low = mmap(NULL, sizeof(*low), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0), arg;

	(void)state;
	assert_ptr_not_equal(low, MAP_FAILED);
	for EACH_DOOR(d) {
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

/* ---- info ---------------------------------------------------------------- */

static uint32_t expected_walk(void)
{
	const char *walk = getenv("MRG_WALK");

	assert_non_null(walk);
	return MRG_WALK_KNOWN | MRG_WALK_CROSSES |
	       (strcmp(walk, "truncating") ? 0 : MRG_WALK_TRUNCATES);
}

static int truncating(void)
{
	return !!(expected_walk() & MRG_WALK_TRUNCATES);
}

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
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_blocks, &failures[i]), 0);
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

/* ---- blocks -------------------------------------------------------------- */

/*
 * Rows of DESIGN.md: 12 GiB as six entries, measured on 6.1.170.  What a right
 * walk gives follows from the address; what a truncating one gives is written
 * out.
 */
struct row {
	uint64_t iova, addr, page;
	uint32_t blocks, wrong;
	uint64_t first_wrong;
	uint64_t truncated[12];
};

static const struct row rows[] = {
	{ 0x700000000000, 0x100000000, 1ULL << 32, 3, 2, 1ULL << 32,
	  { 0x100000000, 0x100000000, 0x100000000 } },
	{ 0x700200000000, 0x400000000, 1ULL << 33, 2, 1, 1ULL << 33,
	  { 0x400000000, 0x400000000 } },
	{ 0x700000001000, 0x100001000, 1ULL << 32, 4, 2, (2ULL << 32) - 0x1000,
	  { 0x100000000, 0x200000000, 0x200000000, 0x200000000 } },
	{ 0x700100000000, 0x100000000, 1ULL << 34, 1, 0, UINT64_MAX, { 0 } },
	{ 0x700080000000, 0x100000000, 1ULL << 31, 6, 0, UINT64_MAX,
	  { 0x100000000, 0x180000000, 0x200000000, 0x280000000, 0x300000000, 0x380000000 } },
	{ 0x700300000000, 0x340000000, 1ULL << 30, 12, 0, UINT64_MAX,
	  { 0x340000000, 0x380000000, 0x3c0000000, 0x400000000, 0x440000000, 0x480000000,
	    0x4c0000000, 0x500000000, 0x540000000, 0x580000000, 0x5c0000000, 0x600000000 } },
};

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
		assert_int_equal(blocks[i], truncating() ? row->truncated[i] :
				 (row->addr & ~(row->page - 1)) + i * row->page);
}

static void the_kernel_gives_the_six_rows_for_a_list(void **state)
{
	(void)state;
	for (int r = 0; r < 6; r++) {
		struct mrg_ioc_run runs[6];
		struct mrg_ioc_blocks arg;
		uint64_t blocks[12];

		for (uint64_t i = 0; i < 6; i++)
			runs[i] = (struct mrg_ioc_run){ rows[r].addr + i * 2 * GIB, 2 * GIB };
		arg = blocks_of(runs, 6, rows[r].iova, 12 * GIB);
		arg.blocks = (uintptr_t)blocks;
		arg.blocks_cap = 12;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
		expect_row(&rows[r], &arg, blocks);
	}
}

static void the_kernel_gives_the_six_rows_for_a_dmabuf(void **state)
{
	(void)state;
	for (int r = 0; r < 6; r++) {
		struct mrg_ioc_blocks arg = blocks_of(NULL, 0, rows[r].iova, 0);
		uint64_t blocks[12];
		char spec[64];

		snprintf(spec, sizeof(spec), "12G@%#llx,seg=2G,fake", (unsigned long long)rows[r].addr);
		arg.flags = MRG_BLOCKS_DMABUF;
		arg.dmabuf_fd = make_buffer(spec);
		arg.importer = importer;
		arg.blocks = (uintptr_t)blocks;
		arg.blocks_cap = 12;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
		expect_row(&rows[r], &arg, blocks);
		close(arg.dmabuf_fd);
	}
}

/* Worked out by hand, apart from any code here. */
static void cases_worked_out_by_hand_come_out(void **state)
{
	const struct mrg_ioc_run odd[] = { { 0x1000000000, 0xfffff000 }, { 0x10fffff000, 0xfffff000 },
					   { 0x11ffffe000, 0x2000 } };
	const struct mrg_ioc_run small = { 61440, 28672 };
	const struct mrg_ioc_run five[] = { { 0x1000200000, 2 * GIB }, { 0x1080200000, 2 * GIB },
					    { 0x1100200000, GIB } };
	struct mrg_ioc_blocks arg = blocks_of(odd, 3, 0x7f0000000000, 8 * GIB);

	(void)state;
	arg.pgsz_bitmap = 0x1fffff000;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 4 * GIB);
	assert_int_equal(arg.total_blocks, 2);
	assert_int_equal(arg.wrong, truncating());
	assert_int_equal(arg.first_wrong, truncating() ? 4 * GIB : UINT64_MAX);
	arg.pgsz_bitmap = 0xfffff000;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.total_blocks, 4);
	assert_int_equal(arg.wrong, 0);
	arg = blocks_of(&small, 1, 61440, 28672);
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 0x20000);
	assert_int_equal(arg.total_blocks, 1);
	arg = blocks_of(five, 3, 0x7f0000200000, 5 * GIB);
	arg.pgsz_bitmap = 0x1fffff000;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.page_size, 4 * GIB);
	assert_int_equal(arg.total_blocks, 2);
	assert_int_equal(arg.wrong, 0);
}

static void a_part_of_a_list_is_walked_as_its_own_list_would_be(void **state)
{
	const struct mrg_ioc_run runs[] = { { 0x100000000, 8 * MIB }, { 0x200000000, 8 * MIB },
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
	const struct mrg_ioc_run run = { 0x100000000, 4 * MIB };
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
	struct mrg_ioc_run runs[40];
	struct mrg_ioc_blocks arg = blocks_of(runs, 40, 0, 80 * GIB);

	(void)state;
	for (uint64_t i = 0; i < 40; i++)
		runs[i] = (struct mrg_ioc_run){ 0x100000000 + i * 2 * GIB, 2 * GIB };
	arg.pgsz_bitmap = PAGE;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -EOVERFLOW);
	assert_int_equal(arg.page_size, PAGE);
	assert_int_equal(arg.total_blocks, 80 * GIB / PAGE);
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
	struct mrg_ioc_run runs[2];
	struct mrg_ioc_blocks ok = blocks_of(runs, 2, 0x100000000, 16 * KIB), arg;

	(void)state;
#define LIST(a0, l0, a1, l1) do { \
		runs[0] = (struct mrg_ioc_run){ (a0), (l0) }; \
		runs[1] = (struct mrg_ioc_run){ (a1), (l1) }; \
	} while (0)
#define REFUSED(field, value, err) do { \
		arg = ok; \
		arg.field = (value); \
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -(err)); \
	} while (0)
	LIST(0x100000000, 8 * KIB, 0x200000000, 8 * KIB);
	arg = ok;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	REFUSED(dmabuf_fd, 0, EINVAL);
	REFUSED(importer.bus, 1, EINVAL);
	REFUSED(length, 0, EINVAL);
	REFUSED(length, 16 * KIB + 1, EINVAL);
	REFUSED(length, UINT64_MAX, EINVAL);
	REFUSED(offset, 16 * KIB, EINVAL);
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
		{ 0x100000001, 8 * KIB, 0x200000000, 8 * KIB },
		{ 0x100000000, 0, 0x200000000, 16 * KIB },
		{ 0x100000000, 8 * KIB + 1, 0x200000000, 8 * KIB },
		{ 0x100000000, 1ULL << 32, 0x200000000, 8 * KIB },
		{ 0x100000000, 16 * KIB, 0x200000000, 0 },
		{ -PAGE, 8 * KIB, 0x200000000, 8 * KIB },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		LIST(bad[i][0], bad[i][1], bad[i][2], bad[i][3]);
		arg = ok;
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), -EINVAL);
	}
	LIST(0x100000000, 8 * KIB, -PAGE, PAGE - 1);
	arg = ok;
	arg.length = 12 * KIB - 1;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
#undef LIST
#undef REFUSED
}

/* ---- layout -------------------------------------------------------------- */

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
	assert_int_equal(arg.iommu, MRG_IOMMU_NONE);
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
#define REFUSED(field, value, err) do { \
		arg = ok; \
		arg.field = (value); \
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

#define MAX_ENTRIES	64

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
		.size = sizeof(create), .flags = SIMGPU_FAKE, .extents = (uintptr_t)extents,
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
		cmocka_unit_test(every_call_works_with_a_good_structure),
		cmocka_unit_test(a_size_too_small_for_flags_is_refused),
		cmocka_unit_test(a_longer_structure_with_a_zero_tail_is_taken_and_its_tail_left_alone),
		cmocka_unit_test(a_longer_structure_with_any_other_tail_is_refused),
		cmocka_unit_test(a_structure_of_more_than_a_page_is_refused),
		cmocka_unit_test(a_shorter_structure_is_read_as_zeroes_and_not_written_beyond),
		cmocka_unit_test(undefined_flags_are_refused_one_by_one),
		cmocka_unit_test(reserved_fields_must_be_zero),
		cmocka_unit_test(nothing_beyond_the_structure_is_touched),
		cmocka_unit_test(a_structure_that_cannot_be_read_or_written_gives_efault),
		cmocka_unit_test(the_size_in_a_command_does_not_matter_and_its_type_does),
		cmocka_unit_test(a_32_bit_caller_gets_the_same),
		cmocka_unit_test(info_finds_the_walk_that_this_kernel_is_known_for),
		cmocka_unit_test(without_mrguard_walk_all_but_the_walk_works),
		cmocka_unit_test(an_open_device_keeps_the_module),
		cmocka_unit_test(mrguard_walk_comes_and_goes_while_it_is_asked),
		cmocka_unit_test(the_kernel_gives_the_six_rows_for_a_list),
		cmocka_unit_test(the_kernel_gives_the_six_rows_for_a_dmabuf),
		cmocka_unit_test(cases_worked_out_by_hand_come_out),
		cmocka_unit_test(a_part_of_a_list_is_walked_as_its_own_list_would_be),
		cmocka_unit_test(block_addresses_come_in_pages),
		cmocka_unit_test(more_blocks_than_can_be_walked_are_counted_all_the_same),
		cmocka_unit_test(a_page_that_no_size_fits_is_no_error_but_no_page),
		cmocka_unit_test(lists_that_are_none_are_refused),
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
