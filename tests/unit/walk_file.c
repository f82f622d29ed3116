/* SPDX-License-Identifier: MIT */
/*
 * The kernel's walk asked of a module's file: right answers of the walks that
 * kernels had, none of functions that misbehave or of damaged files, and
 * nothing of it to be noticed in the process that asks.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "walkfile/walkfile.h"

static char build[PATH_MAX]; /* where the program was built */
static char folder[] = "/tmp/walk_file.XXXXXX";
static const struct walkfile_host host = { .root = folder, .release = "6.1.0-made" };

static const char *in_build(const char *name)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", build, name);
	return path;
}

static const char *made(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "tests/kernelcode/%s.ko", name);
	return in_build(path);
}

static struct mrg_walk_answer ask(const char *path)
{
	struct mrg_walk_answer answer;

	assert_int_equal(mrg_walk_ask_file(path, &answer), 0);
	return answer;
}

/* ---- what walks do ---- */

static void every_walk_that_kernels_had_is_told(void **state)
{
	static const struct {
		const char *name;
		enum mrg_walk walk;
	} walks[] = {
		{ "exact", MRG_WALK_EXACT },
		{ "truncating", MRG_WALK_TRUNCATING },
		{ "unbounded", MRG_WALK_TRUNCATING_UNBOUNDED },
		{ "per_entry", MRG_WALK_PER_ENTRY },
		{ "narrow", MRG_WALK_PER_ENTRY_NARROW },
	};
	struct mrg_walk_answer answer;

	(void)state;
	for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
		answer = ask(made(walks[i].name));
		assert_string_equal(answer.why, "");
		assert_int_equal(answer.walk, walks[i].walk);
		assert_string_equal(answer.file, made(walks[i].name));
	}
}

static void a_function_that_misbehaves_is_unknown(void **state)
{
	static const struct {
		const char *name, *why;
	} bad[] = {
		{ "loops", "The function did not return." },
		{ "faults", "The function was stopped by signal 11." },
		{ "calls", "The function uses _printk, which is not here." },
		{ "writes_list", "The function wrote where it should not." },
		{ "writes_iterator", "The function wrote where it should not." },
		{ "reads_canary", "__rdma_block_iter_next reads a stack canary." },
		{ "static_call", "__rdma_block_iter_next makes a static call." },
		{ "kasan", "__rdma_block_iter_next was built for KASAN." },
		{ "alternative",
		  "__rdma_block_iter_next has alternatives, which the running kernel rewrites." },
		{ "smashes_stack", "The function was stopped by signal 11." },
		{ "smashes_caller", "" },
		{ "clobbers",
		  "The function did not keep the stack and the registers as they were." },
		{ "system_call", "The program that runs the function was stopped." },
		{ "leaves", "The program that runs the function was stopped." },
		{ "recurses", "" },
	};
	struct mrg_walk_answer answer;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		answer = ask(made(bad[i].name));
		assert_int_equal(answer.walk, MRG_WALK_UNKNOWN);
		assert_string_not_equal(answer.why, "");
		if (bad[i].why[0])
			assert_string_equal(answer.why, bad[i].why);
	}
}

static void a_file_that_is_no_module_is_unknown(void **state)
{
	struct mrg_walk_answer answer;

	(void)state;
	assert_string_equal(ask("/etc/passwd").why, "The file is no kernel module.");
	assert_string_equal(ask("/dev/null").why, "The file is no kernel module.");
	assert_int_equal(mrg_walk_ask_file("/nonexistent", &answer), -ENOENT);
}

/* ---- damage ---- */

static uint8_t *whole, *damaged;
static size_t whole_size;

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	close(fd);
}

static void read_whole(const char *path)
{
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	whole = malloc(1 << 20);
	damaged = malloc(1 << 20);
	assert_true(whole && damaged);
	whole_size = fread(whole, 1, 1 << 20, file);
	fclose(file);
}

