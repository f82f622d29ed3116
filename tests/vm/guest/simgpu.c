/* SPDX-License-Identifier: MIT */
/*
 * simgpu: layouts come out as asked, the bytes are where the layout says, and
 * what is to fail fails.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/mman.h>

#include "uapi/mrguard.h"

#include "tools/simgpu_spec.h"
#include "vm/guest/importer.h"

#define GIB (1ULL << 30)
#define WINDOW 0x100000000ULL /* memmap=16G$4G */

/* The running kernel's page, by which real extents are counted. */
static uint64_t page;

/* The entries as mapped, up to cap; returns their total, or -errno. */
static int64_t entries(int fd, struct mrg_ioc_run *runs, uint32_t cap)
{
	struct mrg_ioc_layout arg = {
		.size = sizeof(arg),
		.dmabuf_fd = fd,
		.importer = importer,
		.runs = (uintptr_t)runs,
		.runs_cap = cap,
	};

	if (ioctl(mrguard, MRG_IOC_LAYOUT, &arg))
		return -errno;
	return (int64_t)arg.total_entries;
}

static int make(const char *spec)
{
	int fd = simgpu_spec_create(spec);

	if (fd < 0)
		print_error("%s: %s\n", spec, strerror(-fd));
	assert_true(fd >= 0);
	return fd;
}

static void expect_entries(const char *spec, const struct mrg_ioc_run *want, uint32_t n)
{
	struct mrg_ioc_run got[16] = { { 0, 0 } };
	int fd = make(spec);

	assert_int_equal(entries(fd, got, 16), n);
	assert_memory_equal(got, want, n * sizeof(*want));
	close(fd);
}

static void extent_is_cut_at_the_importers_largest_segment(void **state)
{
	struct mrg_ioc_run want[6];

	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		want[i] = (struct mrg_ioc_run){ WINDOW + i * 2 * GIB, 2 * GIB };
	expect_entries("12G", want, 6);
}

static void extent_is_cut_at_the_segment_asked_for(void **state)
{
	const struct mrg_ioc_run want[] = {
		{ 0x1000000000, 0xfffff000 },
		{ 0x10fffff000, 0xfffff000 },
		{ 0x11ffffe000, 0x2000 },
	};

	(void)state;
	expect_entries("8G@0x1000000000,seg=0xfffff000,fake", want, 3);
}

static void extents_keep_their_order(void **state)
{
	const struct mrg_ioc_run want[] = {
		{ 8 * GIB, GIB },
		{ 9 * GIB, GIB },
		{ 4 * GIB, GIB },
		{ 12 * GIB, page },
	};
	char spec[64];

	(void)state;
	snprintf(spec, sizeof(spec), "2G@8G+1G@4G+%uK@12G,seg=1G", (unsigned int)(page >> 10));
	expect_entries(spec, want, 4);
}

static void segments_can_run_downwards(void **state)
{
	const struct mrg_ioc_run want[] = {
		{ 6 * GIB, GIB / 2 },
		{ 5 * GIB, GIB },
		{ 4 * GIB, GIB },
	};

	(void)state;
	expect_entries("2560M,seg=1G,down", want, 3);
}

static void invented_addresses_may_be_any_number(void **state)
{
	const struct mrg_ioc_run want[] = {
		{ 0, 1 },
		{ UINT64_MAX - 4095, 4096 },
		{ 61440, 28672 },
	};

	(void)state;
	expect_entries("1@0+4K@0xfffffffffffff000+28672@61440,fake", want, 3);
}

