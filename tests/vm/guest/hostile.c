/* SPDX-License-Identifier: MIT */
/*
 * Callers that mean no good, and devices that go away: each is answered with
 * an errno, nothing is left behind, and the kernel stays quiet (the runner
 * fails the boot otherwise).
 */
#include "ioctl_kit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int full;

/* ---- what is left behind --------------------------------------------------- */

/* A line of /proc/meminfo, in KiB. */
static uint64_t meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long value = 0;
	char line[128];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), " %llu", &value);
	fclose(f);
	return value;
}

/* What bufinfo says at its end: DMA-BUFs that exist. */
static unsigned long dmabufs_alive(void)
{
	FILE *f = fopen("/sys/kernel/debug/dma_buf/bufinfo", "r");
	unsigned long n = 0, bytes;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Total %lu objects, %lu bytes", &n, &bytes) == 2)
			break;
	fclose(f);
	return n;
}

/* Kernel memory that the module or its lists could have lost, in KiB. */
static uint64_t kernel_memory(void)
{
	assert_int_equal(write_file("/proc/sys/vm/drop_caches", "3"), 0);
	assert_int_equal(write_file("/proc/sys/vm/stat_refresh", "1"), 0);
	return meminfo("SUnreclaim:") + meminfo("VmallocUsed:");
}

static void expect_nothing_left(void)
{
	struct simgpu_stat st = simgpu_now();

	/* A file's last reference is dropped a little after close or kill. */
	for (int i = 0; i < 100 && (st.buffers || dmabufs_alive()); i++) {
		usleep(50000);
		st = simgpu_now();
	}
	assert_int_equal(st.buffers, 0);
	assert_int_equal(st.attached, 0);
	assert_int_equal(st.mapped, 0);
	assert_int_equal(dmabufs_alive(), 0);
}

static void *room(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static struct mrg_ioc_blocks dmabuf_blocks(int fd)
{
	struct mrg_ioc_blocks arg = blocks_of(NULL, 0, 0, 0);

	arg.flags = MRG_BLOCKS_DMABUF;
	arg.dmabuf_fd = fd;
	arg.importer = importer;
	return arg;
}

/* ---- descriptors ----------------------------------------------------------- */

static void descriptors_of_every_other_kind_are_told_apart(void **state)
{
	int pair[2], pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	const int fds[] = {
		open("/dev/null", O_RDWR),
		open("/proc/self/maps", O_RDONLY),
		open("/", O_RDONLY),
		memfd_create("m", 0),
		epoll_create1(0),
		eventfd(0, 0),
		pipes[0],
		pair[0],
		(int)syscall(SYS_pidfd_open, getpid(), 0),
		dup(mrguard),
		dup(simgpu),
	};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		struct mrg_ioc_layout layout = layout_of(fds[i], NULL, 0);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fds[i]);

		assert_true(fds[i] >= 0);
		assert_int_equal(call(MRG_IOC_LAYOUT, &layout), -EMEDIUMTYPE);
		assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), -EMEDIUMTYPE);
		close(fds[i]);
	}
	const int none[] = { -1, INT32_MIN, INT32_MAX, fds[0], open("/dev/null", O_PATH) };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct mrg_ioc_layout layout = layout_of(none[i], NULL, 0);

		assert_int_equal(call(MRG_IOC_LAYOUT, &layout), -EBADF);
	}
	close(none[4]);
	close(pair[0]);
	close(pair[1]);
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- numbers --------------------------------------------------------------- */

