/* SPDX-License-Identifier: MIT */
/*
 * Transfers between two hosts: two virtual machines with a wire between them,
 * soft RoCE on each.  Host a runs the operations and judges; host b serves, and
 * does what a orders by notes over their first endpoint: compares its bytes,
 * posts, runs commands.
 *
 * Both hosts have one name.  Each has an address first in its GID table that
 * the other has no route to: all that is moved here goes by a GID that was
 * chosen by routes.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mrguard/mrguard.h>

#include "transfer_kit.h"

#define DEVICE "rxe_0"
#define A "192.0.2.1"
#define B "192.0.2.2"
#define ALONE "198.51.100." /* .1 is a's, .2 b's, and no route leads there */
#define HOSTS_PORT "7100"
#define SILENT_PORT 7300 /* of b: connections that nobody answers */
#define LENGTH (66 * MIB)
#define COME_S 240 /* until the other host is there */
#define ANSWER_MS 240000

enum order_kind {
	ORDER_COMPARE,
	ORDER_FILL,
	ORDER_MOVE,
	ORDER_RUN,
	ORDER_GREET,
	ORDER_DESCRIBE,
	ORDER_END
};

struct order {
	enum order_kind kind;
	enum mrg_op_code code;
	uint64_t at, there, length, seed;
	char run[512];
};

/* A buffer of the other host. */
struct place {
	uint64_t addr;
	struct mrg_desc_piece piece;
};

static struct kit_side side;
static struct mrg_ep *ep; /* orders, and most transfers */
static struct kit_buffer mine;
static struct kit_buffer theirs; /* no bytes here: .remote and .length */
static struct place there;

/* ---- both ---- */

static void host_up(bool is_a)
{
	int n = is_a ? 1 : 2;

	run_command("modprobe -q crc32_generic >&2");
	if (run_command(
		    "modprobe virtio_net >&2 && modprobe rdma_rxe >&2 && "
		    "ip addr add " ALONE "%d/32 dev eth0 && ip addr add 192.0.2.%d/24 dev eth0 && "
		    "ip link set eth0 mtu 4200 up && rdma link add " DEVICE " type rxe netdev eth0",
		    n, n) ||
	    run_command(
		    "n=0; until [ $(cat /sys/class/infiniband/" DEVICE "/ports/1/gids/[0-9] | "
		    "grep -c 0000:ffff:) -ge 2 ]; do sleep 0.1; n=$((n + 1)); [ $n -lt 100 ] || exit 1; done"))
		bail("no device on the wire");
}

static void swap_places(void)
{
	struct place own = { .addr = (uintptr_t)mine.bytes };

	if (mrg_remote_pieces(mine.mr, &own.piece, 1) != 1)
		bail("one piece was expected");
	if (mrg_ep_send(ep, &own, sizeof(own)) ||
	    mrg_ep_receive(ep, &there, sizeof(there), ANSWER_MS) != sizeof(there) ||
	    mrg_remote_make(there.addr, &there.piece, 1, 0, &theirs.remote))
		bail("the other host did not say where its buffer is");
	theirs.length = LENGTH;
	theirs.bytes = (unsigned char *)(uintptr_t)there.addr;
}

static int move_bytes(struct mrg_ep *by, enum mrg_op_code code, uint64_t at, uint64_t to,
		      uint64_t length)
{
	struct mrg_local part;
	struct mrg_op op = kit_op(code, &part, &mine, at, &theirs, to, length);

	return kit_move(by, &op, 1);
}

/* The buffer as a registry describes it, with a share for processes of its host. */
static void describe(struct mrg_descriptor *desc)
{
	struct mrg_registry_device device = { .pd = side.pd };
	struct mrg_registry_opts opts = {
		.size = sizeof(opts), .ctx = side.ctx, .devices = &device, .device_count = 1
	};
	struct mrg_registry *registry;
	struct mrg_buffer *buffer;

	if (mrg_registry_open(&registry, &opts) ||
	    mrg_buffer_register(registry, (uintptr_t)mine.bytes, MIB, NULL, &buffer) ||
	    mrg_buffer_describe(buffer, 0, desc))
		bail("no descriptor");
	desc->shares = calloc(1, sizeof(*desc->shares));
	desc->share_count = 1;
	desc->shares[0] = (struct mrg_desc_share){ .protocol = MRG_PROTO_HOST_SHM,
						   .bytes = calloc(1, 8),
						   .length = 8 };
	if (mrg_buffer_unregister(buffer, 0) || mrg_registry_close(registry))
		bail("the registry does not close");
}

