/* SPDX-License-Identifier: MIT */
/*
 * MRG_IOC_VMA against address spaces made to measure.  What merges and what
 * never does is the kernel's to say: each claim is held against what the VMAs
 * then do.
 */
#include "ioctl_kit.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES 64 /* of the arena, on its own in the middle of nothing */

static char *arena;

static struct mrg_ioc_vma counts(void *start, size_t length)
{
	struct mrg_ioc_vma arg = {
		.size = sizeof(arg),
		.flags = MRG_VMA_RANGE,
		.start = (uintptr_t)start,
		.end = (uintptr_t)start + length,
	};

	assert_int_equal(call(MRG_IOC_VMA, &arg), 0);
	return arg;
}

static void map_at(size_t page, size_t pages, int flags, int fd, off_t offset)
{
	char *want = arena + page * PAGE;

	assert_ptr_equal(mmap(want, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
			      offset),
			 want);
}

static void clear(void)
{
	assert_int_equal(munmap(arena, PAGES * PAGE), 0);
}

static void write_to(size_t page, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(arena + (page + i) * PAGE) = 1;
}

static void advise(size_t page, size_t pages, int advice)
{
	assert_int_equal(madvise(arena + page * PAGE, pages * PAGE, advice), 0);
}

static void expect_stuck(const struct mrg_ioc_vma *c, uint64_t anon, uint64_t special,
			 uint64_t file, uint64_t other)
{
	assert_int_equal(c->stuck_anon, anon);
	assert_int_equal(c->stuck_special, special);
	assert_int_equal(c->stuck_file, file);
	assert_int_equal(c->stuck_other, other);
}

static void map_count_is_what_proc_shows(void **state)
{
	struct mrg_ioc_vma arg = { .size = sizeof(arg) };
	uint64_t lines, nobodys;

	(void)state;
	nobodys = lines_of_nobody();
	lines = count_lines();
	assert_int_equal(call(MRG_IOC_VMA, &arg), 0);
	assert_int_equal(arg.map_count, lines - nobodys);
	assert_int_equal(arg.vmas, 0);
	arg.flags = MRG_VMA_RANGE;
	arg.end = UINT64_MAX;
	assert_int_equal(call(MRG_IOC_VMA, &arg), 0);
	assert_int_equal(arg.vmas, arg.map_count);
}

static void nothing_mapped_is_nothing_counted(void **state)
{
	struct mrg_ioc_vma c = counts(arena, PAGES * PAGE);

	(void)state;
	assert_int_equal(c.vmas, 0);
	assert_int_equal(c.mapped, 0);
	assert_int_equal(c.page_size, 0);
	expect_stuck(&c, 0, 0, 0, 0);
}

static void holes_and_ends_show_in_what_is_mapped(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(2, 10, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(munmap(arena + 5 * PAGE, 2 * PAGE), 0);
	c = counts(arena, PAGES * PAGE);
	assert_int_equal(c.vmas, 2);
	assert_int_equal(c.mapped, 8 * PAGE);
	c = counts(arena + 3 * PAGE, 2 * PAGE);
	assert_int_equal(c.vmas, 1);
	assert_int_equal(c.mapped, 2 * PAGE);
	c = counts(arena + 3 * PAGE + 1, 10);
	assert_int_equal(c.vmas, 1);
	assert_int_equal(c.mapped, 10);
	c = counts(arena + 4 * PAGE, 4 * PAGE);
	assert_int_equal(c.vmas, 2);
	assert_int_equal(c.mapped, 2 * PAGE);
	c = counts(arena + 5 * PAGE, 2 * PAGE);
	assert_int_equal(c.vmas, 0);
	clear();
}

static void written_memory_split_by_dontfork_is_joinable_and_joins(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 9, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_to(0, 9);
	advise(3, 3, MADV_DONTFORK);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.vmas, 3);
	assert_int_equal(c.dontcopy, 1);
	assert_int_equal(c.joinable, 2);
	expect_stuck(&c, 0, 0, 0, 0);
	advise(3, 3, MADV_DOFORK);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.vmas, 1);
	assert_int_equal(c.dontcopy, 0);
	clear();
}

static void fresh_memory_written_while_split_is_stuck_for_good(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 9, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(counts(arena, 9 * PAGE).unwritten, 1);
	advise(3, 3, MADV_DONTFORK);
	write_to(0, 9);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.joinable, 0);
	assert_int_equal(c.unwritten, 0);
	advise(3, 3, MADV_DOFORK);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.vmas, 3);
	expect_stuck(&c, 2, 0, 0, 0);
	clear();
}

static void one_write_before_the_split_keeps_memory_joinable(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 9, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_to(0, 1);
	assert_int_equal(counts(arena, 9 * PAGE).unwritten, 0);
	advise(3, 3, MADV_DONTFORK);
	write_to(0, 9);
	assert_int_equal(counts(arena, 9 * PAGE).joinable, 2);
	advise(3, 3, MADV_DOFORK);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.vmas, 1);
	clear();
}