static void shuffle_is_a_permutation_and_repeatable(void **state)
{
	struct mrg_ioc_run a[16], b[16], c[16];
	uint64_t sum = 0;
	int fd[3] = { make("12G,seg=1G,shuffle=1"), make("12G,seg=1G,shuffle=1"),
		      make("12G,seg=1G,shuffle=2") };

	(void)state;
	assert_int_equal(entries(fd[0], a, 16), 12);
	assert_int_equal(entries(fd[1], b, 16), 12);
	assert_int_equal(entries(fd[2], c, 16), 12);
	assert_memory_equal(a, b, 12 * sizeof(*a));
	assert_memory_not_equal(a, c, 12 * sizeof(*a));
	for (int i = 0; i < 12; i++) {
		assert_int_equal(a[i].len, GIB);
		sum |= 1ULL << (a[i].addr / GIB - 4);
		close(i < 3 ? fd[i] : -1);
	}
	assert_int_equal(sum, 0xfff);
}

static void an_entry_for_each_page_can_be_mapped(void **state)
{
	char spec[32];
	int fd;

	(void)state;
	snprintf(spec, sizeof(spec), "12G,seg=%uK", (unsigned int)(page >> 10));
	fd = make(spec);
	assert_int_equal(entries(fd, NULL, 0), 12 * GIB / page);
	close(fd);
}

static void maps_fail_after_as_many_good_ones_as_asked(void **state)
{
	int fd = make("4G,fail=105:2");

	(void)state;
	assert_int_equal(entries(fd, NULL, 0), 2);
	assert_int_equal(entries(fd, NULL, 0), 2);
	assert_int_equal(entries(fd, NULL, 0), -ENOBUFS);
	assert_int_equal(entries(fd, NULL, 0), -ENOBUFS);
	close(fd);
}

static void attach_fails_where_asked(void **state)
{
	int fd = make("4G,fail=524,failattach");

	(void)state;
	assert_int_equal(entries(fd, NULL, 0), -524);
	close(fd);
}

/* ------------------------------------------------------------------ bytes */

