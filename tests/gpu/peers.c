/* SPDX-License-Identifier: MIT */
/* What takes two GPUs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"

static void map_on(uint64_t addr, uint64_t size, int device)
{
	struct gpu_prop prop = { .type = GPU_ALLOCATION_PINNED,
				 .handle_types = 1,
				 .location = { GPU_LOCATION_DEVICE, device },
				 .flags.rdma = 1 };
	struct gpu_access access = { .location = { GPU_LOCATION_DEVICE, device },
				     .flags = GPU_ACCESS_READ_WRITE };
	uint64_t handle;

	CU(cu.create(&handle, size, &prop, 0));
	CU(cu.map(addr, size, 0, handle, 0));
	CU(cu.release(handle));
	CU(cu.set_access(addr, size, &access, 1));
}

/* Two chunks, on the devices given. */
static uint64_t two_chunks(int first, int second)
{
	uint64_t addr;

	CU(cu.reserve(&addr, 8 * MIB, 0, 0, 0));
	map_on(addr, 2 * MIB, first);
	map_on(addr + 2 * MIB, 6 * MIB, second);
	return addr;
}

/* The kit's copies need the context of the memory's device. */
static void on_device(int device)
{
	void *ctx;

	CU(cu.primary_retain(&ctx, device));
	CU(cu.set_current(ctx));
}

static void mixed(int peer)
{
	struct mrg_error error = { 0 };
	struct mrg_range *range;
	struct mrg_export out;
	struct kit_ends ends;
	uint64_t addr;
	int ret;

	(void)peer;
	kit_start();
	ends = kit_open(NULL);
	addr = two_chunks(0, 1);
	ret = mrg_gpu_export(ends.gpu, addr, 8 * MIB, NULL, &out);
	mrg_gpu_last_error(ends.gpu, &error);
	if (ret != -EXDEV)
		kit_die("export: %d: %s", ret, error.cause);
	ret = mrg_share_publish(ends.share, addr, 8 * MIB, &range);
	mrg_share_last_error(ends.share, &error);
	snprintf(shared->text, sizeof(shared->text), "%d: %s", ret, error.cause);
	if (ret != -EXDEV || !strstr(error.cause, "device 1"))
		_exit(1);
}

static void other_device(int peer)
{
	void *before, *after;
	struct mrg_export out;
	struct kit_ends ends;
	uint64_t addr;

	(void)peer;
	kit_start();
	ends = kit_open(NULL);
	on_device(1);
	addr = two_chunks(1, 1);
	on_device(0);
	CU(cu.get_current(&before));
	MRG(gpu, ends.gpu, mrg_gpu_export(ends.gpu, addr, 8 * MIB, NULL, &out));
	CU(cu.get_current(&after));
	MUST(before == after && out.mem.device == 1 && out.count == 1);
	snprintf(shared->text, sizeof(shared->text),
		 "device 1 (%s) exported while device 0 is current, which it stays", out.mem.pci);
	mrg_gpu_export_release(ends.gpu, &out);
}