/* Bytes, and pages of the running kernel beside them. */
static const struct {
	uint64_t bytes;
	uint64_t pages;
} extremes[] = {
	{ 0, 0 },
	{ 1, 0 },
	{ -1ULL, 1 },
	{ 0, 1 },
	{ 1, 1 },
	{ 1ULL << 31, 0 },
	{ (1ULL << 32) - 1, 0 },
	{ 1ULL << 32, 0 },
	{ 12 * GIB - 1, 0 },
	{ 12 * GIB, 0 },
	{ 12 * GIB + 1, 0 },
	{ 1ULL << 47, 0 },
	{ 1ULL << 63, -1ULL },
	{ 1ULL << 63, 0 },
	{ -1ULL, -1ULL },
	{ 0, -1ULL },
	{ UINT64_MAX - 1, 0 },
	{ UINT64_MAX, 0 },
};
#define EXTREMES (sizeof(extremes) / sizeof(extremes[0]))

static uint64_t extreme(uint64_t i)
{
	return extremes[i].bytes + extremes[i].pages * PAGE;
}

static int range_is_good(uint64_t iova, uint64_t offset, uint64_t length)
{
	if (offset >= 12 * GIB || (iova ^ offset) & (PAGE - 1))
		return 0;
	if (!length)
		length = 12 * GIB - offset;
	return length <= 12 * GIB - offset && iova + length > iova;
}

static void every_mix_of_extreme_ranges_is_judged_right(void **state)
{
	int fd = make_buffer("12G,fake");
	unsigned long good = 0;

	(void)state;
	for (size_t i = 0; i < EXTREMES * EXTREMES * EXTREMES; i++) {
		struct mrg_ioc_layout arg = layout_of(fd, NULL, 0);
		int want;

		arg.iova = extreme(i % EXTREMES);
		arg.offset = extreme(i / EXTREMES % EXTREMES);
		arg.length = extreme(i / EXTREMES / EXTREMES);
		want = range_is_good(arg.iova, arg.offset, arg.length) ? 0 : -EINVAL;
		good += !want;
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), want);
	}
	assert_true(good > 50);
	close(fd);
}

static void counts_near_the_end_of_their_type_give_what_there_is(void **state)
{
	struct mrg_ioc_run *runs = room(PAGE, PROT_READ | PROT_WRITE);
	int fd = make_buffer("12G,fake");
	uint64_t out[16];

	(void)state;
	for (size_t i = 0; i < EXTREMES; i++) {
		struct mrg_ioc_layout layout = layout_of(fd, runs, UINT32_MAX);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd);

		layout.start = extreme(i);
		assert_int_equal(call(MRG_IOC_LAYOUT, &layout), 0);
		assert_int_equal(layout.runs_out, extreme(i) < 6 ? 6 - extreme(i) : 0);
		assert_int_equal(layout.info, 0);
		blocks.pgsz_bitmap = 1ULL << 31 | PAGE;
		blocks.start = extreme(i);
		blocks.blocks = (uintptr_t)out;
		blocks.blocks_cap = UINT32_MAX;
		assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), 0);
		assert_int_equal(blocks.blocks_out, extreme(i) < 6 ? 6 - extreme(i) : 0);
	}
	munmap(runs, PAGE);
	close(fd);
}

/* Whatever the bitmap, a page is one of it or none, and the walk ends. */
static void any_bitmap_of_page_sizes_is_survived(void **state)
{
	const struct mrg_ioc_run runs[] = { { 0, 4 * GIB - PAGE },
					    { -(1ULL << 40), 4 * GIB - PAGE },
					    { 1ULL << 63, 12345 } };
	uint64_t seed = 7, length = 2 * (4 * GIB - PAGE) + 12345;

	(void)state;
	for (int i = 0; i < (full ? 200000 : 4000); i++) {
		struct mrg_ioc_blocks arg = blocks_of(runs, 3, 0, 0);
		int ret;

		arg.pgsz_bitmap = 1ULL << random_below(&seed, 64) |
				  1ULL << random_below(&seed, 64) | 1ULL << random_below(&seed, 64);
		/* Small pages alone would walk for long: those above 2^20 do. */
		arg.pgsz_bitmap &= ~((1ULL << 20) - 1);
		arg.offset = random_below(&seed, length);
		arg.length = 1 + random_below(&seed, length - arg.offset);
		arg.iova =
			arg.offset +
			(random_below(&seed, 1ULL << 40) << random_below(&seed, 24) & ~(PAGE - 1));
		ret = call(MRG_IOC_BLOCKS, &arg);
		if (arg.iova + arg.length <= arg.iova)
			assert_int_equal(ret, -EINVAL);
		else if (ret != -EOVERFLOW)
			assert_int_equal(ret, 0);
		if (!ret) {
			assert_int_equal(arg.page_size & (arg.page_size - 1), 0);
			assert_int_equal(arg.page_size & ~arg.pgsz_bitmap, 0);
		}
	}
}

