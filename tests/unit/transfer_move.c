/* SPDX-License-Identifier: MIT */
/* Bytes between two endpoints: all sizes, cuts, batches, against a model. */
#include <poll.h>

#include "transfer_fake.h"

#define MIB (1ull << 20)
#define WAIT_MS 20000

static struct fake_sides sides;
static struct fake_buffer local, remote;

static void buffers(uint64_t length, uint64_t local_piece, uint64_t remote_piece)
{
	buffer_make(&local, 0, length, local_piece);
	buffer_make(&remote, 1, length, remote_piece);
	buffer_fill(&local, 1);
	buffer_fill(&remote, 2);
}

static void end(void)
{
	sides_close(&sides);
	buffer_free(&local);
	buffer_free(&remote);
}

static struct mrg_local range(uint64_t at, uint64_t length)
{
	return (struct mrg_local){ .mr = &local.mr, .addr = local.mr.addr + at, .length = length };
}

static struct mrg_op op(enum mrg_op_code code, const struct mrg_local *from, uint32_t count,
			uint64_t at)
{
	return (struct mrg_op){ .code = code,
				.local_count = count,
				.local = from,
				.remote = remote.remote,
				.remote_addr = remote.remote->addr + at };
}

static void move(const struct mrg_op *ops, size_t count)
{
	struct mrg_submit_opts opts = { .size = sizeof(opts), .flags = MRG_SUBMIT_WAIT };
	uint64_t request;
	struct mrg_result result;

	assert_int_equal(mrg_submit(sides.ep, ops, count, &opts, &request), 0);
	assert_int_equal(mrg_wait(sides.ep, request, WAIT_MS), 0);
	mrg_request_result(sides.ep, request, &result);
	assert_int_equal(result.status, 0);
	mrg_request_free(sides.ep, request);
}

static void move_one(enum mrg_op_code code, uint64_t from, uint64_t to, uint64_t length)
{
	struct mrg_local part = range(from, length);
	struct mrg_op one = op(code, &part, 1, to);

	move(&one, 1);
}

static void each_size_arrives(void **state)
{
	static const uint64_t sizes[] = { 1,	   2,	 3,	  7,	       8,
					  63,	   64,	 65,	  128,	       129,
					  4095,	   4096, 4097,	  65536,       65537,
					  MIB - 1, MIB,	 MIB + 1, 3 * MIB + 7, 64 * MIB - 11 };

	(void)state;
	sides_open(&sides, NULL);
	buffers(64 * MIB, 5 * MIB, 3 * MIB + 4096);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t n = sizes[i], off = i % 11;

		move_one(MRG_OP_WRITE, off, 11 - off, n);
		assert_memory_equal(local.bytes + off, remote.bytes + 11 - off, n);
		memset(local.bytes + off, 0, n);
		move_one(MRG_OP_READ, off, 11 - off, n);
		assert_memory_equal(local.bytes + off, remote.bytes + 11 - off, n);
	}
	end();
}

static void bytes_beside_a_transfer_stay(void **state)
{
	uint8_t before[2], after[2];

	(void)state;
	sides_open(&sides, NULL);
	buffers(MIB, 4096, 12288);
	memcpy(before, remote.bytes + 98, 2);
	memcpy(after, remote.bytes + 100 + 50001, 2);
	move_one(MRG_OP_WRITE, 3, 100, 50001);
	assert_memory_equal(remote.bytes + 98, before, 2);
	assert_memory_equal(remote.bytes + 100 + 50001, after, 2);
	end();
}

static void write_gathers_and_read_scatters(void **state)
{
	static const uint64_t places[5][2] = {
		{ 5, 1 }, { 70001, 4096 }, { 300000, 3 }, { 100, 65000 }, { 200000, 17 }
	};
	struct mrg_local parts[5];
	uint64_t total = 0;
	struct mrg_op one;

	(void)state;
	sides_open(&sides, NULL);
	buffers(MIB, 4096, 8192);
	for (int i = 0; i < 5; i++)
		parts[i] = range(places[i][0], places[i][1]);
	one = op(MRG_OP_WRITE, parts, 5, 12345);
	move(&one, 1);
	for (int i = 0; i < 5; i++) {
		assert_memory_equal(remote.bytes + 12345 + total,
				    local.bytes + (parts[i].addr - local.mr.addr), parts[i].length);
		total += parts[i].length;
	}
	buffer_fill(&remote, 3);
	one = op(MRG_OP_READ, parts, 5, 12345);
	move(&one, 1);
	total = 0;
	for (int i = 0; i < 5; i++) {
		assert_memory_equal(remote.bytes + 12345 + total,
				    local.bytes + (parts[i].addr - local.mr.addr), parts[i].length);
		total += parts[i].length;
	}
	end();
}