/* ---- host b ---- */

static int silent = -1;

static void listen_in_silence(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(SILENT_PORT) };

	silent = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(silent, (struct sockaddr *)&at, sizeof(at)) || listen(silent, 8))
		bail("no silent port: %s", strerror(errno));
}

/* Says HELLO to a's listener at port @at, is made welcome, and says nothing more. */
static int64_t greet(const struct order *order)
{
	struct transfer_message message = { .type = MESSAGE_HELLO };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)order->at) };
	unsigned char bytes[MESSAGE_SMALL];
	size_t length = kit_hello((const unsigned char[]){ 192, 0, 2, 2 }, bytes);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, A, &at.sin_addr);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    write(fd, bytes, length) != (ssize_t)length)
		return -1;
	length = (size_t)recv(fd, bytes, sizeof(bytes), 0);
	return transfer_message_decode(bytes, length, &message) || message.type != MESSAGE_WELCOME;
}

static void send_description(void)
{
	struct mrg_descriptor desc;
	void *bytes;
	ssize_t length;

	describe(&desc);
	length = mrg_descriptor_encode(&desc, &bytes);
	if (length < 0)
		bail("the descriptor cannot be encoded: %zd", length);
	mrg_ep_send(ep, bytes, (size_t)length);
	free(bytes);
	mrg_descriptor_release(&desc);
}

static int64_t carry_out(const struct order *order)
{
	switch (order->kind) {
	case ORDER_COMPARE:
		return (int64_t)kit_wrong(mine.bytes + order->at, order->length, order->seed);
	case ORDER_FILL:
		kit_fill(mine.bytes + order->at, order->length, order->seed);
		return 0;
	case ORDER_MOVE:
		return move_bytes(ep, order->code, order->at, order->there, order->length);
	case ORDER_RUN:
		return run_command("%s", order->run);
	case ORDER_GREET:
		return greet(order);
	case ORDER_DESCRIBE:
	case ORDER_END:
		return 0;
	}
	bail("host b does not know order %d", (int)order->kind);
}

static void serve(void)
{
	struct mrg_listener *listener;
	struct mrg_ep *idle, *busy;
	struct order order = { 0 };
	unsigned int count = 0;
	int64_t answer;

	if (mrg_listener_open(side.transfer, NULL, HOSTS_PORT, &listener) ||
	    mrg_listener_accept(listener, COME_S * 1000, &ep))
		bail("nobody came");
	swap_places();
	listen_in_silence();
	while (order.kind != ORDER_END) {
		if (mrg_ep_receive(ep, &order, sizeof(order), ANSWER_MS) != sizeof(order))
			bail("no order came");
		answer = carry_out(&order);
		mrg_ep_send(ep, &answer, sizeof(answer));
		if (order.kind == ORDER_DESCRIBE)
			send_description();
		count++;
	}
	ok(count > 1, "host b did as requested");
	/* They came meanwhile, and moved bytes without b's doing. */
	ok(!mrg_listener_accept(listener, 0, &idle) && !mrg_listener_accept(listener, 0, &busy),
	   "and others have come in the meantime");
	usleep(1000000);
	run_command("ip link set eth0 down");
	tap_end();
	fflush(stdout);
	/* No farewell, as of a host that lost its power. */
	_exit(0);
}

/* ---- host a: orders ---- */

static int64_t ask(const struct order *order)
{
	int64_t answer;

	if (mrg_ep_send(ep, order, sizeof(*order)) ||
	    mrg_ep_receive(ep, &answer, sizeof(answer), ANSWER_MS) != sizeof(answer))
		bail("host b does not answer");
	return answer;
}

__attribute__((format(printf, 1, 2))) static int64_t ask_to_run(const char *format, ...)
{
	struct order order = { .kind = ORDER_RUN };
	va_list args;

	va_start(args, format);
	vsnprintf(order.run, sizeof(order.run), format, args);
	va_end(args);
	return ask(&order);
}

static int64_t ask_bytes(enum order_kind kind, uint64_t at, uint64_t length, uint64_t seed)
{
	const struct order order = { .kind = kind, .at = at, .length = length, .seed = seed };

	return ask(&order);
}

