/* SPDX-License-Identifier: MIT */
/*
 * Unmodified programs over simnic, with and without the guard.  This file is both
 * the test and, with a word, the programs: they know verbs alone.
 *
 * Where the kernel's walk truncates, the program without the guard moves wrong
 * bytes with status 0; with it the registration is refused.  Where it is exact,
 * nothing is.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "ground.h"

#define SIZE (12 * GIB)
#define IOVA 0x700000000000ULL
/* Differs from the DMA addresses in bit 31. */
#define SAFE_IOVA 0x700080000000ULL
#define BLOCK 4096u
#define PLACE (5 * GIB) /* repeats what is at 1 GiB */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define THREADS 64
#define LOW_LIMIT 250 /* of VMAs, for a while */

/* What a program here ends with. */
enum { BYTES_RIGHT = 0, BYTES_WRONG = 10, REFUSED = 11, BROKEN = 12 };

/* ------------------------------------------------------- the programs */

typedef struct ibv_mr *reg_dmabuf_fn(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
typedef int dereg_fn(struct ibv_mr *);

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static unsigned char bounce[BLOCK] __attribute__((aligned(4096)));

static int broken(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return BROKEN;
}

static int open_pd(void)
{
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	return pd ? 0 : broken("simnic0");
}

/* READs a block of the buffer through the device, and compares. */
static int compare(const struct ibv_mr *mr, uint64_t iova, const char *map)
{
	struct ibv_mr *to = ibv_reg_mr(pd, bounce, sizeof(bounce), ACCESS);
	struct rc_end a, b;
	struct mrg_seg_pair pair = {
		.local = { (uintptr_t)bounce, BLOCK, to ? to->lkey : 0, 0 },
		.remote = { iova + PLACE, BLOCK, 0, mr->rkey },
	};
	int ret;

	if (!to || rc_open(&a, verbs, pd) || rc_open(&b, verbs, pd) || rc_connect(&a, &b.addr) ||
	    rc_connect(&b, &a.addr))
		return broken("connection");
	ret = rc_transfer(&a, IBV_WR_RDMA_READ, &pair, 1);
	rc_close(&a);
	rc_close(&b);
	ibv_dereg_mr(to);
	if (ret)
		return broken(a.fault);
	return memcmp(bounce, map + PLACE, BLOCK) ? BYTES_WRONG : BYTES_RIGHT;
}

static int transfer(reg_dmabuf_fn *reg, dereg_fn *dereg, uint64_t iova)
{
	const struct mrg_sg sg = { 4 * GIB, SIZE };
	int fd = make_dmabuf(&sg, 1, 2 * GIB), ret;
	char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr;

	if (map == MAP_FAILED || open_pd())
		return broken("mmap");
	memset(map + PLACE, 0x55, BLOCK);
	memset(map + PLACE - 4 * GIB, 0xaa, BLOCK);
	mr = reg(pd, 0, SIZE, iova, fd, ACCESS);
	if (!mr)
		return errno == EOPNOTSUPP ? REFUSED : broken("registration");
	ret = compare(mr, iova, map);
	return dereg(mr) ? broken("deregistration") : ret;
}

/* As NCCL does it, from a library that is given by its path. */
static int transfer_by_name(const char *library)
{
	void *provider = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *core = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	reg_dmabuf_fn *reg;
	dereg_fn *dereg;

	if (!provider || !core)
		return broken("dlopen");
	reg = (reg_dmabuf_fn *)dlvsym(provider, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	dereg = (dereg_fn *)dlvsym(core, "ibv_dereg_mr", "IBVERBS_1.1");
	return reg && dereg ? transfer(reg, dereg, IOVA) : broken("dlvsym");
}

static uint64_t vmas(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t lines = 0;
	int c;

	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

/* Asks for fork protection, and registers the middle of a mapping: prints how
 * many VMAs that made. */
static int asks_for_fork(void)
{
	char *area =
		mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t before, after;

	memset(area, 1, 64 * 4096);
	if (ibv_fork_init() || open_pd() || !ibv_reg_mr(pd, bounce, BLOCK, ACCESS))
		return broken("fork");
	before = vmas();
	if (!ibv_reg_mr(pd, area + 16 * 4096, 4096, ACCESS))
		return broken("registration");
	after = vmas();
	return (int)(after - before);
}

/* Fills the address space with VMAs until few are left, then registers. */
static int runs_out_of_vmas(void)
{
	char *area =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t left;

	if (open_pd())
		return BROKEN;
	/* Each page that differs from its neighbours makes two more. */
	for (left = LOW_LIMIT - 20 - vmas(); left > 1; left -= 2)
		mprotect(area + left * 4096, 4096, PROT_READ);
	if (ibv_reg_mr(pd, bounce, BLOCK, ACCESS))
		return BYTES_RIGHT;
	return errno == ENOMEM ? REFUSED : broken("registration");
}

static int rounds;
static void *registers(void *arg)
{
	struct ibv_mr *mr;

	for (long i = 0; i < (long)arg; i++) {
		mr = ibv_reg_mr(pd, bounce, BLOCK, ACCESS);
		if (!mr || ibv_dereg_mr(mr))
			exit(broken("thread"));
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static volatile sig_atomic_t ticks;
/* Memory, and a file that is not a DMA-BUF.  As with plain verbs, which allocates, the
 * program must not be inside malloc() when this comes. */
static void on_tick(int number)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, bounce, BLOCK, ACCESS);

	(void)number;
	if (!mr || ibv_dereg_mr(mr) || ibv_reg_dmabuf_mr(pd, 0, SIZE, IOVA, 0, ACCESS))
		_exit(BROKEN);
	ticks++;
}

/* Threads that register while others end; a child that registers too. */
static int hostile(void)
{
	pthread_t thread[THREADS];
	int status = 0;

	if (open_pd())
		return BROKEN;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, registers, (void *)(i % 8));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (!fork()) {
		/* Its parent's device is not the child's to use: one of its own. */
		if (open_pd() || registers((void *)3L))
			_exit(BROKEN);
		exit(0);
	}
	wait(&status);
	printf("%d\n", rounds);
	return WEXITSTATUS(status);
}

/* All registrations are a signal handler's. */
static int hostile_handler(void)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { 0 };

	if (open_pd())
		return BROKEN;
	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 100)
		pause();
	return setitimer(ITIMER_REAL, &never, NULL);
}

