/* SPDX-License-Identifier: MIT */
/*
 * simnic moves the right bytes: every operation, sizes and offsets that fit
 * no page and no word, lists, inline data, immediate data, events.
 *
 * Each test has a copy of both buffers in which it does with memcpy() what the
 * device is asked to do, and then compares all of both, so that a byte too
 * many shows as well as one too few.
 */
#include "simnic_pair.h"

#define SIZE (1U << 20)

struct fixture {
	struct pair pair;
	unsigned char *a, *b; /* the two ends' buffers */
	unsigned char *as, *bs; /* what they should hold */
	struct ibv_mr *amr, *bmr;
	size_t part; /* of the cases; 0: all */
};

/* How the module is loaded, and which devices the two ends are on. */
struct ground {
	const char *load;
	struct pair_options options;
	size_t part;
};

static struct ground one_port = { "simnic", { .a = "simnic0" }, 0 };
static struct ground two_devices = { "simnic", { .a = "simnic0", .b = "simnic1" }, 1 };
static struct ground roce_port = { "simnic netdev=,roce0", { .a = "simnic1", .gid_index = 1 }, 2 };

/* Loads the module this way unless it is. */
static int use(const char *how)
{
	static const char *loaded;

	if (loaded && !strcmp(loaded, how))
		return 0;
	if (loaded && unload("simnic"))
		return -1;
	loaded = how;
	return load(how);
}

static int open_fixture(void **state)
{
	struct ground *ground = *state;
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	if (use(ground->load))
		return -1;
	f->part = ground->part;
	pair_open(&f->pair, &ground->options);
	f->a = buffer(SIZE);
	f->b = buffer(SIZE);
	f->as = buffer(SIZE);
	f->bs = buffer(SIZE);
	fill(f->a, SIZE, 1);
	fill(f->b, SIZE, 2);
	memcpy(f->as, f->a, SIZE);
	memcpy(f->bs, f->b, SIZE);
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
	munmap(f->as, SIZE);
	munmap(f->bs, SIZE);
	free(f);
	return 0;
}

static void compare(const struct fixture *f)
{
	assert_int_equal(memcmp(f->a, f->as, SIZE), 0);
	assert_int_equal(memcmp(f->b, f->bs, SIZE), 0);
}

/* Sizes around words, lines, pages, blocks; offsets that match and do not. */
static const uint32_t sizes[] = { 1,	2,    7,    8,	  9,	 63,	64,    65,    511,
				  4095, 4096, 4097, 8191, 65535, 65536, 65537, 300001 };
static const uint32_t offsets[][2] = {
	{ 0, 0 },    { 1, 0 },	  { 0, 1 },	     { 3, 5 },	       { 4095, 4095 },
	{ 4090, 2 }, { 2, 4090 }, { 65536, 131072 }, { 70001, 12345 },
};

/* All of them on one ground, and a part that differs with it on the others. */
#define FOR_EACH_CASE(f, i, k)                                        \
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) \
		for (size_t k = (f)->part ? (i + (f)->part) % 5 : 0;  \
		     k < sizeof(offsets) / sizeof(offsets[0]); k += (f)->part ? 5 : 1)

static void refill(unsigned char *p, unsigned char *shadow, size_t offset, size_t len,
		   uint32_t seed)
{
	fill(p + offset, len, seed);
	memcpy(shadow + offset, p + offset, len);
}

static void write_moves_its_bytes(void **state)
{
	struct fixture *f = *state;

	FOR_EACH_CASE(f, i, k)
	{
		struct ibv_sge sge = sge_of(f->amr, offsets[k][0], sizes[i]);
		struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, offsets[k][1]);

		refill(f->a, f->as, offsets[k][0], sizes[i], (uint32_t)(100 * i + k));
		assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
		memcpy(f->bs + offsets[k][1], f->as + offsets[k][0], sizes[i]);
		compare(f);
	}
}

