/* SPDX-License-Identifier: MIT */
/* What the ioctls cost, as ratios to what they replace or stand on, in one run, on the
 * machine `counted', where the clock counts instructions. */
#include "ioctl_kit.h"

#include <pthread.h>

#define VMAS 60000UL
#define ENTRIES (3ULL << 20)

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- VMA counts ------------------------------------------------------------ */

/* Neighbours that differ in protection, so that they stay apart. */
static char *make_vmas(void)
{
	char *p = mmap(NULL, VMAS * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	for (unsigned long i = 1; i < VMAS; i += 2)
		assert_int_equal(mprotect(p + i * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	return p;
}

static uint64_t time_lines(uint64_t *lines)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t began = now_ns();

		*lines = count_lines();
		best = smaller(best, now_ns() - began);
	}
	return best;
}

static uint64_t time_vma(struct mrg_ioc_vma *arg, int calls)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t began = now_ns();

		for (int k = 0; k < calls; k++)
			assert_int_equal(call(MRG_IOC_VMA, arg), 0);
		best = smaller(best, (now_ns() - began) / (uint64_t)calls);
	}
	return best;
}

static void the_count_is_a_thousand_times_faster_than_proc_maps(void **state)
{
	struct mrg_ioc_vma arg = { .size = sizeof(arg) };
	char *p = make_vmas();
	uint64_t lines, reading = time_lines(&lines), asking = time_vma(&arg, 1000), range;

	(void)state;
	assert_int_equal(arg.map_count, lines - lines_of_nobody());
	arg.flags = MRG_VMA_RANGE;
	arg.start = (uintptr_t)p;
	arg.end = arg.start + VMAS * PAGE;
	range = time_vma(&arg, 1);
	assert_int_equal(arg.vmas, VMAS);
	print_message("# %lu VMAs: maps %llu us, map_count %llu ns, ratio %llu; range %llu us\n",
		      VMAS, (unsigned long long)reading / 1000, (unsigned long long)asking,
		      (unsigned long long)(reading / asking), (unsigned long long)range / 1000);
	assert_true(reading >= 1000 * asking);
	munmap(p, VMAS * PAGE);
}

/* ---- layouts --------------------------------------------------------------- */

static void expect_layout_within(uint32_t flags, uint64_t limit, const char *what)
{
	int fd = make_buffer("12G,seg=4K,fake");
	struct mrg_ioc_run *runs = mmap(NULL, 65536 * sizeof(*runs), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t best = UINT64_MAX, map = 0;

	assert_ptr_not_equal(runs, MAP_FAILED);
	for (int i = 0; i < 3; i++) {
		struct mrg_ioc_layout arg = layout_of(fd, runs, 65536);
		uint64_t began = now_ns(), took;

		arg.flags = flags;
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
		took = now_ns() - began;
		assert_int_equal(arg.total_entries, ENTRIES);
		assert_int_equal(arg.total_runs, 1);
		if (took * 1000 / arg.map_ns < best) {
			best = took * 1000 / arg.map_ns;
			map = arg.map_ns;
		}
	}
	print_message("# %llu entries, %s: %llu.%03llu times the map call's own %llu us\n", ENTRIES,
		      what, (unsigned long long)best / 1000, (unsigned long long)best % 1000,
		      (unsigned long long)map / 1000);
	assert_true(best <= limit * 1000);
	munmap(runs, 65536 * sizeof(*runs));
	close(fd);
}

static void three_million_entries_joined_take_at_most_five_times_the_map(void **state)
{
	(void)state;
	expect_layout_within(MRG_LAYOUT_COALESCE, 5, "joined");
}

static void a_page_of_three_million_entries_takes_at_most_five_times_the_map(void **state)
{
	(void)state;
	expect_layout_within(0, 5, "a page of 65536");
}

/* ---- memory ---------------------------------------------------------------- */

/* Bytes of vmalloc that are there on behalf of mrguard.ko. */
static uint64_t vmalloc_of_mrguard(void)
{
	FILE *f = fopen("/proc/vmallocinfo", "r");
	uint64_t bytes = 0;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long size;

		if (strstr(line, "mrg_ioc_") && strstr(line, "[mrguard]") &&
		    sscanf(line, "%*s %llu", &size) == 1)
			bytes += size;
	}
	fclose(f);
	return bytes;
}

static void *ask_slowly(void *arg)
{
	struct mrg_ioc_layout *layout = arg;

	return (void *)(intptr_t)call(MRG_IOC_LAYOUT, layout);
}

/* What a call holds while it maps @spec with room for @cap entries. */
static uint64_t held(const char *spec, uint32_t cap)
{
	int fd = make_buffer(spec);
	struct mrg_ioc_run *runs = mmap(NULL, cap * sizeof(*runs), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct mrg_ioc_layout arg = layout_of(fd, runs, cap);
	pthread_t thread;
	uint64_t bytes;
	void *ret;

	assert_ptr_not_equal(runs, MAP_FAILED);
	assert_int_equal(pthread_create(&thread, NULL, ask_slowly, &arg), 0);
	usleep(500000);
	bytes = vmalloc_of_mrguard();
	pthread_join(thread, &ret);
	assert_null(ret);
	munmap(runs, cap * sizeof(*runs));
	close(fd);
	return bytes;
}

/* 3 million entries are 48 MiB of runs; the call has room for those it gives. */
static void memory_is_held_for_a_page_of_entries_only(void **state)
{
	uint64_t few, many;

	(void)state;
	few = held("12G,seg=4K,fake,delay=1500", 512 * 1024);
	many = held("12G,seg=4K,fake,delay=1500", UINT32_MAX / 16);
	print_message("# held: %llu KiB for 524288 entries, %llu KiB for any number\n",
		      (unsigned long long)few / 1024, (unsigned long long)many / 1024);
	assert_true(few >= 8 * MIB && few < 8 * MIB + 64 * KIB);
	assert_true(many >= 16 * MIB && many < 16 * MIB + 64 * KIB);
	assert_int_equal(vmalloc_of_mrguard(), 0);
}

/* ---- set-up ---------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	return kit_open("mrguard edu_bind simgpu", "edu_bind");
}

static int tear_down(void **state)
{
	(void)state;
	return kit_close("mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_count_is_a_thousand_times_faster_than_proc_maps),
		cmocka_unit_test(three_million_entries_joined_take_at_most_five_times_the_map),
		cmocka_unit_test(a_page_of_three_million_entries_takes_at_most_five_times_the_map),
		cmocka_unit_test(memory_is_held_for_a_page_of_entries_only),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
