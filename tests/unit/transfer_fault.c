/* SPDX-License-Identifier: MIT */
/*
 * What goes wrong between two endpoints: each request ends in bounded time with
 * its own cause, and when it is done nothing writes for it any more.
 */
#include "transfer_fake.h"

#define LENGTH 65536ull
#define WAIT_MS 20000
#define LATE_US 300000 /* of a packet that outlives its sender */
#define SOON_MS 9000 /* on a busy machine; a hundred drains, one after the other, take longer */

static struct fake_sides sides;
static struct fake_buffer local, remote;

static void begin(const struct mrg_transfer_opts *opts)
{
	sides_open(&sides, opts);
	buffer_make(&local, 0, LENGTH, 20000);
	buffer_make(&remote, 1, LENGTH, 30000);
	buffer_fill(&local, 1);
	buffer_fill(&remote, 2);
}

static void end(void)
{
	sides_close(&sides);
	buffer_free(&local);
	buffer_free(&remote);
}

static uint64_t start(enum mrg_op_code code, uint64_t at, uint64_t length, uint32_t deadline_ms)
{
	struct mrg_local part = { .mr = &local.mr, .addr = local.mr.addr + at, .length = length };
	struct mrg_op op = { .code = code,
			     .local_count = 1,
			     .local = &part,
			     .remote = remote.remote,
			     .remote_addr = remote.mr.addr + at };
	struct mrg_submit_opts opts = { .size = sizeof(opts), .deadline_ms = deadline_ms };
	uint64_t request;

	assert_int_equal(mrg_submit(sides.ep, &op, 1, &opts, &request), 0);
	return request;
}

static struct mrg_result finish_at(struct mrg_ep *ep, uint64_t request)
{
	struct mrg_result result;

	assert_int_equal(mrg_wait(ep, request, WAIT_MS), 0);
	mrg_request_result(ep, request, &result);
	mrg_request_free(ep, request);
	return result;
}

static struct mrg_result finish(uint64_t request)
{
	return finish_at(sides.ep, request);
}

/* The network's lock orders what it wrote with what is read here. */
static void nap(uint32_t us)
{
	pthread_mutex_lock(&net.lock);
	pthread_mutex_unlock(&net.lock);
	usleep(us);
	pthread_mutex_lock(&net.lock);
	pthread_mutex_unlock(&net.lock);
}

/* The peer's, and this side's, bytes are given to another use. */
static void reuse_both(void)
{
	memset(local.bytes, 0x11, LENGTH);
	memset(remote.bytes, 0x22, LENGTH);
}

static void assert_not_written(void)
{
	for (uint64_t i = 0; i < LENGTH; i++) {
		assert_int_equal(local.bytes[i], 0x11);
		assert_int_equal(remote.bytes[i], 0x22);
	}
}

/* ---- done means done ---- */

static void cancelled(enum mrg_op_code code)
{
	uint64_t request;
	struct mrg_result result;
	uint64_t from;

	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	request = start(code, 0, LENGTH, 0);
	from = fake_now();
	mrg_cancel(sides.ep, request);
	result = finish(request);
	assert_true(fake_now() - from < SOON_MS * MS);
	assert_int_equal(result.status, -ECANCELED);
	assert_int_equal(result.flags, 0);
	reuse_both();
	nap(LATE_US + 100000);
	assert_not_written();
	end();
}

static void a_cancelled_write_is_done_when_no_packet_of_it_can_arrive(void **state)
{
	(void)state;
	cancelled(MRG_OP_WRITE);
}

static void a_cancelled_read_is_done_when_no_packet_of_it_can_arrive(void **state)
{
	(void)state;
	cancelled(MRG_OP_READ);
}

/* What an engine risks that reports without waiting for both queue pairs. */
static void raw_connect(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = b->qp_num };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .max_rd_atomic = 1 };

	fake_modify_qp(a, &rtr, 0);
	fake_modify_qp(a, &rts, 0);
}