static void read_moves_its_bytes(void **state)
{
	struct fixture *f = *state;

	FOR_EACH_CASE(f, i, k)
	{
		struct ibv_sge sge = sge_of(f->amr, offsets[k][0], sizes[i]);
		struct ibv_send_wr wr = request(IBV_WR_RDMA_READ, &sge, f->bmr, offsets[k][1]);

		refill(f->b, f->bs, offsets[k][1], sizes[i], (uint32_t)(200 * i + k));
		assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
		memcpy(f->as + offsets[k][0], f->bs + offsets[k][1], sizes[i]);
		compare(f);
	}
}

static void send_moves_its_bytes(void **state)
{
	struct fixture *f = *state;

	FOR_EACH_CASE(f, i, k)
	{
		struct ibv_sge from = sge_of(f->amr, offsets[k][0], sizes[i]);
		/* Three bytes more than come, of which none may change. */
		struct ibv_sge to = sge_of(f->bmr, offsets[k][1], sizes[i] + 3);
		struct ibv_send_wr wr = request(IBV_WR_SEND, &from, NULL, 0);
		struct ibv_wc wc;

		refill(f->a, f->as, offsets[k][0], sizes[i], (uint32_t)(300 * i + k));
		post_recv(&f->pair.b, 77, &to, 1);
		assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
		wc = completion(f->pair.b.recv_cq);
		assert_status(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wr_id, 77);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_int_equal(wc.qp_num, f->pair.b.qp->qp_num);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, 0);
		memcpy(f->bs + offsets[k][1], f->as + offsets[k][0], sizes[i]);
		compare(f);
	}
}

static void nothing_is_moved_by_an_empty_request(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, NULL, f->bmr, 0);

	wr.num_sge = 0;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	post_recv(&f->pair.b, 1, NULL, 0);
	wr.opcode = IBV_WR_SEND;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	assert_int_equal(completion(f->pair.b.recv_cq).byte_len, 0);
	compare(f);
}

static void send_brings_its_immediate(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from = sge_of(f->amr, 10, 100), to = sge_of(f->bmr, 20, 100);
	struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, &from, NULL, 0);
	struct ibv_wc wc;

	wr.imm_data = htobe32(0xc0ffee01);
	post_recv(&f->pair.b, 3, &to, 1);
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	wc = completion(f->pair.b.recv_cq);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0xc0ffee01);
	memcpy(f->bs + 20, f->as + 10, 100);
	compare(f);
}

static void write_brings_its_immediate_and_takes_a_receive(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from = sge_of(f->amr, 5, 5000), to = sge_of(f->bmr, 900000, 8);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &from, f->bmr, 1234);
	struct ibv_wc wc;

	wr.imm_data = htobe32(42);
	post_recv(&f->pair.b, 4, &to, 1);
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	wc = completion(f->pair.b.recv_cq);
	assert_status(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wr_id, 4);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(be32toh(wc.imm_data), 42);
	memcpy(f->bs + 1234, f->as + 5, 5000);
	compare(f);
}

static void lists_are_gathered_and_scattered(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge from[16], to[16];
	struct ibv_send_wr wr = request(IBV_WR_SEND, from, NULL, 0);
	unsigned char flat[16 * 2000];
	size_t n = 0, pos = 0;

	wr.num_sge = 16;
	for (uint32_t i = 0; i < 16; i++) {
		from[i] = sge_of(f->amr, i * 50000 + i, 100 * i + 1);
		memcpy(flat + n, f->as + i * 50000 + i, 100 * i + 1);
		n += 100 * i + 1;
		to[i] = sge_of(f->bmr, (15 - i) * 60000 + 3, 799);
	}
	post_recv(&f->pair.b, 5, to, 16);
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	assert_int_equal(completion(f->pair.b.recv_cq).byte_len, n);
	for (uint32_t i = 0; pos < n; i++) {
		size_t len = n - pos < 799 ? n - pos : 799;

		memcpy(f->bs + (15 - i) * 60000 + 3, flat + pos, len);
		pos += len;
	}
	compare(f);
}

static void read_scatters_over_a_list(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge to[3] = { sge_of(f->amr, 1, 10), sge_of(f->amr, 500, 5000),
				 sge_of(f->amr, 40001, 3) };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_READ, to, f->bmr, 4090);

	wr.num_sge = 3;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	memcpy(f->as + 1, f->bs + 4090, 10);
	memcpy(f->as + 500, f->bs + 4100, 5000);
	memcpy(f->as + 40001, f->bs + 9100, 3);
	compare(f);
}

