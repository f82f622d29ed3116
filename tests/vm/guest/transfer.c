/* SPDX-License-Identifier: MIT */
/*
 * Transfers over soft-RoCE, with real queue pairs and every byte compared: what
 * the made-up device of tests/unit cannot show.  transfer_full.c has the large
 * runs, transfer_soak.c the long one.
 */
#include <mrguard/registry.h>

#include "transfer_kit.h"

static void sizes(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	static const uint64_t lengths[] = { 1,	  2,	 7,	 64,  129,	  4096,
					    4097, 65536, 100001, MIB, 3 * MIB + 5 };
	uint64_t wrong = 0;
	int failed = 0;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t n = lengths[i], at = 3 * i, there = 40 - i;
		struct mrg_local part;
		struct mrg_op op = kit_op(MRG_OP_WRITE, &part, l, at, r, there, n);

		kit_fill(l->bytes + at, n, i);
		failed += kit_move(p->ep, &op, 1) != 0;
		wrong += kit_wrong(r->bytes + there, n, i);
		memset(l->bytes + at, 0, n);
		op.code = MRG_OP_READ;
		failed += kit_move(p->ep, &op, 1) != 0;
		wrong += kit_wrong(l->bytes + at, n, i);
	}
	ok(!failed && !wrong,
	   "each size from 1 byte to 3 MiB arrives, unaligned, by WRITE and READ");
}

#define BATCH 4096

static void batch(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	static struct mrg_local parts[BATCH];
	static struct mrg_op ops[BATCH];
	uint64_t wrong = 0;

	kit_fill(l->bytes, 512 * BATCH, 9);
	for (uint64_t i = 0; i < BATCH; i++)
		ops[i] = kit_op(MRG_OP_WRITE, &parts[i], l, 512 * i, r, 512 * (BATCH - 1 - i),
				1 + i % 512);
	ok(!kit_move(p->ep, ops, BATCH), "a batch of 4,096 is carried out");
	for (uint64_t i = 0; i < BATCH; i++)
		wrong += memcmp(l->bytes + 512 * i, r->bytes + 512 * (BATCH - 1 - i),
				1 + i % 512) != 0;
	ok(!wrong, "each of its 4,096 operations has moved its own bytes");
}

static void ranges(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_local parts[40];
	struct mrg_op op = { .code = MRG_OP_WRITE,
			     .local_count = 40,
			     .local = parts,
			     .remote = r->remote,
			     .remote_addr = (uintptr_t)r->bytes + 11 };
	uint64_t wrong = 0;
	unsigned char *at;

	for (uint64_t i = 0; i < 40; i++)
		parts[i] = (struct mrg_local){ .mr = l->mr,
					       .addr = (uintptr_t)l->bytes + i * 50021,
					       .length = 1000 + i };
	kit_fill(l->bytes, 40 * 50021, 5);
	ok(!kit_move(p->ep, &op, 1), "40 ranges over MRs of 64 KiB are gathered");
	at = r->bytes + 11;
	for (uint64_t i = 0; i < 40; at += 1000 + i, i++)
		wrong += memcmp(at, l->bytes + i * 50021, 1000 + i) != 0;
	memset(l->bytes, 0, 40 * 50021);
	op.code = MRG_OP_READ;
	ok(!kit_move(p->ep, &op, 1), "and scattered back");
	at = r->bytes + 11;
	for (uint64_t i = 0; i < 40; at += 1000 + i, i++)
		wrong += memcmp(at, l->bytes + i * 50021, 1000 + i) != 0;
	ok(!wrong, "to the places where they were");
}