static void one_side_written_is_joinable(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 6, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	advise(3, 3, MADV_DONTFORK);
	write_to(0, 3);
	c = counts(arena, 6 * PAGE);
	assert_int_equal(c.joinable, 1);
	assert_int_equal(c.unwritten, 1);
	advise(3, 3, MADV_DOFORK);
	assert_int_equal(counts(arena, 6 * PAGE).vmas, 1);
	clear();
}

static void shared_memory_is_never_unwritten_and_joins(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 9, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(counts(arena, 9 * PAGE).unwritten, 0);
	advise(3, 3, MADV_DONTFORK);
	write_to(0, 9);
	c = counts(arena, 9 * PAGE);
	assert_int_equal(c.joinable, 2);
	advise(3, 3, MADV_DOFORK);
	assert_int_equal(counts(arena, 9 * PAGE).vmas, 1);
	clear();
}

static void files_that_do_not_continue_are_stuck(void **state)
{
	int fd = memfd_create("m", 0), other = memfd_create("n", 0);
	struct mrg_ioc_vma c;

	(void)state;
	assert_int_equal(ftruncate(fd, 16 * PAGE), 0);
	assert_int_equal(ftruncate(other, 16 * PAGE), 0);
	map_at(0, 2, MAP_SHARED, fd, 0);
	map_at(2, 2, MAP_SHARED, fd, 8 * PAGE);
	map_at(4, 2, MAP_SHARED, other, 10 * PAGE);
	c = counts(arena, 6 * PAGE);
	assert_int_equal(c.vmas, 3);
	expect_stuck(&c, 0, 0, 2, 0);
	clear();
	map_at(0, 2, MAP_SHARED, fd, 0);
	map_at(2, 2, MAP_SHARED, fd, 2 * PAGE);
	assert_int_equal(counts(arena, 4 * PAGE).vmas, 1);
	clear();
	close(fd);
	close(other);
}

static void special_memory_is_told_and_stuck(void **state)
{
	int fd = make_buffer("1M");
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 2, MAP_SHARED, fd, 0);
	map_at(2, 2, MAP_SHARED, fd, 2 * PAGE);
	c = counts(arena, 4 * PAGE);
	assert_int_equal(c.vmas, 2);
	assert_int_equal(c.special, 2);
	expect_stuck(&c, 0, 1, 0, 0);
	clear();
	close(fd);
}

/* Policies of two nodes' sets differ though both name node 0 in the end. */
static void memory_policies_keep_neighbours_apart(void **state)
{
	unsigned long node0 = 1;
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_to(0, 4);
	assert_int_equal(syscall(SYS_mbind, arena, 2 * PAGE, MPOL_BIND, &node0, 8, 0), 0);
	c = counts(arena, 4 * PAGE);
	assert_int_equal(c.vmas, 2);
	expect_stuck(&c, 0, 0, 0, 1);
	assert_int_equal(syscall(SYS_mbind, arena, 2 * PAGE, MPOL_DEFAULT, NULL, 0, 0), 0);
	assert_int_equal(counts(arena, 4 * PAGE).vmas, 1);
	advise(2, 2, MADV_DONTFORK);
	assert_int_equal(syscall(SYS_mbind, arena, 4 * PAGE, MPOL_BIND, &node0, 8, 0), 0);
	assert_int_equal(counts(arena, 4 * PAGE).joinable, 1);
	advise(2, 2, MADV_DOFORK);
	assert_int_equal(counts(arena, 4 * PAGE).vmas, 1);
	clear();
}