static void inline_data_is_taken_at_once(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = { (uintptr_t)(f->a + 17), 200, 0 };
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, f->bmr, 33);

	/* No key is asked for: the bytes travel in the request. */
	wr.send_flags |= IBV_SEND_INLINE;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	memcpy(f->bs + 33, f->as + 17, 200);
	compare(f);
}

static uint64_t *word(unsigned char *p, size_t offset)
{
	return (uint64_t *)(void *)(p + offset);
}

static void fetch_and_add_adds_and_gives_the_old_value(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = sge_of(f->amr, 64, 8);
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, NULL, 0);

	wr.wr.atomic.remote_addr = (uintptr_t)f->b + 4096 - 8;
	wr.wr.atomic.rkey = f->bmr->rkey;
	wr.wr.atomic.compare_add = 1000;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	*word(f->as, 64) = *word(f->bs, 4096 - 8);
	*word(f->bs, 4096 - 8) += 1000;
	compare(f);
}

static void compare_and_swap_swaps_only_what_compares(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = sge_of(f->amr, 128, 8);
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, NULL, 0);

	wr.wr.atomic.remote_addr = (uintptr_t)f->b + 800;
	wr.wr.atomic.rkey = f->bmr->rkey;
	wr.wr.atomic.compare_add = *word(f->bs, 800) + 1;
	wr.wr.atomic.swap = 99;
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	*word(f->as, 128) = *word(f->bs, 800);
	compare(f);

	wr.wr.atomic.compare_add = *word(f->bs, 800);
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	*word(f->bs, 800) = 99;
	compare(f);
}

static void a_batch_is_done_in_order(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr[100];
	struct ibv_sge sge[100];
	struct ibv_wc wc;

	for (uint32_t i = 0; i < 100; i++) {
		sge[i] = sge_of(f->amr, i * 100, 100);
		wr[i] = request(IBV_WR_RDMA_WRITE, &sge[i], f->bmr, 500000 + i * 50);
		wr[i].wr_id = i;
		wr[i].next = i < 99 ? &wr[i + 1] : NULL;
		/* Only each tenth one answers. */
		wr[i].send_flags = i % 10 == 9 ? IBV_SEND_SIGNALED : 0;
		memcpy(f->bs + 500000 + i * 50, f->as + i * 100, 100);
	}
	post(&f->pair.a, wr);
	for (uint64_t i = 9; i < 100; i += 10) {
		wc = completion(f->pair.a.send_cq);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	}
	compare(f);
	assert_true(is_quiet(f->pair.a.send_cq));
}

static int event_within(struct end *e, int ms)
{
	struct pollfd fd = { .fd = e->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, ms) != 1)
		return 0;
	assert_int_equal(ibv_get_cq_event(e->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static void send_one(struct fixture *f, unsigned int flags)
{
	struct ibv_sge from = sge_of(f->amr, 0, 8), to = sge_of(f->bmr, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_SEND, &from, NULL, 0);

	wr.send_flags |= flags;
	post_recv(&f->pair.b, 1, &to, 1);
	assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
	completion(f->pair.b.recv_cq);
}

static void an_armed_queue_gives_one_event(void **state)
{
	struct fixture *f = *state;
	struct end *b = &f->pair.b;

	send_one(f, 0);
	assert_int_equal(event_within(b, PAIR_QUIET_MS), 0);
	assert_int_equal(ibv_req_notify_cq(b->recv_cq, 0), 0);
	assert_int_equal(event_within(b, PAIR_QUIET_MS), 0);
	send_one(f, 0);
	assert_int_equal(event_within(b, PAIR_WAIT_MS), 1);
	send_one(f, 0);
	assert_int_equal(event_within(b, PAIR_QUIET_MS), 0);
}

static void solicited_only_waits_for_a_solicited_one(void **state)
{
	struct fixture *f = *state;
	struct end *b = &f->pair.b;

	assert_int_equal(ibv_req_notify_cq(b->recv_cq, 1), 0);
	send_one(f, 0);
	assert_int_equal(event_within(b, PAIR_QUIET_MS), 0);
	send_one(f, IBV_SEND_SOLICITED);
	assert_int_equal(event_within(b, PAIR_WAIT_MS), 1);
}

static void every_page_size_limit_moves_the_same_bytes(void **state)
{
	struct fixture *f = *state;
	unsigned int least = (unsigned int)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));

	for (unsigned int shift = least; shift <= 63; shift += 3) {
		struct ibv_sge sge = sge_of(f->amr, 4097, 700000);
		struct ibv_send_wr wr;
		struct ibv_mr *mr;

		set("simnic0", "max_page_shift", shift);
		mr = reg(&f->pair.b, f->b, SIZE, PAIR_ACCESS);
		assert_true(mr_facts("simnic0", mr).page_shift <= shift);
		wr = request(IBV_WR_RDMA_WRITE, &sge, mr, 11 + shift);
		assert_status(status_of(&f->pair, &wr), IBV_WC_SUCCESS);
		memcpy(f->bs + 11 + shift, f->as + 4097, 700000);
		compare(f);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	set("simnic0", "max_page_shift", 63);
}

static void device_says_what_it_is(void **state)
{
	struct fixture *f = *state;
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(f->pair.a.context, &attr), 0);
	assert_int_equal(attr.vendor_id, 0x1234);
	assert_true(attr.max_qp_wr >= 4096);
	assert_int_equal(attr.page_size_cap, -(uint64_t)sysconf(_SC_PAGESIZE));
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
}

