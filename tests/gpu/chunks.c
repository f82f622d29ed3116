/* SPDX-License-Identifier: MIT */
/*
 * 1,500 chunks from one process to another, from the request to mapped with
 * access, at a limit of 1024 descriptors: by the library; by a bare loop of the
 * same driver calls with nothing around it, in which exporting and importing
 * overlap too; and one acknowledged descriptor a message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kit.h"

#define CHUNKS 1500
#define CHUNK (2 * MIB)
#define ROUNDS 9
#define SINGLE_ROUNDS 3
#define MAX_FDS 128

/* What the importer orders. */
struct order {
	int batch; /* descriptors a message */
	bool acknowledge;
	bool each; /* access for each message, not once at the end */
	bool end;
};

/* ---- messages with descriptors, and nothing else ---- */

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
};

static void send_fds(int peer, const int *fds, int count)
{
	union control control;
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int)) };

	memset(&control, 0, sizeof(control));
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
	memcpy(CMSG_DATA(&control.align), fds, (size_t)count * sizeof(int));
	MUST(sendmsg(peer, &msg, MSG_NOSIGNAL) == 1);
}

static int receive_fds(int peer, int *fds)
{
	union control control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	size_t bytes;

	MUST(recvmsg(peer, &msg, MSG_CMSG_CLOEXEC) == 1);
	MUST(!(msg.msg_flags & MSG_CTRUNC) && msg.msg_controllen);
	bytes = control.align.cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(&control.align), bytes);
	return (int)(bytes / sizeof(int));
}

/* ---- the two ends of the bare loop ---- */

static void export_bare(int peer, const struct kit_vmm *vmm, const struct order *order)
{
	int fds[MAX_FDS];

	for (int i = 0; i < CHUNKS;) {
		int n = 0;

		for (; n < order->batch && i < CHUNKS; n++, i++) {
			uint64_t handle;

			CU(cu.retain(&handle,
				     (void *)(uintptr_t)(vmm->addr + (uint64_t)i * CHUNK)));
			CU(cu.export_handle(&fds[n], handle, GPU_HANDLE_POSIX_FD, 0));
			CU(cu.release(handle));
		}
		send_fds(peer, fds, n);
		while (n)
			close(fds[--n]);
		if (order->acknowledge)
			kit_wait(peer);
	}
}

static void import_chunk(uint64_t at, int fd)
{
	uint64_t handle;

	CU(cu.import_handle(&handle, (void *)(uintptr_t)fd, GPU_HANDLE_POSIX_FD));
	CU(cu.map(at, CHUNK, 0, handle, 0));
	CU(cu.release(handle));
	close(fd);
}

static void give_access(uint64_t addr, uint64_t size)
{
	struct gpu_access access = { .location = { GPU_LOCATION_DEVICE, 0 },
				     .flags = GPU_ACCESS_READ_WRITE };

	CU(cu.set_access(addr, size, &access, 1));
}

static uint64_t import_bare(int peer, const struct order *order)
{
	int fds[MAX_FDS], done = 0;
	uint64_t addr;

	CU(cu.reserve(&addr, CHUNKS * CHUNK, CHUNK, 0, 0));
	while (done < CHUNKS) {
		int n = receive_fds(peer, fds);

		for (int i = 0; i < n; i++)
			import_chunk(addr + (uint64_t)done++ * CHUNK, fds[i]);
		if (order->each)
			give_access(addr + (uint64_t)(done - n) * CHUNK, (uint64_t)n * CHUNK);
		if (order->acknowledge)
			kit_signal(peer);
	}
	if (!order->each)
		give_access(addr, CHUNKS * CHUNK);
	return addr;
}

static void drop_bare(uint64_t addr)
{
	for (int i = 0; i < CHUNKS; i++)
		CU(cu.unmap(addr + (uint64_t)i * CHUNK, CHUNK));
	CU(cu.address_free(addr, CHUNKS * CHUNK));
}

/* ---- both processes ---- */