static volatile uint64_t *map(int fd, uint64_t offset, size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void bytes_lie_where_the_layout_says(void **state)
{
	int plain = make("12G"), swapped = make("4G@8G+4G@4G+4G@12G");
	const uint64_t at[] = {
		0, 4 * GIB - page, 4 * GIB, 8 * GIB - page, 8 * GIB, 12 * GIB - page
	};
	const uint64_t is[] = {
		4 * GIB, 8 * GIB - page, 0, 4 * GIB - page, 8 * GIB, 12 * GIB - page
	};

	(void)state;
	for (int i = 0; i < 6; i++) {
		volatile uint64_t *w = map(swapped, at[i], page), *r = map(plain, is[i], page);

		for (int k = 0; k < 512; k++)
			w[k] = (uint64_t)i << 32 | (uint64_t)k;
		for (int k = 0; k < 512; k++)
			assert_int_equal(r[k], (uint64_t)i << 32 | (uint64_t)k);
		munmap((void *)w, page);
		munmap((void *)r, page);
	}
	close(plain);
	close(swapped);
}

static void mapping_can_be_put_at_a_fixed_address(void **state)
{
	int fd = make("12G");
	void *want = (void *)0x700000000000, *p;

	(void)state;
	p = mmap(want, 12 * GIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	assert_ptr_equal(p, want);
	((volatile char *)p)[12 * GIB - 1] = 42;
	munmap(p, 12 * GIB);
	close(fd);
}

static void there_is_no_mapping_where_there_are_no_bytes(void **state)
{
	int fake = make("4G,fake"), real = make("4G");

	(void)state;
	assert_ptr_equal(mmap(NULL, page, PROT_READ, MAP_SHARED, fake, 0), MAP_FAILED);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_ptr_equal(mmap(NULL, page, PROT_READ, MAP_PRIVATE, real, 0), MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, real, (off_t)(4 * GIB - page)),
			 MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	close(fake);
	close(real);
}

static sigjmp_buf on_sigbus;

static void sigbus(int sig)
{
	(void)sig;
	siglongjmp(on_sigbus, 1);
}

static void revoked_buffer_maps_for_nobody(void **state)
{
	int fd = make("4G");
	volatile uint64_t *p = map(fd, 0, page);
	volatile int caught = 0;

	(void)state;
	p[0] = 1;
	assert_int_equal(ioctl(simgpu, SIMGPU_IOC_REVOKE, fd), 0);
	assert_int_equal(entries(fd, NULL, 0), -ENODEV);
	signal(SIGBUS, sigbus);
	if (!sigsetjmp(on_sigbus, 1))
		p[0] = 2;
	else
		caught = 1;
	signal(SIGBUS, SIG_DFL);
	assert_true(caught);
	munmap((void *)p, page);
	close(fd);
}

/* ------------------------------------------------------------------ limits */

static int create_errno(struct simgpu_create arg)
{
	int fd = ioctl(simgpu, SIMGPU_IOC_CREATE, &arg);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void wrong_requests_are_refused(void **state)
{
	struct simgpu_extent good = { WINDOW, GIB }, low = { WINDOW - page, page },
			     past = { WINDOW, 16 * GIB + page }, odd = { WINDOW + 1, page },
			     empty = { WINDOW, 0 };
	struct simgpu_create ok = {
		.size = sizeof(ok), .extents = (uintptr_t)&good, .extents_n = 1,
	}, c;

	(void)state;
	assert_int_equal(create_errno(ok), 0);
#define REFUSED(field, value, err)                      \
	do {                                            \
		c = ok;                                 \
		c.field = (value);                      \
		assert_int_equal(create_errno(c), err); \
	} while (0)
	REFUSED(size, 8, EINVAL);
	REFUSED(flags, 1U << 31, EINVAL);
	REFUSED(extents_n, 0, EINVAL);
	REFUSED(extents_n, UINT32_MAX, EINVAL);
	REFUSED(extents, 8, EFAULT);
	REFUSED(seg, 4095, EINVAL);
	REFUSED(seg, 1ULL << 32, EINVAL);
	REFUSED(delay_ms, 10001, EINVAL);
	REFUSED(fail_errno, 4096, EINVAL);
	REFUSED(extents, (uintptr_t)&low, ERANGE);
	REFUSED(extents, (uintptr_t)&past, ERANGE);
	REFUSED(extents, (uintptr_t)&odd, EINVAL);
	REFUSED(extents, (uintptr_t)&empty, EINVAL);
#undef REFUSED
	assert_int_equal(ioctl(simgpu, SIMGPU_IOC_REVOKE, 0), -1);
	assert_int_equal(simgpu_spec_create("16T@0,seg=1,fake"), -E2BIG);
}

static void nothing_stays_behind(void **state)
{
	struct simgpu_stat st = { .fd = -1 };

	(void)state;
	assert_int_equal(ioctl(simgpu, SIMGPU_IOC_STAT, &st), 0);
	assert_int_equal(st.buffers, 0);
	assert_int_equal(st.attached, 0);
	assert_int_equal(st.mapped, 0);
	assert_true(st.maps > 0);
	assert_int_equal(st.base, WINDOW);
	assert_int_equal(st.bytes, 16 * GIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extent_is_cut_at_the_importers_largest_segment),
		cmocka_unit_test(extent_is_cut_at_the_segment_asked_for),
		cmocka_unit_test(extents_keep_their_order),
		cmocka_unit_test(segments_can_run_downwards),
		cmocka_unit_test(invented_addresses_may_be_any_number),
		cmocka_unit_test(shuffle_is_a_permutation_and_repeatable),
		cmocka_unit_test(an_entry_for_each_page_can_be_mapped),
		cmocka_unit_test(maps_fail_after_as_many_good_ones_as_asked),
		cmocka_unit_test(attach_fails_where_asked),
		cmocka_unit_test(bytes_lie_where_the_layout_says),
		cmocka_unit_test(mapping_can_be_put_at_a_fixed_address),
		cmocka_unit_test(there_is_no_mapping_where_there_are_no_bytes),
		cmocka_unit_test(revoked_buffer_maps_for_nobody),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(nothing_stays_behind),
	};

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, importer_set_up, importer_tear_down);
}