static void a_roce_port_has_the_gids_of_its_netdev(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *context = f->pair.a.context;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(ibv_query_gid_ex(context, 1, 1, &entry, 0), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(be64toh(entry.gid.global.interface_id), 0x0000ffffc0000201);
}

#define ON(ground, name, test)                                  \
	{                                                       \
		name, test, open_fixture, close_fixture, ground \
	}
#define OPERATIONS(g, on)                                                                         \
	ON(g, on ": a WRITE moves exactly its bytes", write_moves_its_bytes),                     \
		ON(g, on ": a READ moves exactly its bytes", read_moves_its_bytes),               \
		ON(g, on ": a SEND moves exactly its bytes", send_moves_its_bytes),               \
		ON(g, on ": an empty request moves nothing",                                      \
		   nothing_is_moved_by_an_empty_request),                                         \
		ON(g, on ": a SEND brings its immediate", send_brings_its_immediate),             \
		ON(g, on ": a WRITE brings its immediate and takes a receive",                    \
		   write_brings_its_immediate_and_takes_a_receive),                               \
		ON(g, on ": lists are gathered and scattered", lists_are_gathered_and_scattered), \
		ON(g, on ": a READ scatters over a list", read_scatters_over_a_list),             \
		ON(g, on ": inline data needs no key", inline_data_is_taken_at_once),             \
		ON(g, on ": fetch-and-add adds and gives the old value",                          \
		   fetch_and_add_adds_and_gives_the_old_value),                                   \
		ON(g, on ": compare-and-swap swaps only what compares",                           \
		   compare_and_swap_swaps_only_what_compares),                                    \
		ON(g, on ": a batch is done in order and answers where asked",                    \
		   a_batch_is_done_in_order)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(&one_port, "the device says what it is", device_says_what_it_is),
		OPERATIONS(&one_port, "one InfiniBand port"),
		ON(&one_port, "an armed queue gives one event", an_armed_queue_gives_one_event),
		ON(&one_port, "an armed queue can wait for a solicited completion",
		   solicited_only_waits_for_a_solicited_one),
		ON(&one_port, "the bytes are the same whatever the largest page",
		   every_page_size_limit_moves_the_same_bytes),
		OPERATIONS(&two_devices, "between two devices"),
		ON(&roce_port, "a RoCE port has the GIDs of its netdev",
		   a_roce_port_has_the_gids_of_its_netdev),
		OPERATIONS(&roce_port, "one RoCE port"),
	};
	int failed;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (system("ip link add roce0 type dummy && ip link set roce0 up && "
		   "ip addr add 192.0.2.1/24 dev roce0")) {
		printf("Bail out! no dummy netdev\n");
		return 1;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	failed += unload("simnic") != 0;
	system("ip link del roce0");
	return failed != 0;
}
