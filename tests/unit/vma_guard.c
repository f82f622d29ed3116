/* SPDX-License-Identifier: MIT */
/*
 * The guard, with libibverbs' real counts and no device: marking is what
 * ibv_reg_mr() does to the address space, ibv_dontfork_range() is that part of
 * it.  Fork protection belongs to the process, so each test is a child's.
 */
#include "vma_guard_kit.h"

#define PIECES 32

static bool page_marked(char *area, int page)
{
	return vmas_in(area + (size_t)page * PAGE, PAGE, true) == 1;
}

/* Every second page of a fresh area is registered, all are written. */
static long vmas_after_pieces(struct mrg_vma_guard *guard)
{
	char *area = fresh(2 * PIECES);

	if (!area)
		return -1;
	for (int i = 0; i < PIECES; i++)
		if (reg(guard, area + 2 * i * PAGE, PAGE))
			return -1;
	for (int i = 0; i < 2 * PIECES; i++)
		area[i * PAGE] = 1;
	for (int i = 0; i < PIECES; i++)
		dereg(guard, area + 2 * i * PAGE, PAGE);
	return vmas_in(area, 2 * PIECES * PAGE, false);
}

static int fresh_pieces_merge(void)
{
	struct mrg_vma_guard *guard = guard_of(0);

	CHECK(guard);
	CHECK(vmas_after_pieces(guard) == 1);
	region_vma_guard_close(guard);
	return 0;
}

static int fresh_pieces_stay_apart_without_guard(void)
{
	CHECK(!mrg_fork_apply(MRG_FORK_ALWAYS, NULL));
	CHECK(vmas_after_pieces(NULL) >= 2 * PIECES - 1);
	return 0;
}

static void pieces_of_fresh_memory_merge_again(void **state)
{
	(void)state;
	in_child(fresh_pieces_merge);
}

static void without_the_guard_they_never_do(void **state)
{
	(void)state;
	in_child(fresh_pieces_stay_apart_without_guard);
}

/* A [0, 2) and B [1, 3); then one range eight times. */
static int overlaps(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	char *area = fresh(8), *b = area + PAGE;

	CHECK(guard && area);
	CHECK(!reg(guard, area, 2 * PAGE));
	CHECK(!reg(guard, b, 2 * PAGE));
	dereg(guard, area, 2 * PAGE);
	CHECK(!page_marked(area, 0) && page_marked(area, 1) && page_marked(area, 2) &&
	      !page_marked(area, 3));
	dereg(guard, b, 2 * PAGE);
	CHECK(vmas_in(area, 8 * PAGE, false) == 1);
	CHECK(vmas_in(area, 8 * PAGE, true) == 0);

	for (int i = 0; i < 8; i++)
		CHECK(!reg(guard, area, 3 * PAGE));
	for (int i = 0; i < 7; i++) {
		dereg(guard, area, 3 * PAGE);
		CHECK(page_marked(area, 0) && page_marked(area, 1) && page_marked(area, 2));
	}
	dereg(guard, area, 3 * PAGE);
	CHECK(vmas_in(area, 8 * PAGE, true) == 0);
	region_vma_guard_close(guard);
	return 0;
}

static void a_page_stays_marked_until_its_last_registration_goes(void **state)
{
	(void)state;
	in_child(overlaps);
}

/* Page 1 is the caller's own, page 3 another library's. */
static int marks_of_others(void)
{
	struct mrg_vma_guard *guard = guard_of(0), *second = guard_of(0);
	char *area = fresh(8);

	CHECK(guard && second && area);
	memset(area, 1, 8 * PAGE);
	CHECK(!madvise(area + PAGE, PAGE, MADV_DONTFORK));
	CHECK(!ibv_dontfork_range(area + 3 * PAGE, PAGE));
	CHECK(!reg(guard, area, 6 * PAGE));
	CHECK(!reg(second, area, 2 * PAGE));
	CHECK(!reg(guard, area, 6 * PAGE));
	dereg(guard, area, 6 * PAGE);
	dereg(guard, area, 6 * PAGE);
	CHECK(page_marked(area, 0) && page_marked(area, 1) && !page_marked(area, 2) &&
	      page_marked(area, 3));
	dereg(second, area, 2 * PAGE);
	CHECK(!page_marked(area, 0) && page_marked(area, 1));
	ibv_dofork_range(area + 3 * PAGE, PAGE);
	CHECK(!page_marked(area, 3) && page_marked(area, 1));
	CHECK(vmas_in(area, 8 * PAGE, false) == 3);
	region_vma_guard_close(guard);
	region_vma_guard_close(second);
	return 0;
}