/* ---- memory of the caller -------------------------------------------------- */

/* In as many runs as it has pages. */
static int make_of_pages(unsigned long pages)
{
	char spec[64];

	snprintf(spec, sizeof(spec), "%lu,fake,seg=%lu", pages * (unsigned long)PAGE,
		 (unsigned long)PAGE);
	return make_buffer(spec);
}

static void buffers_that_cannot_be_written_give_efault(void **state)
{
	int fd = make_of_pages(65536);
	uint8_t *none = room(4 * MIB, PROT_NONE), *const_ = room(4 * MIB, PROT_READ);
	uint8_t *half = room(4 * MIB, PROT_READ | PROT_WRITE);
	void *const bad[] = { none,	    const_, half + 3 * MIB / 4, NULL, (void *)(1ULL << 63),
			      (void *)-PAGE };

	(void)state;
	assert_int_equal(mprotect(half + MIB, 3 * MIB, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mrg_ioc_layout layout = layout_of(fd, bad[i], 65536);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd), list;

		assert_int_equal(call(MRG_IOC_LAYOUT, &layout), -EFAULT);
		blocks.pgsz_bitmap = PAGE;
		blocks.blocks = (uintptr_t)bad[i];
		blocks.blocks_cap = 1 << 20;
		assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), -EFAULT);
		if (bad[i] == const_)
			continue; /* zero lengths: the list can be read, and is not valid */
		list = blocks_of(bad[i], 65536, 0, PAGE);
		if (bad[i] == half + 3 * MIB / 4)
			for (uint64_t k = 0; k < MIB / 4 / 16; k++)
				((struct mrg_ioc_run *)bad[i])[k] = (struct mrg_ioc_run){ 0, PAGE };
		assert_int_equal(call(MRG_IOC_BLOCKS, &list), -EFAULT);
	}
	munmap(none, 4 * MIB);
	munmap(const_, 4 * MIB);
	munmap(half, 4 * MIB);
	close(fd);
}

static volatile int stop;

static void *flip(void *arg)
{
	volatile uint64_t *p = arg;
	uint64_t seed = 3;

	while (!stop)
		p[random_below(&seed, sizeof(struct mrg_ioc_blocks) / 8)] =
			extreme(random_below(&seed, EXTREMES));
	return NULL;
}

/* The structure changes while it is read: any answer will do, but one of ours. */
static void a_structure_that_changes_meanwhile_does_no_harm(void **state)
{
	static const unsigned long cmds[] = { MRG_IOC_INFO, MRG_IOC_LAYOUT, MRG_IOC_BLOCKS,
					      MRG_IOC_VMA };
	void *shared = room(PAGE, PROT_READ | PROT_WRITE);
	int fd = make_buffer("1G,fake");
	uint64_t until = now_ns() + (full ? 20 : 2) * 1000000000ULL;
	pthread_t thread;

	(void)state;
	stop = 0;
	assert_int_equal(pthread_create(&thread, NULL, flip, shared), 0);
	for (unsigned long i = 0; now_ns() < until; i++) {
		struct mrg_ioc_layout arg = layout_of(fd, NULL, 0);

		memcpy(shared, &arg, sizeof(arg));
		call(cmds[i % 4], shared);
	}
	stop = 1;
	pthread_join(thread, NULL);
	munmap(shared, PAGE);
	close(fd);
}

