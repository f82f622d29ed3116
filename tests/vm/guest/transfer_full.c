/* SPDX-License-Identifier: MIT */
/*
 * The large runs of transfers over soft-RoCE: all sizes to 64 MiB, large
 * batches, processes killed at each step of the handshake, and a thousand
 * endpoints.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "transfer_kit.h"

#define LENGTH (66 * MIB)
#define ENDPOINTS 1000

static struct kit_pair pair;
static struct kit_buffer l, r;

static void one_size(uint64_t n, int *failed, uint64_t *wrong)
{
	uint64_t at = n % 13, there = 29 - n % 13;
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, &l, at, &r, there, n);

	kit_fill(l.bytes + at, n, n);
	*failed += kit_move(pair.ep, &op, 1) != 0;
	*wrong += kit_wrong(r.bytes + there, n, n);
	memset(l.bytes + at, 0, n);
	op.code = MRG_OP_READ;
	*failed += kit_move(pair.ep, &op, 1) != 0;
	*wrong += kit_wrong(l.bytes + at, n, n);
}

static void sizes(void)
{
	uint64_t wrong = 0;
	int failed = 0, count = 0;

	for (uint64_t n = 1; n <= 64 * MIB; n *= n < MIB ? 2 : 8) {
		for (uint64_t odd = n > 1 ? n - 1 : n; odd <= n + 1; odd++, count++)
			one_size(odd, &failed, &wrong);
	}
	ok(!failed && !wrong,
	   "%d sizes from 1 byte to 64 MiB, and one more and less, by WRITE and READ", count);
}

static void large_batch(void)
{
	static struct mrg_local parts[4096];
	static struct mrg_op ops[4096];
	uint64_t wrong = 0;

	kit_fill(l.bytes, 64 * MIB, 4);
	for (uint64_t i = 0; i < 4096; i++)
		ops[i] = kit_op(MRG_OP_WRITE, &parts[i], &l, i * 16384, &r, (4095 - i) * 16384,
				16384);
	ok(!kit_move(pair.ep, ops, 4096), "4,096 operations of 16 KiB end well");
	for (uint64_t i = 0; i < 4096; i++)
		wrong += memcmp(l.bytes + i * 16384, r.bytes + (4095 - i) * 16384, 16384) != 0;
	ok(!wrong, "and all of their 64 MiB are right");
}

/* ---- killed at each step ---- */

static size_t hello(unsigned char *bytes)
{
	return kit_hello((const unsigned char[]){ 192, 0, 2, 1 }, bytes);
}

static void half_client(size_t length, bool ready)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(pair.port)) };
	struct transfer_message message = { .type = MESSAGE_READY };
	unsigned char bytes[MESSAGE_SMALL], answer[MESSAGE_SMALL];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "192.0.2.2", &at.sin_addr);
	hello(bytes);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    write(fd, bytes, length) != (ssize_t)length)
		_exit(1);
	if (ready && read(fd, answer, sizeof(answer)) > 0 &&
	    write(fd, bytes, transfer_message_encode(&message, bytes)) < 0)
		_exit(1);
	kill(getppid(), SIGUSR1);
	pause();
}

static volatile sig_atomic_t stood;

static void on_signal(int number)
{
	(void)number;
	stood = 1;
}

static void kill_at(size_t length, bool ready)
{
	pid_t pid;

	stood = 0;
	fflush(stdout);
	pid = fork();
	if (!pid)
		half_client(length, ready);
	while (!stood)
		usleep(1000);
	usleep(100000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void killed_clients(void)
{
	unsigned char bytes[MESSAGE_SMALL];
	size_t whole = hello(bytes), steps[] = { 0, 5, MESSAGE_HEAD, whole - 1, whole, whole };
	int before = kit_resources("qp");
	struct mrg_local part;
	struct mrg_op op = kit_op(MRG_OP_WRITE, &part, &l, 0, &r, 0, 65536);
	struct mrg_ep *ep;
	double from;

	signal(SIGUSR1, on_signal);
	for (size_t i = 0; i < 6; i++)
		kill_at(steps[i], i == 5);
	ok(!mrg_listener_accept(pair.listener, 2000, &ep),
	   "the one that had said all was handed out");
	from = kit_now();
	while (mrg_ep_status(ep, NULL) >= 0 && kit_now() - from < 15)
		usleep(1000);
	ok(mrg_ep_status(ep, NULL) == -ECONNRESET, "and is known to be gone");
	mrg_ep_close(ep);
	while (kit_resources("qp") != before && kit_now() - from < 15)
		usleep(10000);
	ok(kit_resources("qp") == before,
	   "clients killed at each step of the handshake leave no queue pair");
	ok(!kit_move(pair.ep, &op, 1), "and other endpoints go on");
}

/* ---- a thousand ---- */

static void thousand(void)
{
	static struct mrg_ep *eps[ENDPOINTS], *peers[ENDPOINTS];
	struct rlimit limit = { 65536, 65536 };
	struct mrg_local part;
	long before = kit_resident_kb();
	double from = kit_now(), first = 0;
	int failed = 0, count = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	for (; count < ENDPOINTS; count++) {
		if (mrg_ep_connect(pair.a.transfer, "192.0.2.2", pair.port, &eps[count]) ||
		    mrg_listener_accept(pair.listener, 5000, &peers[count]))
			break;
		if (count == 99)
			first = kit_now() - from;
	}
	printf("# %d endpoints in %.1f s, the first 100 in %.2f s; %ld KiB for both ends of one\n",
	       count, kit_now() - from, first, count ? (kit_resident_kb() - before) / count : 0);
	ok(count == ENDPOINTS, "a thousand endpoints to one peer");
	for (int i = 0; i < count; i += 97) {
		struct mrg_op op = kit_op(MRG_OP_WRITE, &part, &l, 0, &r, 0, 5000);

		failed += kit_move(eps[i], &op, 1) != 0;
	}
	ok(!failed, "and they move bytes");
	from = kit_now();
	for (int i = 0; i < count; i++) {
		mrg_ep_close(eps[i]);
		mrg_ep_close(peers[i]);
	}
	printf("# closed in %.1f s\n", kit_now() - from);
}

int main(void)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .lanes = 2, .handshake_ms = 10000 };
	int qps, mrs;

	kit_up();
	qps = kit_resources("qp");
	mrs = kit_resources("mr");
	kit_pair_open(&pair, &opts);
	kit_buffer_make(&l, &pair.a, LENGTH, 0);
	kit_buffer_make(&r, &pair.b, LENGTH, 0);
	sizes();
	large_batch();
	killed_clients();
	thousand();
	kit_buffer_free(&l);
	kit_buffer_free(&r);
	kit_end(&pair, qps, mrs);
	return 0;
}