static int64_t ask_to_move(enum mrg_op_code code, uint64_t at, uint64_t to, uint64_t length)
{
	const struct order order = {
		.kind = ORDER_MOVE, .code = code, .at = at, .there = to, .length = length
	};

	return ask(&order);
}

static void meet(void)
{
	double from = kit_now();

	while (mrg_ep_connect(side.transfer, B, HOSTS_PORT, &ep)) {
		if (kit_now() - from > COME_S)
			bail("host b is not there");
		usleep(200000);
	}
	swap_places();
}

/* ---- host a: every operation ---- */

static void one_size(uint64_t n, int *failed, uint64_t *wrong)
{
	uint64_t at = n % 13, to = 29 - n % 13;

	kit_fill(mine.bytes + at, n, n);
	*failed += move_bytes(ep, MRG_OP_WRITE, at, to, n) != 0;
	*wrong += (uint64_t)ask_bytes(ORDER_COMPARE, to, n, n);
	ask_bytes(ORDER_FILL, to, n, ~n);
	*failed += move_bytes(ep, MRG_OP_READ, at, to, n) != 0;
	*wrong += kit_wrong(mine.bytes + at, n, ~n);
}

static void sizes(void)
{
	uint64_t most = full_run() ? 64 * MIB : 2 * MIB, wrong = 0;
	int failed = 0, count = 0;

	for (uint64_t n = 1; n <= most; n *= full_run() && n < MIB ? 2 : 8)
		for (uint64_t odd = n > 1 ? n - 1 : n; odd <= n + 1; odd++, count++)
			one_size(odd, &failed, &wrong);
	printf("# %d sizes\n", count);
	ok(!failed && !wrong,
	   "sizes from 1 byte up, and one more and less, arrive by WRITE and READ");
}

static void the_other_way(void)
{
	uint64_t n = 3 * MIB + 5, wrong;

	ask_bytes(ORDER_FILL, 3, n, 71);
	ok(!ask_to_move(MRG_OP_WRITE, 3, 17, n) && !kit_wrong(mine.bytes + 17, n, 71),
	   "what host b writes arrives");
	kit_fill(mine.bytes + 17, n, 72);
	ok(!ask_to_move(MRG_OP_READ, 5, 17, n), "host b reads as well");
	wrong = (uint64_t)ask_bytes(ORDER_COMPARE, 5, n, 72);
	ok(!wrong, "and gets what is there");
}

#define BATCH 4096
#define CELL 512

static void batch(void)
{
	static struct mrg_local parts[BATCH];
	static struct mrg_op ops[BATCH];
	uint64_t wrong = 0, back = BATCH * CELL;

	kit_fill(mine.bytes, BATCH * CELL, 9);
	for (uint64_t i = 0; i < BATCH; i++)
		ops[i] = kit_op(MRG_OP_WRITE, &parts[i], &mine, CELL * i, &theirs,
				CELL * (BATCH - 1 - i), 1 + i % CELL);
	ok(!kit_move(ep, ops, BATCH), "a batch of 4,096 WRITEs is carried out");
	for (uint64_t i = 0; i < BATCH; i++)
		ops[i] = kit_op(MRG_OP_READ, &parts[i], &mine, back + CELL * i, &theirs,
				CELL * (BATCH - 1 - i), 1 + i % CELL);
	ok(!kit_move(ep, ops, BATCH), "and one of 4,096 READs");
	for (uint64_t i = 0; i < BATCH; i++)
		wrong += memcmp(mine.bytes + CELL * i, mine.bytes + back + CELL * i,
				1 + i % CELL) != 0;
	ok(!wrong, "each operation has moved its own bytes");
}

/* ---- host a: which host, which GID ---- */

static void one_name(void)
{
	const struct order order = { .kind = ORDER_DESCRIBE };
	struct mrg_path_reason reasons[MRG_PROTO_COUNT];
	struct mrg_descriptor own, other;
	unsigned char bytes[MRG_NOTE_MAX];
	struct mrg_error error;
	struct mrg_path path;
	ssize_t length, count;
	int code = 0;

	ask(&order);
	length = mrg_ep_receive(ep, bytes, sizeof(bytes), ANSWER_MS);
	if (length < 0 || mrg_descriptor_decode(bytes, (size_t)length, &other, &error))
		bail("host b did not describe its buffer");
	describe(&own);
	ok(!strcmp(own.host, other.host) && memcmp(own.boot, other.boot, 16),
	   "the hosts have one name and two boot ids");
	ok(!mrg_path_choose(&own, &other, NULL, &path, &error) && path.protocol == MRG_PROTO_VERBS,
	   "verbs are chosen, though the buffer is shared over there");
	count = mrg_explain_path(&own, &other, NULL, reasons, &path);
	for (ssize_t i = 0; i < count; i++)
		if (reasons[i].protocol == MRG_PROTO_HOST_SHM)
			code = reasons[i].code;
	ok(code == -EXDEV, "as it is not shared here");
	memcpy(other.boot, own.boot, sizeof(own.boot));
	ok(!mrg_path_choose(&own, &other, NULL, &path, &error) &&
		   path.protocol == MRG_PROTO_HOST_SHM,
	   "control: with one boot id the share is chosen");
	mrg_descriptor_release(&own);
	mrg_descriptor_release(&other);
}