static void control_late_packet(enum ibv_wr_opcode opcode, bool destroy)
{
	struct ibv_comp_channel *channel = fake_create_channel(&net.nics[0].context);
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp *a, *b;
	struct ibv_cq *cq;

	buffer_make(&local, 0, 4096, 4096);
	buffer_make(&remote, 1, 4096, 4096);
	cq = fake_create_cq(&net.nics[0].context, 8, channel);
	init.send_cq = cq;
	a = fake_create_qp(&net.nics[0].pd, &init);
	b = fake_create_qp(&net.nics[1].pd, &init);
	raw_connect(a, b);
	raw_connect(b, a);
	sge = (struct ibv_sge){ local.mr.pieces[0].delta, 4096, local.mr.pieces[0].lkey };
	wr.wr.rdma.remote_addr = remote.mr.pieces[0].delta;
	wr.wr.rdma.rkey = remote.mr.pieces[0].rkey;
	faults.delay_us = LATE_US / 3;
	faults.late_packets = true;
	assert_int_equal(fake_post_send(a, &wr, &bad), 0);
	if (destroy)
		fake_destroy_qp(a);
	memset(local.bytes, 0x11, 4096);
	memset(remote.bytes, 0x22, 4096);
	nap(LATE_US);
	assert_int_equal(local.bytes[9], opcode == IBV_WR_RDMA_READ ? 0x22 : 0x11);
	assert_int_equal(remote.bytes[9], opcode == IBV_WR_RDMA_READ ? 0x22 : 0x11);
	if (!destroy)
		fake_destroy_qp(a);
	fake_destroy_qp(b);
	fake_destroy_cq(cq);
	fake_destroy_channel(channel);
	buffer_free(&local);
	buffer_free(&remote);
}

static void control_a_write_outlives_its_own_queue_pair(void **state)
{
	(void)state;
	control_late_packet(IBV_WR_RDMA_WRITE, true);
}

static void control_a_read_outlives_a_report_at_once(void **state)
{
	(void)state;
	control_late_packet(IBV_WR_RDMA_READ, false);
}

static void a_deadline_ends_one_request_and_not_its_neighbour(void **state)
{
	uint64_t late, other;
	struct mrg_ep_stats stats;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	late = start(MRG_OP_WRITE, 0, 30000, 50);
	other = start(MRG_OP_WRITE, 30000, 30000, 0);
	assert_int_equal(finish(late).status, -ETIMEDOUT);
	memset(remote.bytes, 0x22, 30000);
	assert_int_equal(finish(other).status, 0);
	assert_memory_equal(local.bytes + 30000, remote.bytes + 30000, 30000);
	for (int i = 0; i < 30000; i++)
		assert_int_equal(remote.bytes[i], 0x22);
	mrg_ep_stats(sides.ep, &stats);
	assert_int_equal(stats.remade, 1);
	assert_true(stats.repeated > 0);
	end();
}

static void a_request_that_ends_within_the_grace_costs_no_lane(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .grace_ms = 1000 };
	uint64_t request;
	struct mrg_ep_stats stats;

	(void)state;
	begin(&opts);
	faults.delay_us = 50000;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	mrg_cancel(sides.ep, request);
	assert_int_equal(finish(request).status, -ECANCELED);
	mrg_ep_stats(sides.ep, &stats);
	assert_int_equal(stats.remade, 0);
	end();
}

static void what_was_not_posted_is_cancelled_at_once(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .depth = 1, .slice = 4096 };
	uint64_t first, second;

	(void)state;
	begin(&opts);
	faults.delay_us = 100000;
	first = start(MRG_OP_WRITE, 0, 4096, 0);
	second = start(MRG_OP_WRITE, 4096, LENGTH - 4096, 0);
	mrg_cancel(sides.ep, second);
	assert_int_equal(mrg_wait(sides.ep, second, 0), 0);
	assert_int_equal(finish(second).bytes, 0);
	assert_int_equal(finish(first).status, 0);
	end();
}

static void closing_ends_requests_and_their_packets(void **state)
{
	uint64_t request;
	uint64_t from;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	(void)request;
	from = fake_now();
	mrg_ep_close(sides.ep);
	assert_true(fake_now() - from < SOON_MS * MS);
	sides.ep = NULL;
	reuse_both();
	nap(LATE_US + 100000);
	assert_not_written();
	end();
}

/* Its own queue pair is gone at once; what counts is the peer's. */
static void a_cancelled_write_is_not_done_before_the_peer_agrees(void **state)
{
	uint64_t request;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	pthread_mutex_lock(&sides.peer->lock);
	mrg_cancel(sides.ep, request);
	assert_int_equal(mrg_wait(sides.ep, request, 500), -EAGAIN);
	pthread_mutex_unlock(&sides.peer->lock);
	assert_int_equal(finish(request).status, -ECANCELED);
	end();
}

