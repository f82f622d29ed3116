/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit.h"

#define STEP (64 * MIB) /* bytes compared at a time */
#define PATIENCE_S 120 /* for one test */

struct kit_cuda cu;
struct kit_shared *shared;
static bool owner_killed, importer_killed;

/* ---- rows ---- */

static void print_row(const char *verdict, const char *bar, const char *note, const char *figure,
		      va_list args)
{
	printf("%s %lu - %s%s | ", verdict, (unsigned long)++shared->rows, bar, note);
	vprintf(figure, args);
	putchar('\n');
	fflush(stdout);
}

void kit_row(bool pass, const char *bar, const char *figure, ...)
{
	va_list args;

	va_start(args, figure);
	print_row(pass ? "ok" : "not ok", bar, "", figure, args);
	va_end(args);
}

void kit_speed_row(bool pass, const char *bar, const char *figure, ...)
{
	va_list args;

	va_start(args, figure);
	if (kit_is_double())
		print_row("ok", bar, " # SKIP the double has no speed", figure, args);
	else
		print_row(pass ? "ok" : "not ok", bar, "", figure, args);
	va_end(args);
}

int kit_done(void)
{
	printf("1..%lu\n", (unsigned long)shared->rows);
	return 0;
}

void kit_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!shared->text[0])
		vsnprintf(shared->text, sizeof(shared->text), format, args);
	va_end(args);
	_exit(1);
}

/* ---- CUDA ---- */

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	{ "cuInit", offsetof(struct kit_cuda, init) },
	{ "cuDevicePrimaryCtxRetain", offsetof(struct kit_cuda, primary_retain) },
	{ "cuDevicePrimaryCtxGetState", offsetof(struct kit_cuda, primary_state) },
	{ "cuCtxSetCurrent", offsetof(struct kit_cuda, set_current) },
	{ "cuCtxGetCurrent", offsetof(struct kit_cuda, get_current) },
	{ "cuDeviceGetName", offsetof(struct kit_cuda, device_name) },
	{ "cuDriverGetVersion", offsetof(struct kit_cuda, driver_version) },
	{ "cuMemAlloc_v2", offsetof(struct kit_cuda, alloc) },
	{ "cuMemFree_v2", offsetof(struct kit_cuda, free) },
	{ "cuMemAllocManaged", offsetof(struct kit_cuda, alloc_managed) },
	{ "cuMemAllocAsync", offsetof(struct kit_cuda, alloc_async) },
	{ "cuMemFreeAsync", offsetof(struct kit_cuda, free_async) },
	{ "cuMemHostAlloc", offsetof(struct kit_cuda, host_alloc) },
	{ "cuMemFreeHost", offsetof(struct kit_cuda, host_free) },
	{ "cuMemcpyHtoD_v2", offsetof(struct kit_cuda, to_device) },
	{ "cuMemcpyDtoH_v2", offsetof(struct kit_cuda, to_host) },
	{ "cuMemcpyDtoDAsync_v2", offsetof(struct kit_cuda, copy_async) },
	{ "cuMemGetInfo_v2", offsetof(struct kit_cuda, info) },
	{ "cuCtxSynchronize", offsetof(struct kit_cuda, synchronize) },
	{ "cuEventCreate", offsetof(struct kit_cuda, event_create) },
	{ "cuEventRecord", offsetof(struct kit_cuda, event_record) },
	{ "cuEventSynchronize", offsetof(struct kit_cuda, event_synchronize) },
	{ "cuEventElapsedTime", offsetof(struct kit_cuda, event_elapsed) },
	{ "cuMemCreate", offsetof(struct kit_cuda, create) },
	{ "cuMemRetainAllocationHandle", offsetof(struct kit_cuda, retain) },
	{ "cuMemRelease", offsetof(struct kit_cuda, release) },
	{ "cuMemExportToShareableHandle", offsetof(struct kit_cuda, export_handle) },
	{ "cuMemImportFromShareableHandle", offsetof(struct kit_cuda, import_handle) },
	{ "cuMemAddressReserve", offsetof(struct kit_cuda, reserve) },
	{ "cuMemAddressFree", offsetof(struct kit_cuda, address_free) },
	{ "cuMemMap", offsetof(struct kit_cuda, map) },
	{ "cuMemUnmap", offsetof(struct kit_cuda, unmap) },
	{ "cuMemSetAccess", offsetof(struct kit_cuda, set_access) },
};