static int holds(void)
{
	if (open_pd() || !ibv_reg_mr(pd, bounce, BLOCK, ACCESS))
		return BROKEN;
	puts("ready");
	fflush(stdout);
	sleep(30);
	return 0;
}

static bool is_the_guards(int fd)
{
	char path[32], target[32] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, "/dev/mrguard");
}

/* As daemons do, it closes what it does not know, or opens another file there. */
static int transfer_without_descriptor(bool replace)
{
	int null = open("/dev/null", O_RDWR), closed = 0;

	if (open_pd() || !ibv_reg_mr(pd, bounce, BLOCK, ACCESS))
		return broken("first registration");
	for (int fd = STDERR_FILENO + 1; fd < 64; fd++) {
		if (!is_the_guards(fd))
			continue;
		closed++;
		if (replace ? dup2(null, fd) != fd : close(fd))
			return broken("descriptor");
	}
	return closed ? transfer(ibv_reg_dmabuf_mr, ibv_dereg_mr, IOVA) : BROKEN;
}

static int transfer_in_child(void)
{
	int status = -1;

	if (open_pd() || !ibv_reg_mr(pd, bounce, BLOCK, ACCESS))
		return broken("first registration");
	if (!fork())
		exit(transfer(ibv_reg_dmabuf_mr, ibv_dereg_mr, IOVA));
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}

static int program(int argc, char **argv)
{
	const char *word = argv[1];

	if (!strcmp(word, "linked"))
		return transfer(ibv_reg_dmabuf_mr, ibv_dereg_mr, IOVA);
	if (!strcmp(word, "safe"))
		return transfer(ibv_reg_dmabuf_mr, ibv_dereg_mr, SAFE_IOVA);
	if (!strcmp(word, "by-name") && argc > 2)
		return transfer_by_name(argv[2]);
	if (!strcmp(word, "closes") || !strcmp(word, "replaces"))
		return transfer_without_descriptor(*word == 'r');
	if (!strcmp(word, "child"))
		return transfer_in_child();
	if (!strcmp(word, "fork"))
		return asks_for_fork();
	if (!strcmp(word, "vmas"))
		return runs_out_of_vmas();
	if (!strcmp(word, "hostile"))
		return hostile();
	if (!strcmp(word, "handler"))
		return hostile_handler();
	return !strcmp(word, "holds") ? holds() : BROKEN;
}

