/* SPDX-License-Identifier: MIT */
/*
 * mrguard_cap.ko is loaded and unloaded a thousand times, while a process on
 * each CPU registers, and while the RDMA core goes and comes.  An MR that was
 * registered with the cap in place has a page of at most 2 GiB; without it, it
 * has the page that the kernel likes.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ground.h"

#define CI_LOADS 1000
#define FULL_LOADS 10000
#define ROUND 50 /* loads, half of them beside the RDMA core's going and coming */
#define CHECKED 10 /* of so many loads, one waits until both CPUs have seen it */
#define CPUS 2
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* What 8 GiB get where addresses and iova agree. */
#define BUFFER (8 * GIB)
#define IOVA 0x700000000000ULL
#define FREE_SHIFT 32

enum cap { CHANGING, OFF, ON };

static struct shared {
	volatile bool stop;
	volatile uint32_t cap; /* enum cap, above it a number that grows: see state() */
	volatile unsigned long seen[CPUS]; /* registrations in the present state */
	unsigned long registrations, checked[3], wrong;
	unsigned long came; /* the RDMA core, anew */
} * sh;

static int image; /* mrguard_cap.ko, in memory */

static void read_module(void)
{
	if (run_command("cp $MRG_KO/mrguard_cap.ko /tmp/"))
		bail("no module");
	image = open("/tmp/mrguard_cap.ko", O_RDONLY | O_CLOEXEC);
}

static void state(enum cap cap)
{
	sh->cap = ((sh->cap >> 2) + 1) << 2 | cap;
	for (int i = 0; i < CPUS; i++)
		sh->seen[i] = 0;
}

static void load(void)
{
	state(CHANGING);
	if (syscall(SYS_finit_module, image, "", 0))
		bail("the cap does not load: %s", strerror(errno));
	state(ON);
}

static void unload(void)
{
	state(CHANGING);
	if (syscall(SYS_delete_module, "mrguard_cap", O_NONBLOCK))
		bail("the cap does not unload: %s", strerror(errno));
	state(OFF);
}

/* ---- a process on each CPU ----------------------------------------------- */

static void register_one(struct ibv_pd *pd, int fd, char *page, int cpu)
{
	uint32_t before = sh->cap;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, BUFFER, IOVA, fd, ACCESS);
	uint32_t after = sh->cap;
	struct ibv_mr *small = ibv_reg_mr(pd, page, host_page(), ACCESS);
	unsigned int shift = mr ? mr_page_shift("simnic0", mr) : 0;

	if (!mr || !small)
		bail("registration: %s", strerror(errno));
	if (before == after && (before & 3) != CHANGING) {
		__atomic_fetch_add(&sh->checked[before & 3], 1, __ATOMIC_RELAXED);
		if (shift != ((before & 3) == ON ? CAP_SHIFT : FREE_SHIFT)) {
			if (!sh->wrong)
				printf("# a page of 2^%u while the cap was %s\n", shift,
				       (before & 3) == ON ? "on" : "off");
			__atomic_fetch_add(&sh->wrong, 1, __ATOMIC_RELAXED);
		}
		sh->seen[cpu]++;
	}
	__atomic_fetch_add(&sh->registrations, 2, __ATOMIC_RELAXED);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(small);
}

static void registrar(int cpu)
{
	const struct mrg_sg sg = { 4 * GIB, BUFFER };
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	cpu_set_t set;
	char *page;
	int fd;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	fd = make_dmabuf(&sg, 1, 2 * GIB);
	page = aligned_alloc(host_page(), host_page());
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd)
		bail("simnic0: %s", strerror(errno));
	while (!sh->stop)
		register_one(pd, fd, page, cpu);
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
	exit(0);
}

static void await(const pid_t *pids, int count)
{
	int status;

	for (int i = 0; i < count; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			bail("a process ended with status 0x%x", (unsigned int)status);
}

/* Both CPUs have registered in the present state, and what they got was looked at. */
static void wait_until_seen(void)
{
	for (int tries = 0; !sh->seen[0] || !sh->seen[1]; tries++) {
		if (tries == 60000)
			bail("no registration for a minute");
		usleep(1000);
	}
}

/* ---- the two halves of a round -------------------------------------------- */

static void beside_registrations(int loads)
{
	pid_t pids[CPUS];

	sh->stop = false;
	fflush(stdout);
	for (int i = 0; i < CPUS; i++) {
		pids[i] = fork();
		if (!pids[i])
			registrar(i);
	}
	for (int i = 0; i < loads; i++) {
		load();
		if (i % CHECKED == 0)
			wait_until_seen();
		unload();
		if (i % CHECKED == 0)
			wait_until_seen();
	}
	sh->stop = true;
	await(pids, CPUS);
}

/* While a probe is being set the kernel holds the module: then it is tried again. */
#define RDMA_GOES                                                               \
	"for i in $(seq 200); do modprobe -r simnic; rmmod ib_uverbs ib_core; " \
	"grep -q ^ib_core /proc/modules || exit 0; done 2>/dev/null; exit 1"

/* All of RDMA goes and comes, until the loads are done. */
static void go_and_come(void)
{
	do {
		if (run_command(RDMA_GOES))
			exit(1);
		if (run_command("modprobe simnic"))
			exit(2);
		sh->came++;
	} while (!sh->stop);
	exit(0);
}

static void beside_rdma_going_and_coming(int loads)
{
	pid_t pid;

	sh->stop = false;
	fflush(stdout);
	pid = fork();
	if (!pid)
		go_and_come();
	for (int i = 0; i < loads; i++) {
		load();
		unload();
	}
	sh->stop = true;
	await(&pid, 1);
}

/*
 * Loading and unloading wait for RCU, some tenths of a second a time under
 * emulation.  Nine rounds in ten take RCU's short cut.
 */
static void hurry(bool on)
{
	if (run_command("echo %d >/sys/kernel/rcu_expedited", on))
		bail("no rcu_expedited");
}

int main(int argc, char **argv)
{
	int loads = full_run() ? FULL_LOADS : CI_LOADS;

	(void)argc;
	preload_shim(argv);
	read_module();
	if (run_command("modprobe -a simgpu simnic"))
		bail("the modules do not load");
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	state(OFF);
	for (int i = 0; i < loads / ROUND; i++) {
		hurry(i % 10 != 0);
		beside_registrations(ROUND / 2);
		beside_rdma_going_and_coming(ROUND / 2);
	}
	hurry(false);
	printf("# %d loads; the RDMA core came %lu times; %lu registrations, %lu of them seen with the cap on and %lu with it off\n",
	       loads, sh->came, sh->registrations, sh->checked[ON], sh->checked[OFF]);
	ok(!sh->wrong, "each MR has the page that the state of the cap leaves it");
	ok(sh->checked[ON] >= (unsigned long)loads / CHECKED &&
		   sh->checked[OFF] >= (unsigned long)loads / CHECKED,
	   "both states were seen by both CPUs");
	ok(!run_command(
		   "modprobe -r simnic && modprobe -r simgpu && ! grep -q mrguard /proc/modules"),
	   "nothing keeps the modules from being unloaded");
	tap_end();
	return 0;
}
