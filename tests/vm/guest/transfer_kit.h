/* SPDX-License-Identifier: MIT */
/*
 * Two soft-RoCE devices, rxe_a and rxe_b, on the two ends of a veth pair, and a
 * transfer handle on each.  Both ends are in one network namespace: rxe devices
 * cannot be moved to another before Linux 6.19 or so.
 */
#ifndef GUEST_TRANSFER_KIT_H
#define GUEST_TRANSFER_KIT_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <mrguard/transfer.h>

#include "ground.h"
#include "transfer/message.h"

#define KIT_WAIT_MS 30000
#define KIT_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct kit_side {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct mrg_ctx *ctx;
	struct mrg_transfer *transfer;
};

struct kit_buffer {
	unsigned char *bytes;
	uint64_t length;
	struct mrg_mr *mr;
	struct mrg_remote *remote;
};

static inline double kit_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void kit_up(void)
{
	/* request_module() finds no modprobe in this machine, and rxe wants crc32. */
	run_command("modprobe -q crc32_generic >&2");
	if (run_command("modprobe rdma_rxe >&2 && ip link add rxa type veth peer name rxb && "
			"for f in all default rxa rxb; do cd /proc/sys/net/ipv4/conf/$f && "
			"echo 0 >rp_filter && echo 1 >accept_local || exit 1; done") ||
	    run_command("for i in a:1 b:2; do ip link set rx${i%%:*} mtu 4200 && "
			"ip addr add 192.0.2.${i##*:}/24 dev rx${i%%:*} && "
			"ip link set rx${i%%:*} up && "
			"rdma link add rxe_${i%%:*} type rxe netdev rx${i%%:*} || exit 1; "
			"done") ||
	    /* The kernel fills the GID tables a while later. */
	    run_command("for i in a b; do n=0; until grep -qs 0000:ffff: "
			"/sys/class/infiniband/rxe_$i/ports/1/gids/[0-7]; do "
			"sleep 0.1; n=$((n + 1)); [ $n -lt 100 ] || exit 1; done; done"))
		bail("no pair of rxe devices");
}

static inline void kit_down(void)
{
	run_command(
		"rdma link del rxe_a; rdma link del rxe_b; ip link del rxa; rmmod rdma_rxe >&2");
}

static inline void side_open_on(struct kit_side *side, const char *device,
				const struct mrg_transfer_opts *opts)
{
	struct mrg_error error;

	memset(side, 0, sizeof(*side));
	side->verbs = rc_device_open(device);
	side->pd = side->verbs ? ibv_alloc_pd(side->verbs) : NULL;
	if (!side->pd || mrg_open(&side->ctx, side->verbs, NULL))
		bail("%s: %s", device, strerror(errno));
	if (mrg_transfer_open(&side->transfer, side->pd, opts)) {
		mrg_transfer_last_error(NULL, &error);
		bail("%s: %s", device, error.cause);
	}
}

static inline int kit_side_close(struct kit_side *side)
{
	mrg_transfer_close(side->transfer);
	mrg_close(side->ctx);
	return ibv_dealloc_pd(side->pd) || ibv_close_device(side->verbs);
}

/* In MRs of @piece bytes, 0: as the library likes. */
static inline void kit_buffer_make(struct kit_buffer *b, struct kit_side *side, uint64_t length,
				   uint64_t piece)
{
	struct mrg_reg_opts opts = { .size = sizeof(opts), .max_mr_size = piece };
	static struct mrg_desc_piece pieces[4096];
	size_t count;

	b->length = length;
	b->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->bytes == MAP_FAILED ||
	    mrg_reg(side->ctx, side->pd, b->bytes, length, KIT_ACCESS, &opts, &b->mr))
		bail("registration of %llu bytes", (unsigned long long)length);
	count = mrg_remote_pieces(b->mr, pieces, 4096);
	if (count > 4096 || mrg_remote_make((uintptr_t)b->bytes, pieces, count, 0, &b->remote))
		bail("%zu pieces", count);
}

static inline void kit_buffer_free(struct kit_buffer *b)
{
	mrg_remote_free(b->remote);
	if (mrg_dereg(b->mr))
		bail("deregistration");
	munmap(b->bytes, b->length);
}

static inline uint64_t kit_mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ull;
	return x ^ (x >> 27);
}

/* Bytes that depend on their place and on @seed. */
static inline void kit_fill(unsigned char *p, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i += 8) {
		uint64_t word = kit_mix(seed + i / 8);

		memcpy(p + i, &word, length - i < 8 ? length - i : 8);
	}
}

static inline uint64_t kit_wrong(const unsigned char *p, uint64_t length, uint64_t seed)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < length; i += 8) {
		uint64_t word = kit_mix(seed + i / 8), n = length - i < 8 ? length - i : 8;

		if (!memcmp(p + i, &word, n))
			continue;
		for (uint64_t k = 0; k < n; k++)
			wrong += p[i + k] != (unsigned char)(word >> (k * 8));
	}
	return wrong;
}