/* ------------------------------------------------------------ the test */

#define LOG "/tmp/guard.log"

/* The exit status of "PREFIX this-program WORDS"; standard error goes to LOG. */
static int run(const char *prefix, const char *words)
{
	char self[512] = "";
	int status;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		bail("/proc/self/exe");
	status = run_command("%s %s %s >/tmp/guard.out 2>" LOG, prefix, self, words);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool logged(const char *pattern)
{
	return !run_command("grep -qE '%s' " LOG, pattern);
}

static void show_log(void)
{
	run_command("sed 's/^/# /' " LOG " | cut -c1-700");
}

/* A value of the JSON report in LOG. */
static long long reported(const char *expression)
{
	long long value = -1;
	char command[256];
	FILE *f;

	snprintf(command, sizeof(command), "grep '^{' " LOG " | jq -s '%s'", expression);
	f = popen(command, "r");
	if (!f || fscanf(f, "%lld", &value) != 1)
		value = -1;
	if (f)
		pclose(f);
	return value;
}

static const char *shim(void)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/tests/vm/shim/simnic-verbs.so", getenv("MRG_BUILD"));
	return path;
}

/* librxe has no ibv_reg_dmabuf_mr(); a program that is linked gets it so. */
static const char *with_shim(const char *command)
{
	static char prefix[640];

	snprintf(prefix, sizeof(prefix), "LD_PRELOAD=%s %s", shim(), command);
	return prefix;
}

static void a_linked_program(bool truncating)
{
	int without = truncating ? BYTES_WRONG : BYTES_RIGHT;

	ok(run(with_shim(""), "linked") == without,
	   truncating ? "without the guard the bytes are wrong, with status 0" :
			"without the guard the bytes are right");
	ok(run(with_shim("mrguard run --json --"), "linked") ==
		   (truncating ? REFUSED : BYTES_RIGHT),
	   truncating ? "with it the registration is refused" : "and with it, too");
	show_log();
	ok(reported(".[].refused.count") == truncating &&
		   reported(".[].registered") == (truncating ? 0 : 2) && reported(".[].live") == 0,
	   "the report counts what was made and what was refused");
	if (truncating)
		ok(logged("Refused ibv_reg_dmabuf_mr of 12 GiB .*iova 0x700000000000.*simnic0.*2\\^32.*truncating.*Register pieces"),
		   "one line names range, device, page, walk and remedy");
	ok(run(with_shim("mrguard run --policy=observe --"), "linked") == without &&
		   logged("ibv_reg_dmabuf_mr of 12 GiB.*\\(DMA-BUF\\): (wraps|safe)"),
	   "observing changes nothing and says what it saw");
	if (!truncating)
		return;
	ok(run(with_shim("mrguard run --policy=allow --"), "linked") == BYTES_WRONG &&
		   logged("Allowed ibv_reg_dmabuf_mr"),
	   "allowing changes nothing and says so");
	ok(run(with_shim("mrguard run --json --"), "safe") == BYTES_RIGHT &&
		   reported(".[].refused.count") == 0,
	   "an iova that differs in bit 31 is safe, and let through");
}

static void a_program_that_looks_by_name(bool truncating)
{
	int without = truncating ? BYTES_WRONG : BYTES_RIGHT;
	char words[640];

	snprintf(words, sizeof(words), "by-name %s", shim());
	ok(run("", words) == without, "by name, without the guard the bytes are %s",
	   truncating ? "wrong" : "right");
	ok(run("mrguard run --audit=never --", words) == without,
	   "preloading alone does not see it");
	ok(run("mrguard run --json --", words) == (truncating ? REFUSED : BYTES_RIGHT) &&
		   reported(".[].calls.ibv_reg_dmabuf_mr") == 1,
	   "by name, too, it is %s", truncating ? "refused" : "let through and counted");
	if (truncating)
		ok(logged("Refused ibv_reg_dmabuf_mr of 12 GiB"), "with the same line");
}

static void fork_protection(void)
{
	int plain = run("", "fork"), guarded;

	ok(plain == 2, "rdma-core marks pages where the kernel copies them: %d VMAs more", plain);
	guarded = run("mrguard run --json --", "fork");
	ok(guarded == 0 && !run_command("grep -q '\"fork\":\"skipped\"' " LOG),
	   "the guard skips that, and no VMA is cut");
}

