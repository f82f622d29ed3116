/* SPDX-License-Identifier: MIT */
/*
 * How many instructions posting and polling take, over a device that does
 * nothing but complete: counted by callgrind, so that it is the same on a busy
 * machine.  transfer.md has what was recorded; the bars are a fifth above.
 *
 *   transfer_calls			judges, by running itself under valgrind
 *   transfer_calls BATCH COUNT		is what is counted
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "region/mr.h"
#include "transfer/clock.h"
#include "transfer/endpoint.h"
#include "transfer/transfer.h"

#define BATCH 32
#define COUNT 2000
#define BAR_SINGLE 1510 /* submit, poll and free a request of one operation */
#define BAR_BATCH 570 /* an operation, of a batch of 32 */
#define LENGTH 65536ull

/* Completions of signalled work requests, at once. */
static struct ibv_wc ring[4096];
static unsigned int head, tail;
static struct ibv_comp_channel channel;
static struct ibv_cq cq;
static struct ibv_qp qp;

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	(void)verbs;
	*attr = (struct ibv_device_attr){ .max_qp_wr = 4096,
					  .max_sge = 16,
					  .max_cqe = 65536,
					  .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16 };
	return 0;
}

static int query_port(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr)
{
	(void)verbs;
	(void)port;
	*attr = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE,
					.active_mtu = IBV_MTU_4096,
					.max_msg_sz = 1u << 31,
					.lid = 1,
					.link_layer = IBV_LINK_LAYER_INFINIBAND };
	return 0;
}

__attribute__((noinline)) static int post_send(struct ibv_qp *unused, struct ibv_send_wr *wr,
					       struct ibv_send_wr **bad)
{
	(void)unused;
	*bad = NULL;
	for (; wr; wr = wr->next)
		if (wr->send_flags & IBV_SEND_SIGNALED)
			ring[head++ % 4096] = (struct ibv_wc){ .wr_id = wr->wr_id };
	return 0;
}

__attribute__((noinline)) static int poll_cq(struct ibv_cq *unused, int count, struct ibv_wc *wc)
{
	int n = 0;

	(void)unused;
	while (n < count && tail != head)
		wc[n++] = ring[tail++ % 4096];
	return n;
}

static const struct transfer_ops ops = {
	.query_device = query_device,
	.query_port = query_port,
	.post_send = post_send,
	.poll_cq = poll_cq,
};

static struct mrg_ep *make_ep(struct mrg_transfer *transfer)
{
	struct mrg_ep *ep = calloc(1, sizeof(*ep));

	pthread_mutex_init(&ep->lock, NULL);
	pthread_cond_init(&ep->changed, NULL);
	ep->ops = &ops;
	STAILQ_INIT(&ep->queue);
	TAILQ_INIT(&ep->active);
	TAILQ_INIT(&ep->done);
	ep->transfer = transfer;
	ep->cq = &cq;
	ep->channel = &channel;
	ep->state = EP_OPEN;
	ep->due = NEVER;
	ep->socket.fd = ep->fd = ep->event = -1;
	ep->peer_port.reads = 16;
	ep->lane_count = 1;
	ep->lanes[0] = (struct transfer_lane){ .state = LANE_UP,
					       .qp = &qp,
					       .depth = 128,
					       .mask = 127,
					       .ring = calloc(128, sizeof(struct transfer_slice)) };
	return ep;
}

__attribute__((noinline)) static int measured(struct mrg_ep *ep, const struct mrg_op *all,
					      size_t batch, long count)
{
	struct mrg_done done[4];
	int wrong = 0;

	for (long i = 0; i < count; i++) {
		wrong += mrg_submit(ep, all, batch, NULL, NULL) != 0;
		wrong += mrg_poll(ep, done, 4) != 1 || done[0].status;
		wrong += mrg_request_free(ep, done[0].request) != 0;
	}
	return wrong;
}

static int run(size_t batch, long count)
{
	static unsigned char bytes[LENGTH];
	struct ibv_context verbs = { .device = NULL };
	struct ibv_pd pd = { .context = &verbs };
	struct region_piece piece = {
		.length = LENGTH, .delta = (uintptr_t)bytes, .lkey = 1, .rkey = 2
	};
	struct mrg_mr mr = {
		.addr = (uintptr_t)bytes, .length = LENGTH, .count = 1, .pieces = &piece
	};
	struct mrg_desc_piece there = { .length = LENGTH, .wire = 0x1000, .rkey = 3 };
	struct mrg_local parts[BATCH];
	struct mrg_op all[BATCH];
	struct mrg_transfer *transfer;
	struct mrg_remote *remote;

	if (transfer_open(&transfer, &pd, NULL, &ops) ||
	    mrg_remote_make(0x1000, &there, 1, 0, &remote))
		return 99;
	for (size_t i = 0; i < BATCH; i++) {
		parts[i] = (struct mrg_local){ .mr = &mr,
					       .addr = (uintptr_t)bytes + i * 64,
					       .length = 64 };
		all[i] = (struct mrg_op){ .code = MRG_OP_WRITE,
					  .local_count = 1,
					  .local = &parts[i],
					  .remote = remote,
					  .remote_addr = 0x1000 + i * 64 };
	}
	return measured(make_ep(transfer), all, batch, count);
}

/* Instructions of measured(), or -1. */
static long counted(const char *self, int batch)
{
	char command[4600], line[512];
	long instructions = -1;
	FILE *f;

	snprintf(command, sizeof(command),
		 "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
		 "--toggle-collect=measured '%s' %d %d 2>&1",
		 self, batch, COUNT);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "Collected : ");

		if (at)
			instructions = atol(at + strlen("Collected : "));
	}
	return f && !pclose(f) ? instructions : -1;
}

static void judge(int number, const char *self, int batch, long bar)
{
	long all = counted(self, batch), each = all / COUNT / batch;

	printf("# %ld instructions for an operation, in batches of %d\n", each, batch);
	printf("%s %d - an operation in a batch of %d takes at most %ld instructions\n",
	       all > 0 && each <= bar ? "ok" : "not ok", number, batch, bar);
}

int main(int argc, char **argv)
{
	char self[4096] = "";

	if (argc == 3)
		return run((size_t)atoi(argv[1]), atol(argv[2]));
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 99;
	if (system("valgrind --version >/dev/null 2>&1")) {
		printf("1..0 # SKIP valgrind is not installed\n");
		return 0;
	}
	printf("1..2\n");
	judge(1, self, 1, BAR_SINGLE);
	judge(2, self, BATCH, BAR_BATCH);
	return 0;
}
