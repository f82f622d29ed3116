/* SPDX-License-Identifier: MIT */
/*
 * Whatever happens to the cap, no MR that could wrap is made by the library or
 * passed by the guard.  The cap is loaded and unloaded, debugfs turns kprobes off
 * and on, the RDMA modules are reloaded; meanwhile processes come, register, fork,
 * close descriptors that they do not know, and die.  MRG_SEED repeats a run.
 *
 * The switch in debugfs is root's own hand: nothing can hold it.  A registration
 * during which it was turned proves nothing.
 */
#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ground.h"

#define CI_LIVES 60
#define FULL_LIVES 1500
#define MOST_REGISTRATIONS 20 /* of a life */
#define WORKERS 3
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define SIZE (8 * GIB)
/* Addresses and iova agree to bit 31: in pages of 4 GiB the second is the first again. */
#define ADDR (4 * GIB)
#define IOVA 0x700000000000ULL
#define SHARED "/dev/shm/cap_property"

static struct shared {
	volatile uint32_t switched; /* odd while debugfs's switch is not what it was */
	volatile uint64_t lives, library, guard, refused, raced, wrapping;
	volatile uint64_t control; /* by plain verbs, without library and guard: wrapping */
	volatile uint64_t relied; /* one MR where only the cap makes that right */
} * sh;

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

static bool one_in(uint64_t n)
{
	return !random_below(n);
}

static void count(volatile uint64_t *what)
{
	__atomic_fetch_add(what, 1, __ATOMIC_RELAXED);
}

static void open_shared(void)
{
	int fd = open(SHARED, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*sh)))
		bail("%s: %s", SHARED, strerror(errno));
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

/* ---- one life: a process that registers ------------------------------------ */

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static int buffer;

/* Programs that become daemons close what they do not know. */
static void close_mrguards_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[300], to[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 0 && !strcmp(to, "/dev/mrguard"))
			close(atoi(e->d_name));
	}
	if (dir)
		closedir(dir);
}

/* A child that has all of the parent's descriptors for a while. */
static void fork_child(void)
{
	pid_t pid = fork();

	if (pid)
		return;
	usleep((useconds_t)random_below(100000));
	_exit(0);
}

static void something_else(void)
{
	if (one_in(4))
		close_mrguards_descriptors();
	if (one_in(4))
		fork_child();
	if (one_in(40))
		raise(SIGKILL);
	if (one_in(40))
		exit(0);
	if (one_in(2))
		usleep((useconds_t)random_below(20000));
}

/*
 * @before: sh->switched as it was before the registration
 * @wraps: what counts those that do
 */
static void look_at(uint32_t lkey, uint64_t length, uint32_t before, volatile uint64_t *wraps)
{
	struct ibv_mr mr = { .lkey = lkey };
	unsigned int shift = mr_page_shift("simnic0", &mr);

	if (before & 1 || before != sh->switched) {
		count(&sh->raced);
		return;
	}
	if (shift == CAP_SHIFT && length == SIZE && wraps == &sh->wrapping)
		count(&sh->relied);
	if (shift > CAP_SHIFT && length > 1ULL << shift)
		count(wraps);
}

static void by_library(struct mrg_ctx *ctx)
{
	const struct mrg_dmabuf buf = { .fd = buffer, .base = IOVA };
	/* So that the cap alone makes one MR of it. */
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .flags = MRG_REG_IOVA_EQUAL };
	uint32_t before = sh->switched;
	struct mrg_seg segs[16];
	struct mrg_mr *mr;
	ssize_t n;

	if (mrg_reg_dmabuf(ctx, pd, &buf, IOVA, SIZE, ACCESS, &opts, &mr)) {
		count(&sh->refused);
		return;
	}
	n = mrg_keys(mr, IOVA, SIZE, segs, 16);
	for (ssize_t i = 0; i < n; i++)
		look_at(segs[i].lkey, segs[i].length, before, &sh->wrapping);
	count(&sh->library);
	something_else();
	if (one_in(2))
		mrg_dereg(mr);
}

static void by_verbs(bool guarded)
{
	uint32_t before = sh->switched;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, IOVA, buffer, ACCESS);

	if (!mr) {
		count(&sh->refused);
		return;
	}
	look_at(mr->lkey, SIZE, before, guarded ? &sh->wrapping : &sh->control);
	if (guarded)
		count(&sh->guard);
	something_else();
	if (one_in(2))
		ibv_dereg_mr(mr);
}

static int live(const char *how)
{
	bool library = !strcmp(how, "library");
	const struct mrg_sg sg = { ADDR, SIZE };
	struct mrg_ctx *ctx = NULL;

	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd)
		return 0; /* RDMA is not there */
	buffer = make_dmabuf(&sg, 1, 2 * GIB);
	count(&sh->lives);
	for (uint64_t n = 1 + random_below(MOST_REGISTRATIONS); n; n--) {
		if (library && !ctx && mrg_open(&ctx, verbs, NULL))
			return 1;
		if (library)
			by_library(ctx);
		else
			by_verbs(!strcmp(how, "guard"));
		/* With MRs that live, maybe. */
		if (ctx && one_in(3)) {
			mrg_close(ctx);
			ctx = NULL;
		}
		something_else();
	}
	return 0;
}