static void limit_fds(void)
{
	struct rlimit limit;

	MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 1024;
	MUST(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void owner(int peer)
{
	struct mrg_range *range;
	struct kit_ends ends;
	struct order order;
	struct kit_vmm vmm;

	limit_fds();
	kit_start();
	ends = kit_open(NULL);
	vmm = kit_vmm_equal(CHUNKS, CHUNK);
	kit_fill(vmm.addr + 2998 * MIB, 2 * MIB, 4);
	range = kit_publish(&ends, peer, vmm.addr, vmm.size);
	for (;;) {
		kit_receive(peer, &order, sizeof(order));
		if (order.end)
			break;
		export_bare(peer, &vmm, &order);
	}
	mrg_share_unpublish(range);
	kit_close(&ends);
}

static double time_library(struct kit_ends *ends, const void *token, size_t length)
{
	struct mrg_import *import;
	double start = kit_now(), end;

	MRG(share, ends->share, mrg_share_import(ends->share, token, length, NULL, &import));
	end = kit_now();
	MUST(!kit_verify(mrg_import_address(import) + 2998 * MIB, 2 * MIB, 4));
	mrg_import_release(import);
	return end - start;
}

static double time_bare(int peer, struct order order)
{
	double start = kit_now(), end;
	uint64_t addr;

	kit_send(peer, &order, sizeof(order));
	addr = import_bare(peer, &order);
	end = kit_now();
	drop_bare(addr);
	return end - start;
}

static const struct order single_order = { .batch = 1, .acknowledge = true };
static const struct order orders[] = {
	{ .batch = 1 },
	{ .batch = 32 },
	{ .batch = 128 },
	{ .batch = 32, .each = true },
};
#define ORDERS 4

static void importer(int peer)
{
	double library[ROUNDS], bare[ORDERS][ROUNDS], single[SINGLE_ROUNDS];
	struct order end = { .end = true };
	struct kit_ends ends;
	char token[4096];
	size_t length;

	limit_fds();
	kit_start();
	ends = kit_open(NULL);
	length = kit_receive(peer, token, sizeof(token));
	time_library(&ends, token, length); /* the descriptor tables grow */
	time_bare(peer, orders[2]);
	for (int i = 0; i < ROUNDS; i++) {
		library[i] = time_library(&ends, token, length);
		for (int b = 0; b < ORDERS; b++)
			bare[b][i] = time_bare(peer, orders[b]);
	}
	for (int i = 0; i < SINGLE_ROUNDS; i++)
		single[i] = time_bare(peer, single_order);
	kit_send(peer, &end, sizeof(end));
	shared->value[0] = kit_median(library, ROUNDS);
	for (int b = 0; b < ORDERS; b++)
		shared->value[2 + b] = kit_median(bare[b], ROUNDS);
	shared->value[1] = kit_median(single, SINGLE_ROUNDS);
	kit_close(&ends);
}

int main(void)
{
	const char *name = "1,500 chunks of 2 MiB against a bare loop";
	const double *v;
	double best;
	char what[128];
	int ret;

	if (!kit_available(what, sizeof(what))) {
		printf("1..0 # SKIP no CUDA GPU: %s\n", what);
		return 0;
	}
	ret = kit_pair(owner, importer);
	v = shared->value;
	if (ret) {
		kit_row(false, name, "%s", shared->text);
		return kit_done();
	}
	best = v[2];
	for (int b = 1; b < ORDERS; b++)
		if (v[2 + b] < best)
			best = v[2 + b];
	kit_speed_row(
		v[0] <= 1.1 * best, name,
		"%.0f ms; bare loop %.0f ms with 1, %.0f with 32, %.0f with 128 fds a message, %.0f with 32 and access for each message: %.2f times the best (medians, n=%d, 1024 fds)",
		v[0] * 1e3, v[2] * 1e3, v[3] * 1e3, v[4] * 1e3, v[5] * 1e3, v[0] / best, ROUNDS);
	kit_speed_row(v[1] >= 10 * v[0],
		      "1,500 chunks of 2 MiB against one acknowledged fd a message",
		      "%.0f ms against %.0f ms: %.1f times faster (n=%d)", v[0] * 1e3, v[1] * 1e3,
		      v[1] / v[0], SINGLE_ROUNDS);
	return kit_done();
}