static void bad_key(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_desc_piece piece = { .length = r->length,
					.wire = (uintptr_t)r->bytes,
					.rkey = 0x00bad100 };
	struct mrg_submit_opts opts = { .size = sizeof(opts) };
	uint64_t good[8], bad;
	struct mrg_remote *stale;
	struct mrg_local parts[9];
	struct mrg_result result;
	int failed = 0;

	if (mrg_remote_make((uintptr_t)r->bytes, &piece, 1, 0, &stale))
		bail("mrg_remote_make");
	for (uint64_t i = 0; i < 9; i++) {
		struct mrg_op op = kit_op(MRG_OP_WRITE, &parts[i], l, i * 5000, r, i * 5000, 5000);

		if (i == 4)
			op.remote = stale;
		failed += mrg_submit(p->ep, &op, 1, &opts,
				     i == 4 ? &bad : &good[i > 4 ? i - 1 : i]) != 0;
	}
	failed += mrg_wait(p->ep, bad, KIT_WAIT_MS) != 0;
	mrg_request_result(p->ep, bad, &result);
	mrg_request_free(p->ep, bad);
	ok(!failed && result.status == -EACCES && result.side == MRG_SIDE_REMOTE &&
		   result.key == piece.rkey,
	   "a key that the peer does not have is named, with its side");
	for (int i = 0; i < 8; i++)
		failed += kit_finish(p->ep, good[i], KIT_WAIT_MS) != 0;
	ok(!failed, "requests before and behind it are carried out");
	mrg_remote_free(stale);
}

static void sleeping(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, l, 0, r, 0, 1000);
	struct mrg_done done;
	int good = 0;

	for (int i = 0; i < 200; i++) {
		if (mrg_submit(p->ep, &op, 1, NULL, NULL))
			break;
		while (!mrg_poll(p->ep, &done, 1)) {
			struct pollfd fd = { .fd = mrg_ep_fd(p->ep), .events = POLLIN };

			if (!mrg_ep_arm(p->ep) && poll(&fd, 1, KIT_WAIT_MS) != 1)
				bail("a sleeper was not woken");
		}
		good += done.status == 0;
		mrg_request_free(p->ep, done.request);
	}
	ok(good == 200, "the descriptor wakes a sleeper, 200 times");
}

/* A buffer of a registry is held by its transfers. */
static void registered(struct kit_pair *p, struct kit_buffer *r)
{
	struct mrg_registry_device device = { .pd = p->a.pd };
	struct mrg_registry_opts opts = {
		.size = sizeof(opts), .ctx = p->a.ctx, .devices = &device, .device_count = 1
	};
	struct mrg_local part = { .length = MIB };
	struct mrg_op op = { .code = MRG_OP_WRITE,
			     .local_count = 1,
			     .local = &part,
			     .remote = r->remote,
			     .remote_addr = (uintptr_t)r->bytes };
	unsigned char *bytes = aligned_alloc(4096, MIB);
	struct mrg_registry *registry;
	uint64_t request;
	int busy;

	if (mrg_registry_open(&registry, &opts) ||
	    mrg_buffer_register(registry, (uintptr_t)bytes, MIB, NULL, &part.buffer))
		bail("no registry");
	kit_fill(bytes, MIB, 31);
	part.addr = (uintptr_t)bytes;
	run_command("ip link set rxb down");
	if (mrg_submit(p->ep, &op, 1, NULL, &request))
		bail("mrg_submit");
	busy = mrg_buffer_unregister(part.buffer, 0);
	run_command("ip link set rxb up");
	ok(busy == -EBUSY, "a registry's buffer is not unregistered while it is moved");
	ok(!kit_finish(p->ep, request, KIT_WAIT_MS) && !kit_wrong(r->bytes, MIB, 31),
	   "its transfer ends well");
	ok(!mrg_buffer_unregister(part.buffer, 0) && !mrg_registry_close(registry),
	   "and then it is");
	free(bytes);
}

static void port_down(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_submit_opts opts = { .size = sizeof(opts), .deadline_ms = 300 };
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, l, 0, r, 0, MIB);
	uint64_t late, patient;
	struct mrg_ep_stats stats;
	double from;

	kit_fill(l->bytes, MIB, 77);
	run_command("ip link set rxb down");
	from = kit_now();
	if (mrg_submit(p->ep, &op, 1, &opts, &late) || mrg_submit(p->ep, &op, 1, NULL, &patient))
		bail("mrg_submit");
	usleep(700000);
	run_command("ip link set rxb up");
	ok(kit_finish(p->ep, late, KIT_WAIT_MS) == -ETIMEDOUT,
	   "with the port down a deadline is kept");
	ok(!kit_finish(p->ep, patient, KIT_WAIT_MS) && !kit_wrong(r->bytes, MIB, 77),
	   "with the port up again the other request is carried out");
	mrg_ep_stats(p->ep, &stats);
	printf("# %.1f s, %llu lanes re-made, %llu slices repeated\n", kit_now() - from,
	       (unsigned long long)stats.remade, (unsigned long long)stats.repeated);
	ok(stats.remade > 0, "by a lane that was made again");
}

