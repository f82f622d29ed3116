/* SPDX-License-Identifier: MIT */
/*
 * simnic outlives its users and they outlive it: killed in the middle,
 * unloaded while in use, unbound under a live process, fed with garbage; and
 * it fails on demand.  After each test nothing may be left of what was made.
 */
#include "simnic_pair.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#define SIZE (1U << 20)

static const char *const live[] = { "mrs_live", "pds_live", "cqs_live", "qps_live",
				    "contexts_live" };

/* Areas of kernel memory that simnic's code has asked for: rings, block lists. */
static int areas(void)
{
	FILE *f = fopen("/proc/vmallocinfo", "r");
	char line[512];
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "[simnic]") != NULL;
	fclose(f);
	return n;
}

/* What there is when nobody uses the device. */
static int idle_areas;

static void assert_nothing_lives(void)
{
	assert_int_equal(areas(), idle_areas);
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
		int64_t n = stat_of("simnic0", live[i]);

		if (n)
			print_error("%s: %d\n", live[i], (int)n);
		assert_int_equal(n, 0);
	}
}

static pid_t parent;

static int leaves_nothing(void **state)
{
	(void)state;
	/* A check that failed in a child comes out here, in the child. */
	if (getpid() != parent)
		_exit(99);
	assert_nothing_lives();
	return 0;
}

/* ------------------------------------------------------------------ faults */

struct user {
	struct pair pair;
	unsigned char *p;
};

static void user_open(struct user *u)
{
	static const struct pair_options plain;

	pair_open(&u->pair, &plain);
	u->p = buffer(SIZE);
	memset(u->p, 1, SIZE);
}

static void user_close(struct user *u)
{
	pair_close(&u->pair);
	munmap(u->p, SIZE);
}

/* 0 where a registration works, else its errno. */
static int reg_error(struct user *u, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(u->pair.a.pd, u->p, len, PAIR_ACCESS);

	if (!mr)
		return errno;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return 0;
}

static void the_nth_registration_fails_with_the_errno(void **state)
{
	struct user u;

	(void)state;
	user_open(&u);
	/* Four rings and two completion queues: the count does see them. */
	assert_true(areas() >= idle_areas + 6);
	set("simnic0", "fail_reg_errno", EAGAIN);
	set("simnic0", "fail_reg_nth", 3);
	assert_int_equal(reg_error(&u, 4096), 0);
	assert_int_equal(reg_error(&u, 4096), 0);
	assert_int_equal(reg_error(&u, 4096), EAGAIN);
	assert_int_equal(reg_error(&u, 4096), 0);
	set("simnic0", "fail_reg_errno", ENOMEM);
	user_close(&u);
}

static void all_registrations_after_some_fail(void **state)
{
	struct user u;

	(void)state;
	user_open(&u);
	set("simnic0", "fail_reg_from", 2);
	assert_int_equal(reg_error(&u, 4096), 0);
	assert_int_equal(reg_error(&u, 4096), ENOMEM);
	assert_int_equal(reg_error(&u, 4096), ENOMEM);
	set("simnic0", "fail_reg_from", 0);
	assert_int_equal(reg_error(&u, 4096), 0);
	user_close(&u);
}

static void a_registration_can_be_slow(void **state)
{
	uint64_t start;
	struct user u;

	(void)state;
	user_open(&u);
	set("simnic0", "reg_delay_ms", 300);
	start = now_ms();
	assert_int_equal(reg_error(&u, 4096), 0);
	/* The sleep counts ticks and now_ms() the emulated TSC, which was seen to
	 * be off by a factor of up to three. */
	assert_true(now_ms() - start >= 75);
	set("simnic0", "reg_delay_ms", 0);
	user_close(&u);
}

static void the_largest_region_is_told_and_kept_to(void **state)
{
	struct ibv_device_attr attr;
	struct user u;

	(void)state;
	user_open(&u);
	set("simnic0", "max_mr_size", 65536);
	assert_int_equal(ibv_query_device(u.pair.a.context, &attr), 0);
	assert_int_equal(attr.max_mr_size, 65536);
	assert_int_equal(reg_error(&u, 65536), 0);
	assert_int_equal(reg_error(&u, 65537), EINVAL);
	set("simnic0", "max_mr_size", UINT64_MAX);
	assert_int_equal(reg_error(&u, SIZE), 0);
	user_close(&u);
}

static void a_largest_page_out_of_range_is_refused(void **state)
{
	(void)state;
	assert_int_equal(try_set("simnic0", "max_page_shift", 11), -EINVAL);
	assert_int_equal(try_set("simnic0", "max_page_shift", 64), -EINVAL);
}

