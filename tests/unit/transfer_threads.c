/* SPDX-License-Identifier: MIT */
/*
 * Many threads: on one endpoint, on one each, cancelling, and with lanes that
 * break.  Each has its own part of the buffers and looks at every byte.
 */
#include "transfer/endpoint.h"
#include "transfer_fake.h"

#define THREADS 6
#define PART 40000ull
#define WAIT_MS 20000

static struct fake_sides sides;
static struct fake_buffer local, remote;
static struct mrg_ep *eps[THREADS], *peers[THREADS];

struct worker {
	pthread_t thread;
	struct mrg_ep *ep;
	uint64_t from;
	int rounds;
	bool cancels;
	unsigned int dice;
	uint64_t moved, cancelled, wrong;
};

static uint64_t wrong_bytes(const struct worker *w, uint64_t n)
{
	return memcmp(local.bytes + w->from, remote.bytes + w->from, n) != 0;
}

static void one_round(struct worker *w)
{
	uint64_t n = 1 + (uint64_t)rand_r(&w->dice) % PART;
	struct mrg_local part = { .mr = &local.mr, .addr = local.mr.addr + w->from, .length = n };
	struct mrg_op op = { .code = rand_r(&w->dice) % 2 ? MRG_OP_READ : MRG_OP_WRITE,
			     .local_count = 1,
			     .local = &part,
			     .remote = remote.remote,
			     .remote_addr = remote.mr.addr + w->from };
	struct mrg_submit_opts opts = { .size = sizeof(opts), .flags = MRG_SUBMIT_WAIT };
	uint64_t request;
	struct mrg_result result;

	memset((op.code == MRG_OP_READ ? remote.bytes : local.bytes) + w->from, rand_r(&w->dice),
	       n);
	if (mrg_submit(w->ep, &op, 1, &opts, &request)) {
		w->wrong++;
		return;
	}
	if (w->cancels && rand_r(&w->dice) % 4 == 0)
		mrg_cancel(w->ep, request);
	if (mrg_wait(w->ep, request, WAIT_MS))
		w->wrong++;
	mrg_request_result(w->ep, request, &result);
	mrg_request_free(w->ep, request);
	if (result.status == -ECANCELED) {
		w->cancelled++;
		return;
	}
	w->moved++;
	w->wrong += result.status != 0 || wrong_bytes(w, n);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < w->rounds; i++)
		one_round(w);
	return NULL;
}

static void run(bool separate, bool cancels, bool spoiled)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts),
					  .lanes = 2,
					  .depth = 8,
					  .slice = 4000,
					  .grace_ms = 2,
					  .tries = 1000000 };
	struct worker workers[THREADS] = { 0 };

	sides_open(&sides, &opts);
	buffer_make(&local, 0, THREADS * PART, 7000);
	buffer_make(&remote, 1, THREADS * PART, 9000);
	for (int i = 0; i < THREADS; i++) {
		eps[i] = peers[i] = NULL;
		if (separate) {
			assert_int_equal(mrg_ep_connect(sides.a, "127.0.0.1", sides.port, &eps[i]),
					 0);
			assert_int_equal(mrg_listener_accept(sides.listener, 5000, &peers[i]), 0);
		}
		workers[i] = (struct worker){ .ep = separate ? eps[i] : sides.ep,
					      .from = (uint64_t)i * PART,
					      .rounds = 60,
					      .cancels = cancels,
					      .dice = (unsigned int)i };
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; spoiled && i < 40; i++) {
		faults.status = IBV_WC_RETRY_EXC_ERR;
		faults.fail_after = i;
		usleep(3000);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].wrong, 0);
		assert_true(workers[i].moved > 0);
		mrg_ep_close(eps[i]);
		mrg_ep_close(peers[i]);
	}
	sides_close(&sides);
	buffer_free(&local);
	buffer_free(&remote);
}

static void threads_share_an_endpoint(void **state)
{
	(void)state;
	run(false, false, false);
}

static void threads_have_an_endpoint_each(void **state)
{
	(void)state;
	run(true, false, false);
}

static void threads_cancel_while_others_move(void **state)
{
	(void)state;
	faults.delay_us = 200;
	faults.late_packets = true;
	run(false, true, false);
}

static void threads_move_while_lanes_break(void **state)
{
	(void)state;
	run(false, false, true);
	run(true, true, true);
}

static void *sleep_for_note(void *arg)
{
	ssize_t *length = arg;
	uint8_t byte;

	*length = mrg_ep_receive(sides.ep, &byte, 1, WAIT_MS);
	return NULL;
}

/* As a thread that polls, and gets the lock before the sleeper is awake. */
static void note_arrives_and_another_polls(struct mrg_ep *ep)
{
	struct transfer_note *note = calloc(1, sizeof(*note) + 1);

	note->length = 1;
	for (bool sleeps = false; !sleeps; usleep(1000)) {
		pthread_mutex_lock(&ep->lock);
		sleeps = ep->sleeper;
		pthread_mutex_unlock(&ep->lock);
	}
	/* It is in poll(2) by now. */
	usleep(5000);
	pthread_mutex_lock(&ep->lock);
	STAILQ_INSERT_TAIL(&ep->notes.list, note, next);
	ep->notes.bytes += sizeof(*note) + note->length;
	transfer_ep_wake(ep);
	transfer_ep_progress(ep);
	pthread_mutex_unlock(&ep->lock);
}

static void a_sleeper_wakes_while_another_polls(void **state)
{
	pthread_t thread;
	uint64_t from;
	ssize_t length;

	(void)state;
	sides_open(&sides, NULL);
	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, sleep_for_note, &length);
		note_arrives_and_another_polls(sides.ep);
		from = fake_now();
		pthread_join(thread, NULL);
		assert_int_equal(length, 1);
		assert_true(fake_now() - from < WAIT_MS / 2 * MS);
	}
	sides_close(&sides);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(threads_share_an_endpoint),
		FAKE_TEST(threads_have_an_endpoint_each),
		FAKE_TEST(threads_cancel_while_others_move),
		FAKE_TEST(threads_move_while_lanes_break),
		FAKE_TEST(a_sleeper_wakes_while_another_polls),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