static void a_batch_of_4096_arrives(uint32_t lanes, uint32_t depth)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .lanes = lanes, .depth = depth };
	struct mrg_local *parts = calloc(4096, sizeof(*parts));
	struct mrg_op *ops = calloc(4096, sizeof(*ops));

	sides_open(&sides, &opts);
	buffers(4 * MIB, 100000, 77777);
	for (uint64_t i = 0; i < 4096; i++) {
		uint64_t n = 1 + i * 7 % 1000;

		parts[i] = range(1024 * i, n);
		ops[i] = op(MRG_OP_WRITE, &parts[i], 1, 1024 * (4095 - i) + 13);
	}
	move(ops, 4096);
	for (uint64_t i = 0; i < 4096; i++)
		assert_memory_equal(local.bytes + 1024 * i, remote.bytes + 1024 * (4095 - i) + 13,
				    1 + i * 7 % 1000);
	end();
	free(parts);
	free(ops);
}

static void a_batch_of_4096_arrives_over_one_lane(void **state)
{
	(void)state;
	a_batch_of_4096_arrives(1, 128);
}

static void a_batch_of_4096_arrives_over_16_short_lanes(void **state)
{
	(void)state;
	a_batch_of_4096_arrives(16, 3);
}

static void a_device_without_inline_data_does(void **state)
{
	(void)state;
	faults.no_inline = true;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	move_one(MRG_OP_WRITE, 0, 0, 17);
	assert_memory_equal(local.bytes, remote.bytes, 17);
	end();
}

/* The provider's queue is shorter than it said: less is posted, nothing lost. */
static void a_queue_shorter_than_promised_is_not_overrun(void **state)
{
	struct mrg_local parts[200];
	struct mrg_op ops[200];

	(void)state;
	sides_open(&sides, NULL);
	buffers(MIB, MIB, MIB);
	faults.sq_room = 5;
	for (uint64_t i = 0; i < 200; i++) {
		parts[i] = range(i * 1000, 1000);
		ops[i] = op(MRG_OP_WRITE, &parts[i], 1, i * 1000);
	}
	move(ops, 200);
	assert_memory_equal(local.bytes, remote.bytes, 200000);
	end();
}

static void no_room_is_eagain_or_waited_for(void **state)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts), .max_ops = 3 };
	struct mrg_submit_opts wait = { .size = sizeof(wait), .flags = MRG_SUBMIT_WAIT };
	uint64_t requests[4];
	struct mrg_local part;
	struct mrg_op one;

	(void)state;
	sides_open(&sides, &opts);
	buffers(4096, 4096, 4096);
	part = range(0, 10);
	one = op(MRG_OP_WRITE, &part, 1, 0);
	faults.delay_us = 20000;
	for (int i = 0; i < 3; i++)
		assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, &requests[i]), 0);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, &requests[3]), -EAGAIN);
	/* 25 days: more than a timeout in ms holds. */
	wait.deadline_ms = 1u << 31;
	assert_int_equal(mrg_submit(sides.ep, &one, 1, &wait, &requests[3]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(mrg_wait(sides.ep, requests[i], WAIT_MS), 0);
		mrg_request_free(sides.ep, requests[i]);
	}
	end();
}