static void the_nth_request_fails_with_the_status(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct user u;

	(void)state;
	user_open(&u);
	mr = reg(&u.pair.a, u.p, SIZE, PAIR_ACCESS);
	sge = sge_of(mr, 0, 8);
	wr = request(IBV_WR_RDMA_WRITE, &sge, mr, 8);
	set("simnic0", "fail_wr_status", IBV_WC_REM_ABORT_ERR);
	set("simnic0", "fail_wr_nth", 1);
	assert_status(status_of(&u.pair, &wr), IBV_WC_REM_ABORT_ERR);
	assert_int_equal(end_state(&u.pair.a), IBV_QPS_ERR);
	set("simnic0", "fail_wr_status", IBV_WC_GENERAL_ERR);
	ibv_dereg_mr(mr);
	user_close(&u);
}

static void a_failed_registration_leaves_nothing(void **state)
{
	int64_t failed = stat_of("simnic0", "mrs_failed");
	struct user u;

	(void)state;
	user_open(&u);
	for (uint64_t i = 0; i < 300; i++) {
		set("simnic0", "fail_reg_nth", i % 3 == 0);
		assert_int_equal(reg_error(&u, 4096 * (1 + i % 50)), i % 3 ? 0 : ENOMEM);
	}
	assert_int_equal(stat_of("simnic0", "mrs_live"), 0);
	assert_int_equal(stat_of("simnic0", "mrs_failed") - failed, 100);
	user_close(&u);
}

/* --------------------------------------------------------------- processes */