/* ---- importers that vanish ------------------------------------------------- */

static void *bind_and_unbind(void *arg)
{
	char *name = arg;

	while (!stop) {
		write_file("/sys/bus/pci/drivers/edu_bind/unbind", name);
		write_file("/sys/bus/pci/drivers/edu_bind/bind", name);
	}
	return NULL;
}

static void *remove_and_rescan(void *arg)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", (char *)arg);
	while (!stop) {
		write_file(path, "1");
		write_file("/sys/bus/pci/rescan", "1");
	}
	return NULL;
}

/* Asks until the time is over; counts what came, and returns what was not foreseen. */
static int ask_meanwhile(int fd, uint64_t seconds, unsigned long *good, unsigned long *gone)
{
	uint64_t until = now_ns() + seconds * 1000000000;
	struct mrg_ioc_run runs[8];

	while (now_ns() < until) {
		struct mrg_ioc_layout layout = layout_of(fd, runs, 8);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd);
		int ret[2] = { call(MRG_IOC_LAYOUT, &layout), call(MRG_IOC_BLOCKS, &blocks) };

		for (int i = 0; i < 2; i++) {
			*good += !ret[i];
			*gone += ret[i] == -ENXIO || ret[i] == -ENODEV;
			if (ret[i] && ret[i] != -ENXIO && ret[i] != -ENODEV)
				return ret[i];
		}
	}
	return 0;
}

static void vanish(void *(*how)(void *))
{
	int fd = make_buffer("12G,fake"), ret;
	unsigned long good = 0, gone = 0;
	pthread_t thread;
	char name[16];

	function_name(&importer, name);
	stop = 0;
	assert_int_equal(pthread_create(&thread, NULL, how, name), 0);
	ret = ask_meanwhile(fd, full ? 30 : 3, &good, &gone);
	stop = 1;
	pthread_join(thread, NULL);
	print_message("# %lu answered, %lu found no importer\n", good, gone);
	assert_int_equal(ret, 0);
	assert_true(good > 0);
	assert_true(gone > 0);
	close(fd);
	expect_nothing_left();
}

static void an_importer_may_lose_its_driver_at_any_time(void **state)
{
	(void)state;
	vanish(bind_and_unbind);
}

static void an_importer_may_be_unplugged_at_any_time(void **state)
{
	(void)state;
	vanish(remove_and_rescan);
}

/* ---- exporters that fail, and buffers that go -------------------------------- */

static void exporters_that_fail_leave_nothing(void **state)
{
	uint64_t before, after;

	(void)state;
	before = kernel_memory();
	for (int i = 0; i < (full ? 5000 : 400); i++) {
		static const char *const specs[] = {
			"12G,fake,fail=12",
			"12G,fake,fail=19",
			"12G,fake,fail=524,failattach",
			"12G,fake,fail=5:1",
		};
		int fd = make_buffer(specs[i % 4]);
		struct mrg_ioc_layout arg = layout_of(fd, (void *)8, 1 << 12);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd);
		int first = call(MRG_IOC_LAYOUT, &arg), second = call(MRG_IOC_BLOCKS, &blocks);

		assert_int_equal(first, i % 4 == 0 ? -ENOMEM :
					i % 4 == 1 ? -ENODEV :
					i % 4 == 2 ? -524 :
						     -EFAULT);
		assert_int_equal(second, i % 4 == 3 ? -EIO : first);
		close(fd);
	}
	after = kernel_memory();
	print_message("# kernel memory %llu KiB, then %llu KiB\n", (unsigned long long)before,
		      (unsigned long long)after);
	assert_true(after < before + 4096);
	expect_nothing_left();
}