static bool load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *function = dlsym(library, symbols[i].name);

		if (!function)
			return false;
		memcpy((char *)&cu + symbols[i].offset, &function, sizeof(function));
	}
	return library;
}

void kit_start_bare(void)
{
	MUST(load());
	CU(cu.init(0));
}

void kit_start(void)
{
	void *ctx;

	kit_start_bare();
	CU(cu.primary_retain(&ctx, 0));
	CU(cu.set_current(ctx));
}

static void ask_device(int peer)
{
	int version;

	(void)peer;
	kit_start_bare();
	CU(cu.device_name(shared->text, 64, 0));
	CU(cu.driver_version(&version));
	snprintf(shared->text + strlen(shared->text), 64, ", CUDA %d.%d", version / 1000,
		 version % 1000 / 10);
}

static void make_shared(void)
{
	if (shared)
		return;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		abort();
}

bool kit_available(char *what, size_t size)
{
	bool there;

	make_shared();
	there = !kit_one(ask_device);
	snprintf(what, size, "%s", shared->text);
	return there;
}

bool kit_is_double(void)
{
	return getenv("MRG_GPU_DOUBLE");
}

uint64_t kit_scaled(uint64_t size)
{
	uint64_t small = size / 64;

	if (!kit_is_double())
		return size;
	return (small + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* ---- memory ---- */

static void map_chunk(uint64_t addr, const struct kit_chunk *chunk)
{
	struct gpu_prop prop = {
		.type = GPU_ALLOCATION_PINNED,
		.handle_types = chunk->handle_types,
		.location = { GPU_LOCATION_DEVICE, 0 },
		.flags.rdma = chunk->rdma,
	};
	struct gpu_access access = {
		.location = { GPU_LOCATION_DEVICE, 0 },
		.flags = GPU_ACCESS_READ_WRITE,
	};
	uint64_t handle;

	if (chunk->hole)
		return;
	CU(cu.create(&handle, chunk->size, &prop, 0));
	CU(cu.map(addr, chunk->size, 0, handle, 0));
	CU(cu.release(handle));
	CU(cu.set_access(addr, chunk->size, &access, 1));
}

struct kit_vmm kit_vmm(const struct kit_chunk *chunks, size_t count)
{
	struct kit_vmm vmm = { 0 };
	uint64_t at;

	for (size_t i = 0; i < count; i++)
		vmm.size += chunks[i].size;
	CU(cu.reserve(&vmm.addr, vmm.size, 0, 0, 0));
	at = vmm.addr;
	for (size_t i = 0; i < count; i++) {
		map_chunk(at, &chunks[i]);
		at += chunks[i].size;
	}
	return vmm;
}

struct kit_vmm kit_vmm_equal(size_t count, uint64_t size)
{
	struct kit_chunk *chunks = calloc(count, sizeof(*chunks));
	struct kit_vmm vmm;

	MUST(chunks);
	for (size_t i = 0; i < count; i++)
		chunks[i] = (struct kit_chunk){ .size = size, .handle_types = 1, .rdma = true };
	vmm = kit_vmm(chunks, count);
	free(chunks);
	return vmm;
}

void kit_vmm_free(struct kit_vmm vmm)
{
	CU(cu.unmap(vmm.addr, vmm.size));
	CU(cu.address_free(vmm.addr, vmm.size));
}

static uint64_t word(uint64_t index, uint64_t seed)
{
	return (index + seed) * 0x9e3779b97f4a7c15;
}

void kit_fill(uint64_t addr, uint64_t size, uint64_t seed)
{
	uint64_t *words;

	CU(cu.host_alloc((void **)&words, STEP, 0));
	for (uint64_t at = 0; at < size; at += STEP) {
		uint64_t part = size - at < STEP ? size - at : STEP;

		for (uint64_t i = 0; i < part / 8; i++)
			words[i] = word(at / 8 + i, seed);
		CU(cu.to_device(addr + at, words, part));
	}
	CU(cu.host_free(words));
}

uint64_t kit_verify(uint64_t addr, uint64_t size, uint64_t seed)
{
	uint64_t *words, wrong = 0;

	CU(cu.host_alloc((void **)&words, STEP, 0));
	for (uint64_t at = 0; at < size; at += STEP) {
		uint64_t part = size - at < STEP ? size - at : STEP;

		CU(cu.to_host(words, addr + at, part));
		for (uint64_t i = 0; i < part / 8; i++)
			wrong += words[i] != word(at / 8 + i, seed);
	}
	CU(cu.host_free(words));
	return wrong;
}

/* ---- processes ---- */

static pid_t start(kit_child child, int peer, int other)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* glibc reserves 64 MiB for a second thread at some time or other. */
	mallopt(M_ARENA_MAX, 1);
	alarm(PATIENCE_S);
	if (other >= 0)
		close(other);
	child(peer);
	exit(0);
}

static bool ended_well(pid_t pid, bool killed)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && !(killed && WTERMSIG(status) == SIGKILL)) {
		if (!shared->text[0])
			snprintf(shared->text, sizeof(shared->text), "ended by signal %d",
				 WTERMSIG(status));
		return false;
	}
	return WIFSIGNALED(status) ? killed : !WEXITSTATUS(status);
}

