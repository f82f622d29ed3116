/* SPDX-License-Identifier: MIT */
/* The report on VMAs, from files with the shapes that were met in the field. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/vma.h>

static char *new_file(FILE **file)
{
	char *path = strdup("/tmp/mrguard-vma-XXXXXX");
	int fd;

	assert_non_null(path);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	*file = fdopen(fd, "w");
	assert_non_null(*file);
	return path;
}

static void drop_file(char *path)
{
	unlink(path);
	free(path);
}

static char *file_of(const char *text)
{
	FILE *file;
	char *path = new_file(&file);

	fputs(text, file);
	fclose(file);
	return path;
}

static struct mrg_vma_report *report_of(struct mrg_vma_opts opts)
{
	struct mrg_vma_report *report;

	opts.size = sizeof(opts);
	assert_int_equal(mrg_vma_report_make(&opts, &report), 0);
	return report;
}

static int result_of(const char *text)
{
	char *path = file_of(text);
	struct mrg_vma_opts opts = { .size = sizeof(opts), .maps = path };
	struct mrg_vma_report *report;
	int ret = mrg_vma_report_make(&opts, &report);

	if (!ret)
		mrg_vma_report_free(report);
	drop_file(path);
	return ret;
}

/* 262,100 lines, most of them one file each of 98,368 bytes. */
static void torch_files_are_named_and_fork_protection_is_cleared(void **state)
{
	struct mrg_vma_report *report;
	uint64_t at = 0x7f0000000000;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (unsigned int i = 0; i < 260000; i++, at += 0x19000)
		fprintf(file,
			"%lx-%lx rw-s 00000000 00:19 %u                  /dev/shm/torch_4711_%u_%u (deleted)\n",
			at, at + 0x18040, 1000 + i, 48271 * i, i);
	for (int i = 0; i < 2100; i++, at += 0x100000)
		fprintf(file, "%lx-%lx rw-p 00000000 00:00 0 \n", at, at + 0x21000);
	fclose(file);

	report = report_of((struct mrg_vma_opts){ .maps = path, .limit = 262144 });
	assert_int_equal(report->count, 262100);
	assert_int_equal(report->state, MRG_VMA_NEAR);
	assert_string_equal(report->kinds[0].kind, "/dev/shm/torch_*");
	assert_int_equal(report->kinds[0].count, 260000);
	assert_int_equal(report->families[0].length, 98368);
	assert_int_equal(report->families[0].count, 260000);
	assert_non_null(strstr(report->verdict, "fork protection is not the cause"));
	assert_non_null(strstr(report->verdict, "/dev/shm/torch_*"));
	assert_non_null(strstr(report->verdict, "98,368 bytes"));
	mrg_vma_report_free(report);
	drop_file(path);
}

static void nine_hundred_vmas_are_far_from_the_limit(void **state)
{
	struct mrg_vma_report *report;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (unsigned long i = 0; i < 900; i++)
		fprintf(file, "%lx-%lx r-xp 00000000 08:01 %lu /usr/lib/libx%lu.so\n",
			0x7f0000000000 + i * 0x10000, 0x7f0000008000 + i * 0x10000, i + 7, i);
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .maps = path, .limit = 65530 });
	assert_int_equal(report->count, 900);
	assert_int_equal(report->state, MRG_VMA_FAR);
	assert_non_null(strstr(report->verdict, "not near"));
	assert_non_null(strstr(report->remedy, "look elsewhere"));
	mrg_vma_report_free(report);
	drop_file(path);
}

static void add_smaps(FILE *file, unsigned long start, unsigned long end, const char *flags)
{
	fprintf(file,
		"%lx-%lx rw-p 00000000 00:00 0 \n"
		"Size: %lu kB\nKernelPageSize:        4 kB\n"
		"Anonymous:   %lu kB\nVmFlags: %s\n",
		start, end, (end - start) >> 10, (end - start) >> 10, flags);
}