/* Runs in a child and says with a byte when it is under way. */
static pid_t start(void (*run)(int ready))
{
	int fds[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		/* The TAP stream is the parent's. */
		dup2(2, 1);
		run(fds[1]);
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Sends and receives and registers without end. */
static void busy(int ready)
{
	struct user u;

	user_open(&u);
	for (unsigned int i = 0;; i++) {
		struct ibv_mr *mr = reg(&u.pair.a, u.p, SIZE, PAIR_ACCESS);
		struct ibv_sge to = sge_of(mr, SIZE / 2, SIZE / 2), from = sge_of(mr, 1, SIZE / 2);
		struct ibv_send_wr wr =
			request(i % 2 ? IBV_WR_RDMA_READ : IBV_WR_SEND, &from, mr, 9);
		struct ibv_mr *bmr = reg(&u.pair.b, u.p, SIZE, PAIR_ACCESS);

		to.lkey = bmr->lkey;
		wr.wr.rdma.rkey = i % 2 ? bmr->rkey : 0;
		if (!(i % 2))
			post_recv(&u.pair.b, 1, &to, 1);
		post(&u.pair.a, &wr);
		completion(u.pair.a.send_cq);
		if (!(i % 2))
			completion(u.pair.b.recv_cq);
		ibv_dereg_mr(bmr);
		ibv_dereg_mr(mr);
		if (i == 2)
			assert_int_equal(write(ready, "x", 1), 1);
	}
}

static void killed_at_any_time_it_leaves_nothing(void **state)
{
	(void)state;
	for (useconds_t i = 0; i < 20; i++) {
		pid_t pid = start(busy);

		usleep(3000 + 1700 * i);
		kill(pid, SIGKILL);
		assert_int_equal(WTERMSIG(end_of(pid)), SIGKILL);
		assert_nothing_lives();
	}
}

/* A batch of 16 GiB, of which most is to do when it is killed. */
static void huge(int ready)
{
	size_t size = 64U << 20;
	struct ibv_mr *mr, *remote;
	struct user u;
	struct ibv_sge sge[8];
	struct ibv_send_wr wr[256];

	user_open(&u);
	munmap(u.p, SIZE);
	u.p = buffer(size);
	mr = reg(&u.pair.a, u.p, size, PAIR_ACCESS);
	remote = reg(&u.pair.b, u.p, size, PAIR_ACCESS);
	for (int i = 0; i < 8; i++)
		sge[i] = sge_of(mr, 0, (uint32_t)size / 8);
	for (int i = 0; i < 256; i++) {
		wr[i] = request(IBV_WR_RDMA_WRITE, sge, remote, 0);
		wr[i].num_sge = 8;
		wr[i].next = i < 255 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(write(ready, "x", 1), 1);
	post(&u.pair.a, wr);
}

static void killed_in_a_long_batch_it_goes_at_once(void **state)
{
	uint64_t begin;
	pid_t pid;

	(void)state;
	pid = start(huge);
	usleep(100000);
	begin = now_ms();
	kill(pid, SIGKILL);
	end_of(pid);
	/* All of the 16 GiB would take much longer. */
	assert_true(now_ms() - begin < 5000);
}

static void idle(int ready)
{
	struct user u;

	user_open(&u);
	assert_int_equal(write(ready, "x", 1), 1);
	pause();
}

static void unloading_while_in_use_is_refused(void **state)
{
	pid_t pid = start(idle);

	(void)state;
	assert_int_not_equal(unload("simnic"), 0);
	assert_int_equal(stat_of("simnic0", "contexts_live"), 2);
	kill(pid, SIGKILL);
	end_of(pid);
	assert_int_equal(unload("simnic"), 0);
	assert_int_equal(load("simnic"), 0);
}

/* The PCI function below the device. */
static void function_of(const char *device, char *out, size_t n)
{
	char path[128], target[512];
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", device);
	len = readlink(path, target, sizeof(target) - 1);
	assert_true(len > 0);
	target[len] = 0;
	snprintf(out, n, "%s", strrchr(target, '/') + 1);
}

static int driver(const char *file, const char *function)
{
	char command[256];

	snprintf(command, sizeof(command), "echo %s >/sys/bus/pci/drivers/simnic/%s", function,
		 file);
	return system(command);
}

/* Exits with 0 if it found the device gone, politely. */
static void surprised(int ready)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_async_event event;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct user u;
	int err = 0;

	user_open(&u);
	mr = reg(&u.pair.a, u.p, SIZE, PAIR_ACCESS);
	sge = sge_of(mr, 0, 4096);
	wr = request(IBV_WR_RDMA_WRITE, &sge, mr, 8192);
	wr.wr.rdma.rkey = reg(&u.pair.b, u.p, SIZE, PAIR_ACCESS)->rkey;
	wr.send_flags = 0;
	assert_int_equal(write(ready, "x", 1), 1);
	for (uint64_t end = now_ms() + PAIR_WAIT_MS; !err && now_ms() < end;)
		err = ibv_post_send(u.pair.a.qp, &wr, &bad);
	if (err != EIO)
		_exit(1);
	if (ibv_get_async_event(u.pair.a.context, &event) ||
	    event.event_type != IBV_EVENT_DEVICE_FATAL)
		_exit(2);
	/* Its objects are gone, and it may still let go of them. */
	ibv_dereg_mr(mr);
	ibv_destroy_qp(u.pair.a.qp);
	_exit(0);
}

static void unbound_under_a_live_process_it_says_so(void **state)
{
	char function[32];
	pid_t pid;
	int status;

	(void)state;
	function_of("simnic0", function, sizeof(function));
	pid = start(surprised);
	usleep(20000);
	assert_int_equal(driver("unbind", function), 0);
	status = end_of(pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(driver("bind", function), 0);
	assert_nothing_lives();
}

/* ----------------------------------------------------------------- garbage */

/* The rings of this process, which librxe maps from the uverbs device. */
static size_t rings(uint64_t (*out)[2], size_t cap)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	size_t n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "/dev/infiniband/uverbs") && n < cap &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &out[n][0], &out[n][1]) == 2)
			n++;
	fclose(f);
	return n;
}

/* An empty post_send, as librxe rings the bell. */
static void ring_bell(struct end *e)
{
	struct ibv_send_wr *bad;

	ibv_post_send(e->qp, NULL, &bad);
	(void)bad;
}

static void scribble(struct user *u, unsigned int seed, uint32_t key)
{
	uint64_t map[8][2];
	size_t n = rings(map, 8);

	assert_true(n >= 8);
	for (size_t i = 0; i < n; i++) {
		uint32_t *p = (uint32_t *)(uintptr_t)map[i][0];
		size_t words = (map[i][1] - map[i][0]) / 4;

		for (size_t k = 0; k < words; k++) {
			seed = seed * 1664525 + 1013904223;
			/* Some of it sensible, so that not all stops at the first check. */
			p[k] = seed >> 30 == 0 ? seed : seed >> 30 == 1 ? key : (seed >> 16) % 16;
		}
	}
	ring_bell(&u->pair.a);
	ring_bell(&u->pair.b);
}

static void garbage(int ready)
{
	struct pair_options o = { .timeout = 1 };

	for (unsigned int i = 0; i < 40; i++) {
		struct user u;
		struct ibv_mr *mr;

		user_open(&u);
		mr = reg(&u.pair.a, u.p, SIZE, PAIR_ACCESS);
		for (unsigned int k = 0; k < 5; k++) {
			scribble(&u, 1000 * i + k, mr->lkey);
			end_to_state(&u.pair.a, IBV_QPS_RESET);
			end_to_state(&u.pair.b, IBV_QPS_RESET);
			pair_connect(&u.pair, &o);
		}
		/* librxe believes the rings: it is not asked to tidy up. */
		if (!i)
			assert_int_equal(write(ready, "x", 1), 1);
	}
}

