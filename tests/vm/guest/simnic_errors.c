/* SPDX-License-Identifier: MIT */
/*
 * simnic refuses as hardware refuses: what lies outside a memory region, what
 * its access or the queue pair's does not allow, what another PD owns; and it
 * waits, gives up and flushes as it should.  A refused request moves nothing.
 */
#include "simnic_pair.h"

#define SIZE 65536

struct fixture {
	struct pair pair;
	unsigned char *a, *b;
	struct ibv_mr *amr, *bmr;
};

static int open_fixture(void **state)
{
	static const struct pair_options plain;
	const struct pair_options *o = *state ? *state : &plain;
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	pair_open(&f->pair, o);
	f->a = buffer(SIZE);
	f->b = buffer(SIZE);
	memset(f->a, 0xaa, SIZE);
	memset(f->b, 0xbb, SIZE);
	f->amr = reg(&f->pair.a, f->a, SIZE, PAIR_ACCESS);
	f->bmr = reg(&f->pair.b, f->b, SIZE, PAIR_ACCESS);
	*state = f;
	return 0;
}

static int close_fixture(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ibv_dereg_mr(f->amr), 0);
	assert_int_equal(ibv_dereg_mr(f->bmr), 0);
	pair_close(&f->pair);
	munmap(f->a, SIZE);
	munmap(f->b, SIZE);
	free(f);
	return 0;
}

static void assert_untouched(const struct fixture *f)
{
	for (size_t i = 0; i < SIZE; i++) {
		assert_int_equal(f->a[i], 0xaa);
		assert_int_equal(f->b[i], 0xbb);
	}
}

/* What comes of one request of the length between the two ends. */
static enum ibv_wc_status try(struct fixture *f, enum ibv_wr_opcode opcode,
			      const struct ibv_mr *local, uint64_t at, const struct ibv_mr *remote,
			      uint64_t to, uint32_t len)
{
	struct ibv_sge sge = sge_of(local, at, len);
	struct ibv_send_wr wr = request(opcode, &sge, remote, to);

	return status_of(&f->pair, &wr);
}

/* ---------------------------------------------------------- remote access */

static void write_past_the_end_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, SIZE - 99, 100),
		      IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
	assert_int_equal(end_state(&f->pair.a), IBV_QPS_ERR);
	assert_int_equal(end_state(&f->pair.b), IBV_QPS_ERR);
}

static void write_to_the_last_byte_is_right(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, SIZE - 100, 100),
		      IBV_WC_SUCCESS);
	assert_int_equal(f->b[SIZE - 1], 0xaa);
	assert_int_equal(f->b[SIZE - 101], 0xbb);
}

static void read_before_the_start_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_READ, f->amr, 0, f->bmr, (uint64_t)-1, 8),
		      IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
}

static void an_address_that_wraps_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;
	uint64_t to = UINT64_MAX - 7 - (uintptr_t)f->b;

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, to, 4096),
		      IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
}

static void a_key_of_nobody_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr wrong = *f->bmr;

	wrong.rkey++;
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, &wrong, 0, 8), IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
}

static void a_stale_key_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr stale = *f->bmr;

	assert_int_equal(ibv_dereg_mr(f->bmr), 0);
	f->bmr = reg(&f->pair.b, f->b, SIZE, PAIR_ACCESS);
	assert_int_not_equal(f->bmr->rkey, stale.rkey);
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, &stale, 0, 8), IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
}

static void a_region_of_another_pd_is_a_remote_access_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = ibv_alloc_pd(f->pair.b.context);
	struct ibv_mr *mr = ibv_reg_mr(pd, f->b, SIZE, PAIR_ACCESS);

	assert_non_null(mr);
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, mr, 0, 8), IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
}

static void without(struct fixture *f, int access, enum ibv_wr_opcode opcode)
{
	struct ibv_mr *mr = reg(&f->pair.b, f->b, SIZE, PAIR_ACCESS & ~access);

	assert_status(try(f, opcode, f->amr, 0, mr, 0, 8), IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
	ibv_dereg_mr(mr);
}

static void a_region_without_remote_write_is_not_written(void **state)
{
	without(*state, IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE);
}

static void a_region_without_remote_read_is_not_read(void **state)
{
	without(*state, IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ);
}

static void a_region_without_remote_atomic_is_not_changed(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = reg(&f->pair.b, f->b, SIZE, PAIR_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC);
	struct ibv_sge sge = sge_of(f->amr, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, NULL, 0);

	wr.wr.atomic.remote_addr = (uintptr_t)f->b;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 1;
	assert_status(status_of(&f->pair, &wr), IBV_WC_REM_ACCESS_ERR);
	assert_untouched(f);
	ibv_dereg_mr(mr);
}

static void a_queue_pair_without_the_access_is_an_invalid_request(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, 0, 8), IBV_WC_REM_INV_REQ_ERR);
	assert_untouched(f);
}