static void what_cannot_be_is_refused(void **state)
{
	struct mrg_local part, empty;
	struct mrg_submit_opts odd = { .size = sizeof(odd), .flags = 2 };
	struct mrg_error error;
	struct mrg_op one;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	part = range(4000, 97);
	empty = range(5, 0);
	one = op(MRG_OP_WRITE, &part, 1, 0);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -ERANGE);
	assert_int_equal(mrg_transfer_last_error(sides.a, &error), 0);
	assert_non_null(strstr(error.cause, "this side's buffer"));
	part = range(0, 96);
	one = op(MRG_OP_READ, &part, 1, 4001);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -ERANGE);
	assert_int_equal(mrg_transfer_last_error(sides.a, &error), 0);
	assert_non_null(strstr(error.cause, "the peer's buffer"));
	one = op(MRG_OP_READ, &empty, 1, 0);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -EINVAL);
	one = op(MRG_OP_READ, &part, 1, 0);
	assert_int_equal(mrg_submit(sides.ep, &one, 0, NULL, NULL), -EINVAL);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, &odd, NULL), -EINVAL);
	one.code = (enum mrg_op_code)7;
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -EINVAL);
	end();
}

static void read_is_refused_where_the_peer_serves_none(void **state)
{
	struct mrg_local part;
	struct mrg_op one;

	(void)state;
	net.nics[1].attr.max_qp_rd_atom = 0;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	part = range(0, 10);
	one = op(MRG_OP_READ, &part, 1, 0);
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -EOPNOTSUPP);
	move_one(MRG_OP_WRITE, 0, 0, 10);
	end();
}

/* ---- handles of requests ---- */

static uint64_t start_one(struct mrg_ep *ep)
{
	struct mrg_local part = range(0, 10);
	struct mrg_op one = op(MRG_OP_WRITE, &part, 1, 0);
	uint64_t request;

	assert_int_equal(mrg_submit(ep, &one, 1, NULL, &request), 0);
	assert_int_not_equal(request, 0);
	return request;
}

static void assert_stale(struct mrg_ep *ep, uint64_t request)
{
	struct mrg_result result;
	struct mrg_error error;

	assert_int_equal(mrg_wait(ep, request, 0), -ESTALE);
	assert_int_equal(mrg_cancel(ep, request), -ESTALE);
	assert_int_equal(mrg_request_result(ep, request, &result), -ESTALE);
	assert_int_equal(mrg_request_error(ep, request, &error), -ESTALE);
	assert_int_equal(mrg_request_free(ep, request), -ESTALE);
	assert_int_equal(mrg_transfer_last_error(ep->transfer, &error), 0);
	assert_int_equal(error.code, -ESTALE);
}

static void a_request_that_is_freed_twice_is_estale(void **state)
{
	uint64_t request;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	request = start_one(sides.ep);
	assert_int_equal(mrg_wait(sides.ep, request, WAIT_MS), 0);
	assert_int_equal(mrg_request_free(sides.ep, request), 0);
	assert_stale(sides.ep, request);
	assert_stale(sides.ep, 0);
	assert_stale(sides.ep, UINT64_MAX);
	end();
}

static void a_stale_request_does_not_meet_the_next_in_its_place(void **state)
{
	uint64_t first, second;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	first = start_one(sides.ep);
	assert_int_equal(mrg_wait(sides.ep, first, WAIT_MS), 0);
	assert_int_equal(mrg_request_free(sides.ep, first), 0);
	second = start_one(sides.ep);
	assert_int_equal(first % (1 << 24), second % (1 << 24));
	assert_int_not_equal(first, second);
	assert_stale(sides.ep, first);
	assert_int_equal(mrg_wait(sides.ep, second, WAIT_MS), 0);
	assert_int_equal(mrg_request_free(sides.ep, second), 0);
	end();
}

static void another_endpoints_request_is_estale(void **state)
{
	struct mrg_ep *other, *other_peer;
	uint64_t request, others;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	assert_int_equal(mrg_ep_connect(sides.a, "127.0.0.1", sides.port, &other), 0);
	assert_int_equal(mrg_listener_accept(sides.listener, 5000, &other_peer), 0);
	request = start_one(sides.ep);
	others = start_one(other);
	assert_stale(other, request);
	assert_stale(sides.peer, request);
	assert_stale(sides.ep, others);
	assert_int_equal(mrg_wait(sides.ep, request, WAIT_MS), 0);
	assert_int_equal(mrg_wait(other, others, WAIT_MS), 0);
	/* Requests that are not freed go with their endpoint. */
	mrg_ep_close(other);
	mrg_ep_close(other_peer);
	end();
}