static int choose(const char *peer, struct mrg_gid_choice *choice, struct mrg_error *error)
{
	struct mrg_gid_facts *facts;
	uint8_t gid[1][16];
	int ret;

	mrg_gid_parse(peer, gid[0]);
	if (mrg_gid_open(&facts, NULL))
		bail("no facts");
	ret = mrg_gid_choose(facts, DEVICE, 1, gid, 1, NULL, choice, error);
	mrg_gid_close(facts);
	return ret;
}

static bool chosen(const char *peer, const char *own)
{
	struct mrg_gid_choice choice;
	struct mrg_error error;
	char text[MRG_GID_TEXT];

	if (choose(peer, &choice, &error)) {
		printf("# %s\n", error.cause);
		return false;
	}
	printf("# to %s: index %d, %s, table %u\n", peer, choice.entry.index,
	       mrg_gid_text(choice.entry.gid, text), choice.table);
	return !strcmp(mrg_gid_text(choice.entry.gid, text), own);
}

/* The index of the address that no route of host b leads to. */
static uint32_t lonely_index(void)
{
	struct mrg_gid_entry *entries;
	struct mrg_gid_facts *facts;
	char text[MRG_GID_TEXT];
	uint32_t index = UINT32_MAX;
	ssize_t n;

	if (mrg_gid_open(&facts, NULL))
		bail("no facts");
	n = mrg_gid_list(facts, DEVICE, 1, &entries);
	for (ssize_t i = 0; i < n; i++)
		if (!strcmp(mrg_gid_text(entries[i].gid, text), ALONE "1"))
			index = (uint32_t)entries[i].index;
	if (n >= 0)
		free(entries);
	mrg_gid_close(facts);
	return index;
}

static void no_route(void)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts),
					  .flags = MRG_TRANSFER_GID_INDEX,
					  .gid_index = lonely_index() };
	struct mrg_transfer *transfer;
	struct mrg_gid_choice choice;
	struct mrg_error error;
	struct mrg_ep *none;
	double from = kit_now();
	int ret;

	ret = choose(ALONE "2", &choice, &error);
	printf("# %s\n", error.cause);
	ok(ret < 0 && strstr(error.cause, DEVICE) && strstr(error.cause, ALONE "2") &&
		   strstr(error.cause, "table"),
	   "no route: the device, the address and the table are named");
	if (mrg_transfer_open(&transfer, side.pd, &opts))
		bail("no transfer handle");
	ret = mrg_ep_connect(transfer, B, HOSTS_PORT, &none);
	mrg_transfer_last_error(transfer, &error);
	printf("# %s\n", error.cause);
	ok(ret == -EREMOTEIO && strstr(error.cause, ALONE "1") && strstr(error.cause, DEVICE) &&
		   kit_now() - from < 5,
	   "a GID that the other host has no route to is refused by it, at once");
	mrg_transfer_close(transfer);
}

static void second_subnet(void)
{
	struct mrg_ep *other;

	ok(chosen(B, A), "of two addresses the one is chosen from which a route leads");
	no_route();
	run_command("ip addr add 203.0.113.1/24 dev eth0");
	ask_to_run("ip addr add 203.0.113.2/24 dev eth0");
	for (int i = 0; i < 100 && !chosen("203.0.113.2", "203.0.113.1"); i++)
		usleep(100000);
	ok(chosen("203.0.113.2", "203.0.113.1") && chosen(B, A),
	   "with a second subnet, each by its own");
	ok(!mrg_ep_connect(side.transfer, "203.0.113.2", HOSTS_PORT, &other),
	   "an endpoint comes about there");
	kit_fill(mine.bytes, 100001, 61);
	ok(!move_bytes(other, MRG_OP_WRITE, 0, 7, 100001) &&
		   !ask_bytes(ORDER_COMPARE, 7, 100001, 61),
	   "and moves its bytes");
	mrg_ep_close(other);
}