static void a_read_without_resources_for_it_is_an_invalid_request(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_READ, f->amr, 0, f->bmr, 0, 8), IBV_WC_REM_INV_REQ_ERR);
	assert_untouched(f);
}

/* ----------------------------------------------------------- local access */

static void a_local_list_past_the_end_is_a_local_protection_error(void **state)
{
	struct fixture *f = *state;

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, SIZE - 7, f->bmr, 0, 8),
		      IBV_WC_LOC_PROT_ERR);
	assert_untouched(f);
	assert_int_equal(end_state(&f->pair.a), IBV_QPS_ERR);
	/* The other end has heard nothing. */
	assert_int_equal(end_state(&f->pair.b), IBV_QPS_RTS);
}

static void a_local_key_of_nobody_is_a_local_protection_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr wrong = *f->amr;

	wrong.lkey += 0x10000;
	assert_status(try(f, IBV_WR_RDMA_WRITE, &wrong, 0, f->bmr, 0, 8), IBV_WC_LOC_PROT_ERR);
}

static void a_local_region_of_another_pd_is_a_local_protection_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = ibv_alloc_pd(f->pair.a.context);
	struct ibv_mr *mr = ibv_reg_mr(pd, f->a, SIZE, PAIR_ACCESS);

	assert_status(try(f, IBV_WR_RDMA_WRITE, mr, 0, f->bmr, 0, 8), IBV_WC_LOC_PROT_ERR);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
}

static void a_read_into_a_read_only_region_is_a_local_protection_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = reg(&f->pair.a, f->a, SIZE, 0);

	assert_status(try(f, IBV_WR_RDMA_READ, mr, 0, f->bmr, 0, 8), IBV_WC_LOC_PROT_ERR);
	assert_untouched(f);
	ibv_dereg_mr(mr);
}

/* ---------------------------------------------------------------- receive */

static struct ibv_send_wr a_send(struct fixture *f, struct ibv_sge *sge, uint32_t len)
{
	*sge = sge_of(f->amr, 0, len);
	return request(IBV_WR_SEND, sge, NULL, 0);
}

static void a_receive_that_is_too_short_fails_at_both_ends(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from, to = sge_of(f->bmr, 0, 99);
	struct ibv_send_wr wr = a_send(f, &from, 100);

	post_recv(&f->pair.b, 1, &to, 1);
	assert_status(status_of(&f->pair, &wr), IBV_WC_REM_INV_REQ_ERR);
	assert_status(completion(f->pair.b.recv_cq).status, IBV_WC_LOC_LEN_ERR);
	assert_untouched(f);
}

static void a_receive_with_a_wrong_key_fails_at_both_ends(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from, to = sge_of(f->bmr, 0, 100);
	struct ibv_send_wr wr = a_send(f, &from, 100);

	to.lkey++;
	post_recv(&f->pair.b, 1, &to, 1);
	assert_status(status_of(&f->pair, &wr), IBV_WC_REM_OP_ERR);
	assert_status(completion(f->pair.b.recv_cq).status, IBV_WC_LOC_PROT_ERR);
	assert_untouched(f);
}

static void without_a_receive_and_retries_a_send_gives_up(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from;
	struct ibv_send_wr wr = a_send(f, &from, 100);
	int64_t rnrs = stat_of("simnic0", "rnrs");

	assert_status(status_of(&f->pair, &wr), IBV_WC_RNR_RETRY_EXC_ERR);
	/* One try and the two retries of this pair. */
	assert_int_equal(stat_of("simnic0", "rnrs") - rnrs, 3);
	/* The receiver was merely not ready. */
	assert_int_equal(end_state(&f->pair.b), IBV_QPS_RTS);
}

static void a_send_waits_for_a_late_receive(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from, to = sge_of(f->bmr, 0, 100);
	struct ibv_send_wr wr = a_send(f, &from, 100);

	post(&f->pair.a, &wr);
	assert_true(is_quiet(f->pair.a.send_cq));
	post_recv(&f->pair.b, 9, &to, 1);
	assert_status(completion(f->pair.a.send_cq).status, IBV_WC_SUCCESS);
	assert_status(completion(f->pair.b.recv_cq).status, IBV_WC_SUCCESS);
	assert_int_equal(f->b[99], 0xaa);
	assert_int_equal(f->b[100], 0xbb);
}