/* ---- what happens to the host ----------------------------------------------- */

static char self[512];
static pid_t workers[WORKERS];
static int image;
static unsigned long loads, unloads, held, switches, reloads;

static void start_worker(int i)
{
	static const char *const hows[] = { "library", "library", "guard", "guard", "plain" };
	const char *how = hows[random_below(5)];
	char seed[32], command[1024];

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)random_below(1ULL << 31));
	snprintf(command, sizeof(command), "exec %s%s %s %s >/dev/null 2>&1",
		 *how == 'g' ? "mrguard run -- " : "", self, how, seed);
	fflush(stdout);
	workers[i] = fork();
	if (!workers[i]) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
}

static void look_after_workers(void)
{
	for (int i = 0; i < WORKERS; i++) {
		if (workers[i] && one_in(40))
			kill(workers[i], SIGKILL);
		if (workers[i] && waitpid(workers[i], NULL, WNOHANG) == workers[i])
			workers[i] = 0;
		if (!workers[i] && one_in(2))
			start_worker(i);
	}
}

static void end_workers(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (workers[i])
			waitpid(workers[i], NULL, 0);
	memset(workers, 0, sizeof(workers));
	/* Their children hold the device a moment longer. */
	usleep(150000);
}

static void load_or_unload(void)
{
	if (!syscall(SYS_finit_module, image, "", 0)) {
		loads++;
	} else if (errno != EEXIST) {
		bail("the cap does not load: %s", strerror(errno));
	} else if (!syscall(SYS_delete_module, "mrguard_cap", O_NONBLOCK)) {
		unloads++;
	} else {
		held++;
	}
}

static void turn_switch(void)
{
	sh->switched++;
	run_command("echo 0 >/sys/kernel/debug/kprobes/enabled");
	usleep((useconds_t)random_below(30000));
	run_command("echo 1 >/sys/kernel/debug/kprobes/enabled");
	sh->switched++;
	switches++;
}

static void reload_rdma(void)
{
	end_workers();
	if (run_command("modprobe -r mrguard_walk simnic && modprobe -r ib_uverbs"))
		bail("the RDMA modules do not unload");
	if (one_in(2))
		load_or_unload();
	if (run_command("modprobe simnic && modprobe mrguard_walk"))
		bail("the RDMA modules do not load");
	reloads++;
}

static void step(void)
{
	look_after_workers();
	switch (random_below(48)) {
	case 0:
		reload_rdma();
		break;
	case 1:
	case 2:
		turn_switch();
		break;
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		load_or_unload();
		break;
	default:
		usleep(50000);
	}
}

static void run(void)
{
	const char *seed = getenv("MRG_SEED");
	uint64_t lives = full_run() ? FULL_LIVES : CI_LIVES;

	random_state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("# MRG_SEED=%llu\n", (unsigned long long)random_state);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    run_command("cp $MRG_KO/mrguard_cap.ko /tmp/"))
		bail("no module, or no program");
	image = open("/tmp/mrguard_cap.ko", O_RDONLY | O_CLOEXEC);
	while (sh->lives < lives)
		step();
	end_workers();
	if (loads > unloads && syscall(SYS_delete_module, "mrguard_cap", O_NONBLOCK))
		bail("the cap does not unload at the end: %s", strerror(errno));
	printf("# %lu loads, %lu unloads and %lu held; %lu switches, %lu reloads of RDMA\n", loads,
	       unloads, held, switches, reloads);
	printf("# %llu lives: %llu registrations by the library, %llu passed by the guard, %llu refused\n",
	       (unsigned long long)sh->lives, (unsigned long long)sh->library,
	       (unsigned long long)sh->guard, (unsigned long long)sh->refused);
	printf("# %llu MRs right by the cap alone, %llu beside a switch, %llu that wrap; by plain verbs %llu that wrap\n",
	       (unsigned long long)sh->relied, (unsigned long long)sh->raced,
	       (unsigned long long)sh->wrapping, (unsigned long long)sh->control);
}

int main(int argc, char **argv)
{
	preload_shim(argv);
	open_shared();
	if (argc > 2) {
		random_state = strtoull(argv[2], NULL, 0);
		return live(argv[1]);
	}
	ground_up();
	run();
	ok(sh->library > 0 && sh->lives > sh->library / 6, "processes came and registered");
	if (walk_is_truncating()) {
		ok(sh->control > 0, "plain verbs made MRs that wrap");
		ok(!sh->wrapping,
		   "no MR that could wrap was made by the library or passed by the guard");
	}
	ground_down();
	tap_end();
	return 0;
}