/* ---- host a: the command ---- */

static void the_command(void)
{
	ok(!ask_to_run(
		   "cd /tmp && head -c 9000001 /dev/urandom >source && "
		   "{ setsid mrguard serve --device=" DEVICE " --listen=" B
		   " --writable source >serve.log 2>&1 & echo $! >pid; } && "
		   "n=0; until grep -q 'on port' serve.log; do sleep 0.1; n=$((n + 1)); [ $n -lt 300 ] || exit 1; done"),
	   "`mrguard serve' runs on host b");
	ok(!run_command("cd /tmp && timeout 120 mrguard copy --device=" DEVICE " --quiet " B
			":18600 target >&2"),
	   "`mrguard copy' takes a file from there");
	ok(!run_command(
		   "cd /tmp && head -c 7000003 /dev/urandom >new && timeout 120 mrguard copy --device=" DEVICE
		   " --quiet new " B ":18600 >&2 && tail -c +7000004 target >>new"),
	   "and writes to it");
	ok(!run_command("cd /tmp && timeout 120 mrguard copy --device=" DEVICE " --quiet " B
			":18600 again >&2 && cmp new again >&2"),
	   "what comes back is what was written");
	ok(!run_command(
		   "cd /tmp && timeout 120 mrguard bench --device=" DEVICE
		   " --check --seconds=0.3 --sizes=1,4097,64K "
		   "--batch=8 --op=both --json " B
		   ":18600 >bench.json && cp bench.json $MRG_OUT/ && "
		   "[ $(jq '[.rows[] | select(.checked > 0 and .wrong == 0)] | length' bench.json) = 3 ]"),
	   "`mrguard bench' finds every byte right");
	ok(!ask_to_run("kill $(cat /tmp/pid)"), "the server ends on request");
}

/* ---- host a: a host that vanishes ---- */

static void blink(void)
{
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, &mine, 0, &theirs, 1, 2 * MIB);
	uint64_t request;
	struct mrg_ep_stats stats;

	kit_fill(mine.bytes, 2 * MIB, 51);
	ask_to_run("{ ip link set eth0 down; sleep 2; ip link set eth0 up; } >/dev/null 2>&1 &");
	usleep(100000);
	if (mrg_submit(ep, &op, 1, NULL, &request))
		bail("mrg_submit");
	ok(!kit_finish(ep, request, KIT_WAIT_MS) && !ask_bytes(ORDER_COMPARE, 1, 2 * MIB, 51),
	   "a link that is down for 2 s costs no byte");
	mrg_ep_stats(ep, &stats);
	printf("# %llu lanes re-made, %llu slices repeated\n", (unsigned long long)stats.remade,
	       (unsigned long long)stats.repeated);
}

static void half_a_handshake(struct mrg_transfer *impatient, struct mrg_listener *listener)
{
	const struct order order = { .kind = ORDER_GREET, .at = mrg_listener_port(listener) };
	int before = kit_resources("qp"), ret;
	struct mrg_ep *none;
	double from = kit_now();

	ok(!ask(&order), "a client is made welcome");
	ask_to_run(
		"{ sleep 0.3; ip link set eth0 down; sleep 4; ip link set eth0 up; } >/dev/null 2>&1 &");
	ret = mrg_ep_connect(impatient, B, "7300", &none);
	printf("# given up after %.1f s\n", kit_now() - from);
	ok(ret == -ETIMEDOUT && kit_now() - from < 6,
	   "its host vanishes in the handshake: who connects to there gives up in time");
	while (kit_resources("qp") != before && kit_now() - from < 15)
		usleep(10000);
	ok(kit_resources("qp") == before, "and who made it welcome keeps no queue pair for it");
	ok(!ask_to_run("true"), "the endpoint to there goes on when it is back");
}

static double until_over(struct mrg_ep *which, double from, double most)
{
	while (mrg_ep_status(which, NULL) >= 0 && kit_now() - from < most)
		usleep(10000);
	return kit_now() - from;
}

struct mover {
	struct mrg_ep *ep;
	int status;
	uint64_t moved;
};