/* Registered without local write, so this side's device refuses a READ into it. */
static void local_fault(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_reg_opts opts = { .size = sizeof(opts) };
	uint64_t bad, good;
	struct mrg_result result;
	struct kit_buffer sealed = { .length = MIB };
	struct mrg_local parts[2];
	struct mrg_op op;

	sealed.bytes = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mrg_reg(p->a.ctx, p->a.pd, sealed.bytes, MIB, 0, &opts, &sealed.mr))
		bail("registration without local write");
	op = kit_op(MRG_OP_READ, &parts[0], &sealed, 100, r, 0, 5000);
	if (mrg_submit(p->ep, &op, 1, NULL, &bad))
		bail("mrg_submit");
	op = kit_op(MRG_OP_WRITE, &parts[1], l, 0, r, 8192, 5000);
	kit_fill(l->bytes, 5000, 21);
	if (mrg_submit(p->ep, &op, 1, NULL, &good) || mrg_wait(p->ep, bad, KIT_WAIT_MS))
		bail("a request did not end");
	mrg_request_result(p->ep, bad, &result);
	mrg_request_free(p->ep, bad);
	printf("# status %d, side %d, completion %u\n", result.status, (int)result.side,
	       result.wc_status);
	ok(result.status == -EFAULT && result.side == MRG_SIDE_LOCAL,
	   "what this side's device refuses is reported as this side's fault");
	ok(!kit_finish(p->ep, good, KIT_WAIT_MS) && !kit_wrong(r->bytes + 8192, 5000, 21),
	   "and its neighbour is carried out");
	if (mrg_dereg(sealed.mr))
		bail("deregistration");
	munmap(sealed.bytes, MIB);
}

/* Index of the GID of 192.0.2.2, -1: none.  By one call: the connection under the
 * endpoint must not be without its address for 10 s. */
static int index_of_b(struct kit_pair *p)
{
	static const uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 2 };
	struct ibv_gid_entry entries[64];
	ssize_t n = ibv_query_gid_table(p->b.verbs, entries, 64, 0);

	for (ssize_t i = 0; i < n; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(entries[i].gid.raw, mapped, sizeof(mapped)))
			return (int)entries[i].gid_index;
	return -1;
}

static bool await_b(struct kit_pair *p, bool there)
{
	for (int i = 0; i < 100 && (index_of_b(p) >= 0) != there; i++)
		usleep(50000);
	return (index_of_b(p) >= 0) == there;
}

/* The address goes, another takes its place in the table, and it comes back. */
static void gid_moves(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, l, 1, r, 2, MIB);
	uint64_t request;
	int before = index_of_b(p), after;
	bool gone;

	kit_fill(l->bytes + 1, MIB, 23);
	run_command("ip addr del 192.0.2.2/24 dev rxb");
	gone = await_b(p, false);
	if (mrg_submit(p->ep, &op, 1, NULL, &request))
		bail("mrg_submit");
	run_command("ip addr add 198.51.100.7/24 dev rxb && ip addr add 192.0.2.2/24 dev rxb");
	gone = gone && await_b(p, true);
	after = index_of_b(p);
	printf("# index %d, then %d\n", before, after);
	ok(gone && after != before, "the peer's GID goes, and comes back at another index");
	ok(!kit_finish(p->ep, request, KIT_WAIT_MS) && !kit_wrong(r->bytes + 2, MIB, 23),
	   "what was submitted meanwhile is carried out");
	kit_fill(r->bytes + 1, MIB, 24);
	op = kit_op(MRG_OP_WRITE, &part, r, 1, l, 2, MIB);
	ok(!kit_move(p->peer, &op, 1) && !kit_wrong(l->bytes + 2, MIB, 24),
	   "and the peer moves bytes by it as well");
	run_command("ip addr del 198.51.100.7/24 dev rxb");
}

