/* SPDX-License-Identifier: MIT */
/*
 * What MRG_IOC_INFO says of mrguard_cap.ko, and who keeps it from being
 * unloaded: the state is asked of the kernel's own pick, never remembered.
 */
#include "ioctl_kit.h"

#include <sys/wait.h>

#include <mrguard/host.h>

static int run(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int open_device(void)
{
	int fd = open("/dev/mrguard", O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct mrg_ioc_info ask(int fd)
{
	struct mrg_ioc_info info = { .size = sizeof(info) };

	assert_int_equal(ioctl(fd, MRG_IOC_INFO, &info), 0);
	return info;
}

static uint32_t state_by(int fd)
{
	return ask(fd).cap;
}

/* A descriptor that holds nothing afterwards. */
static uint32_t state_now(void)
{
	int fd = open_device();
	uint32_t state = state_by(fd);

	close(fd);
	return state;
}

static struct mrg_ioc_holders holders_of(int fd, uint32_t *pids, uint32_t cap)
{
	struct mrg_ioc_holders arg = { .size = sizeof(arg),
				       .pids = (uintptr_t)pids,
				       .pids_cap = cap };

	assert_int_equal(ioctl(fd, MRG_IOC_HOLDERS, &arg), 0);
	return arg;
}

static void off_and_waiting_and_set_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(run("modprobe mrguard"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_OFF);
	assert_int_equal(run("modprobe mrguard_cap"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_WAITING);
	assert_int_equal(run("modprobe ib_uverbs"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_SET);
	assert_int_equal(run("modprobe mrguard_walk"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_EFFECTIVE);
}

static void a_switch_that_turns_kprobes_off_is_seen(void **state)
{
	(void)state;
	assert_int_equal(write_file("/sys/kernel/debug/kprobes/enabled", "0"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_NOT_EFFECTIVE);
	assert_int_equal(write_file("/sys/kernel/debug/kprobes/enabled", "1"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_EFFECTIVE);
}

static void a_descriptor_that_was_told_keeps_the_cap(void **state)
{
	int fd = open_device(), other = open_device();
	uint32_t pids[4] = { 0 };
	struct mrg_ioc_holders holders;

	(void)state;
	assert_int_equal(holders_of(other, pids, 4).total, 0);
	assert_int_equal(state_by(fd), MRG_CAP_INFO_EFFECTIVE);
	/* Asked again, it is one holder still. */
	assert_int_equal(state_by(fd), MRG_CAP_INFO_EFFECTIVE);
	holders = holders_of(other, pids, 4);
	assert_int_equal(holders.total, 1);
	assert_int_equal(holders.pids_out, 1);
	assert_int_equal(pids[0], getpid());
	assert_int_equal(holders_of(other, NULL, 0).total, 1);
	assert_int_not_equal(run("rmmod mrguard_cap 2>/dev/null"), 0);
	close(fd);
	assert_int_equal(holders_of(other, pids, 4).total, 0);
	close(other);
}

/* The child has the parent's descriptor: the file lives until both have closed it. */
static void a_child_that_inherited_the_descriptor_keeps_the_cap(void **state)
{
	int fd = open_device(), other = open_device(), gate[2];
	uint32_t pids[1] = { 0 };
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(state_by(fd), MRG_CAP_INFO_EFFECTIVE);
	assert_int_equal(pipe(gate), 0);
	child = fork();
	if (!child) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) != 0);
	}
	close(fd);
	assert_int_equal(holders_of(other, pids, 1).total, 1);
	assert_int_not_equal(run("rmmod mrguard_cap 2>/dev/null"), 0);
	close(gate[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(holders_of(other, pids, 1).total, 0);
	close(other);
}

static void what_a_killed_process_held_is_free(void **state)
{
	int other = open_device(), ready[2];
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		int fd = open_device();

		byte = (char)state_by(fd);
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(byte, MRG_CAP_INFO_EFFECTIVE);
	assert_int_equal(holders_of(other, NULL, 0).total, 1);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(holders_of(other, NULL, 0).total, 0);
	close(other);
	close(ready[0]);
	close(ready[1]);
}

/* MRG_IOC_INFO asks the kernel's pick itself, which passes through the cap. */
static void picks_are_counted(void **state)
{
	int fd = open_device();
	struct mrg_ioc_info before = ask(fd), after = ask(fd);

	(void)state;
	assert_int_equal(after.cap_asked, before.cap_asked + 1);
	assert_int_equal(after.cap_capped, before.cap_capped + 1);
	assert_int_equal(after.cap_uncapped, before.cap_uncapped);
	close(fd);
}

static void library_and_command_tell_the_same(void **state)
{
	struct mrg_dev_info info;
	struct mrg_dev *dev;

	(void)state;
	assert_int_equal(mrg_dev_open(&dev), 0);
	assert_int_equal(mrg_dev_info(dev, &info), 0);
	assert_int_equal(info.cap, MRG_CAP_EFFECTIVE);
	assert_string_equal(mrg_cap_name(info.cap), "capped");
	assert_true(info.cap_asked >= info.cap_capped && info.cap_capped > 0);
	mrg_dev_close(dev);
	assert_int_equal(run("mrguard info | grep -q '^cap      capped: '"), 0);
	assert_int_equal(run("mrguard info --json | jq -e '.module.cap.state == \"capped\"' >&2"),
			 0);
}

static void a_caller_of_0_1_0_gets_what_it_knows(void **state)
{
	struct mrg_ioc_info info = { .size = 48 };
	int fd = open_device();

	(void)state;
	memset((char *)&info + 48, 0xa5, sizeof(info) - 48);
	assert_int_equal(ioctl(fd, MRG_IOC_INFO, &info), 0);
	assert_int_equal(info.abi, MRG_ABI_VERSION);
	assert_int_equal(((unsigned char *)&info)[48], 0xa5);
	close(fd);
}

static void rdma_that_goes_is_waited_for_and_it_unloads(void **state)
{
	(void)state;
	assert_int_equal(run("rmmod mrguard_walk"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_SET);
	assert_int_equal(run("modprobe -r ib_uverbs; rmmod ib_core 2>/dev/null; true"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_WAITING);
	assert_int_equal(run("modprobe mrguard_walk && modprobe ib_uverbs"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_EFFECTIVE);
	assert_int_equal(run("modprobe -r mrguard_cap"), 0);
	assert_int_equal(state_now(), MRG_CAP_INFO_OFF);
	assert_int_equal(run("rmmod mrguard_walk mrguard"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_and_waiting_and_set_are_told_apart),
		cmocka_unit_test(a_switch_that_turns_kprobes_off_is_seen),
		cmocka_unit_test(a_descriptor_that_was_told_keeps_the_cap),
		cmocka_unit_test(a_child_that_inherited_the_descriptor_keeps_the_cap),
		cmocka_unit_test(what_a_killed_process_held_is_free),
		cmocka_unit_test(picks_are_counted),
		cmocka_unit_test(library_and_command_tell_the_same),
		cmocka_unit_test(a_caller_of_0_1_0_gets_what_it_knows),
		cmocka_unit_test(rdma_that_goes_is_waited_for_and_it_unloads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