static void marks_that_were_there_before_stay(void **state)
{
	(void)state;
	in_child(marks_of_others);
}

static int marks_of_others_without_guard(void)
{
	char *area = fresh(8);

	CHECK(!mrg_fork_apply(MRG_FORK_ALWAYS, NULL) && area);
	CHECK(!madvise(area + PAGE, PAGE, MADV_DONTFORK));
	CHECK(!reg(NULL, area, 6 * PAGE));
	dereg(NULL, area, 6 * PAGE);
	CHECK(!page_marked(area, 1));
	return 0;
}

static void without_the_guard_the_callers_mark_is_lost(void **state)
{
	(void)state;
	in_child(marks_of_others_without_guard);
}

/* The guard finds marks that it did not know of while the range is in use. */
static int own_mark_of_a_mixed_vma(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	char *area = fresh(4);

	CHECK(guard && area);
	memset(area, 1, 4 * PAGE);
	CHECK(!madvise(area, PAGE, MADV_DONTFORK));
	CHECK(!reg(guard, area + PAGE, PAGE));
	/* Pages 0 and 1 are one marked VMA, for two reasons. */
	CHECK(vmas_in(area, 2 * PAGE, false) == 1);
	CHECK(!reg(guard, area, 2 * PAGE));
	dereg(guard, area + PAGE, PAGE);
	dereg(guard, area, 2 * PAGE);
	CHECK(page_marked(area, 0) && !page_marked(area, 1));
	region_vma_guard_close(guard);
	return 0;
}

static void marks_are_told_apart_within_one_vma(void **state)
{
	(void)state;
	in_child(own_mark_of_a_mixed_vma);
}

static int hole_at_registration(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	struct mrg_fork_info info;
	struct mrg_error err;
	char *area = fresh(3);

	CHECK(guard && area);
	CHECK(!munmap(area + PAGE, PAGE));
	CHECK(region_vma_guard_before_reg(guard, (uintptr_t)area, 3 * PAGE, &err) == -EFAULT);
	CHECK(strstr(err.cause, "hole") && err.code == -EFAULT);
	CHECK(vmas_in(area, 3 * PAGE, true) == 0);
	CHECK(!reg(guard, area, PAGE));
	CHECK(page_marked(area, 0));
	dereg(guard, area, PAGE);
	mrg_fork_query(&info);
	CHECK(info.reliable && info.observed && info.mode == MRG_FORK_MARKED);
	region_vma_guard_close(guard);
	return 0;
}

static void a_hole_is_refused_before_libibverbs_sees_it(void **state)
{
	(void)state;
	in_child(hole_at_registration);
}

/* What the refusal saves from: rdma-core's counts after a failed madvise. */
static int hole_without_guard(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	struct mrg_fork_info info;
	char *area = fresh(64);

	CHECK(guard && area);
	CHECK(region_fork_observe());
	CHECK(!munmap(area + PAGE, PAGE));
	CHECK(ibv_dontfork_range(area, 3 * PAGE));
	/* A later registration above it stays unmarked. */
	CHECK(!ibv_dontfork_range(area + 8 * PAGE, PAGE));
	CHECK(!page_marked(area, 8));
	region_vma_guard_after_reg(guard, (uintptr_t)area, 3 * PAGE, -ENOMEM);
	mrg_fork_query(&info);
	CHECK(!info.reliable);
	CHECK(strstr(info.reason, "counts are wrong"));
	region_vma_guard_close(guard);
	return 0;
}

static void a_failed_madvise_makes_protection_unreliable_and_that_is_said(void **state)
{
	(void)state;
	in_child(hole_without_guard);
}

static int provider_failure(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	struct mrg_fork_info info;
	char *area = fresh(4);

	CHECK(guard && area);
	CHECK(!region_vma_guard_before_reg(guard, (uintptr_t)area, PAGE, NULL));
	CHECK(!ibv_dontfork_range(area, PAGE));
	CHECK(!ibv_dofork_range(area, PAGE));
	region_vma_guard_after_reg(guard, (uintptr_t)area, PAGE, -ENOMEM);
	mrg_fork_query(&info);
	CHECK(info.reliable);
	region_vma_guard_close(guard);
	return 0;
}

