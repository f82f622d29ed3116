/* SPDX-License-Identifier: MIT */
/*
 * absent [LIBRARY]: real driver libraries, and no GPU: each call gives its
 * documented answer, and quickly.  LIBRARY is loaded first, as an application
 * would have.  The device nodes are made up, so that the drivers are started;
 * those that a driver then makes itself (libcuda does, as root) are taken away.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mrguard/share.h>

#include "gpu/driver.h"

#define NOTHING 0x700000000000 /* an address that is not mapped */
#define LIMIT_S 1.0

static struct mrg_gpu *gpu;
static struct mrg_share *share;
static int rows;
static char host[8192];

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void row(const char *what, int got, int wanted, double seconds)
{
	printf("%s %d - %s gives %d | %d in %.1f ms\n",
	       got == wanted && seconds < LIMIT_S ? "ok" : "not ok", ++rows, what, wanted, got,
	       seconds * 1e3);
}

static void classify(const char *what, uint64_t addr, enum mrg_mem_kind kind)
{
	struct mrg_mem mem = { 0 };
	double start = now();
	int ret = mrg_gpu_classify(gpu, addr, sizeof(host), &mem);

	row(what, ret, 0, now() - start);
	printf("%s %d - it is %s | %s\n", mem.kind == kind ? "ok" : "not ok", ++rows,
	       mrg_mem_kind_name(kind), mrg_mem_kind_name(mem.kind));
}

static void export(const char *what, uint64_t addr, int wanted)
{
	struct mrg_export out;
	double start = now();

	row(what, mrg_gpu_export(gpu, addr, sizeof(host), NULL, &out), wanted, now() - start);
}

static void publish(const char *what, uint64_t addr, int wanted)
{
	struct mrg_range *range;
	double start = now();

	row(what, mrg_share_publish(share, addr, sizeof(host), &range), wanted, now() - start);
}

static void each_call(void)
{
	classify("classify host memory", (uint64_t)(uintptr_t)host, MRG_MEM_HOST);
	classify("classify nothing", NOTHING, MRG_MEM_UNKNOWN);
	export("export host memory", (uint64_t)(uintptr_t)host, -EOPNOTSUPP);
	export("export nothing", NOTHING, -EFAULT);
	publish("publish host memory", (uint64_t)(uintptr_t)host, -EOPNOTSUPP);
	publish("publish nothing", NOTHING, -EFAULT);
}

static void list(void)
{
	struct mrg_gpu_list found = { 0 };
	double start = now();
	int ret = mrg_gpu_devices(gpu, &found);

	row("list devices", ret, 0, now() - start);
	for (int i = 0; i < 2; i++)
		printf("%s %d - %s is not usable, and the reason is given | version %d: %s\n",
		       !found.runtimes[i].usable && found.runtimes[i].why[0] ? "ok" : "not ok",
		       ++rows, found.runtimes[i].vendor, found.runtimes[i].version,
		       found.runtimes[i].why);
	mrg_gpu_list_release(&found);
}

static void make_node(const char *dir, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void drop_node(const char *dir, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

int main(int argc, char **argv)
{
	struct mrg_share_opts opts = { .size = sizeof(opts) };
	bool had_node = !access("/dev/nvidiactl", F_OK);
	char dir[] = "/tmp/mrguard-absent-XXXXXX";

	if (!mkdtemp(dir))
		return 99;
	make_node(dir, "nvidiactl");
	make_node(dir, "kfd");
	if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
		printf("1..0 # SKIP %s\n", dlerror());
		return 0;
	}
	gpu_open_with(&gpu, NULL, &gpu_dl_loader, dir);
	opts.gpu = gpu;
	mrg_share_open(&share, &opts);
	each_call();
	list();
	each_call();
	mrg_share_close(share);
	mrg_gpu_close(gpu);
	drop_node(dir, "nvidiactl");
	drop_node(dir, "kfd");
	rmdir(dir);
	if (!had_node)
		unlink("/dev/nvidiactl");
	printf("1..%d\n", rows);
	return 0;
}