static void a_cancelled_read_needs_no_peer(void **state)
{
	uint64_t request;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	request = start(MRG_OP_READ, 0, LENGTH, 0);
	pthread_mutex_lock(&sides.peer->lock);
	mrg_cancel(sides.ep, request);
	assert_int_equal(mrg_wait(sides.ep, request, SOON_MS), 0);
	pthread_mutex_unlock(&sides.peer->lock);
	assert_int_equal(finish(request).status, -ECANCELED);
	end();
}

/* The completion of a flush says nothing of those that were lost before it. */
static void a_flush_that_is_lost_is_not_taken_for_success(void **state)
{
	uint64_t requests[3];

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.lose_first = 2;
	for (uint64_t i = 0; i < 3; i++)
		requests[i] = start(MRG_OP_WRITE, i * 10000, 10000, 0);
	mrg_cancel(sides.ep, requests[0]);
	assert_int_equal(finish(requests[0]).status, -ECANCELED);
	for (uint64_t i = 1; i < 3; i++) {
		assert_int_equal(finish(requests[i]).status, 0);
		assert_memory_equal(local.bytes + i * 10000, remote.bytes + i * 10000, 10000);
	}
	end();
}

/* ---- causes ---- */

static void assert_cause(uint64_t request, int status, enum mrg_side side, uint32_t key,
			 uint64_t addr, const char *words)
{
	struct mrg_result result;
	struct mrg_error error;

	assert_int_equal(mrg_wait(sides.ep, request, WAIT_MS), 0);
	mrg_request_result(sides.ep, request, &result);
	mrg_request_error(sides.ep, request, &error);
	assert_int_equal(result.status, status);
	assert_int_equal(error.code, status);
	assert_int_equal(result.side, side);
	assert_int_equal(result.key, key);
	assert_int_equal(result.addr, addr);
	assert_int_equal(result.vendor, 0x77);
	if (!strstr(error.cause, words))
		print_error("%s\n", error.cause);
	assert_non_null(strstr(error.cause, words));
	assert_true(error.remedy[0]);
	mrg_request_free(sides.ep, request);
}

static void a_key_that_is_gone_is_named_and_the_endpoint_goes_on(void **state)
{
	const struct mrg_desc_piece *piece;
	struct fake_key *key;

	(void)state;
	begin(NULL);
	faults.vendor = 0x77;
	piece = &remote.remote->pieces[1];
	key = &net.keys[piece->rkey >> 8];
	key->valid = false;
	assert_cause(start(MRG_OP_WRITE, 40000, 100, 0), -EACCES, MRG_SIDE_REMOTE, piece->rkey,
		     piece->wire + 10000, "the peer: remote access error");
	key->valid = true;
	assert_int_equal(finish(start(MRG_OP_WRITE, 40000, 100, 0)).status, 0);
	key = &net.keys[local.mr.pieces[0].lkey >> 8];
	key->valid = false;
	assert_cause(start(MRG_OP_READ, 50, 100, 0), -EFAULT, MRG_SIDE_LOCAL,
		     local.mr.pieces[0].lkey, local.mr.pieces[0].delta + 50, "lkey");
	key->valid = true;
	assert_int_equal(finish(start(MRG_OP_READ, 50, 100, 0)).status, 0);
	end();
}

static void a_bad_request_fails_alone(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .lanes = 2, .tries = 2 };
	uint64_t requests[60];
	struct fake_key *key;

	(void)state;
	begin(&opts);
	key = &net.keys[remote.remote->pieces[2].rkey >> 8];
	key->valid = false;
	for (uint64_t i = 0; i < 60; i++)
		requests[i] = start(MRG_OP_WRITE, i % 20 == 7 ? 61000 : i * 1000, 900, 0);
	for (int i = 0; i < 60; i++)
		assert_int_equal(finish(requests[i]).status, i % 20 == 7 ? -EACCES : 0);
	for (uint64_t i = 0; i < 60; i++)
		assert_memory_equal(local.bytes + i * 1000, remote.bytes + i * 1000,
				    i % 20 == 7 ? 0 : 900);
	end();
}

static void a_path_that_fails_three_times_is_tried_again(void **state)
{
	uint64_t request;
	struct mrg_ep_stats stats;

	(void)state;
	begin(NULL);
	faults.status = IBV_WC_RETRY_EXC_ERR;
	for (int i = 0; i < 3; i++) {
		faults.fail_after = 0;
		request = start(MRG_OP_WRITE, 0, LENGTH, 0);
		assert_int_equal(finish(request).status, 0);
		assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	}
	mrg_ep_stats(sides.ep, &stats);
	assert_int_equal(stats.remade, 3);
	assert_true(stats.repeated >= 3);
	end();
}