static void a_providers_failure_does_not(void **state)
{
	(void)state;
	in_child(provider_failure);
}

/* Memory is freed before it is deregistered, its middle anew in use. */
static int hole_at_deregistration(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	struct mrg_fork_info info;
	char *area = fresh(3);

	CHECK(guard && area);
	CHECK(!reg(guard, area, 3 * PAGE));
	CHECK(!munmap(area + PAGE, PAGE));
	dereg(guard, area, 3 * PAGE);
	CHECK(!page_marked(area, 0) && !page_marked(area, 2));
	mrg_fork_query(&info);
	CHECK(info.reliable);
	region_vma_guard_close(guard);
	return 0;
}

static void memory_freed_too_early_keeps_no_mark(void **state)
{
	(void)state;
	in_child(hole_at_deregistration);
}

/* Cuts VMAs up to the limit, and joins enough again that about @left are left. */
static char *fill_vmas(uint64_t left, size_t *size)
{
	uint64_t limit, cut = 1;
	char *area;

	if (mrg_vma_limit(&limit))
		return NULL;
	*size = (limit + 4) * PAGE;
	area = mmap(NULL, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	while (cut < limit && !mprotect(area + cut * PAGE, PAGE, PROT_READ))
		cut += 2;
	for (uint64_t joined = 0; joined < left; joined += 2) {
		cut -= 2;
		mprotect(area + cut * PAGE, PAGE, PROT_NONE);
	}
	return area;
}

static int at_the_limit(void)
{
	struct mrg_vma_guard *guard = guard_of(10);
	char *area = fresh(8), *filler;
	struct mrg_fork_info info;
	struct mrg_headroom room;
	struct mrg_error err;
	size_t size;

	CHECK(guard && area);
	CHECK(!reg(guard, area + PAGE, PAGE));
	dereg(guard, area + PAGE, PAGE);
	filler = fill_vmas(8, &size);
	CHECK(filler);
	CHECK(!region_vma_guard_headroom(guard, &room));
	CHECK(room.limit - room.count < 12);
	CHECK(region_vma_guard_before_reg(guard, (uintptr_t)area + PAGE, PAGE, &err) == -ENOSPC);
	CHECK(strstr(err.cause, "max_map_count") && strstr(err.remedy, "mrguard vma"));
	CHECK(vmas_in(area, 8 * PAGE, true) == 0);
	CHECK(!munmap(filler, size));
	CHECK(!reg(guard, area + PAGE, PAGE));
	CHECK(page_marked(area, 1));
	dereg(guard, area + PAGE, PAGE);
	CHECK(vmas_in(area, 8 * PAGE, false) == 1);
	mrg_fork_query(&info);
	CHECK(info.reliable);
	region_vma_guard_close(guard);
	return 0;
}

static void at_the_limit_registration_is_refused_and_works_again_after(void **state)
{
	(void)state;
	in_child(at_the_limit);
}

static int at_the_limit_without_guard(void)
{
	char *area = fresh(64);
	size_t size;

	CHECK(!mrg_fork_apply(MRG_FORK_ALWAYS, NULL) && area);
	CHECK(fill_vmas(0, &size));
	CHECK(ibv_dontfork_range(area + PAGE, PAGE));
	CHECK(errno == EAGAIN || errno == ENOMEM);
	return 0;
}

static void without_the_guard_the_limit_reaches_libibverbs(void **state)
{
	(void)state;
	in_child(at_the_limit_without_guard);
}

/* Two neighbours are one marked VMA; at the limit it cannot be cut. */
static int dereg_at_the_limit(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	char *area = fresh(8), *filler;
	size_t size;

	CHECK(guard && area);
	CHECK(!reg(guard, area, 2 * PAGE));
	CHECK(!reg(guard, area + 2 * PAGE, 2 * PAGE));
	/* A sanitizer's allocator aborts where it cannot map room for a new size. */
	for (size_t bytes = 64; bytes <= 4096; bytes *= 2) {
		void *volatile room = malloc(bytes); /* or the compiler leaves it out */

		free(room);
	}
	filler = fill_vmas(0, &size);
	CHECK(filler);
	/* Without the module the guard's count is a little old. */
	usleep(500000);
	dereg(guard, area, 2 * PAGE);
	CHECK(page_marked(area, 0));
	CHECK(!munmap(filler, size));
	CHECK(!reg(guard, area + 6 * PAGE, PAGE));
	CHECK(!page_marked(area, 0) && page_marked(area, 2));
	dereg(guard, area + 6 * PAGE, PAGE);
	dereg(guard, area + 2 * PAGE, 2 * PAGE);
	CHECK(vmas_in(area, 8 * PAGE, false) == 1);
	region_vma_guard_close(guard);
	return 0;
}

static void a_mark_that_stayed_at_the_limit_goes_once_there_is_room(void **state)
{
	(void)state;
	in_child(dereg_at_the_limit);
}

/* Read-only and shared memory must not be written by the first touch. */
static int untouched(void)
{
	struct mrg_vma_guard *guard = guard_of(0);
	char *readonly, *shared, *written;
	unsigned char resident[1];

	CHECK(guard);
	readonly = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	written = fresh(4);
	CHECK(readonly != MAP_FAILED && shared != MAP_FAILED && written);
	written[PAGE] = 42;
	CHECK(!reg(guard, readonly + PAGE, PAGE));
	CHECK(!reg(guard, shared + PAGE, PAGE));
	CHECK(!reg(guard, written + PAGE, PAGE));
	CHECK(!mincore(shared + PAGE, PAGE, resident) && !(resident[0] & 1));
	CHECK(written[PAGE] == 42);
	dereg(guard, readonly + PAGE, PAGE);
	dereg(guard, shared + PAGE, PAGE);
	dereg(guard, written + PAGE, PAGE);
	CHECK(vmas_in(readonly, 4 * PAGE, false) == 1);
	CHECK(vmas_in(shared, 4 * PAGE, false) == 1);
	CHECK(vmas_in(written, 4 * PAGE, false) == 1);
	region_vma_guard_close(guard);
	return 0;
}

static void the_first_touch_changes_no_byte_and_spares_other_memory(void **state)
{
	(void)state;
	in_child(untouched);
}

static int not_marking(void)
{
	struct mrg_vma_guard *guard = NULL;
	char *area = fresh(3);

	CHECK(!region_vma_guard_open(&guard, NULL, MRG_FORK_NEVER, 0) && area);
	CHECK(!munmap(area + PAGE, PAGE));
	/* A hole is the kernel's to refuse where no count can go wrong. */
	CHECK(!region_vma_guard_before_reg(guard, (uintptr_t)area, 3 * PAGE, NULL));
	region_vma_guard_after_reg(guard, (uintptr_t)area, 3 * PAGE, 0);
	region_vma_guard_after_dereg(guard, (uintptr_t)area, 3 * PAGE, 0);
	CHECK(vmas_in(area, 3 * PAGE, true) == 0);
	region_vma_guard_close(guard);
	return 0;
}

static void where_nothing_is_marked_only_headroom_is_looked_at(void **state)
{
	(void)state;
	in_child(not_marking);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_fresh_memory_merge_again),
		cmocka_unit_test(without_the_guard_they_never_do),
		cmocka_unit_test(a_page_stays_marked_until_its_last_registration_goes),
		cmocka_unit_test(marks_that_were_there_before_stay),
		cmocka_unit_test(without_the_guard_the_callers_mark_is_lost),
		cmocka_unit_test(marks_are_told_apart_within_one_vma),
		cmocka_unit_test(a_hole_is_refused_before_libibverbs_sees_it),
		cmocka_unit_test(a_failed_madvise_makes_protection_unreliable_and_that_is_said),
		cmocka_unit_test(a_providers_failure_does_not),
		cmocka_unit_test(memory_freed_too_early_keeps_no_mark),
		cmocka_unit_test(at_the_limit_registration_is_refused_and_works_again_after),
		cmocka_unit_test(without_the_guard_the_limit_reaches_libibverbs),
		cmocka_unit_test(a_mark_that_stayed_at_the_limit_goes_once_there_is_room),
		cmocka_unit_test(the_first_touch_changes_no_byte_and_spares_other_memory),
		cmocka_unit_test(where_nothing_is_marked_only_headroom_is_looked_at),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