/* What registering 36,864-byte pieces of one arena leaves while they live. */
static void marked_pieces_are_counted_by_size_and_blamed(void **state)
{
	struct mrg_vma_report *report;
	unsigned long at = 0x7f0000000000;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (int i = 0; i < 32000; i++, at += 0xa000) {
		add_smaps(file, at, at + 0x9000, "rd wr mr mw me dc ac sd ");
		add_smaps(file, at + 0x9000, at + 0xa000, "rd wr mr mw me ac ");
	}
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .smaps = path, .limit = 65530 });
	assert_true(report->flags_known);
	assert_false(report->exact);
	assert_int_equal(report->dontcopy, 32000);
	assert_int_equal(report->joinable, 63999);
	assert_int_equal(report->stuck_anon, 0);
	assert_int_equal(report->families[0].length, 36864);
	assert_int_equal(report->families[0].dontcopy, 32000);
	assert_non_null(strstr(report->verdict, "fork protection is the cause"));
	assert_non_null(strstr(report->remedy, "copy-on-fork"));
	mrg_vma_report_free(report);
	drop_file(path);
}

/* The same after deregistration, where the memory was fresh: no mark is left,
 * and yet nothing merges. */
static void pieces_that_never_merge_again_are_told_from_marked_ones(void **state)
{
	struct mrg_vma_report *report;
	unsigned long at = 0x7f0000000000;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (int i = 0; i < 60000; i++, at += 0x9000)
		add_smaps(file, at, at + 0x9000, "rd wr mr mw me ac ");
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .smaps = path, .limit = 65530 });
	assert_int_equal(report->dontcopy, 0);
	assert_int_equal(report->joinable, 0);
	assert_int_equal(report->stuck_anon, 59999);
	assert_int_equal(report->fork_pieces, 59999);
	assert_non_null(strstr(report->verdict, "never merge again"));
	mrg_vma_report_free(report);
	drop_file(path);
}

static void pairs_are_sorted_by_why_they_stay_apart(void **state)
{
	static const char text[] =
		/* hugetlb, cut once */
		"7f0000000000-7f0000200000 rw-p 00000000 00:0f 5 /anon_hugepage (deleted)\n"
		"VmFlags: rd wr mr mw me de ht \n"
		"7f0000200000-7f0000400000 rw-p 00200000 00:0f 5 /anon_hugepage (deleted)\n"
		"VmFlags: rd wr mr mw me de ht \n"
		/* a file, mapped twice from its start */
		"7f0000400000-7f0000401000 r--p 00000000 08:01 9 /srv/data\n"
		"VmFlags: rd mr mw me \n"
		"7f0000401000-7f0000402000 r--p 00000000 08:01 9 /srv/data\n"
		"VmFlags: rd mr mw me \n"
		/* a file that continues, yet is apart: policy, say */
		"7f0000402000-7f0000403000 r--s 00000000 08:01 9 /srv/data\n"
		"VmFlags: rd mr mw me ms \n"
		"7f0000403000-7f0000404000 r--s 00001000 08:01 9 /srv/data\n"
		"VmFlags: rd mr mw me ms \n"
		/* a shared one that is marked merges for certain */
		"7f0000404000-7f0000405000 rw-s 00000000 00:01 3 /memfd:kv (deleted)\n"
		"VmFlags: rd wr sh mr mw me ms dc \n"
		"7f0000405000-7f0000406000 rw-s 00001000 00:01 3 /memfd:kv (deleted)\n"
		"VmFlags: rd wr sh mr mw me ms \n"
		/* not neighbours */
		"7f0000500000-7f0000501000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me ac \n"
		"7f0000502000-7f0000503000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me ac \n"
		/* neighbours whose flags differ in more than VM_DONTCOPY */
		"7f0000503000-7f0000504000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me dc lo ac \n";
	char *path = file_of(text);
	struct mrg_vma_report *report = report_of((struct mrg_vma_opts){ .smaps = path });

	(void)state;
	assert_int_equal(report->count, 11);
	assert_int_equal(report->dontcopy, 2);
	assert_int_equal(report->special, 2);
	assert_int_equal(report->stuck_special, 1);
	assert_int_equal(report->stuck_file, 1);
	assert_int_equal(report->stuck_other, 1);
	assert_int_equal(report->stuck_anon, 0);
	assert_int_equal(report->joinable, 1);
	mrg_vma_report_free(report);
	drop_file(path);
}