static void a_request_that_is_not_done_is_not_freed(void **state)
{
	struct mrg_result result;
	uint64_t request;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	faults.delay_us = 50000;
	request = start_one(sides.ep);
	assert_int_equal(mrg_request_free(sides.ep, request), -EAGAIN);
	assert_int_equal(mrg_request_result(sides.ep, request, &result), -EAGAIN);
	assert_int_equal(mrg_wait(sides.ep, request, WAIT_MS), 0);
	assert_int_equal(mrg_request_free(sides.ep, request), 0);
	end();
}

/* More than are kept to be used again, small and large ones. */
static void thousands_of_requests_have_handles_of_their_own(void **state)
{
	enum { COUNT = 3000 };
	static uint64_t requests[COUNT];
	struct mrg_local parts[20];
	struct mrg_op large;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	for (uint64_t i = 0; i < 20; i++)
		parts[i] = range(i, 1);
	large = op(MRG_OP_WRITE, parts, 20, 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			if (i % 3)
				requests[i] = start_one(sides.ep);
			else
				assert_int_equal(
					mrg_submit(sides.ep, &large, 1, NULL, &requests[i]), 0);
		}
		for (int i = 0; i < COUNT; i++)
			assert_int_equal(mrg_wait(sides.ep, requests[i], WAIT_MS), 0);
		for (int i = 0; i < COUNT; i++) {
			assert_int_equal(mrg_request_free(sides.ep, requests[i * 7 % COUNT]), 0);
			assert_int_equal(mrg_request_free(sides.ep, requests[i * 7 % COUNT]),
					 -ESTALE);
		}
		assert_int_equal(sides.ep->requests.count, COUNT);
	}
	end();
}

static void reserved_words_are_refused(void **state)
{
	struct mrg_local part;
	struct mrg_op one;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	part = range(0, 10);
	one = op(MRG_OP_WRITE, &part, 1, 0);
	one.reserved[1] = 1;
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -EINVAL);
	one.reserved[1] = 0;
	part.reserved[2] = 1;
	assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), -EINVAL);
	end();
}

static void the_descriptor_wakes_a_sleeper(void **state)
{
	struct mrg_local part;
	struct mrg_done done;
	struct mrg_op one;
	int collected = 0;

	(void)state;
	sides_open(&sides, NULL);
	buffers(4096, 4096, 4096);
	part = range(0, 100);
	one = op(MRG_OP_WRITE, &part, 1, 0);
	faults.delay_us = 3000;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(mrg_submit(sides.ep, &one, 1, NULL, NULL), 0);
		while (!(collected = mrg_poll(sides.ep, &done, 1))) {
			struct pollfd p = { .fd = mrg_ep_fd(sides.ep), .events = POLLIN };

			if (!mrg_ep_arm(sides.ep))
				assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		}
		assert_int_equal(collected, 1);
		assert_int_equal(done.status, 0);
		mrg_request_free(sides.ep, done.request);
	}
	end();
}

/* ---- a model: random batches in random buffers, compared byte by byte ---- */

#define MODEL_BYTES (2 * MIB)
#define MODEL_REQUESTS 4

struct flight {
	uint64_t request;
	struct mrg_local parts[64];
	struct mrg_op ops[16];
	size_t count;
	uint64_t from; /* its own part of both buffers */
};

static unsigned int dice = 7;

static uint64_t roll(uint64_t n)
{
	uint64_t r = (uint64_t)rand_r(&dice) << 31 | (uint64_t)rand_r(&dice);

	return r % n;
}

/* Disjoint places within the flight's part, so that order does not matter. */
static void plan_flight(struct flight *f, uint8_t *local_model, uint8_t *remote_model)
{
	uint64_t room = MODEL_BYTES / MODEL_REQUESTS, at = f->from, there = f->from;
	size_t parts = 0;

	f->count = 1 + roll(16);
	for (size_t i = 0; i < f->count; i++) {
		struct mrg_op *o = &f->ops[i];
		uint64_t start = there;

		*o = op(roll(2) ? MRG_OP_READ : MRG_OP_WRITE, &f->parts[parts],
			1 + (uint32_t)roll(4), there);
		for (uint32_t p = 0; p < o->local_count; p++) {
			uint64_t n = 1 + roll(roll(4) ? 900 : room / 64 - 200);

			at += roll(5);
			f->parts[parts++] = range(at, n);
			if (o->code == MRG_OP_WRITE)
				memcpy(remote_model + there, local_model + at, n);
			else
				memcpy(local_model + at, remote_model + there, n);
			at += n;
			there += n;
		}
		there = start + (there - start) + roll(3);
	}
	assert_true(at <= f->from + room && there <= f->from + room);
}

