/* SPDX-License-Identifier: MIT */
/*
 * `mrguard cap' on a real kernel: on, status and off, with an MR from before,
 * and with a process that holds the cap.
 */
#include <signal.h>
#include <sys/wait.h>

#include "ground.h"

/* The exit status of a shell's command. */
static int sh(const char *command)
{
	int status;

	fflush(stdout);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* status --json, put through jq. */
static bool status_is(const char *filter)
{
	char command[512];

	snprintf(
		command, sizeof(command),
		"mrguard cap --json >/tmp/cap.json; jq -e '%s' </tmp/cap.json >/dev/null || { cat /tmp/cap.json >&2; false; }",
		filter);
	return !sh(command);
}

static struct ibv_mr *register_12g(struct ibv_context *verbs, struct ibv_pd **pd)
{
	const struct mrg_sg sg = { 4 * GIB, 12 * GIB };
	int fd = make_dmabuf(&sg, 1, 2 * GIB);
	struct ibv_mr *mr;

	*pd = ibv_alloc_pd(verbs);
	mr = *pd ? ibv_reg_dmabuf_mr(*pd, 0, 12 * GIB, 0x700000000000, fd, IBV_ACCESS_LOCAL_WRITE) :
		   NULL;
	if (!mr)
		bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	close(fd);
	return mr;
}

/* A process that read that the cap is set; it ends by itself after @seconds. */
static pid_t start_holder(unsigned int seconds)
{
	int ready[2];
	pid_t child;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		bail("pipe: %s", strerror(errno));
	fflush(stdout);
	child = fork();
	if (!child) {
		struct mrg_dev *dev;

		if (mrg_dev_open(&dev) || write(ready[1], "", 1) != 1)
			_exit(1);
		sleep(seconds);
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		bail("the holder did not start");
	close(ready[0]);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void what_needs_no_cap_gets_none(void)
{
	ok(sh("mrguard cap on >/tmp/said") == 0 &&
		   !sh("grep -q '^cap      not needed: ' /tmp/said"),
	   "on a kernel that walks right it says so, and ends well");
	ok(sh("test -d /sys/module/mrguard_cap") != 0, "and loads nothing");
	ok(sh("mrguard cap status >/dev/null") == 0 && status_is(".state == \"not needed\""),
	   "status says the same");
	ok(sh("mrguard cap off >/dev/null") == 0, "off is nothing to do");
}

static void before_it_is_on(void)
{
	ok(sh("mrguard cap status >/tmp/said") == 1,
	   "off on an affected kernel: status ends with 3");
	ok(!sh("grep -q '^cap      off: ' /tmp/said && grep -q 'sudo mrguard cap on' /tmp/said"),
	   "it names the state and the remedy");
	ok(status_is(".state == \"off\" and .walk == env.MRG_WALK and .at_risk == true"),
	   "JSON has state and walk");
	/* The build folder may be where others cannot enter. */
	sh("mkdir -p /tmp/bin && cp -L $MRG_BUILD/mrguard $MRG_BUILD/libmrguard*.so.[0-9] /tmp/bin");
	ok(sh("setpriv --reuid 65534 --clear-groups /tmp/bin/mrguard cap on 2>/tmp/said") == 3 &&
		   !sh("grep -q 'Only root may load' /tmp/said"),
	   "a user other than root gets the message that only root may");
}

static void it_is_set_beside_an_mr_from_before(struct ibv_mr *mr)
{
	char filter[256];

	ok(sh("mrguard cap on >/tmp/said") == 1 && !sh("grep -q '^cap      capped: ' /tmp/said"),
	   "on: it is effective, and the MR from before keeps the status at 3");
	ok(!sh("grep -q '^  simnic0 .* 12 GiB .* of [0-9]* exe$' /tmp/said"),
	   "that MR is named, with its size and process");
	snprintf(filter, sizeof(filter),
		 ".state == \"capped\" and (.before | length) == 1 and .before[0].certain and "
		 ".before[0].pid == %d and .before[0].length == 12884901888",
		 getpid());
	ok(status_is(filter), "JSON has it as certain");
	ok(status_is(
		   "[.devices[] | select(.name == \"simnic0\") | .driver, .pick] == [\"simnic\", \"kernel\"]"),
	   "its device's driver asks the capped function");
	ibv_dereg_mr(mr);
	ok(status_is("(.before | length) == 0 and .at_risk == false"),
	   "once it is deregistered it is gone from the status");
	ok(sh("mrguard cap status >/dev/null") == 0, "which then ends with 0");
}

static void an_mr_from_after_is_not_from_before(struct ibv_context *verbs)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr = register_12g(verbs, &pd);

	ok(status_is("(.before | length) == 0"), "an MR registered under the cap is not listed");
	sh("rm /run/mrguard-cap/before");
	ok(status_is("(.before | length) == 1 and .before[0].certain == false"),
	   "without the list, that of a process older than the cap may be from before");
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
}

static void a_switch_is_told(void)
{
	sh("echo 0 >/sys/kernel/debug/kprobes/enabled");
	ok(sh("mrguard cap >/tmp/said") == 1 && !sh("grep -q 'kprobes/enabled' /tmp/said"),
	   "with kprobes disabled: not effective, and how to enable them");
	ok(sh("mrguard cap on >/dev/null") == 3, "on fails then");
	sh("echo 1 >/sys/kernel/debug/kprobes/enabled");
	ok(sh("mrguard cap on >/dev/null") == 0, "with kprobes enabled again it ends well");
	sh("rmmod mrguard_walk");
	ok(sh("mrguard cap >/tmp/said") == 1 && status_is(".state == \"set\""),
	   "without mrguard_walk: set, and nothing shows it");
	ok(!sh("grep -q 'sudo modprobe mrguard_walk' /tmp/said"), "and how to show it");
	sh("rmmod mrguard");
	ok(sh("mrguard cap >/tmp/said") == 1 &&
		   !sh("grep -q '^cap      set: not shown: ' /tmp/said"),
	   "without /dev/mrguard: the same");
	sh("modprobe -a mrguard mrguard_walk");
}

static void who_holds_it_is_named(void)
{
	pid_t child = start_holder(600);
	char filter[64], command[160];

	snprintf(filter, sizeof(filter), ".holders == [%d]", child);
	ok(status_is(filter), "a process that read the state is a holder");
	ok(sh("mrguard cap off 2>/tmp/said") == 3, "off fails while it is there");
	snprintf(command, sizeof(command), "grep -q '^  %d exe$' /tmp/said", child);
	ok(!sh(command), "and names it");
	ok(sh("mrguard cap off --wait=1 2>/dev/null") == 3 &&
		   !sh("test -d /sys/module/mrguard_cap"),
	   "a deadline ends the wait, and the cap stays");
	end(child);
	child = start_holder(3);
	ok(sh("mrguard cap off --wait >/tmp/said 2>&1") == 0 &&
		   !sh("grep -q '^Waiting ' /tmp/said && grep -q '^cap      off: ' /tmp/said"),
	   "--wait waits until it has ended, and unloads");
	end(child);
	ok(status_is(".state == \"off\" and .holders == []"), "the cap is off");
}

static void a_module_that_is_not_built_is_told(void)
{
	/* A folder without the module, as after a kernel update without headers. */
	ok(sh("modprobe() { :; }; d=$(mktemp -d) && mkdir -p $d/$(uname -r) && "
	      "cp /lib/modules/$(uname -r)/modules.* $d/$(uname -r)/ && "
	      "sed -i /mrguard_cap/d $d/$(uname -r)/modules.dep && rm -f $d/$(uname -r)/*.bin && "
	      "mount --bind $d /lib/modules && mrguard cap on 2>/tmp/said; s=$?; "
	      "umount /lib/modules; exit $s") == 3,
	   "on fails where the module is not built for this kernel");
	ok(!sh("grep -q 'not found in directory' /tmp/said && grep -q 'mrguard-cap-dkms' /tmp/said"),
	   "and names what is to be installed");
}

int main(int argc, char **argv)
{
	struct ibv_context *verbs;
	struct ibv_pd *pd;

	(void)argc;
	preload_shim(argv);
	ground_up();
	if (!walk_is_truncating()) {
		what_needs_no_cap_gets_none();
		ground_down();
		tap_end();
		return 0;
	}
	before_it_is_on();
	a_module_that_is_not_built_is_told();
	verbs = rc_device_open("simnic0");
	if (!verbs)
		bail("simnic0: %s", strerror(errno));
	it_is_set_beside_an_mr_from_before(register_12g(verbs, &pd));
	ibv_dealloc_pd(pd);
	an_mr_from_after_is_not_from_before(verbs);
	ibv_close_device(verbs);
	a_switch_is_told();
	who_holds_it_is_named();
	ground_down();
	tap_end();
	return 0;
}