static void neighbours_of_other_flags_are_no_pair(void **state)
{
	struct mrg_ioc_vma c;

	(void)state;
	map_at(0, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_to(0, 4);
	assert_int_equal(mprotect(arena, 2 * PAGE, PROT_READ), 0);
	c = counts(arena, 4 * PAGE);
	assert_int_equal(c.vmas, 2);
	assert_int_equal(c.joinable, 0);
	expect_stuck(&c, 0, 0, 0, 0);
	advise(0, 2, MADV_DONTFORK);
	assert_int_equal(counts(arena, 4 * PAGE).joinable, 0);
	clear();
}

/* A size that each page size has, if not as the default one. */
#define HUGE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

static void the_page_by_which_hugetlb_can_be_cut_is_told(void **state)
{
	char *huge, *lines = (char *)(((uintptr_t)arena + 2 * MIB - 1) & ~(2 * MIB - 1));
	struct mrg_ioc_vma c;

	(void)state;
	assert_int_equal(write_file(HUGE_PAGES, "4"), 0);
	huge = mmap(lines, 4 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB | MAP_FIXED_NOREPLACE,
		    -1, 0);
	assert_ptr_equal(huge, lines);
	c = counts(lines, 4 * MIB);
	assert_int_equal(c.vmas, 1);
	assert_int_equal(c.special, 1);
	assert_int_equal(c.page_size, 2 * MIB);
	assert_int_equal(madvise(lines, 2 * MIB, MADV_DONTFORK), 0);
	c = counts(lines, 4 * MIB);
	assert_int_equal(c.vmas, 2);
	assert_int_equal(c.joinable, 0);
	munmap(huge, 4 * MIB);
	assert_int_equal(write_file(HUGE_PAGES, "0"), 0);
	map_at(0, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(counts(arena, PAGE).page_size, PAGE);
	clear();
}

/* More than are counted under one hold of the lock. */
static void forty_thousand_vmas_are_counted_and_paired_over_all_locks(void **state)
{
	const size_t n = 40000;
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mrg_ioc_vma c;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t i = 1; i < n; i += 2)
		assert_int_equal(madvise(p + i * PAGE, PAGE, MADV_DONTFORK), 0);
	c = counts(p, n * PAGE);
	assert_int_equal(c.vmas, n);
	assert_int_equal(c.dontcopy, n / 2);
	assert_int_equal(c.joinable, n - 1);
	assert_int_equal(c.mapped, n * PAGE);
	munmap(p, n * PAGE);
}

static void a_child_counts_its_own(void **state)
{
	struct mrg_ioc_vma mine = { .size = sizeof(mine) }, arg;
	int status;
	pid_t pid;

	(void)state;
	map_at(0, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	advise(0, 1, MADV_DONTFORK);
	pid = fork();
	if (!pid)
		_exit(counts(arena, PAGE).vmas ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	clear();
	arg = mine;
	arg.pid = getpid();
	assert_int_equal(call(MRG_IOC_VMA, &mine), 0);
	assert_int_equal(call(MRG_IOC_VMA, &arg), 0);
	assert_int_equal(arg.map_count, mine.map_count);
}

static void processes_without_memory_and_none_at_all_give_esrch(void **state)
{
	const int pids[] = { 2, -1, INT32_MIN, INT32_MAX, 4194303 };
	struct mrg_ioc_vma arg = { .size = sizeof(arg) };
	siginfo_t info;
	pid_t zombie;

	(void)state;
	for (int i = 0; i < 5; i++) {
		arg.pid = pids[i];
		assert_int_equal(call(MRG_IOC_VMA, &arg), -ESRCH);
	}
	zombie = fork();
	if (!zombie)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT), 0);
	arg.pid = zombie;
	assert_int_equal(call(MRG_IOC_VMA, &arg), -ESRCH);
	waitpid(zombie, NULL, 0);
}

static void wrong_ranges_are_refused(void **state)
{
	const uint64_t bad[][3] = {
		{ MRG_VMA_RANGE, 0, 0 },
		{ MRG_VMA_RANGE, PAGE, PAGE },
		{ MRG_VMA_RANGE, 2, 1 },
		{ MRG_VMA_RANGE, UINT64_MAX, UINT64_MAX },
		{ 0, 0, 1 },
		{ 0, 1, 0 },
		{ 0, 1, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mrg_ioc_vma arg = {
			.size = sizeof(arg),
			.flags = (uint32_t)bad[i][0],
			.start = bad[i][1],
			.end = bad[i][2],
		};

		assert_int_equal(call(MRG_IOC_VMA, &arg), -EINVAL);
	}
	assert_int_equal(counts((void *)(UINT64_MAX - 1), 1).vmas, 0);
}

static int set_up(void **state)
{
	(void)state;
	if (kit_open("mrguard edu_bind simgpu", "edu_bind"))
		return -1;
	arena = mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return -1;
	munmap(arena, 64 * MIB);
	arena += 16 * MIB;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return kit_close("mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_count_is_what_proc_shows),
		cmocka_unit_test(nothing_mapped_is_nothing_counted),
		cmocka_unit_test(holes_and_ends_show_in_what_is_mapped),
		cmocka_unit_test(written_memory_split_by_dontfork_is_joinable_and_joins),
		cmocka_unit_test(fresh_memory_written_while_split_is_stuck_for_good),
		cmocka_unit_test(one_write_before_the_split_keeps_memory_joinable),
		cmocka_unit_test(one_side_written_is_joinable),
		cmocka_unit_test(shared_memory_is_never_unwritten_and_joins),
		cmocka_unit_test(files_that_do_not_continue_are_stuck),
		cmocka_unit_test(special_memory_is_told_and_stuck),
		cmocka_unit_test(memory_policies_keep_neighbours_apart),
		cmocka_unit_test(neighbours_of_other_flags_are_no_pair),
		cmocka_unit_test(the_page_by_which_hugetlb_can_be_cut_is_told),
		cmocka_unit_test(forty_thousand_vmas_are_counted_and_paired_over_all_locks),
		cmocka_unit_test(a_child_counts_its_own),
		cmocka_unit_test(processes_without_memory_and_none_at_all_give_esrch),
		cmocka_unit_test(wrong_ranges_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