static void what_the_peer_calls_invalid_is_tried_again_and_told_if_it_stays(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .tries = 2 };
	struct mrg_result result;

	(void)state;
	for (; opts.tries; opts.tries--) {
		begin(&opts);
		faults.status = IBV_WC_REM_INV_REQ_ERR;
		faults.fail_after = 0;
		result = finish(start(MRG_OP_WRITE, 0, LENGTH, 0));
		if (opts.tries == 2) {
			assert_int_equal(result.status, 0);
			assert_memory_equal(local.bytes, remote.bytes, LENGTH);
		} else {
			assert_int_equal(result.status, -EREMOTEIO);
			assert_int_equal(result.side, MRG_SIDE_REMOTE);
			assert_int_equal(result.wc_status, IBV_WC_REM_INV_REQ_ERR);
		}
		end();
	}
}

static void a_path_that_stays_cut_is_given_up(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .tries = 2 };
	struct mrg_error error;
	int tries = 0, status;

	(void)state;
	begin(&opts);
	faults.vendor = 0x77;
	faults.cut = true;
	assert_cause(start(MRG_OP_WRITE, 0, 100, 0), -EHOSTUNREACH, MRG_SIDE_PATH,
		     remote.remote->pieces[0].rkey, remote.remote->pieces[0].wire, "the path");
	do {
		struct mrg_local part = { .mr = &local.mr, .addr = local.mr.addr, .length = 10 };
		struct mrg_op op = { .code = MRG_OP_READ,
				     .local_count = 1,
				     .local = &part,
				     .remote = remote.remote,
				     .remote_addr = remote.mr.addr };
		uint64_t request;

		status = mrg_submit(sides.ep, &op, 1, NULL, &request);
		if (!status)
			finish(request);
	} while (!status && ++tries < 100);
	assert_int_equal(status, -EHOSTUNREACH);
	assert_int_equal(mrg_ep_status(sides.ep, &error), -EHOSTUNREACH);
	assert_non_null(strstr(error.cause, "without moving a byte"));
	end();
}