static void clear_shared(void)
{
	make_shared();
	memset(shared->text, 0, sizeof(shared->text));
	memset(shared->value, 0, sizeof(shared->value));
	memset(shared->flag, 0, sizeof(shared->flag));
}

int kit_one(kit_child child)
{
	clear_shared();
	return ended_well(start(child, -1, -1), false) ? 0 : -1;
}

void kit_expect_killed(bool owner, bool importer)
{
	owner_killed = owner;
	importer_killed = importer;
}

int kit_pair(kit_child owner, kit_child importer)
{
	bool a, b;
	int ends[2];
	pid_t pids[2];

	clear_shared();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		abort();
	pids[0] = start(owner, ends[0], ends[1]);
	pids[1] = start(importer, ends[1], ends[0]);
	close(ends[0]);
	close(ends[1]);
	a = ended_well(pids[0], owner_killed);
	b = ended_well(pids[1], importer_killed);
	kit_expect_killed(false, false);
	return a && b ? 0 : -1;
}

void kit_send(int peer, const void *bytes, size_t size)
{
	MUST(send(peer, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
}

size_t kit_receive(int peer, void *bytes, size_t room)
{
	ssize_t size;

	do {
		size = recv(peer, bytes, room, 0);
	} while (size < 0 && errno == EINTR);
	if (size <= 0)
		kit_die("the other process went away");
	return (size_t)size;
}

void kit_signal(int peer)
{
	kit_send(peer, "s", 1);
}

void kit_wait(int peer)
{
	char byte;

	kit_receive(peer, &byte, 1);
}

/* ---- measuring ---- */

double kit_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int kit_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 8192; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static long statm(int field)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long values[2] = { 0 };

	MUST(file && fscanf(file, "%ld %ld", &values[0], &values[1]) == 2);
	fclose(file);
	return values[field] * (sysconf(_SC_PAGESIZE) / 1024);
}

long kit_address_space(void)
{
	return statm(0);
}

long kit_resident(void)
{
	return statm(1);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double kit_median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- libmrguard ---- */

struct kit_ends kit_open(const char *dir)
{
	struct mrg_share_opts opts = { .size = sizeof(opts), .timeout_ms = 20000, .dir = dir };
	struct kit_ends ends;

	MUST(!mrg_gpu_open(&ends.gpu, NULL));
	opts.gpu = ends.gpu;
	MUST(!mrg_share_open(&ends.share, &opts));
	return ends;
}

void kit_close(struct kit_ends *ends)
{
	mrg_share_close(ends->share);
	mrg_gpu_close(ends->gpu);
}

struct mrg_range *kit_publish(struct kit_ends *ends, int peer, uint64_t addr, uint64_t size)
{
	struct mrg_range *range;
	const void *bytes;
	size_t length;

	MRG(share, ends->share, mrg_share_publish(ends->share, addr, size, &range));
	length = mrg_range_token(range, &bytes);
	kit_send(peer, bytes, length);
	return range;
}

struct mrg_import *kit_import(struct kit_ends *ends, int peer)
{
	struct mrg_import *import;
	char bytes[8192];
	size_t length = kit_receive(peer, bytes, sizeof(bytes));

	MRG(share, ends->share, mrg_share_import(ends->share, bytes, length, NULL, &import));
	return import;
}