static void owner_on_1(int peer)
{
	struct mrg_range *range;
	struct kit_ends ends;
	uint64_t addr;

	kit_start();
	ends = kit_open(NULL);
	on_device(1);
	addr = two_chunks(1, 1);
	kit_fill(addr, 8 * MIB, 21);
	range = kit_publish(&ends, peer, addr, 8 * MIB);
	kit_wait(peer);
	if (shared->flag[0])
		MUST(!kit_verify(addr, 8 * MIB, 22));
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static struct mrg_import *receive(struct kit_ends *ends, int peer,
				  const struct mrg_import_opts *opts)
{
	struct mrg_import *import;
	char bytes[4096];
	size_t length = kit_receive(peer, bytes, sizeof(bytes));

	MRG(share, ends->share, mrg_share_import(ends->share, bytes, length, opts, &import));
	return import;
}

static void importer_on_0(int peer)
{
	struct mrg_import_opts opts = { .size = sizeof(opts), .flags = MRG_IMPORT_ON_DEVICE };
	struct mrg_import *import;
	struct kit_ends ends;

	kit_start();
	ends = kit_open(NULL);
	import = receive(&ends, peer, &opts);
	MUST(!kit_verify(mrg_import_address(import), 8 * MIB, 21));
	kit_fill(mrg_import_address(import), 8 * MIB, 22);
	CU(cu.synchronize());
	shared->flag[0] = true;
	snprintf(shared->text, sizeof(shared->text),
		 "8 MiB of device 1 read and written by device 0, access for %u device",
		 mrg_import_devices(import));
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static void importer_on_all(int peer)
{
	struct mrg_import_opts opts = { .size = sizeof(opts), .flags = MRG_IMPORT_ALL_DEVICES };
	struct mrg_import *import;
	struct kit_ends ends;

	kit_start();
	ends = kit_open(NULL);
	import = receive(&ends, peer, &opts);
	MUST(!kit_verify(mrg_import_address(import), 8 * MIB, 21));
	on_device(1);
	MUST(!kit_verify(mrg_import_address(import), 8 * MIB, 21));
	snprintf(shared->text, sizeof(shared->text), "read by both, access for %u devices",
		 mrg_import_devices(import));
	kit_signal(peer);
	MUST(mrg_import_devices(import) == 2);
	mrg_import_release(import);
	kit_close(&ends);
}

/* Its ordinal 0 is the owner's 1. */
static void importer_that_sees_1(int peer)
{
	struct mrg_import *import;
	struct kit_ends ends;

	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	kit_start();
	ends = kit_open(NULL);
	import = receive(&ends, peer, NULL);
	MUST(!kit_verify(mrg_import_address(import), 8 * MIB, 21));
	snprintf(shared->text, sizeof(shared->text), "found by UUID, under another ordinal");
	kit_signal(peer);
	mrg_import_release(import);
	kit_close(&ends);
}

static void importer_that_sees_0(int peer)
{
	struct mrg_error error = { 0 };
	struct mrg_import *import;
	struct kit_ends ends;
	char bytes[4096];
	size_t length;
	int ret;

	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	kit_start();
	ends = kit_open(NULL);
	length = kit_receive(peer, bytes, sizeof(bytes));
	ret = mrg_share_import(ends.share, bytes, length, NULL, &import);
	mrg_share_last_error(ends.share, &error);
	snprintf(shared->text, sizeof(shared->text), "%d: %s", ret, error.remedy);
	kit_signal(peer);
	if (ret != -ENODEV || !strstr(error.remedy, "CUDA_VISIBLE_DEVICES"))
		_exit(1);
	kit_close(&ends);
}

static void count_devices(int peer)
{
	struct mrg_gpu_list list;
	struct kit_ends ends;

	(void)peer;
	kit_start_bare();
	ends = kit_open(NULL);
	MRG(gpu, ends.gpu, mrg_gpu_devices(ends.gpu, &list));
	shared->value[0] = (double)list.count;
}

static const struct {
	const char *bar;
	kit_child owner, importer;
} tests[] = {
	{ "two GPUs: error: memory of several devices", mixed, NULL },
	{ "two GPUs: export from the one that is not current", other_device, NULL },
	{ "two GPUs: import for another device than the owner's", owner_on_1, importer_on_0 },
	{ "two GPUs: access for each peer", owner_on_1, importer_on_all },
	{ "two GPUs: CUDA_VISIBLE_DEVICES reorders", owner_on_1, importer_that_sees_1 },
	{ "two GPUs: CUDA_VISIBLE_DEVICES hides", owner_on_1, importer_that_sees_0 },
};

int main(void)
{
	char what[128];
	bool two;

	if (!kit_available(what, sizeof(what))) {
		printf("1..0 # SKIP no CUDA GPU: %s\n", what);
		return 0;
	}
	two = !kit_one(count_devices) && shared->value[0] >= 2;
	if (!two) {
		printf("1..0 # SKIP two GPUs are needed for what they do together\n");
		return 0;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int ret = tests[i].importer ? kit_pair(tests[i].owner, tests[i].importer) :
					      kit_one(tests[i].owner);

		kit_row(!ret, tests[i].bar, "%s", shared->text);
	}
	return kit_done();
}