static void a_device_that_loses_completions_holds_nothing_up(void **state)
{
	uint64_t requests[100];
	uint64_t from;

	(void)state;
	begin(NULL);
	faults.status = IBV_WC_GENERAL_ERR;
	faults.lose_flushes = true;
	faults.fail_after = 10;
	from = fake_now();
	for (uint64_t i = 0; i < 100; i++)
		requests[i] = start(MRG_OP_WRITE, i * 600, 600, 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(finish(requests[i]).status, 0);
	assert_true(fake_now() - from < SOON_MS * MS);
	assert_memory_equal(local.bytes, remote.bytes, 60000);
	end();
}

/* ---- the peer ---- */

static uint64_t start_back(enum mrg_op_code code, uint64_t at, uint64_t length)
{
	struct mrg_local part = { .mr = &remote.mr, .addr = remote.mr.addr + at, .length = length };
	struct mrg_op op = { .code = code,
			     .local_count = 1,
			     .local = &part,
			     .remote = local.remote,
			     .remote_addr = local.mr.addr + at };
	uint64_t request;

	assert_int_equal(mrg_submit(sides.peer, &op, 1, NULL, &request), 0);
	return request;
}

static void who_listened_has_broken_lanes_made_again_too(void **state)
{
	(void)state;
	begin(NULL);
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 1;
	assert_int_equal(finish_at(sides.peer, start_back(MRG_OP_WRITE, 0, LENGTH)).status, 0);
	assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	end();
}

static void both_sides_move_while_lanes_break(void **state)
{
	struct mrg_transfer_opts opts = {
		.size = sizeof(opts), .lanes = 3, .slice = 500, .tries = 100000
	};
	uint64_t there, back;

	(void)state;
	begin(&opts);
	for (int round = 0; round < 60; round++) {
		buffer_fill(&local, (uint64_t)round);
		buffer_fill(&remote, (uint64_t)round + 1000);
		faults.status = round % 2 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
		faults.lose_flushes = round % 4 == 3;
		faults.fail_after = round * 3;
		there = start(MRG_OP_WRITE, 0, 30000, 0);
		back = start_back(MRG_OP_WRITE, 30000, 30000);
		assert_int_equal(finish(there).status, 0);
		assert_int_equal(finish_at(sides.peer, back).status, 0);
		assert_memory_equal(local.bytes, remote.bytes, 60000);
	}
	end();
}

static void a_peer_that_closes_says_so(void **state)
{
	uint64_t request;
	struct mrg_error error;
	struct mrg_result result;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	mrg_ep_close(sides.peer);
	sides.peer = NULL;
	result = finish(request);
	assert_int_equal(result.status, -ESHUTDOWN);
	assert_int_equal(result.flags, 0);
	assert_int_equal(mrg_ep_status(sides.ep, &error), -ESHUTDOWN);
	assert_non_null(strstr(error.cause, "has closed"));
	reuse_both();
	nap(LATE_US + 100000);
	assert_not_written();
	end();
}

/* As the kernel ends the connections of a process that is killed. */
static void kill_connection(struct mrg_ep *ep)
{
	pthread_mutex_lock(&ep->lock);
	shutdown(ep->socket.fd, SHUT_RDWR);
	pthread_mutex_unlock(&ep->lock);
}

static void a_peer_that_dies_is_noticed_and_others_go_on(void **state)
{
	struct mrg_ep *other, *other_peer, *died;
	uint64_t request;
	struct mrg_result result;

	(void)state;
	begin(NULL);
	assert_int_equal(mrg_ep_connect(sides.a, "127.0.0.1", sides.port, &other), 0);
	assert_int_equal(mrg_listener_accept(sides.listener, 5000, &other_peer), 0);
	faults.delay_us = 50000;
	request = start(MRG_OP_WRITE, 0, 3000, 0);
	kill_connection(sides.peer);
	result = finish(request);
	assert_int_equal(result.status, -ECONNRESET);
	assert_int_equal(result.flags, MRG_RESULT_UNSETTLED);
	died = sides.ep;
	sides.ep = other;
	assert_int_equal(finish(start(MRG_OP_WRITE, 0, LENGTH, 0)).status, 0);
	assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	mrg_ep_close(died);
	mrg_ep_close(other_peer);
	end();
}

static void a_peer_that_hangs_is_given_up_in_time(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .remake_ms = 300 };
	struct mrg_result result;
	uint64_t request;
	struct mrg_error error;
	uint64_t from;

	(void)state;
	begin(&opts);
	pthread_mutex_lock(&sides.peer->lock);
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 0;
	from = fake_now();
	request = start(MRG_OP_WRITE, 0, 100, 0);
	result = finish(request);
	assert_true(fake_now() - from < SOON_MS * MS);
	assert_int_equal(result.status, -ETIMEDOUT);
	assert_int_equal(result.flags, MRG_RESULT_UNSETTLED);
	assert_int_equal(mrg_ep_status(sides.ep, &error), -ETIMEDOUT);
	assert_non_null(strstr(error.cause, "did not re-make"));
	pthread_mutex_unlock(&sides.peer->lock);
	end();
}

static void a_peer_that_cannot_make_it_again_says_why(void **state)
{
	struct mrg_error error;
	uint64_t request;

	(void)state;
	begin(NULL);
	/* This side makes its own first. */
	faults.fail_create = 1;
	faults.no_inline = false;
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 0;
	sides.peer->inline_bytes = 0;
	request = start(MRG_OP_WRITE, 0, 100, 0);
	assert_int_equal(finish(request).status, -EREMOTEIO);
	assert_int_equal(mrg_ep_status(sides.ep, &error), -EREMOTEIO);
	assert_non_null(strstr(error.cause, "says: \"A queue pair cannot be made again"));
	end();
}

static void a_port_that_goes_down_and_up_costs_no_byte(void **state)
{
	uint64_t request;

	(void)state;
	begin(NULL);
	net.nics[0].port_down = true;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	assert_int_equal(mrg_wait(sides.ep, request, 300), -EAGAIN);
	net.nics[0].port_down = false;
	assert_int_equal(finish(request).status, 0);
	assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	end();
}

static void a_gid_that_moves_is_found_again(void **state)
{
	(void)state;
	begin(NULL);
	net.nics[0].gids[0].index = 5;
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 0;
	assert_int_equal(finish(start(MRG_OP_WRITE, 0, 100, 0)).status, 0);
	assert_int_equal(sides.ep->gid.index, 5);
	end();
}

/* As if what this side knows of the peer were of no use any more. */
static void a_peer_whose_gid_is_gone_tells_the_one_that_it_has(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .remake_ms = SOON_MS };

	(void)state;
	begin(&opts);
	pthread_mutex_lock(&sides.ep->lock);
	sides.ep->peer_port.gid_type = IBV_GID_TYPE_ROCE_V1;
	pthread_mutex_unlock(&sides.ep->lock);
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 0;
	assert_int_equal(finish(start(MRG_OP_WRITE, 0, LENGTH, 0)).status, 0);
	assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	assert_int_equal(sides.ep->peer_port.gid_type, IBV_GID_TYPE_ROCE_V2);
	end();
}