static void garbage_in_the_rings_harms_only_their_owner(void **state)
{
	struct user u;
	pid_t pid;

	(void)state;
	pid = start(garbage);
	assert_int_equal(end_of(pid), 0);
	assert_nothing_lives();
	user_open(&u);
	assert_int_equal(reg_error(&u, SIZE), 0);
	user_close(&u);
}

/* ------------------------------------------------------------------ others */

static void block_list_can_be_read_while_the_region_goes(void **state)
{
	struct user u;
	pid_t pid;

	(void)state;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c",
		      "while :; do cat /sys/kernel/debug/simnic/simnic0/mr/* "
		      ">/dev/null 2>&1; done",
		      NULL);
		_exit(127);
	}
	user_open(&u);
	for (int i = 0; i < 500; i++)
		assert_int_equal(reg_error(&u, SIZE), 0);
	user_close(&u);
	kill(pid, SIGKILL);
	end_of(pid);
}

static void rxe_and_simnic_do_not_load_together(void **state)
{
	(void)state;
	/* Without it rxe does not come up on some kernels, for want of modprobe. */
	load("-q crc32_generic");
	assert_int_not_equal(load("rdma_rxe"), 0);
	assert_int_equal(unload("simnic"), 0);
	assert_int_equal(load("rdma_rxe"), 0);
	assert_int_not_equal(load("simnic"), 0);
	assert_int_equal(unload("rdma_rxe"), 0);
	assert_int_equal(load("simnic"), 0);
}

/* At 1.25 GiB is RAM on x86 and on arm64, where it begins at 1 GiB. */
static void a_window_over_the_kernels_memory_is_refused(void **state)
{
	(void)state;
	assert_int_equal(unload("simnic"), 0);
	assert_int_not_equal(load("simnic window_start=0x50000000 window_size=0x1000000"), 0);
	assert_int_not_equal(load("simnic max_page_shift=64"), 0);
	assert_int_equal(load("simnic"), 0);
}

static void removing_the_netdev_leaves_the_device_alone(void **state)
{
	(void)state;
	assert_int_equal(unload("simnic"), 0);
	assert_int_equal(system("ip link add roce1 type dummy && ip link set roce1 up"), 0);
	assert_int_equal(load("simnic netdev=roce1"), 0);
	/* Hangs where somebody keeps a reference. */
	assert_int_equal(system("timeout 20 ip link del roce1"), 0);
	assert_int_equal(unload("simnic"), 0);
	assert_int_equal(load("simnic"), 0);
}

#define IS(name, test)                                 \
	{                                              \
		name, test, NULL, leaves_nothing, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IS("the Nth registration fails with the errno asked for",
		   the_nth_registration_fails_with_the_errno),
		IS("all registrations after some fail", all_registrations_after_some_fail),
		IS("a registration can be slow", a_registration_can_be_slow),
		IS("the largest region is reported and enforced",
		   the_largest_region_is_told_and_kept_to),
		IS("a largest page out of range is refused",
		   a_largest_page_out_of_range_is_refused),
		IS("the Nth request fails with the status asked for",
		   the_nth_request_fails_with_the_status),
		IS("a failed registration leaves nothing", a_failed_registration_leaves_nothing),
		IS("a user killed at any time leaves nothing",
		   killed_at_any_time_it_leaves_nothing),
		IS("a user killed in a long batch goes at once",
		   killed_in_a_long_batch_it_goes_at_once),
		IS("unloading while in use is refused", unloading_while_in_use_is_refused),
		IS("unbound under a live process the device says so",
		   unbound_under_a_live_process_it_says_so),
		IS("garbage in the rings harms only their owner",
		   garbage_in_the_rings_harms_only_their_owner),
		IS("a block list can be read while its region goes",
		   block_list_can_be_read_while_the_region_goes),
		IS("rdma_rxe and simnic do not load together", rxe_and_simnic_do_not_load_together),
		IS("a window over the kernel's own memory is refused",
		   a_window_over_the_kernels_memory_is_refused),
		IS("a netdev can be removed under the device",
		   removing_the_netdev_leaves_the_device_alone),
	};
	int failed;

	parent = getpid();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (load("simnic")) {
		printf("Bail out! simnic does not load\n");
		return 1;
	}
	idle_areas = areas();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	failed += unload("simnic") != 0;
	return failed != 0;
}
