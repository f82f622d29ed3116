/* SPDX-License-Identifier: MIT */
/*
 * The check runs in a unit whose sandbox takes openat2(2) away with ENOSYS, as
 * systemd does for RestrictSUIDSGID=.  What it sees must stay the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <mrguard/check.h>

static void take_openat2_away(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* "id subject verdict", a line each, but for figures that move by themselves. */
static void verdicts(char *text, size_t cap)
{
	struct mrg_check_report *report;
	const struct mrg_check_result *r;
	size_t count, len = 0;

	assert_int_equal(mrg_check_run(NULL, &report), 0);
	r = mrg_check_results(report, &count);
	for (size_t i = 0; i < count && len < cap; i++)
		if (strcmp(r[i].id, "map-count"))
			len += (size_t)snprintf(text + len, cap - len, "%s %s %s\n", r[i].id,
						r[i].subject, mrg_check_verdict_name(r[i].verdict));
	mrg_check_free(report);
}

static void a_sandbox_without_openat2_sees_the_same(void **state)
{
	static char before[16384], after[16384];
	struct open_how how = { 0 };
	int status;
	pid_t child;

	(void)state;
	verdicts(before, sizeof(before));
	assert_non_null(strstr(before, "module"));
	child = fork();
	if (!child) {
		take_openat2_away();
		if (syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)) != -1 || errno != ENOSYS)
			_exit(2);
		verdicts(after, sizeof(after));
		if (strcmp(before, after))
			fprintf(stderr, "with:\n%swithout:\n%s", before, after);
		_exit(strcmp(before, after) != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sandbox_without_openat2_sees_the_same),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("tests", tests, NULL, NULL);
}