static void *keep_moving(void *arg)
{
	struct mover *m = arg;

	while (!m->status) {
		m->status = move_bytes(m->ep, MRG_OP_WRITE, MIB, MIB, 4 * MIB);
		m->moved++;
	}
	return NULL;
}

/* Host b is gone for good: one endpoint moves, one is idle, one is to this host. */
static void gone(struct mrg_transfer *impatient, struct mrg_listener *listener)
{
	const struct order order = { .kind = ORDER_END };
	struct mover busy = { .status = 0 };
	struct mrg_ep *idle, *self, *self_peer;
	struct kit_buffer other;
	struct mrg_local part;
	struct mrg_error error;
	struct mrg_op op;
	pthread_t thread;
	double from, busy_s, idle_s;

	kit_buffer_make(&other, &side, MIB, 0);
	if (mrg_ep_connect(impatient, B, HOSTS_PORT, &idle) ||
	    mrg_ep_connect(impatient, B, HOSTS_PORT, &busy.ep) ||
	    mrg_ep_connect(side.transfer, A, "7200", &self) ||
	    mrg_listener_accept(listener, 10000, &self_peer))
		bail("not all endpoints came about");
	ask(&order);
	pthread_create(&thread, NULL, keep_moving, &busy);
	from = kit_now();
	busy_s = until_over(busy.ep, from, 60);
	mrg_ep_status(busy.ep, &error);
	printf("# busy, after %.1f s: %s\n", busy_s, error.cause);
	pthread_join(thread, NULL);
	ok(busy.moved > 0 && busy.status == -ETIMEDOUT && error.code == -ETIMEDOUT &&
		   strstr(error.cause, "did not re-make") && busy_s < 20,
	   "a host that vanishes while it is written to: the request ends in time, and says so");
	op = kit_op(MRG_OP_WRITE, &part, &mine, 5, &other, 3, 50001);
	kit_fill(mine.bytes + 5, 50001, 41);
	ok(!kit_move(self, &op, 1) && !kit_wrong(other.bytes + 3, 50001, 41),
	   "another endpoint goes on");
	idle_s = until_over(idle, from, 60);
	mrg_ep_status(idle, &error);
	printf("# idle, after %.1f s: %s\n", idle_s, error.cause);
	ok(error.code == -ETIMEDOUT && idle_s < 40,
	   "an idle endpoint learns of it in time as well");
	from = kit_now();
	mrg_ep_close(busy.ep);
	mrg_ep_close(idle);
	mrg_ep_close(ep);
	mrg_ep_close(self);
	mrg_ep_close(self_peer);
	ok(kit_now() - from < 10, "closing them takes no longer");
	kit_buffer_free(&other);
}

static void run_a(void)
{
	struct mrg_transfer_opts hasty = {
		.size = sizeof(hasty), .handshake_ms = 2000, .remake_ms = 3000, .packet_tries = 4
	};
	struct mrg_listener *listener, *own;
	struct mrg_transfer *impatient;
	int qps = kit_resources("qp"), mrs = kit_resources("mr");

	meet();
	if (mrg_transfer_open(&impatient, side.pd, &hasty) ||
	    mrg_listener_open(impatient, A, NULL, &listener) ||
	    mrg_listener_open(side.transfer, A, "7200", &own))
		bail("no listener");
	sizes();
	the_other_way();
	batch();
	one_name();
	second_subnet();
	the_command();
	blink();
	half_a_handshake(impatient, listener);
	gone(impatient, own);
	mrg_listener_close(listener);
	mrg_listener_close(own);
	mrg_transfer_close(impatient);
	ok(kit_resources("qp") == qps && kit_resources("mr") == mrs,
	   "no queue pair and no MR is left");
	mrg_remote_free(theirs.remote);
	kit_buffer_free(&mine);
	ok(!kit_side_close(&side), "nothing keeps the device open");
	run_command("rdma link del " DEVICE "; rmmod rdma_rxe >&2");
	tap_end();
}

int main(void)
{
	struct mrg_transfer_opts opts = {
		.size = sizeof(opts), .lanes = 2, .handshake_ms = 20000, .remake_ms = 20000
	};
	const char *host = getenv("MRG_HOST");
	bool is_a = host && *host == 'a';

	host_up(is_a);
	side_open_on(&side, DEVICE, &opts);
	kit_buffer_make(&mine, &side, LENGTH, 0);
	if (is_a)
		run_a();
	else
		serve();
	return 0;
}