static void vma_limit(void)
{
	run_command("cp /proc/sys/vm/max_map_count /tmp/limit; echo %d >/proc/sys/vm/max_map_count",
		    LOW_LIMIT);
	ok(run("", "vmas") == BYTES_RIGHT, "20 VMAs before the limit verbs registers");
	ok(run("mrguard run --", "vmas") == REFUSED &&
		   logged("Refused ibv_reg_mr.*VMAs \\(vm.max_map_count\\)"),
	   "the guard refuses, and names the limit");
	show_log();
	run_command("cat /tmp/limit >/proc/sys/vm/max_map_count");
}

static void hostile_programs(void)
{
	long long made;

	ok(run(with_shim("mrguard run --json --"), "hostile") == 0,
	   "64 threads that end while others register, and a child");
	made = reported("[.[].registered] | add");
	ok(made == 8 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) + 3 &&
		   reported("[.[].deregistered] | add") == made && reported("length") == 2,
	   "all %lld registrations are counted, the child's in its own report", made);
	ok(run(with_shim("timeout 60 mrguard run --"), "handler") == 0,
	   "a program registers from a signal handler");
	ok(simnic_stat("simnic0", "mrs_live") == 0, "no MR is left");
}

static void live_status(void)
{
	run_command(
		"mrguard run -- /proc/%d/exe holds >/tmp/ready 2>/dev/null & echo $! >/tmp/pid; until grep -q ready /tmp/ready; do sleep 0.1; done",
		(int)getpid());
	ok(!run_command(
		   "mrguard run --status=$(cat /tmp/pid) --json | jq -e '.live == 1 and .moment == \"live\"' >&2"),
	   "the status of a process that runs can be asked");
	/* Where another user can reach it. */
	run_command(
		"mkdir /tmp/bin && cp -L $MRG_BUILD/mrguard $MRG_BUILD/libmrguard*.so.[0-9] /tmp/bin");
	ok(run_command(
		   "setpriv --reuid=65534 --regid=65534 --clear-groups /tmp/bin/mrguard run --status=$(cat /tmp/pid) 2>" LOG) &&
		   logged("as the user of the process"),
	   "by its own user alone");
	run_command("kill $(cat /tmp/pid)");
}

static void under_the_cap(void)
{
	static const char *const words[] = { "linked", "closes", "replaces", "child" };

	cap_load();
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		ok(run(with_shim("mrguard run --json --"), words[i]) == BYTES_RIGHT &&
			   reported("[.[].refused.count] | add") == 0,
		   "under the cap a large registration is passed, and right: %s", words[i]);
		show_log();
	}
	run_command("echo 0 >/sys/kernel/debug/kprobes/enabled");
	ok(run(with_shim("mrguard run --"), "linked") == REFUSED && logged("mrguard cap on"),
	   "without its effect it is refused, and the remedy names the cap");
	run_command("echo 1 >/sys/kernel/debug/kprobes/enabled");
	cap_unload();
}

static void without_the_module(bool truncating)
{
	run_command("modprobe -r mrguard_walk && modprobe -r mrguard");
	if (!truncating) {
		ok(run(with_shim("mrguard run --unknown=refuse --"), "linked") == BYTES_RIGHT,
		   "without the module, an exact walk asked from ib_core's file lets all through");
		run_command("modprobe mrguard && modprobe mrguard_walk");
		return;
	}
	ok(run(with_shim("mrguard run --unknown=refuse --"), "linked") == REFUSED &&
		   logged("unknown\\. Its DMA addresses are unknown: /dev/mrguard"),
	   "without the module it is unknown, and refused where that is wanted");
	run(with_shim("mrguard run --"), "linked");
	ok(logged("Allowed .*unknown.*Load mrguard.ko") &&
		   logged("conservative without /dev/mrguard"),
	   "else let through, and said");
	run_command("modprobe mrguard && modprobe mrguard_walk");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return program(argc, argv);
	ground_up();
	a_linked_program(walk_is_truncating());
	a_program_that_looks_by_name(walk_is_truncating());
	fork_protection();
	vma_limit();
	hostile_programs();
	live_status();
	if (walk_is_truncating())
		under_the_cap();
	without_the_module(walk_is_truncating());
	ground_down();
	tap_end();
	return 0;
}