/* The peer connects its new queue pair first, this side after the answer. */
static void a_route_that_is_missing_for_a_moment_is_waited_for(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .remake_ms = SOON_MS };

	(void)state;
	begin(&opts);
	faults.no_route = 1;
	faults.status = IBV_WC_RETRY_EXC_ERR;
	faults.fail_after = 0;
	assert_int_equal(finish(start(MRG_OP_WRITE, 0, LENGTH, 0)).status, 0);
	assert_memory_equal(local.bytes, remote.bytes, LENGTH);
	assert_int_equal(faults.no_route, -1);
	end();
}

/* ---- revoking ---- */

static void a_revoked_buffer_is_not_written_any_more(void **state)
{
	uint64_t request;
	struct mrg_local part;
	struct mrg_error error;
	struct mrg_op op;

	(void)state;
	begin(NULL);
	faults.delay_us = LATE_US;
	faults.late_packets = true;
	request = start(MRG_OP_WRITE, 0, LENGTH, 0);
	assert_int_equal(mrg_ep_revoke(sides.peer, remote.remote->generation, WAIT_MS), 0);
	reuse_both();
	assert_int_equal(mrg_wait(sides.ep, request, 0), 0);
	mrg_request_error(sides.ep, request, &error);
	assert_non_null(strstr(error.cause, "revoked"));
	assert_int_equal(finish(request).status, -ESTALE);
	part = (struct mrg_local){ .mr = &local.mr, .addr = local.mr.addr, .length = 1 };
	op = (struct mrg_op){ .code = MRG_OP_WRITE,
			      .local_count = 1,
			      .local = &part,
			      .remote = remote.remote,
			      .remote_addr = remote.mr.addr };
	assert_int_equal(mrg_submit(sides.ep, &op, 1, NULL, NULL), -ESTALE);
	nap(LATE_US + 100000);
	assert_not_written();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(a_cancelled_write_is_done_when_no_packet_of_it_can_arrive),
		FAKE_TEST(a_cancelled_read_is_done_when_no_packet_of_it_can_arrive),
		FAKE_TEST(control_a_write_outlives_its_own_queue_pair),
		FAKE_TEST(control_a_read_outlives_a_report_at_once),
		FAKE_TEST(a_deadline_ends_one_request_and_not_its_neighbour),
		FAKE_TEST(a_request_that_ends_within_the_grace_costs_no_lane),
		FAKE_TEST(what_was_not_posted_is_cancelled_at_once),
		FAKE_TEST(closing_ends_requests_and_their_packets),
		FAKE_TEST(a_cancelled_write_is_not_done_before_the_peer_agrees),
		FAKE_TEST(a_cancelled_read_needs_no_peer),
		FAKE_TEST(a_flush_that_is_lost_is_not_taken_for_success),
		FAKE_TEST(a_key_that_is_gone_is_named_and_the_endpoint_goes_on),
		FAKE_TEST(a_bad_request_fails_alone),
		FAKE_TEST(a_path_that_fails_three_times_is_tried_again),
		FAKE_TEST(what_the_peer_calls_invalid_is_tried_again_and_told_if_it_stays),
		FAKE_TEST(a_path_that_stays_cut_is_given_up),
		FAKE_TEST(a_device_that_loses_completions_holds_nothing_up),
		FAKE_TEST(who_listened_has_broken_lanes_made_again_too),
		FAKE_TEST(both_sides_move_while_lanes_break),
		FAKE_TEST(a_peer_that_closes_says_so),
		FAKE_TEST(a_peer_that_dies_is_noticed_and_others_go_on),
		FAKE_TEST(a_peer_that_hangs_is_given_up_in_time),
		FAKE_TEST(a_peer_that_cannot_make_it_again_says_why),
		FAKE_TEST(a_port_that_goes_down_and_up_costs_no_byte),
		FAKE_TEST(a_gid_that_moves_is_found_again),
		FAKE_TEST(a_peer_whose_gid_is_gone_tells_the_one_that_it_has),
		FAKE_TEST(a_route_that_is_missing_for_a_moment_is_waited_for),
		FAKE_TEST(a_revoked_buffer_is_not_written_any_more),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