/* Whether a byte is of the function or of its relocations: damage there may make
 * another function of it, which is then told as it is. */
static bool is_code(size_t at)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)whole;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(whole + header->e_shoff);

	for (size_t i = 0; i < header->e_shnum; i++)
		if ((sections[i].sh_flags & SHF_EXECINSTR || sections[i].sh_type == SHT_RELA ||
		     sections[i].sh_type == SHT_SYMTAB || sections[i].sh_type == SHT_STRTAB) &&
		    at - sections[i].sh_offset < sections[i].sh_size)
			return true;
	/* Headers say which bytes are the function. */
	return at - header->e_shoff < header->e_shnum * sizeof(Elf64_Shdr);
}

static void damage_is_unknown_or_changes_nothing(void **state)
{
	const size_t count = getenv("MRG_FULL") ? 1000 : 100;
	char path[PATH_MAX];
	size_t unknown = 0;

	(void)state;
	srandom(1);
	read_whole(made("truncating"));
	snprintf(path, sizeof(path), "%s/damaged.ko", folder);
	for (size_t i = 0; i < count; i++) {
		struct mrg_walk_answer answer;
		size_t at = (size_t)random() % whole_size;

		memcpy(damaged, whole, whole_size);
		if (i % 10 == 9)
			write_file(path, damaged, at);
		else
			damaged[at] ^= (uint8_t)(1 + random() % 255);
		if (i % 10 != 9)
			write_file(path, damaged, whole_size);
		answer = ask(path);
		unknown += answer.walk == MRG_WALK_UNKNOWN;
		if (answer.walk == MRG_WALK_UNKNOWN)
			assert_string_not_equal(answer.why, "");
		else if (answer.walk != MRG_WALK_TRUNCATING && !is_code(at))
			fail_msg("damage %zu, at %zu of %zu: %s", i, at, whole_size,
				 mrg_walk_name(answer.walk));
	}
	/* Some damage was met, and some missed. */
	assert_in_range(unknown, count / 20, count - count / 20);
	free(whole);
	free(damaged);
}

/* ---- a host ---- */

static void put(const char *path, const void *data, size_t size)
{
	char full[PATH_MAX], *slash;

	snprintf(full, sizeof(full), "%s%s", folder, path);
	for (slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	write_file(full, data, size);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void put_module(const char *path, const char *name)
{
	read_whole(made(name));
	put(path, whole, whole_size);
	free(whole);
	free(damaged);
}

#define MODULES "/lib/modules/6.1.0-made"

static void make_host(void)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "rm -rf %s/*", folder);
	assert_int_equal(system(command), 0);
	put_module(MODULES "/kernel/drivers/infiniband/core/ib_core.ko", "exact");
	put_text(MODULES "/modules.dep", "kernel/net/other.ko: ib_core.ko\n"
					 "kernel/drivers/infiniband/core/ib_core.ko: other.ko\n");
	put_text("/sys/module/ib_core/initstate", "live\n");
	put_text("/sys/module/ib_core/srcversion", "TESTED\n");
}

static struct mrg_walk_answer ask_host(void)
{
	struct mrg_walk_answer answer;

	walkfile_ask_host(&host, &answer, NULL);
	return answer;
}

static void the_loaded_modules_file_is_asked(void **state)
{
	(void)state;
	make_host();
	assert_string_equal(ask_host().why, "");
	assert_int_equal(ask_host().walk, MRG_WALK_EXACT);
}

static void another_build_of_the_module_does_not_count(void **state)
{
	(void)state;
	make_host();
	put_text("/sys/module/ib_core/srcversion", "OTHER\n");
	assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
	assert_non_null(strstr(ask_host().why, "is not that of the loaded ib_core."));
	/* A build id that the file lacks is not made up for by the srcversion. */
	make_host();
	put("/sys/module/ib_core/notes/.note.gnu.build-id", "\4\0\0\0\2\0\0\0\3\0\0\0GNU\0\1\2",
	    18);
	assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
}