/* A process that moves until it is killed. */
static void victim(const char *port)
{
	struct kit_side side;
	struct kit_buffer l;
	struct mrg_local part;
	struct mrg_remote *remote;
	struct mrg_desc_piece piece;
	struct mrg_op op;
	uint64_t addr;
	unsigned char note[sizeof(addr) + sizeof(piece)];
	struct mrg_ep *ep;

	side_open_on(&side, "rxe_a", NULL);
	kit_buffer_make(&l, &side, MIB, 0);
	ep = kit_connect(&side, port);
	if (mrg_ep_receive(ep, note, sizeof(note), KIT_WAIT_MS) != sizeof(note))
		_exit(1);
	memcpy(&addr, note, sizeof(addr));
	memcpy(&piece, note + sizeof(addr), sizeof(piece));
	if (mrg_remote_make(addr, &piece, 1, 0, &remote))
		_exit(1);
	part = (struct mrg_local){ .mr = l.mr, .addr = (uintptr_t)l.bytes, .length = MIB };
	op = (struct mrg_op){ .code = MRG_OP_WRITE,
			      .local_count = 1,
			      .local = &part,
			      .remote = remote,
			      .remote_addr = addr };
	mrg_ep_send(ep, "go", 2);
	for (;;)
		kit_move(ep, &op, 1);
}

static void killed(struct kit_pair *p, struct kit_buffer *l, struct kit_buffer *r)
{
	struct mrg_desc_piece piece;
	uint64_t addr = (uintptr_t)l->bytes;
	unsigned char note[sizeof(addr) + sizeof(piece)];
	struct mrg_local part;
	struct mrg_op op;
	struct mrg_ep *peer;
	double from;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		victim(p->port);
	if (mrg_listener_accept(p->listener, 10000, &peer))
		bail("the other process did not come");
	if (mrg_remote_pieces(r->mr, &piece, 1) != 1)
		bail("one piece was expected");
	addr = (uintptr_t)r->bytes;
	memcpy(note, &addr, sizeof(addr));
	memcpy(note + sizeof(addr), &piece, sizeof(piece));
	mrg_ep_send(peer, note, sizeof(note));
	mrg_ep_receive(peer, note, sizeof(note), KIT_WAIT_MS);
	usleep(100000);
	kill(pid, SIGKILL);
	from = kit_now();
	waitpid(pid, &status, 0);
	while (mrg_ep_status(peer, NULL) >= 0 && kit_now() - from < 10)
		usleep(1000);
	ok(mrg_ep_status(peer, NULL) == -ECONNRESET && kit_now() - from < 2,
	   "a process that is killed while it moves is noticed in %.2f s", kit_now() - from);
	mrg_ep_close(peer);
	op = kit_op(MRG_OP_WRITE, &part, l, 0, r, 0, 65536);
	ok(!kit_move(p->ep, &op, 1), "and other endpoints go on");
}

int main(void)
{
	/* Patient, as the machine may have other work. */
	struct mrg_transfer_opts opts = {
		.size = sizeof(opts), .lanes = 2, .handshake_ms = 30000, .remake_ms = 30000
	};
	struct kit_pair pair;
	struct kit_buffer small, l, r;
	int qps, mrs;

	kit_up();
	qps = kit_resources("qp");
	mrs = kit_resources("mr");
	kit_pair_open(&pair, &opts);
	kit_buffer_make(&l, &pair.a, 4 * MIB, 0);
	kit_buffer_make(&small, &pair.a, 4 * MIB, 65536);
	kit_buffer_make(&r, &pair.b, 4 * MIB, 0);
	sizes(&pair, &l, &r);
	batch(&pair, &l, &r);
	ranges(&pair, &small, &r);
	bad_key(&pair, &l, &r);
	sleeping(&pair, &l, &r);
	registered(&pair, &r);
	port_down(&pair, &l, &r);
	local_fault(&pair, &l, &r);
	gid_moves(&pair, &l, &r);
	killed(&pair, &l, &r);
	kit_buffer_free(&l);
	kit_buffer_free(&small);
	kit_buffer_free(&r);
	kit_end(&pair, qps, mrs);
	return 0;
}