static void run_model(int rounds, uint32_t lanes, bool spoiled)
{
	struct mrg_transfer_opts opts = {
		.size = sizeof(opts), .lanes = lanes, .depth = 16, .slice = 3000, .tries = 1000000
	};
	uint8_t *local_model = malloc(MODEL_BYTES), *remote_model = malloc(MODEL_BYTES);
	struct flight *flights = calloc(MODEL_REQUESTS, sizeof(*flights));

	sides_open(&sides, &opts);
	buffers(MODEL_BYTES, 5000, 7001);
	memcpy(local_model, local.bytes, MODEL_BYTES);
	memcpy(remote_model, remote.bytes, MODEL_BYTES);
	for (int round = 0; round < rounds; round++) {
		if (spoiled) {
			faults.status = roll(2) ? IBV_WC_RETRY_EXC_ERR : IBV_WC_GENERAL_ERR;
			faults.lose_flushes = roll(2);
			faults.fail_after = (int)roll(300);
		}
		for (int i = 0; i < MODEL_REQUESTS; i++) {
			struct flight *f = &flights[i];

			f->from = (uint64_t)i * (MODEL_BYTES / MODEL_REQUESTS);
			plan_flight(f, local_model, remote_model);
			assert_int_equal(mrg_submit(sides.ep, f->ops, f->count, NULL, &f->request),
					 0);
		}
		for (int i = 0; i < MODEL_REQUESTS; i++) {
			struct mrg_result result;

			assert_int_equal(mrg_wait(sides.ep, flights[i].request, WAIT_MS), 0);
			mrg_request_result(sides.ep, flights[i].request, &result);
			assert_int_equal(result.status, 0);
			mrg_request_free(sides.ep, flights[i].request);
		}
		assert_memory_equal(local_model, local.bytes, MODEL_BYTES);
		assert_memory_equal(remote_model, remote.bytes, MODEL_BYTES);
	}
	end();
	free(flights);
	free(local_model);
	free(remote_model);
}

static int rounds(int few)
{
	const char *full = getenv("MRG_FULL");

	return full && *full ? 20 * few : few;
}

static void random_batches_move_what_a_model_moves(void **state)
{
	(void)state;
	run_model(rounds(40), 1, false);
	run_model(rounds(40), 4, false);
}

static void random_batches_survive_lanes_that_break(void **state)
{
	(void)state;
	run_model(rounds(25), 1, true);
	run_model(rounds(25), 4, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(each_size_arrives),
		FAKE_TEST(bytes_beside_a_transfer_stay),
		FAKE_TEST(write_gathers_and_read_scatters),
		FAKE_TEST(a_batch_of_4096_arrives_over_one_lane),
		FAKE_TEST(a_batch_of_4096_arrives_over_16_short_lanes),
		FAKE_TEST(a_device_without_inline_data_does),
		FAKE_TEST(a_queue_shorter_than_promised_is_not_overrun),
		FAKE_TEST(no_room_is_eagain_or_waited_for),
		FAKE_TEST(what_cannot_be_is_refused),
		FAKE_TEST(read_is_refused_where_the_peer_serves_none),
		FAKE_TEST(a_request_that_is_freed_twice_is_estale),
		FAKE_TEST(a_stale_request_does_not_meet_the_next_in_its_place),
		FAKE_TEST(another_endpoints_request_is_estale),
		FAKE_TEST(a_request_that_is_not_done_is_not_freed),
		FAKE_TEST(thousands_of_requests_have_handles_of_their_own),
		FAKE_TEST(reserved_words_are_refused),
		FAKE_TEST(the_descriptor_wakes_a_sleeper),
		FAKE_TEST(random_batches_move_what_a_model_moves),
		FAKE_TEST(random_batches_survive_lanes_that_break),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