static void *revoke_soon(void *arg)
{
	usleep(1000);
	ioctl(simgpu, SIMGPU_IOC_REVOKE, *(int *)arg);
	return NULL;
}

static void *close_soon(void *arg)
{
	usleep(1000);
	close(*(int *)arg);
	return NULL;
}

static void a_buffer_may_go_while_it_is_looked_at(void **state)
{
	(void)state;
	for (int i = 0; i < (full ? 400 : 40); i++) {
		int fd = make_buffer("12G,fake,seg=64K,delay=2"), gone = i & 1 ? -ENODEV : -EBADF;
		void *(*how)(void *) = i & 1 ? revoke_soon : close_soon;
		struct mrg_ioc_layout arg = layout_of(fd, NULL, 0);
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, how, &fd), 0);
		for (int k = 0; k < 3; k++) {
			int ret = call(MRG_IOC_LAYOUT, &arg);

			assert_true(!ret || ret == gone);
		}
		pthread_join(thread, NULL);
		assert_int_equal(call(MRG_IOC_LAYOUT, &arg), gone);
		if (i & 1)
			close(fd);
	}
	expect_nothing_left();
}

/* ---- death ----------------------------------------------------------------- */

static void look_for_ever(int fd, int kind)
{
	static struct mrg_ioc_run runs[4096];

	for (uint64_t i = 0; i < 4096; i++)
		runs[i] = (struct mrg_ioc_run){ i << 33, 16 * MIB };
	for (;;) {
		struct mrg_ioc_layout layout = layout_of(fd, runs, 4096);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd);
		struct mrg_ioc_blocks list = blocks_of(runs, 4096, 0, 4096 * 16 * MIB);

		list.pgsz_bitmap = PAGE; /* all 2^24 blocks */
		if (kind == 0)
			call(MRG_IOC_LAYOUT, &layout);
		else if (kind == 1)
			call(MRG_IOC_BLOCKS, &blocks);
		else
			call(MRG_IOC_BLOCKS, &list);
	}
}

/* The exporter's own mapping cannot be interrupted; all of ours must be soon. */
static void the_killed_go_soon_and_leave_nothing(void **state)
{
	uint64_t seed = 11, worst = 0;

	(void)state;
	for (int i = 0; i < (full ? 300 : 30); i++) {
		int fd = make_buffer("12G,fake,seg=64K"), status;
		uint64_t killed;
		pid_t pid = fork();

		if (!pid)
			look_for_ever(fd, i % 3);
		usleep((useconds_t)random_below(&seed, 300000));
		killed = now_ns();
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		killed = now_ns() - killed;
		worst = killed > worst ? killed : worst;
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		close(fd);
	}
	print_message("# the slowest took %llu ms to die\n", (unsigned long long)worst / 1000000);
	assert_true(worst < 10 * 1000000000ULL);
	expect_nothing_left();
}

static void nothing(int sig)
{
	(void)sig;
}

static pid_t ask_in_a_child(int fd)
{
	pid_t pid = fork();

	if (!pid) {
		struct mrg_ioc_layout arg = layout_of(fd, NULL, 0);

		_exit(call(MRG_IOC_LAYOUT, &arg) ? 1 : 0);
	}
	return pid;
}

/* One that waits for the importer or the buffer dies while another still maps. */
static void who_waits_for_a_slow_exporter_can_be_killed(void **state)
{
	int fd = make_buffer("1G,fake,delay=6000"), first_status, second_status, still_mapping;
	pid_t first, second;

	(void)state;
	first = ask_in_a_child(fd);
	usleep(500000);
	second = ask_in_a_child(fd);
	usleep(500000);
	kill(second, SIGKILL);
	waitpid(second, &second_status, 0);
	still_mapping = !waitpid(first, &first_status, WNOHANG);
	if (still_mapping)
		waitpid(first, &first_status, 0);
	close(fd);
	assert_true(still_mapping);
	assert_true(WIFSIGNALED(second_status) && WTERMSIG(second_status) == SIGKILL);
	assert_int_equal(first_status, 0);
	expect_nothing_left();
}