static void a_vendors_folder_comes_first_and_the_loaded_one_is_found(void **state)
{
	(void)state;
	make_host();
	put_text(MODULES "/modules.dep", "updates/dkms/ib_core.ko:\n");
	put_text(MODULES "/updates/dkms/ib_core.ko", "no module");
	assert_int_equal(ask_host().walk, MRG_WALK_EXACT);
	put_module(MODULES "/updates/dkms/ib_core.ko", "truncating");
	assert_int_equal(ask_host().walk, MRG_WALK_TRUNCATING);
}

static void what_is_not_there_is_unknown(void **state)
{
	char path[PATH_MAX];

	(void)state;
	make_host();
	snprintf(path, sizeof(path), "%s/sys/module/ib_core/initstate", folder);
	unlink(path);
	assert_string_equal(ask_host().why,
			    "The module ib_core is not loaded, or is part of the kernel's image.");
	make_host();
	snprintf(path, sizeof(path), "%s" MODULES "/kernel/drivers/infiniband/core/ib_core.ko",
		 folder);
	unlink(path);
	assert_string_equal(ask_host().why,
			    "The file of ib_core is not in /lib/modules/6.1.0-made.");
}

static void a_live_patch_of_the_function_is_unknown(void **state)
{
	(void)state;
	make_host();
	put_text("/sys/kernel/livepatch/some/ib_core/other,1/x", "");
	assert_int_equal(ask_host().walk, MRG_WALK_EXACT);
	put_text("/sys/kernel/livepatch/some/ib_core/__rdma_block_iter_next,1/x", "");
	assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
}

static void an_answer_is_kept_for_its_build_and_by_whom_may(void **state)
{
	static const char kept[] = "mrguard-kernelcode " MRG_VERSION_STRING
				   "\nbuild-id 0102\nwalk 0x7\nend\nfile /kept\n";
	char path[PATH_MAX], owned[PATH_MAX];

	(void)state;
	make_host();
	put("/sys/module/ib_core/notes/.note.gnu.build-id", "\4\0\0\0\2\0\0\0\3\0\0\0GNU\0\1\2",
	    18);
	put_text("/run/mrguard/walk.0102", kept);
	assert_int_equal(ask_host().walk, MRG_WALK_TRUNCATING);
	assert_string_equal(ask_host().file, "/kept");
	snprintf(path, sizeof(path), "%s/run/mrguard/walk.0102", folder);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
	assert_int_equal(chmod(path, 0644), 0);
	/* Root does not believe a user, be the folder his too. */
	if (!geteuid()) {
		snprintf(owned, sizeof(owned), "%s/run/mrguard", folder);
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_int_equal(chown(owned, 65534, 65534), 0);
		assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
		assert_int_equal(chown(path, 0, 0), 0);
		assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
		assert_int_equal(chown(owned, 0, 0), 0);
		assert_int_equal(ask_host().walk, MRG_WALK_TRUNCATING);
	}
	/* What another version said is asked anew. */
	put_text("/run/mrguard/walk.0102",
		 "mrguard-kernelcode 0.0.0\nbuild-id 0102\nwalk 0x7\nend\n");
	assert_int_equal(ask_host().walk, MRG_WALK_UNKNOWN);
}

static void a_record_takes_the_code_along(void **state)
{
	static char text[WALKFILE_TEXT];
	struct mrg_walk_answer answer;
	char path[PATH_MAX];

	(void)state;
	make_host();
	put_module(MODULES "/kernel/drivers/infiniband/core/ib_core.ko", "truncating");
	walkfile_ask_host(&host, &answer, text);
	assert_false(answer.recorded);
	put_text("/walk", text);
	snprintf(path, sizeof(path), "%s/walk", folder);
	answer = ask(path);
	assert_string_equal(answer.why, "");
	assert_int_equal(answer.walk, MRG_WALK_TRUNCATING);
	assert_true(answer.recorded);
	/* The answer that stands there is not believed: the code is run. */
	memcpy(strstr(text, "walk 0x7"), "walk 0x3", 8);
	put_text("/walk", text);
	assert_int_equal(ask(path).walk, MRG_WALK_TRUNCATING);
	memcpy(strstr(text, "function "), "removed: ", 9);
	put_text("/walk", text);
	assert_int_equal(ask(path).walk, MRG_WALK_UNKNOWN);
}

