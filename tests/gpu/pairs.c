/* SPDX-License-Identifier: MIT */
/* Two processes and one piece of GPU memory. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

static const struct kit_chunk three[] = {
	{ .size = 2 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 6 * MIB, .handle_types = 1, .rdma = true },
	{ .size = 20 * MIB, .handle_types = 1, .rdma = true },
};

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(shared->text, sizeof(shared->text), format, args);
	va_end(args);
}

/* ---- bytes ---- */

static void boundary_owner(int peer)
{
	struct kit_ends ends;
	struct mrg_range *range;
	struct kit_vmm vmm;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	kit_fill(vmm.addr, vmm.size, 1);
	range = kit_publish(&ends, peer, vmm.addr + MIB, 26 * MIB);
	kit_wait(peer);
	/* The importer wrote 2 MiB across each boundary. */
	MUST(!kit_verify(vmm.addr + MIB, 2 * MIB, 100));
	MUST(!kit_verify(vmm.addr + 7 * MIB, 2 * MIB, 200));
	MUST(!kit_verify(vmm.addr, MIB, 1));
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static void boundary_importer(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;
	uint64_t addr;

	kit_start();
	ends = kit_open(NULL);
	import = kit_import(&ends, peer);
	addr = mrg_import_address(import);
	MUST(mrg_import_length(import) == 26 * MIB);
	MUST(!kit_verify(addr, 26 * MIB, 1 + MIB / 8));
	kit_fill(addr, 2 * MIB, 100);
	kit_fill(addr + 6 * MIB, 2 * MIB, 200);
	CU(cu.synchronize());
	tell("2+6+20 MiB; 26 MiB read, 2 MiB written across each boundary, all seen");
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static uint64_t whole_size, whole_chunk;

static void whole_owner(int peer)
{
	struct kit_ends ends;
	struct mrg_range *range;
	struct kit_vmm vmm;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm_equal(whole_size / whole_chunk, whole_chunk);
	kit_fill(vmm.addr, vmm.size, 7);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	MUST(!kit_verify(vmm.addr, vmm.size, 8));
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static void whole_importer(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;
	double start;
	uint64_t wrong;

	kit_start();
	ends = kit_open(NULL);
	start = kit_now();
	import = kit_import(&ends, peer);
	wrong = kit_verify(mrg_import_address(import), whole_size, 7);
	tell("%llu bytes compared in chunks of %llu MiB, %llu words wrong, and written back",
	     (unsigned long long)whole_size, (unsigned long long)whole_chunk >> 20,
	     (unsigned long long)wrong);
	shared->value[0] = kit_now() - start;
	if (wrong)
		_exit(1);
	kit_fill(mrg_import_address(import), whole_size, 8);
	CU(cu.synchronize());
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static int compare(uint64_t size, uint64_t chunk)
{
	whole_size = kit_scaled(size);
	whole_chunk = chunk;
	if (kit_is_double())
		whole_chunk = 2 * MIB;
	return kit_pair(whole_owner, whole_importer);
}

static int compare_1(void)
{
	return compare(GIB, 16 * MIB);
}

static int compare_4(void)
{
	return compare(4 * GIB, 2 * MIB);
}

static void malloc_owner(int peer)
{
	struct kit_ends ends;
	struct mrg_range *range;
	uint64_t ptr;

	kit_start();
	ends = kit_open(NULL);
	CU(cu.alloc(&ptr, 64 * MIB));
	kit_fill(ptr, 64 * MIB, 3);
	range = kit_publish(&ends, peer, ptr + 4096, 32 * MIB);
	kit_wait(peer);
	MUST(!kit_verify(ptr + 4096, 32 * MIB, 4));
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static void malloc_importer(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;

	kit_start();
	ends = kit_open(NULL);
	import = kit_import(&ends, peer);
	MUST(!kit_verify(mrg_import_address(import), 32 * MIB, 3 + 512));
	kit_fill(mrg_import_address(import), 32 * MIB, 4);
	CU(cu.synchronize());
	tell("32 MiB at offset 4096 of 64, by IPC handle, both ways");
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static int share_malloc(void)
{
	return kit_pair(malloc_owner, malloc_importer);
}

static int boundaries(void)
{
	return kit_pair(boundary_owner, boundary_importer);
}

/* ---- an importer's own uses ---- */

static void reuse_owner(int peer)
{
	struct kit_ends ends;
	struct mrg_range *range;
	struct kit_vmm vmm;

	kit_start_bare();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static void reuse_importer(int peer)
{
	struct mrg_import *import;
	struct mrg_export out;
	struct mrg_range *range;
	struct kit_ends ends;
	uint64_t addr;

	kit_start();
	ends = kit_open(NULL);
	import = kit_import(&ends, peer);
	addr = mrg_import_address(import);
	MRG(gpu, ends.gpu, mrg_gpu_export(ends.gpu, addr, 28 * MIB, NULL, &out));
	MUST(out.count == 1 && out.pieces[0].size == 28 * MIB);
	mrg_gpu_export_release(ends.gpu, &out);
	MUST(mrg_share_publish(ends.share, addr, 28 * MIB, &range) == -EOPNOTSUPP);
	tell("one DMA-BUF of %llu bytes; passing it on is refused; the owner had no context",
	     28 * MIB);
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static int reuse(void)
{
	return kit_pair(reuse_owner, reuse_importer);
}

/* ---- errors ---- */

static void refuse_child(int peer)
{
	const struct kit_chunk mixed[] = {
		three[0],
		{ .size = 2 * MIB, .handle_types = 0, .rdma = true },
		three[0],
	};
	struct mrg_error error = { 0 };
	struct mrg_range *range;
	struct kit_ends ends;
	struct kit_vmm vmm;
	int ret;

	(void)peer;
	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm(mixed, 3);
	ret = mrg_share_publish(ends.share, vmm.addr, vmm.size, &range);
	mrg_share_last_error(ends.share, &error);
	tell("%d: %s", ret, error.cause);
	if (ret != -EPERM || !strstr(error.cause, "Chunk 1") ||
	    !strstr(error.remedy, "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC"))
		_exit(1);
}

static int mixed_types(void)
{
	return kit_one(refuse_child);
}

static void anew_owner(int peer)
{
	struct mrg_range *range, *anew;
	struct kit_ends ends;
	struct kit_vmm vmm;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	/* Freed, and made again at the same addresses. */
	CU(cu.unmap(vmm.addr, 2 * MIB));
	{
		struct gpu_prop prop = { .type = GPU_ALLOCATION_PINNED,
					 .handle_types = 1,
					 .location = { GPU_LOCATION_DEVICE, 0 },
					 .flags.rdma = 1 };
		struct gpu_access access = { .location = { GPU_LOCATION_DEVICE, 0 },
					     .flags = GPU_ACCESS_READ_WRITE };
		uint64_t handle;

		CU(cu.create(&handle, 2 * MIB, &prop, 0));
		CU(cu.map(vmm.addr, 2 * MIB, 0, handle, 0));
		CU(cu.release(handle));
		CU(cu.set_access(vmm.addr, 2 * MIB, &access, 1));
	}
	kit_signal(peer);
	kit_wait(peer);
	anew = kit_publish(&ends, peer, vmm.addr, vmm.size);
	MUST(mrg_range_generation(anew) != mrg_range_generation(range));
	kit_wait(peer);
	mrg_share_unpublish(range);
	mrg_share_unpublish(anew);
	kit_close(&ends);
}

static void anew_importer(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;
	char old[4096];
	size_t length;

	kit_start();
	ends = kit_open(NULL);
	length = kit_receive(peer, old, sizeof(old));
	kit_signal(peer);
	kit_wait(peer);
	MUST(mrg_share_import(ends.share, old, length, NULL, &import) == -ESTALE);
	kit_signal(peer);
	import = kit_import(&ends, peer);
	tell("old token refused as stale, new one maps");
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static int made_anew(void)
{
	return kit_pair(anew_owner, anew_importer);
}

/* ---- cycles ---- */

static int cycles;

struct usage {
	int fds;
	long space, resident;
	size_t free;
};

static struct usage usage(void)
{
	struct usage u = { kit_fds(), kit_address_space(), kit_resident(), 0 };
	size_t total;

	CU(cu.info(&u.free, &total));
	return u;
}

/* Growth since the first cycles; values @at and on. */
static void record(int at, const struct usage *before)
{
	struct usage now = usage();

	shared->value[at] = now.fds - before->fds;
	shared->value[at + 1] = (double)(now.space - before->space);
	shared->value[at + 2] = (double)(now.resident - before->resident);
	shared->value[at + 3] = (double)before->free - (double)now.free;
}

/* The server's side of a connection ends a moment after the importer's. */
static void settle(const struct usage *before)
{
	for (int i = 0; i < 100 && kit_fds() != before->fds; i++)
		usleep(10000);
}

#define WARM_UP 5

static void cycle_owner(int peer)
{
	struct usage before = { 0 };
	struct kit_ends ends;

	kit_start();
	ends = kit_open(NULL);
	for (int i = 0; i < cycles + WARM_UP; i++) {
		struct kit_vmm vmm = kit_vmm(three, 3);
		struct mrg_range *range;

		range = kit_publish(&ends, peer, vmm.addr, vmm.size);
		kit_wait(peer);
		mrg_share_unpublish(range);
		kit_vmm_free(vmm);
		if (i == WARM_UP - 1) {
			usleep(20000);
			before = usage();
		}
		kit_signal(peer);
	}
	settle(&before);
	record(0, &before);
	kit_wait(peer);
	kit_close(&ends);
}

static void cycle_importer(int peer)
{
	struct usage before = { 0 };
	struct kit_ends ends;
	double start = 0;

	kit_start();
	ends = kit_open(NULL);
	for (int i = 0; i < cycles + WARM_UP; i++) {
		struct mrg_import *import = kit_import(&ends, peer);

		MUST(mrg_import_length(import) == 28 * MIB);
		mrg_import_release(import);
		kit_signal(peer);
		kit_wait(peer);
		if (i == WARM_UP - 1) {
			before = usage();
			start = kit_now();
		}
	}
	shared->value[8] = (kit_now() - start) / cycles;
	record(4, &before);
	kit_signal(peer);
	kit_close(&ends);
}

static int run_cycles(int count)
{
	double *v = shared->value;
	int ret;

	cycles = count;
	ret = kit_pair(cycle_owner, cycle_importer);
	if (ret)
		return ret;
	tell("owner and importer: fds %+.0f %+.0f, address space %+.0f %+.0f KiB, resident %+.0f %+.0f KiB, GPU memory %+.0f %+.0f bytes; %.2f ms a cycle",
	     v[0], v[4], v[1], v[5], v[2], v[6], v[3], v[7], v[8] * 1e3);
	for (int i = 0; i < 8; i += 4)
		if (v[i] || v[i + 1] > 1024 || v[i + 2] > 2048 || v[i + 3] > 0)
			return -1;
	return 0;
}

static int cycles_20(void)
{
	return run_cycles(20);
}

static int cycles_2000(void)
{
	return run_cycles(2000);
}

/* ---- lives and deaths ---- */

static void release_owner(int peer)
{
	struct mrg_range *range;
	struct kit_ends ends;
	struct kit_vmm vmm;
	uint64_t other;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	kit_fill(vmm.addr, vmm.size, 5);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	mrg_share_unpublish(range);
	kit_vmm_free(vmm);
	/* Whatever was freed would be handed out and written over here. */
	CU(cu.alloc(&other, kit_scaled(8 * GIB)));
	kit_fill(other, 64 * MIB, 66);
	kit_signal(peer);
	kit_wait(peer);
	kit_close(&ends);
}

static void release_importer(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;

	kit_start();
	ends = kit_open(NULL);
	import = kit_import(&ends, peer);
	kit_signal(peer);
	kit_wait(peer);
	MUST(!kit_verify(mrg_import_address(import), 28 * MIB, 5));
	kit_fill(mrg_import_address(import), 28 * MIB, 6);
	MUST(!kit_verify(mrg_import_address(import), 28 * MIB, 6));
	tell("28 MiB right after the owner unpublished and freed, and writable");
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static int release_while_mapped(void)
{
	return kit_pair(release_owner, release_importer);
}

static void killed_owner(int peer)
{
	struct kit_ends ends;
	struct kit_vmm vmm;

	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	kit_fill(vmm.addr, vmm.size, 9);
	kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	kill(getpid(), SIGKILL);
}

static void killed_owners_importer(int peer)
{
	struct mrg_import *import, *late;
	char token[4096], byte;
	struct kit_ends ends;
	size_t length;
	int ret;

	kit_start();
	ends = kit_open(NULL);
	length = kit_receive(peer, token, sizeof(token));
	MRG(share, ends.share, mrg_share_import(ends.share, token, length, NULL, &import));
	kit_signal(peer);
	while (read(peer, &byte, 1) > 0)
		;
	usleep(100000);
	MUST(!kit_verify(mrg_import_address(import), 28 * MIB, 9));
	kit_fill(mrg_import_address(import), 28 * MIB, 10);
	MUST(!kit_verify(mrg_import_address(import), 28 * MIB, 10));
	mrg_import_release(import);
	ret = mrg_share_import(ends.share, token, length, NULL, &late);
	tell("28 MiB right after SIGKILL, and writable; a new import gives %d", ret);
	if (ret != -ECONNREFUSED)
		_exit(1);
	kit_close(&ends);
}

static int owner_killed(void)
{
	kit_expect_killed(true, false);
	return kit_pair(killed_owner, killed_owners_importer);
}

/* Once through, so that what the driver opens for its first export is open. */
static void import_own(struct kit_ends *ends, const struct mrg_range *range)
{
	struct mrg_import *import;
	const void *bytes;
	size_t length = mrg_range_token(range, &bytes);

	MRG(share, ends->share, mrg_share_import(ends->share, bytes, length, NULL, &import));
	mrg_import_release(import);
	usleep(50000);
}

static void killed_importers_owner(int peer)
{
	struct mrg_range *range;
	size_t before, after, total;
	struct kit_ends ends;
	struct kit_vmm vmm;
	const void *bytes;
	size_t length;
	char byte;
	int fds;

	kit_start();
	ends = kit_open(NULL);
	CU(cu.info(&before, &total));
	vmm = kit_vmm_equal(400, 2 * MIB);
	MRG(share, ends.share, mrg_share_publish(ends.share, vmm.addr, vmm.size, &range));
	import_own(&ends, range);
	fds = kit_fds();
	length = mrg_range_token(range, &bytes);
	kit_send(peer, bytes, length);
	while (read(peer, &byte, 1) > 0)
		;
	for (int i = 0; i < 300 && kit_fds() != fds; i++)
		usleep(10000);
	MUST(kit_fds() == fds);
	mrg_share_unpublish(range);
	kit_vmm_free(vmm);
	for (int i = 0; i < 300; i++) {
		CU(cu.info(&after, &total));
		if (after >= before)
			break;
		usleep(10000);
	}
	tell("owner: no fd left, %+lld bytes of GPU memory", (long long)before - (long long)after);
	/* The importer's context went with it. */
	MUST(after >= before);
	kit_close(&ends);
}

static void dying_importer(int peer)
{
	struct kit_ends ends;
	char token[4096];
	struct mrg_import *import;
	size_t length;

	kit_start_bare();
	ends = kit_open(NULL);
	length = kit_receive(peer, token, sizeof(token));
	/* In the middle of 400 chunks. */
	if (!fork()) {
		usleep(3000);
		kill(getppid(), SIGKILL);
		_exit(0);
	}
	mrg_share_import(ends.share, token, length, NULL, &import);
	usleep(50000);
	kill(getpid(), SIGKILL);
}

static int importer_killed(void)
{
	kit_expect_killed(false, true);
	return kit_pair(killed_importers_owner, dying_importer);
}

/* ---- namespaces ---- */

/* Runs @child as process 1 of a PID namespace with a /proc of its own. */
static void in_pid_namespace(kit_child child, int peer)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		kit_die("no PID namespace: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		if (getpid() != 1 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("proc", "/proc", "proc", 0, NULL))
			kit_die("no /proc: %s", strerror(errno));
		child(peer);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void pid_owner(int peer)
{
	in_pid_namespace(boundary_owner, peer);
}

static void pid_importer(int peer)
{
	in_pid_namespace(boundary_importer, peer);
}

static int pid_namespaces(void)
{
	int ret = kit_pair(pid_owner, pid_importer);

	if (!ret)
		tell("both are process 1 of their own PID namespace");
	return ret;
}

static char directory[] = "/tmp/mrguard-gpu-XXXXXX";

static void directory_owner(int peer)
{
	setenv("MRGUARD_SHARE_DIR", directory, 1);
	boundary_owner(peer);
}

static void network_importer(int peer)
{
	if (unshare(CLONE_NEWNET))
		kit_die("no network namespace: %s", strerror(errno));
	boundary_importer(peer);
}

static int network_with_directory(void)
{
	int ret;

	if (!mkdtemp(directory))
		return -1;
	ret = kit_pair(directory_owner, network_importer);
	if (!ret)
		tell("by a socket file in MRGUARD_SHARE_DIR");
	return rmdir(directory) ? -1 : ret;
}

static void abstract_owner(int peer)
{
	struct mrg_range *range;
	struct kit_ends ends;
	struct kit_vmm vmm;

	kit_start_bare();
	ends = kit_open(NULL);
	vmm = kit_vmm(three, 3);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	kit_wait(peer);
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static void abstract_importer(int peer)
{
	struct mrg_error error = { 0 };
	struct mrg_import *import;
	char token[4096];
	struct kit_ends ends;
	size_t length;
	int ret;

	if (unshare(CLONE_NEWNET))
		kit_die("no network namespace: %s", strerror(errno));
	kit_start_bare();
	ends = kit_open(NULL);
	length = kit_receive(peer, token, sizeof(token));
	ret = mrg_share_import(ends.share, token, length, NULL, &import);
	mrg_share_last_error(ends.share, &error);
	tell("%d: %s", ret, error.remedy);
	kit_signal(peer);
	if (ret != -ENETUNREACH || !strstr(error.remedy, "MRGUARD_SHARE_DIR"))
		_exit(1);
	kit_close(&ends);
}

static int network_abstract(void)
{
	return kit_pair(abstract_owner, abstract_importer);
}

/* ---- for torch.py: an importer that reads a token and checks words ---- */

static int check_words(const char *path, const char *count)
{
	struct mrg_import *import;
	static char bytes[1 << 20];
	FILE *file = fopen(path, "rb");
	struct kit_ends ends;
	uint64_t size, wrong;
	size_t length;

	kit_available(bytes, sizeof(bytes));
	length = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
	kit_start();
	ends = kit_open(NULL);
	if (mrg_share_import(ends.share, bytes, length, NULL, &import)) {
		struct mrg_error error = { 0 };

		mrg_share_last_error(ends.share, &error);
		printf("%s\n", error.cause);
		return 1;
	}
	size = strtoull(count, NULL, 10) * 8;
	wrong = size > mrg_import_length(import) ? size :
						   kit_verify(mrg_import_address(import), size, 0);
	printf("%llu bytes compared, %llu words wrong\n", (unsigned long long)size,
	       (unsigned long long)wrong);
	mrg_import_release(import);
	kit_close(&ends);
	return wrong ? 1 : 0;
}

static const struct {
	const char *bar;
	int (*run)(void);
} tests[] = {
	{ "three unequal chunks, writes across both boundaries", boundaries },
	{ "every byte of 1 GiB", compare_1 },
	{ "every byte of 4 GiB", compare_4 },
	{ "cudaMalloc memory by IPC handle with offset", share_malloc },
	{ "imported memory exports a DMA-BUF", reuse },
	{ "error: mixed handle types", mixed_types },
	{ "memory made anew at its address", made_anew },
	{ "20 cycles without a leak", cycles_20 },
	{ "2,000 cycles without a leak", cycles_2000 },
	{ "owner releases while the peer maps", release_while_mapped },
	{ "owner killed", owner_killed },
	{ "importer killed", importer_killed },
	{ "PID namespaces", pid_namespaces },
	{ "network namespace, abstract name", network_abstract },
	{ "network namespace, socket file", network_with_directory },
};

int main(int argc, char **argv)
{
	char what[128];

	if (argc == 4 && !strcmp(argv[1], "check"))
		return check_words(argv[2], argv[3]);
	if (!kit_available(what, sizeof(what))) {
		printf("1..0 # SKIP no CUDA GPU: %s\n", what);
		return 0;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int ret = tests[i].run();

		kit_row(!ret, tests[i].bar, "%s", shared->text);
	}
	return kit_done();
}