static void maps_without_flags_only_raise_a_suspicion(void **state)
{
	struct mrg_vma_report *report;
	unsigned long at = 0x7f0000000000;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (int i = 0; i < 64000; i++, at += 0x9000)
		fprintf(file, "%lx-%lx rw-p 00000000 00:00 0 \n", at, at + 0x9000);
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .maps = path, .limit = 65530 });
	assert_false(report->flags_known);
	assert_int_equal(report->alike, 63999);
	assert_null(strstr(report->verdict, "is the cause"));
	assert_non_null(strstr(report->remedy, "smaps"));
	mrg_vma_report_free(report);
	drop_file(path);
}

/* 200,000 sizes that occur once must not push out the one that counts. */
static void the_frequent_size_survives_any_number_of_rare_ones(void **state)
{
	struct mrg_vma_report *report;
	unsigned long at = 0x7f0000000000;
	FILE *file;
	char *path = new_file(&file);

	(void)state;
	for (unsigned long i = 1; i <= 200000; i++) {
		fprintf(file, "%lx-%lx rw-p 00000000 00:00 0 \n", at, at + 4096 * i);
		at += 4096 * (i + 1);
		if (i % 4)
			continue;
		fprintf(file, "%lx-%lx r--p 00000000 00:00 0 \n", at, at + 0x9000);
		at += 0xa000;
	}
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .maps = path });
	assert_int_equal(report->count, 250000);
	assert_int_equal(report->kinds[0].count, 250000);
	assert_int_equal(report->families[0].length, 36864);
	assert_string_equal(report->families[0].perms, "r--p");
	assert_in_range(report->families[0].count, 49000, 50000);
	mrg_vma_report_free(report);
	drop_file(path);
}

static void the_vsyscall_page_is_no_vma(void **state)
{
	char *path =
		file_of("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0   [stack]\n"
			"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n");
	struct mrg_vma_report *report = report_of((struct mrg_vma_opts){ .maps = path });

	(void)state;
	assert_int_equal(report->count, 1);
	assert_string_equal(report->kinds[0].kind, "stack");
	mrg_vma_report_free(report);
	drop_file(path);
}