/* ---- the process that asks ---- */

static atomic_int signals, stop, turns;

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void *work(void *arg)
{
	uint64_t *sum = arg;

	while (!atomic_load(&stop)) {
		(*sum)++;
		atomic_fetch_add(&turns, 1);
		/* As an engine does that looks after its own children. */
		if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
			return "wait(2) saw a child";
	}
	return NULL;
}

static size_t count_of(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void the_caller_notices_nothing(void **state)
{
	struct sigaction action = { .sa_handler = count_signal }, before;
	size_t fds = count_of("/proc/self/fd");
	sigset_t mask, after;
	uint64_t sum = 0;
	pthread_t thread;
	void *complaint;

	(void)state;
	sigaction(SIGCHLD, &action, &before);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	assert_int_equal(pthread_create(&thread, NULL, work, &sum), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask(made("exact")).walk, MRG_WALK_EXACT);
		assert_int_equal(ask(made("faults")).walk, MRG_WALK_UNKNOWN);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, &complaint);
	assert_null(complaint);
	assert_true(atomic_load(&turns) > 10);
	assert_int_equal(atomic_load(&signals), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(memcmp(&mask, &after, sizeof(unsigned long)), 0);
	assert_int_equal(count_of("/proc/self/fd"), fds);
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
	sigemptyset(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGCHLD, &before, NULL);
}

static void a_caller_that_ignores_children_gets_answers(void **state)
{
	(void)state;
	signal(SIGCHLD, SIG_IGN);
	assert_int_equal(ask(made("exact")).walk, MRG_WALK_EXACT);
	signal(SIGCHLD, SIG_DFL);
}

static void without_the_program_the_walk_is_unknown(void **state)
{
	(void)state;
	setenv("MRGUARD_KERNELCODE", "/nonexistent", 1);
	assert_string_equal(
		ask(made("exact")).why,
		"The program mrguard-kernelcode cannot be started: No such file or directory.");
	setenv("MRGUARD_KERNELCODE", in_build("mrguard-kernelcode"), 1);
}

static int set_up(void **state)
{
	ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);

	(void)state;
	for (int i = 0; n > 0 && i < 3; i++)
		*strrchr(build, '/') = 0;
	setenv("MRGUARD_KERNELCODE", in_build("mrguard-kernelcode"), 1);
	return n > 0 && mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[PATH_MAX + 64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_walk_that_kernels_had_is_told),
		cmocka_unit_test(a_function_that_misbehaves_is_unknown),
		cmocka_unit_test(a_file_that_is_no_module_is_unknown),
		cmocka_unit_test(damage_is_unknown_or_changes_nothing),
		cmocka_unit_test(the_loaded_modules_file_is_asked),
		cmocka_unit_test(another_build_of_the_module_does_not_count),
		cmocka_unit_test(a_vendors_folder_comes_first_and_the_loaded_one_is_found),
		cmocka_unit_test(what_is_not_there_is_unknown),
		cmocka_unit_test(a_live_patch_of_the_function_is_unknown),
		cmocka_unit_test(an_answer_is_kept_for_its_build_and_by_whom_may),
		cmocka_unit_test(a_record_takes_the_code_along),
		cmocka_unit_test(the_caller_notices_nothing),
		cmocka_unit_test(a_caller_that_ignores_children_gets_answers),
		cmocka_unit_test(without_the_program_the_walk_is_unknown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