static inline long kit_resident_kb(void)
{
	long pages = 0, total;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

/* A pair of connected endpoints over the veth pair. */
struct kit_pair {
	struct kit_side a, b;
	struct mrg_listener *listener;
	char port[8];
	struct mrg_ep *ep, *peer;
};

static inline struct mrg_ep *kit_connect(struct kit_side *side, const char *port)
{
	struct mrg_error error;
	struct mrg_ep *ep;

	if (!mrg_ep_connect(side->transfer, "192.0.2.2", port, &ep))
		return ep;
	mrg_transfer_last_error(side->transfer, &error);
	bail("%s (%s)", error.cause, error.remedy);
}

static inline void kit_pair_open(struct kit_pair *p, const struct mrg_transfer_opts *opts)
{
	side_open_on(&p->a, "rxe_a", opts);
	side_open_on(&p->b, "rxe_b", opts);
	if (mrg_listener_open(p->b.transfer, "192.0.2.2", NULL, &p->listener))
		bail("no listener");
	snprintf(p->port, sizeof(p->port), "%u", mrg_listener_port(p->listener));
	p->ep = kit_connect(&p->a, p->port);
	if (mrg_listener_accept(p->listener, 5000, &p->peer))
		bail("nobody came");
}

static inline void kit_pair_close(struct kit_pair *p)
{
	mrg_ep_close(p->ep);
	mrg_ep_close(p->peer);
	mrg_listener_close(p->listener);
	if (kit_side_close(&p->a) || kit_side_close(&p->b))
		ok(false, "nothing keeps the devices open");
}

static inline struct mrg_op kit_op(enum mrg_op_code code, struct mrg_local *part,
				   const struct kit_buffer *local, uint64_t at,
				   const struct kit_buffer *remote, uint64_t there, uint64_t length)
{
	*part = (struct mrg_local){ .mr = local->mr,
				    .addr = (uintptr_t)local->bytes + at,
				    .length = length };
	return (struct mrg_op){ .code = code,
				.local_count = 1,
				.local = part,
				.remote = remote->remote,
				.remote_addr = (uintptr_t)remote->bytes + there };
}

/* Return: the request's status, or -EAGAIN where it did not end. */
static inline int kit_finish(struct mrg_ep *ep, uint64_t request, int timeout_ms)
{
	struct mrg_result result;
	struct mrg_error error;
	int ret = mrg_wait(ep, request, timeout_ms);

	if (ret) {
		printf("# not done after %d ms\n", timeout_ms);
		return ret;
	}
	mrg_request_result(ep, request, &result);
	if (result.status) {
		mrg_request_error(ep, request, &error);
		printf("# %s\n", error.cause);
	}
	mrg_request_free(ep, request);
	return result.status;
}

static inline int kit_move(struct mrg_ep *ep, const struct mrg_op *ops, size_t count)
{
	struct mrg_submit_opts opts = { .size = sizeof(opts), .flags = MRG_SUBMIT_WAIT };
	uint64_t request;
	int ret = mrg_submit(ep, ops, count, &opts, &request);
	struct mrg_error error;

	if (!ret)
		return kit_finish(ep, request, KIT_WAIT_MS);
	if (mrg_ep_status(ep, &error) < 0)
		printf("# the endpoint: %s\n", error.cause);
	return ret;
}

/* What a client with one lane at @ipv4 says first. */
static inline size_t kit_hello(const unsigned char ipv4[4], unsigned char *bytes)
{
	struct transfer_message message = { .type = MESSAGE_HELLO,
					    .hello = { .port = { .ethernet = 1,
								 .gid_type = IBV_GID_TYPE_ROCE_V2,
								 .mtu = IBV_MTU_1024,
								 .reads = 1 },
						       .gids = 1,
						       .lanes = 1,
						       .lane = { { 4242, 7 } } } };

	message.hello.gid[0].type = IBV_GID_TYPE_ROCE_V2;
	memset(message.hello.gid[0].gid + 10, 0xff, 2);
	memcpy(message.hello.gid[0].gid + 12, ipv4, 4);
	return transfer_message_encode(&message, bytes);
}

/* Lines that `rdma resource` has for @what ("qp", "mr", "cq"), devices together. */
static inline int kit_resources(const char *what)
{
	char command[128], line[256];
	int n = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "rdma resource show %s 2>/dev/null | grep -c -v 'GSI\\|SMI\\|ib_core'", what);
	f = popen(command, "r");
	if (f && fgets(line, sizeof(line), f))
		n = atoi(line);
	if (f)
		pclose(f);
	return n;
}

/* The last point: as many of each as before the pair. */
static inline void kit_end(struct kit_pair *pair, int qps, int mrs)
{
	kit_pair_close(pair);
	ok(kit_resources("qp") == qps && kit_resources("mr") == mrs,
	   "no queue pair and no MR is left");
	kit_down();
	tap_end();
}

#endif