static void names_keep_what_tells_kinds_apart(void **state)
{
	static const struct {
		const char *name;
		const char *kind;
	} cases[] = {
		{ "", "anonymous" },
		{ "[heap]", "heap" },
		{ "[anon:arena 12345]", "anon:arena *" },
		{ "/dev/zero (deleted)", "shared anonymous" },
		{ "/memfd:kv-cache_17 (deleted)", "memfd:kv-cache_*" },
		{ "/anon_hugepage (deleted)", "hugetlb" },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6" },
		{ "/torch_1_2_3 (deleted)", "/torch_*" },
		{ "/dev/shm/psm_0a1b2c3d", "/dev/shm/psm_*" },
		{ "/SYSV00000000 (deleted)", "/SYSV00000000" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mrg_vma_report *report;
		char line[160], *path;

		snprintf(line, sizeof(line), "1000-2000 rw-p 00000000 00:00 0    %s\n",
			 cases[i].name);
		path = file_of(line);
		report = report_of((struct mrg_vma_opts){ .maps = path });
		assert_string_equal(report->kinds[0].kind, cases[i].kind);
		mrg_vma_report_free(report);
		drop_file(path);
	}
}

static void a_long_path_keeps_its_end(void **state)
{
	struct mrg_vma_report *report;
	char path_of_file[4000], *path;
	FILE *file;

	(void)state;
	memset(path_of_file, 'd', sizeof(path_of_file));
	path_of_file[0] = '/';
	strcpy(path_of_file + 200, "/weights.bin");
	path = new_file(&file);
	fprintf(file, "1000-2000 r--p 00000000 08:01 4    %s\n", path_of_file);
	fclose(file);
	report = report_of((struct mrg_vma_opts){ .maps = path });
	assert_true(strlen(report->kinds[0].kind) < sizeof(report->kinds[0].kind));
	assert_int_equal(strncmp(report->kinds[0].kind, "...", 3), 0);
	assert_non_null(strstr(report->kinds[0].kind, "/weights.bin"));
	mrg_vma_report_free(report);
	drop_file(path);
}

static void what_is_no_maps_file_is_refused(void **state)
{
	char *endless = malloc(200001);

	(void)state;
	assert_int_equal(result_of("hello\n"), -EBADMSG);
	assert_int_equal(result_of("1000-2000 rw-q 00000000 00:00 0\n"), -EBADMSG);
	assert_int_equal(result_of("2000-1000 rw-p 00000000 00:00 0\n"), -EBADMSG);
	assert_int_equal(result_of("1000-1000 rw-p 00000000 00:00 0\n"), -EBADMSG);
	assert_int_equal(result_of("Size: 4 kB\n"), -EBADMSG);
	assert_int_equal(result_of("11111111111111111-2 rw-p 0 00:00 0\n"), -EBADMSG);
	/* Cut in the middle of a line. */
	assert_int_equal(result_of("1000-2000 rw-p 00000000 00:0"), -EBADMSG);
	assert_int_equal(result_of(""), 0);

	assert_non_null(endless);
	memset(endless, 'a', 200000);
	endless[200000] = '\0';
	assert_int_equal(result_of(endless), -EBADMSG);
	free(endless);
}

static void malformed_options_are_refused(void **state)
{
	struct {
		struct mrg_vma_opts opts;
		uint64_t tail;
	} longer = { .opts = { .size = sizeof(longer) }, .tail = 1 };
	struct mrg_vma_opts flags = { .size = sizeof(flags), .flags = 1u << 9 };
	struct mrg_vma_opts pid = { .size = sizeof(pid), .pid = -4 };
	struct mrg_vma_opts gone = { .size = sizeof(gone), .maps = "/nowhere/x" };
	struct mrg_vma_report *report = NULL;

	(void)state;
	assert_int_equal(mrg_vma_report_make(&longer.opts, &report), -EINVAL);
	longer.tail = 0;
	assert_int_equal(mrg_vma_report_make(&longer.opts, &report), 0);
	mrg_vma_report_free(report);
	report = NULL;
	assert_int_equal(mrg_vma_report_make(&flags, &report), -EINVAL);
	assert_int_equal(mrg_vma_report_make(&pid, &report), -EINVAL);
	assert_int_equal(mrg_vma_report_make(&gone, &report), -ENOENT);
	assert_null(report);
	mrg_vma_report_free(NULL);
}

/* Every second page read-only, so that nothing merges. */
static void ones_own_vmas_are_counted_as_the_kernel_counts_them(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 400;
	struct mrg_vma_report *before, *after;
	uint64_t count_before, count_after;
	char *area;

	(void)state;
	assert_int_equal(mrg_vma_report_make(NULL, &before), 0);
	assert_int_equal(mrg_vma_count(NULL, 0, &count_before), 0);
	area = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(area != MAP_FAILED);
	for (size_t i = 0; i < pages; i += 2)
		assert_int_equal(mprotect(area + i * page, page, PROT_READ), 0);
	assert_int_equal(mrg_vma_report_make(NULL, &after), 0);
	assert_int_equal(mrg_vma_count(NULL, 0, &count_after), 0);
	assert_in_range(after->count - before->count, pages - 2, pages + 2);
	assert_in_range(count_after - count_before, pages - 2, pages + 2);
	assert_true(after->flags_known);
	assert_true(after->limit > 0);
	munmap(area, pages * page);
	mrg_vma_report_free(before);
	mrg_vma_report_free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(torch_files_are_named_and_fork_protection_is_cleared),
		cmocka_unit_test(nine_hundred_vmas_are_far_from_the_limit),
		cmocka_unit_test(marked_pieces_are_counted_by_size_and_blamed),
		cmocka_unit_test(pieces_that_never_merge_again_are_told_from_marked_ones),
		cmocka_unit_test(pairs_are_sorted_by_why_they_stay_apart),
		cmocka_unit_test(maps_without_flags_only_raise_a_suspicion),
		cmocka_unit_test(the_frequent_size_survives_any_number_of_rare_ones),
		cmocka_unit_test(the_vsyscall_page_is_no_vma),
		cmocka_unit_test(names_keep_what_tells_kinds_apart),
		cmocka_unit_test(a_long_path_keeps_its_end),
		cmocka_unit_test(what_is_no_maps_file_is_refused),
		cmocka_unit_test(malformed_options_are_refused),
		cmocka_unit_test(ones_own_vmas_are_counted_as_the_kernel_counts_them),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