static void requests_behind_a_waiting_one_wait_too(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from, to = sge_of(f->bmr, 0, 100), sge = sge_of(f->amr, 0, 8);
	struct ibv_send_wr first = a_send(f, &from, 100);
	struct ibv_send_wr second = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, 4096);

	first.wr_id = 1;
	second.wr_id = 2;
	post(&f->pair.a, &first);
	post(&f->pair.a, &second);
	assert_true(is_quiet(f->pair.a.send_cq));
	assert_int_equal(f->b[4096], 0xbb);
	post_recv(&f->pair.b, 9, &to, 1);
	assert_int_equal(completion(f->pair.a.send_cq).wr_id, 1);
	assert_int_equal(completion(f->pair.a.send_cq).wr_id, 2);
	assert_int_equal(f->b[4096], 0xaa);
}

/* ----------------------------------------------------------------- states */

static void what_is_behind_an_error_is_flushed(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = sge_of(f->amr, 0, 8), to = sge_of(f->bmr, 0, 8);
	struct ibv_send_wr wr[3];

	for (int i = 0; i < 3; i++) {
		wr[i] = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, i ? 0 : SIZE);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	post_recv(&f->pair.b, 10, &to, 1);
	post(&f->pair.a, wr);
	assert_status(completion(f->pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_status(completion(f->pair.a.send_cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_status(completion(f->pair.a.send_cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_status(completion(f->pair.b.recv_cq).status, IBV_WC_WR_FLUSH_ERR);
	/* As is what is posted afterwards, at either end. */
	wr[2].next = NULL;
	assert_status(status_of(&f->pair, &wr[2]), IBV_WC_WR_FLUSH_ERR);
	post_recv(&f->pair.b, 11, &to, 1);
	assert_int_equal(completion(f->pair.b.recv_cq).wr_id, 11);
	assert_untouched(f);
}

static void an_access_error_is_told_as_an_event(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event;
	struct pollfd fd = { .fd = f->pair.b.context->async_fd, .events = POLLIN };

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, SIZE, 8), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
	assert_int_equal(ibv_get_async_event(f->pair.b.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, f->pair.b.qp);
	ibv_ack_async_event(&event);
}

static void moving_to_the_error_state_flushes_receives(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge to = sge_of(f->bmr, 0, 8);

	for (uint64_t i = 0; i < 5; i++)
		post_recv(&f->pair.b, i, &to, 1);
	assert_int_equal(end_to_state(&f->pair.b, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 5; i++) {
		struct ibv_wc wc = completion(f->pair.b.recv_cq);

		assert_int_equal(wc.wr_id, i);
		assert_status(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
}

static void a_pair_works_again_after_a_reset(void **state)
{
	struct fixture *f = *state;
	struct pair_options o = { 0 };

	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, SIZE, 8), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(end_to_state(&f->pair.a, IBV_QPS_RESET), 0);
	assert_int_equal(end_to_state(&f->pair.b, IBV_QPS_RESET), 0);
	pair_connect(&f->pair, &o);
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, 0, 8), IBV_WC_SUCCESS);
	assert_int_equal(f->b[7], 0xaa);
}

static void a_peer_that_is_gone_exhausts_the_retries(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(end_to_state(&f->pair.b, IBV_QPS_RESET), 0);
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, 0, 8), IBV_WC_RETRY_EXC_ERR);
	assert_untouched(f);
}

static void a_peer_that_is_late_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = sge_of(f->amr, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, 0);
	struct pair_options o = { 0 };

	assert_int_equal(end_to_state(&f->pair.b, IBV_QPS_RESET), 0);
	post(&f->pair.a, &wr);
	usleep(20000);
	assert_int_equal(end_to_init(&f->pair.b, PAIR_ACCESS), 0);
	assert_int_equal(end_to_rtr(&f->pair.b, &f->pair.a, &o), 0);
	assert_status(completion(f->pair.a.send_cq).status, IBV_WC_SUCCESS);
	assert_int_equal(f->b[7], 0xaa);
}

/* Points end a at b, which b's own connection does not answer. */
static void a_peer_of_another_is_not_reached(void **state)
{
	struct fixture *f = *state;
	struct pair_options o = { 0 };
	struct pair other;

	pair_open(&other, &o);
	assert_int_equal(end_to_state(&f->pair.a, IBV_QPS_RESET), 0);
	assert_int_equal(end_to_init(&f->pair.a, PAIR_ACCESS), 0);
	assert_int_equal(end_to_rtr(&f->pair.a, &other.b, &o), 0);
	assert_int_equal(end_to_rts(&f->pair.a, &o), 0);
	assert_status(try(f, IBV_WR_RDMA_WRITE, f->amr, 0, f->bmr, 0, 8), IBV_WC_RETRY_EXC_ERR);
	pair_close(&other);
}

static void an_unconnected_queue_pair_takes_no_send(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = sge_of(f->amr, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, 0), *bad;

	assert_int_equal(end_to_state(&f->pair.a, IBV_QPS_RESET), 0);
	assert_int_equal(ibv_post_send(f->pair.a.qp, &wr, &bad), EINVAL);
}

static void a_full_completion_queue_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event event;
	struct ibv_sge sge = sge_of(f->amr, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, 0);

	for (int i = 0; i < 20; i++)
		post(&f->pair.a, &wr);
	assert_int_equal(ibv_get_async_event(f->pair.a.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&event);
}

#define IS(name, test)                                        \
	{                                                     \
		name, test, open_fixture, close_fixture, NULL \
	}
#define WITH(o, name, test)                                \
	{                                                  \
		name, test, open_fixture, close_fixture, o \
	}

static struct pair_options no_write = {
	.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE,
};
static struct pair_options no_reads = { .no_rd_atomic = 1 };
static struct pair_options two_rnr = { .rnr_retry = 2 };
static struct pair_options patient = { .rnr_retry = 7, .retry_cnt = 7, .timeout = 14 };
static struct pair_options few_cqe = { .cqe = 7 };

int main(void)
{
	const struct CMUnitTest tests[] = {
		IS("a WRITE past the end is a remote access error, and both ends stop",
		   write_past_the_end_is_a_remote_access_error),
		IS("a WRITE to the last byte is right", write_to_the_last_byte_is_right),
		IS("a READ before the start is a remote access error",
		   read_before_the_start_is_a_remote_access_error),
		IS("an address that wraps is a remote access error",
		   an_address_that_wraps_is_a_remote_access_error),
		IS("a key of nobody is a remote access error",
		   a_key_of_nobody_is_a_remote_access_error),
		IS("a stale key is a remote access error", a_stale_key_is_a_remote_access_error),
		IS("a region of another PD is a remote access error",
		   a_region_of_another_pd_is_a_remote_access_error),
		IS("a region without remote write is not written",
		   a_region_without_remote_write_is_not_written),
		IS("a region without remote read is not read",
		   a_region_without_remote_read_is_not_read),
		IS("a region without remote atomic is not changed",
		   a_region_without_remote_atomic_is_not_changed),
		WITH(&no_write, "a queue pair without remote write makes an invalid request of it",
		     a_queue_pair_without_the_access_is_an_invalid_request),
		WITH(&no_reads, "a READ without resources for it is an invalid request",
		     a_read_without_resources_for_it_is_an_invalid_request),
		IS("a local list past the end is a local protection error, and the peer lives",
		   a_local_list_past_the_end_is_a_local_protection_error),
		IS("a local key of nobody is a local protection error",
		   a_local_key_of_nobody_is_a_local_protection_error),
		IS("a local region of another PD is a local protection error",
		   a_local_region_of_another_pd_is_a_local_protection_error),
		IS("a READ into a read-only region is a local protection error",
		   a_read_into_a_read_only_region_is_a_local_protection_error),
		IS("a receive that is too short fails at both ends",
		   a_receive_that_is_too_short_fails_at_both_ends),
		IS("a receive with a wrong key fails at both ends",
		   a_receive_with_a_wrong_key_fails_at_both_ends),
		WITH(&two_rnr, "a SEND without a receive gives up after its retries",
		     without_a_receive_and_retries_a_send_gives_up),
		WITH(&patient, "a SEND waits for a late receive", a_send_waits_for_a_late_receive),
		WITH(&patient, "what is behind a waiting request waits too",
		     requests_behind_a_waiting_one_wait_too),
		IS("what is behind an error is flushed, at both ends",
		   what_is_behind_an_error_is_flushed),
		IS("an access error is reported as an event", an_access_error_is_told_as_an_event),
		IS("moving to the error state flushes receives",
		   moving_to_the_error_state_flushes_receives),
		IS("a pair works again after a reset", a_pair_works_again_after_a_reset),
		IS("a peer that is gone exhausts the retries",
		   a_peer_that_is_gone_exhausts_the_retries),
		WITH(&patient, "a peer that is late is waited for",
		     a_peer_that_is_late_is_waited_for),
		IS("a peer of another is not reached", a_peer_of_another_is_not_reached),
		IS("an unconnected queue pair takes no send",
		   an_unconnected_queue_pair_takes_no_send),
		WITH(&few_cqe, "a completion queue that overruns is reported as an event",
		     a_full_completion_queue_is_an_error),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (load("simnic")) {
		printf("Bail out! simnic does not load\n");
		return 1;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	failed += unload("simnic") != 0;
	return failed != 0;
}