/* A handler without SA_RESTART: EINTR and nothing done, or the answer. */
static void signals_that_are_handled_interrupt_or_do_not_show(void **state)
{
	struct sigaction action = { .sa_handler = nothing };
	int fd = make_buffer("1G,fake,seg=64K");
	pid_t parent = getpid(), pid;
	int ended = 0;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 500; i++) {
			kill(parent, SIGUSR1);
			usleep(2000);
		}
		_exit(0);
	}
	while (!ended) {
		struct mrg_ioc_layout arg = layout_of(fd, NULL, 0);
		int ret = call(MRG_IOC_LAYOUT, &arg);

		assert_true(!ret || ret == -EINTR);
		ended = waitpid(pid, NULL, WNOHANG) == pid;
	}
	signal(SIGUSR1, SIG_DFL);
	close(fd);
}

/* ---- many at once ---------------------------------------------------------- */

struct worker {
	int fd;
	int number;
	int wrong;
	unsigned long calls;
	pthread_t thread;
};

static int one_call(struct worker *w, uint64_t *seed)
{
	struct mrg_ioc_run runs[16];
	struct mrg_ioc_layout layout = layout_of(w->fd, runs, 16);
	struct mrg_ioc_blocks blocks = dmabuf_blocks(w->fd);
	struct mrg_ioc_info info = { .size = sizeof(info) };
	struct mrg_ioc_vma vma = { .size = sizeof(vma), .flags = MRG_VMA_RANGE, .end = UINT64_MAX };

	switch (random_below(seed, 5)) {
	case 0:
		return call(MRG_IOC_INFO, &info) || !info.features;
	case 1:
		return call(MRG_IOC_VMA, &vma) || !vma.vmas;
	case 2:
		return call(MRG_IOC_BLOCKS, &blocks) || blocks.total_blocks != blocks.walked;
	case 3:
		layout.dmabuf_fd = (int)random_below(seed, 4096);
		call(MRG_IOC_LAYOUT, &layout);
		return 0;
	default:
		return call(MRG_IOC_LAYOUT, &layout) || layout.total_entries != 192 ||
		       runs[15].addr != 4 * GIB + 15 * 64 * MIB;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = (uint64_t)w->number + 1;

	for (; !stop; w->calls++)
		w->wrong += one_call(w, &seed);
	return NULL;
}

static void sixty_four_threads_get_right_answers(void **state)
{
	struct worker workers[64];
	int fd = make_buffer("12G,fake,seg=64M");
	unsigned long calls = 0;

	(void)state;
	stop = 0;
	for (int i = 0; i < 64; i++) {
		workers[i] = (struct worker){ .fd = fd, .number = i };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	usleep((full ? 60 : 3) * 1000000);
	stop = 1;
	for (int i = 0; i < 64; i++) {
		pthread_join(workers[i].thread, NULL);
		calls += workers[i].calls;
		assert_int_equal(workers[i].wrong, 0);
		assert_true(workers[i].calls > 0);
	}
	print_message("# %lu calls\n", calls);
	close(fd);
	expect_nothing_left();
}

/* ---- leaks ----------------------------------------------------------------- */

/* The control: 8 MiB that the kernel keeps are seen, or the tests below see nothing. */
static void kept_memory_would_be_seen(void **state)
{
	struct simgpu_extent *extents = room(8192 * sizeof(*extents), PROT_READ | PROT_WRITE);
	struct simgpu_create create = {
		.size = sizeof(create),
		.flags = SIMGPU_FAKE,
		.extents = (uintptr_t)extents,
		.extents_n = 8192,
	};
	uint64_t before = kernel_memory();
	int fds[64];

	(void)state;
	for (int i = 0; i < 8192; i++)
		extents[i] = (struct simgpu_extent){ 0, PAGE };
	for (int i = 0; i < 64; i++) {
		fds[i] = ioctl(simgpu, SIMGPU_IOC_CREATE, &create);
		assert_true(fds[i] >= 0);
	}
	assert_true(kernel_memory() > before + 4096);
	for (int i = 0; i < 64; i++)
		close(fds[i]);
	munmap(extents, 8192 * sizeof(*extents));
	expect_nothing_left();
}

static void many_calls_good_and_bad_keep_no_memory(void **state)
{
	struct mrg_ioc_run *runs = room(MIB, PROT_READ | PROT_WRITE);
	uint64_t *out = room(MIB, PROT_READ | PROT_WRITE), before = 0, after, seed = 13;
	int rounds = full ? 10000 : 200;

	(void)state;
	for (int i = -rounds / 10; i < rounds; i++) {
		int fd = make_of_pages(4096);
		struct mrg_ioc_layout layout = layout_of(fd, runs, 1 << 16);
		struct mrg_ioc_blocks blocks = dmabuf_blocks(fd);
		struct mrg_ioc_blocks list = blocks_of(runs, 4096, 0, 4096 * PAGE);

		if (!i)
			before = kernel_memory();
		call(MRG_IOC_LAYOUT, &layout);
		layout.runs = 8;
		call(MRG_IOC_LAYOUT, &layout);
		blocks.pgsz_bitmap = PAGE;
		blocks.blocks = random_below(&seed, 2) ? (uintptr_t)out : 8;
		blocks.blocks_cap = 1 << 16;
		call(MRG_IOC_BLOCKS, &blocks);
		/* The layout that was read is a list; a zero in it makes it none. */
		if (random_below(&seed, 2))
			runs[4095].len = 0;
		assert_int_equal(call(MRG_IOC_BLOCKS, &list), runs[4095].len ? 0 : -EINVAL);
		close(fd);
	}
	after = kernel_memory();
	print_message("# kernel memory %llu KiB, then %llu KiB after %d rounds\n",
		      (unsigned long long)before, (unsigned long long)after, rounds);
	/* One list of 4096 entries lost each time would be 128 KiB times rounds. */
	assert_true(after < before + 4096);
	munmap(runs, MIB);
	munmap(out, MIB);
	expect_nothing_left();
}

/* ---- set-up ---------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	full = getenv("MRG_FULL") && *getenv("MRG_FULL");
	return kit_open("mrguard mrguard_walk edu_bind simgpu", "edu_bind");
}

static int tear_down(void **state)
{
	(void)state;
	return kit_close("mrguard_walk mrguard simgpu edu_bind");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_of_every_other_kind_are_told_apart),
		cmocka_unit_test(every_mix_of_extreme_ranges_is_judged_right),
		cmocka_unit_test(counts_near_the_end_of_their_type_give_what_there_is),
		cmocka_unit_test(any_bitmap_of_page_sizes_is_survived),
		cmocka_unit_test(buffers_that_cannot_be_written_give_efault),
		cmocka_unit_test(a_structure_that_changes_meanwhile_does_no_harm),
		cmocka_unit_test(an_importer_may_lose_its_driver_at_any_time),
		cmocka_unit_test(an_importer_may_be_unplugged_at_any_time),
		cmocka_unit_test(exporters_that_fail_leave_nothing),
		cmocka_unit_test(a_buffer_may_go_while_it_is_looked_at),
		cmocka_unit_test(the_killed_go_soon_and_leave_nothing),
		cmocka_unit_test(who_waits_for_a_slow_exporter_can_be_killed),
		cmocka_unit_test(signals_that_are_handled_interrupt_or_do_not_show),
		cmocka_unit_test(sixty_four_threads_get_right_answers),
		cmocka_unit_test(kept_memory_would_be_seen),
		cmocka_unit_test(many_calls_good_and_bad_keep_no_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
