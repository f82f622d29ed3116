/* SPDX-License-Identifier: MIT */
/* mrguard bench: bandwidth and latency over RDMA, to a `mrguard serve'. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/fail.h"
#include "tools/pong.h"

#define MAX_BATCH 4096
#define MAX_FLIGHT 1024
#define MAX_THREADS 64
#define MAX_SAMPLES 1000000
#define WARM_UP 16 /* operations that are not counted */
#define CHECK_ROUNDS 8
#define MIB 1048576.0

static void parse_ops(const struct argp_state *state, const char *option, char *list, void *filled)
{
	struct bench_args *args = filled;
	char *save = NULL;

	args->op_count = 0;
	for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		int op = BENCH_READ;

		while (op <= BENCH_BOTH && strcmp(word, bench_op_name((enum bench_op)op)))
			op++;
		if (op > BENCH_BOTH || args->op_count == 3)
			args_expect(state, option, word, "read, write or both");
		args->ops[args->op_count++] = (enum bench_op)op;
	}
}

static void parse_sizes(const struct argp_state *state, const char *option, char *list,
			void *filled)
{
	struct bench_args *args = filled;
	char *save = NULL;

	args->size_count = 0;
	for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (args->size_count == BENCH_SIZES)
			args_expect(state, option, word, "one of at most %d sizes", BENCH_SIZES);
		args->sizes[args->size_count++] = args_between(state, option, word, 1, UINT64_MAX);
	}
}

static const char *const only_words[] = { "both", "bandwidth", "latency", NULL };

#define AT(field) ARGS_AT(struct bench_args, field)
static const struct args_option options[] = {
	{ .value = "peer", .kind = ARGS_TEXT, AT(peer) },
	{ .help = "What is measured:" },
	{ "op", "LIST", "read, write and both (each way at once), with commas (read,write)",
	  ARGS_OTHER, .parse = parse_ops },
	{ "sizes", "LIST", "Bytes of an operation, with commas (64,4K,64K,1M)", ARGS_OTHER,
	  .parse = parse_sizes },
	{ "batch", "N", "Operations of a request (1)", ARGS_NUMBER, AT(batch), .min = 1,
	  .max = MAX_BATCH },
	{ "flight", "N", "Requests at a time (16)", ARGS_NUMBER, AT(flight), .min = 1,
	  .max = MAX_FLIGHT },
	{ "threads", "N", "Threads, each with an endpoint (1)", ARGS_NUMBER, AT(threads), .min = 1,
	  .max = MAX_THREADS },
	{ "seconds", "N", "Of each measurement (1)", ARGS_SECONDS, AT(seconds) },
	{ "only", "WHICH", "both (default), bandwidth or latency", ARGS_WORD, AT(only),
	  .words = only_words },
	{ "pong", NULL, "Latency is half of a round trip of WRITEs from memory to memory",
	  ARGS_FLAG, AT(pong) },
	{ "events", NULL, "Sleep for completions, do not poll", ARGS_FLAG, AT(events) },
	{ "check", NULL, "Also write patterns, read them back and compare every byte", ARGS_FLAG,
	  AT(check) },
	{ .kind = ARGS_GROUP, .group = fabric_options, AT(fabric) },
	{ .kind = ARGS_GROUP, .group = output_options, AT(output) },
	{ "plot", "FILE", "Draw FILE.svg or FILE.png, by gnuplot", ARGS_TEXT, AT(plot) },
	{ 0 },
};

static void check_args(const struct argp_state *state, const void *filled)
{
	if (!((const struct bench_args *)filled)->peer)
		argp_error(state, "The peer is needed, as HOST:PORT.");
}

static const struct args_command command = {
	.options = options,
	.check = check_args,
	.usage = "HOST:PORT",
	.doc = "Measure bandwidth and latency over RDMA to a host that runs "
	       "`mrguard serve --memory=SIZE --writable'.",
};

/* ---- a thread's endpoint and memory ---- */

struct bench;

struct runner {
	struct bench *bench;
	pthread_t thread;
	struct mrg_ep *ep;
	struct fabric_offer offer;
	struct fabric_buffer buffer;
	uint64_t from; /* its part of the peer's memory */
	uint64_t room;
	struct mrg_op *ops;
	struct mrg_local *parts;
	struct fabric fabric; /* a copy: failures are its own */
	uint64_t count; /* operations */
	double seconds;
	int ret;
};

struct bench {
	struct bench_args args;
	struct fabric fabric;
	struct runner runners[MAX_THREADS];
	struct bench_row row;
	pthread_mutex_t lock;
	pthread_cond_t told;
	enum { START_WAIT, START_GO, START_GIVE_UP } start; /* under @lock */
	double *samples;
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Slots are used again and again, as a ring of messages would be. */
static uint64_t slots(const struct runner *r, uint64_t size)
{
	uint64_t n = r->room / size;

	return n < MAX_BATCH ? n : MAX_BATCH;
}

static void plan_ops(struct runner *r, enum bench_op op, uint64_t size, uint32_t count)
{
	uint64_t n = slots(r, size);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = i % n * size;
		bool read = op == BENCH_READ || (op == BENCH_BOTH && i % 2);

		r->parts[i] = (struct mrg_local){ .mr = r->buffer.mr,
						  .length = size,
						  .addr = (uintptr_t)r->buffer.bytes + at };
		r->ops[i] = (struct mrg_op){ .code = read ? MRG_OP_READ : MRG_OP_WRITE,
					     .local_count = 1,
					     .local = &r->parts[i],
					     .remote = r->offer.remote,
					     .remote_addr = mrg_remote_addr(r->offer.remote) +
							    r->from + at };
	}
}

static void sleep_for_completion(struct runner *r)
{
	struct pollfd p = { .fd = mrg_ep_fd(r->ep), .events = POLLIN };

	if (!mrg_ep_arm(r->ep))
		poll(&p, 1, -1);
}

/* At least one request that is done; their number or -errno. */
static int collect(struct runner *r)
{
	struct mrg_done done[64];
	int n, ret = 0;

	while (!(n = mrg_poll(r->ep, done, 64)))
		if (r->bench->args.events)
			sleep_for_completion(r);
	for (int i = 0; i < n; i++) {
		if (done[i].status) {
			mrg_request_error(r->ep, done[i].request, &r->fabric.error);
			ret = done[i].status;
		}
		mrg_request_free(r->ep, done[i].request);
	}
	return ret ? ret : n;
}

static int submit(struct runner *r, const struct mrg_op *ops, uint32_t count)
{
	int ret = mrg_submit(r->ep, ops, count, NULL, NULL);

	if (ret)
		mrg_transfer_last_error(r->fabric.transfer, &r->fabric.error);
	return ret;
}

/* ---- bandwidth ---- */

/* All start together, or none where one could not be made. */
static bool await_start(struct bench *b)
{
	bool may;

	pthread_mutex_lock(&b->lock);
	while (b->start == START_WAIT)
		pthread_cond_wait(&b->told, &b->lock);
	may = b->start == START_GO;
	pthread_mutex_unlock(&b->lock);
	return may;
}

static void tell(struct bench *b, int word)
{
	pthread_mutex_lock(&b->lock);
	b->start = word;
	pthread_cond_broadcast(&b->told);
	pthread_mutex_unlock(&b->lock);
}

static void *run_bandwidth(void *arg)
{
	struct runner *r = arg;
	const struct bench_args *args = &r->bench->args;
	uint32_t in_flight = 0;
	double start, end;
	int n;

	r->count = 0;
	if (!await_start(r->bench))
		return NULL;
	start = now_us();
	end = start + args->seconds * 1e6;
	do {
		while (in_flight < args->flight && !r->ret && now_us() < end) {
			r->ret = submit(r, r->ops, args->batch);
			in_flight += !r->ret;
		}
		if (!in_flight)
			break;
		n = collect(r);
		if (n < 0) {
			r->ret = n;
			break;
		}
		in_flight -= (uint32_t)n;
		r->count += (uint64_t)n * args->batch;
	} while (in_flight || !r->ret);
	r->seconds = (now_us() - start) / 1e6;
	return NULL;
}

static int first_failure(struct bench *b)
{
	for (uint32_t i = 0; i < b->args.threads; i++) {
		if (!b->runners[i].ret)
			continue;
		b->fabric.error = b->runners[i].fabric.error;
		return b->runners[i].ret;
	}
	return 0;
}

static int bandwidth(struct bench *b)
{
	uint64_t count = 0;
	double seconds = 0;
	uint32_t made;
	int rc = 0;

	tell(b, START_WAIT);
	for (made = 0; made < b->args.threads; made++) {
		plan_ops(&b->runners[made], b->row.op, b->row.size, b->args.batch);
		rc = pthread_create(&b->runners[made].thread, NULL, run_bandwidth,
				    &b->runners[made]);
		if (rc)
			break;
	}
	tell(b, rc ? START_GIVE_UP : START_GO);
	for (uint32_t i = 0; i < made; i++) {
		pthread_join(b->runners[i].thread, NULL);
		count += b->runners[i].count;
		if (b->runners[i].seconds > seconds)
			seconds = b->runners[i].seconds;
	}
	if (rc)
		return base_error_set(
			&b->fabric.error, -rc, "bench",
			"Give fewer --threads, or raise the limit (ulimit -u, pids.max).",
			"Thread %u of %u could not be started: %s.", made + 1, b->args.threads,
			strerror(rc));
	b->row.ops_s = (double)count / seconds;
	b->row.mib_s = b->row.ops_s * (double)b->row.size / MIB;
	return first_failure(b);
}

/* ---- latency: one operation at a time ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(const double *samples, uint64_t count, double share)
{
	uint64_t at = (uint64_t)(share * (double)(count - 1) + 0.5);

	return samples[at];
}

static void summarise(struct bench *b, uint64_t count)
{
	struct bench_row *row = &b->row;

	qsort(b->samples, count, sizeof(*b->samples), by_value);
	row->samples = count;
	row->min = b->samples[0];
	row->p50 = percentile(b->samples, count, 0.5);
	row->p90 = percentile(b->samples, count, 0.9);
	row->p99 = percentile(b->samples, count, 0.99);
	row->p999 = percentile(b->samples, count, 0.999);
	row->max = b->samples[count - 1];
}

/* How many rounds fill the time is found out by a few. */
static int pong(struct bench *b)
{
	struct runner *r = &b->runners[0];
	uint64_t count = 8 * WARM_UP;
	double before = now_us(), rounds;
	int ret = pong_measure(&r->fabric, r->ep, &r->offer, &r->buffer, b->row.size, count,
			       b->samples);

	rounds = b->args.seconds * 1e6 * (double)count / (now_us() - before);
	if (rounds > (double)count)
		count = rounds < MAX_SAMPLES ? (uint64_t)rounds : MAX_SAMPLES;
	if (!ret)
		ret = pong_measure(&r->fabric, r->ep, &r->offer, &r->buffer, b->row.size, count,
				   b->samples);
	if (ret)
		b->fabric.error = r->fabric.error;
	else
		summarise(b, count);
	return ret;
}

static int latency(struct bench *b)
{
	struct runner *r = &b->runners[0];
	double end = now_us() + b->args.seconds * 1e6, before;
	uint64_t count = 0;
	int ret = 0;

	plan_ops(r, b->row.op, b->row.size, 2);
	for (uint64_t i = 0; count < MAX_SAMPLES && (!count || now_us() < end); i++) {
		before = now_us();
		ret = submit(r, &r->ops[i % 2], 1);
		if (!ret)
			ret = collect(r);
		if (ret < 0)
			break;
		if (i >= WARM_UP)
			b->samples[count++] = now_us() - before;
	}
	if (ret < 0) {
		b->fabric.error = r->fabric.error;
		return ret;
	}
	summarise(b, count);
	return 0;
}

/* ---- data ---- */

static uint64_t pattern(uint64_t round, uint64_t at)
{
	uint64_t x = (round << 40 ^ at) * 0x9fb21c651e98df25ULL;

	return x ^ x >> 31;
}

static int wait_for(struct runner *r)
{
	int n = collect(r);

	return n < 0 ? n : 0;
}

/* Patterns there and back, by operations of the size that is measured. */
static int check_round(struct bench *b, struct runner *r, uint64_t round)
{
	uint64_t size = b->row.size, n = slots(r, size), words;
	uint64_t *at = (uint64_t *)r->buffer.bytes;
	uint32_t count = (uint32_t)(n < b->args.batch ? n : b->args.batch);
	int ret;

	words = (count * size + 7) / 8;
	for (uint64_t i = 0; i < words; i++)
		at[i] = pattern(round, i);
	plan_ops(r, BENCH_WRITE, size, count);
	ret = submit(r, r->ops, count);
	if (!ret)
		ret = wait_for(r);
	memset(at, 0x5a, words * 8);
	plan_ops(r, BENCH_READ, size, count);
	if (!ret)
		ret = submit(r, r->ops, count);
	if (!ret)
		ret = wait_for(r);
	for (uint64_t i = 0; i < count * size && !ret; i++) {
		uint64_t word = pattern(round, i / 8);

		b->row.wrong += r->buffer.bytes[i] != ((unsigned char *)&word)[i % 8];
	}
	b->row.checked += count * size;
	return ret;
}

static int check(struct bench *b)
{
	struct runner *r = &b->runners[0];
	int ret = 0;

	for (uint64_t round = 0; round < CHECK_ROUNDS && !ret; round++)
		ret = check_round(b, r, round);
	if (ret)
		b->fabric.error = r->fabric.error;
	return ret;
}

/* ---- start and end ---- */

static uint64_t largest(const struct bench_args *args)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < args->size_count; i++)
		most = args->sizes[i] > most ? args->sizes[i] : most;
	return most;
}

static int check_room(struct bench *b, struct runner *r, uint32_t number)
{
	uint64_t need = largest(&b->args);

	if (!r->offer.writable)
		return base_error_set(&b->fabric.error, -EACCES, "bench",
				      "Start the server with --memory=SIZE --writable.",
				      "The server does not let clients write %s.", r->offer.name);
	r->room = r->offer.length / b->args.threads / 8 * 8;
	r->from = r->room * number;
	if (r->room >= need)
		return 0;
	return base_error_set(
		&b->fabric.error, -ERANGE, "bench", "Serve more, or measure smaller sizes.",
		"The server has %s with %llu bytes, and %u threads with %llu bytes each need more.",
		r->offer.name, (unsigned long long)r->offer.length, b->args.threads,
		(unsigned long long)need);
}

static int start_runner(struct bench *b, uint32_t number)
{
	struct runner *r = &b->runners[number];
	uint64_t most = 64 << 20;
	int ret;

	r->bench = b;
	ret = fabric_connect(&b->fabric, b->args.peer, &r->ep);
	if (!ret)
		ret = fabric_take_offer(&b->fabric, r->ep, &r->offer);
	if (!ret)
		ret = check_room(b, r, number);
	if (ret)
		return ret;
	if (r->room > most && largest(&b->args) < most)
		r->room = most;
	r->ops = calloc(MAX_BATCH, sizeof(*r->ops));
	r->parts = calloc(MAX_BATCH, sizeof(*r->parts));
	if (!r->ops || !r->parts)
		return base_error_set(&b->fabric.error, -ENOMEM, "bench", "Give smaller --sizes.",
				      "There is no memory for the measurement.");
	ret = fabric_alloc(&b->fabric, r->room, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			   &r->buffer);
	/* Pages that are not there yet would be measured as well. */
	if (!ret)
		memset(r->buffer.bytes, 0x33, r->buffer.length);
	r->fabric = b->fabric;
	return ret;
}

static void end_runner(struct runner *r)
{
	mrg_ep_close(r->ep);
	mrg_remote_free(r->offer.remote);
	fabric_free(&r->buffer);
	free(r->ops);
	free(r->parts);
}

static int measure(struct bench *b)
{
	int ret = 0;

	if (b->args.only != BENCH_BANDWIDTH)
		ret = b->args.pong ? pong(b) : latency(b);
	if (!ret && b->args.only != BENCH_LATENCY)
		ret = bandwidth(b);
	if (!ret && b->args.check)
		ret = check(b);
	return ret;
}

static int measure_all(struct bench *b, struct bench_row *rows, unsigned int *count)
{
	struct bench_args *args = &b->args;
	int ret = 0;

	if (!args->output.json)
		bench_text(args, NULL);
	for (unsigned int o = 0; o < args->op_count && !ret; o++)
		for (unsigned int i = 0; i < args->size_count && !ret; i++) {
			b->row = (struct bench_row){ .op = args->ops[o], .size = args->sizes[i] };
			ret = measure(b);
			if (ret)
				break;
			rows[(*count)++] = b->row;
			if (!args->output.json)
				bench_text(args, &b->row);
		}
	return ret;
}

static int report(struct bench *b, const struct bench_row *rows, unsigned int count)
{
	struct mrg_ep_stats stats;
	uint64_t wrong = 0;
	int ret = 0;

	mrg_ep_stats(b->runners[0].ep, &stats);
	if (b->args.output.json)
		bench_json(&b->args, rows, count, &stats);
	if (b->args.plot)
		ret = bench_plot(&b->args, rows, count, &b->fabric.error);
	for (unsigned int i = 0; i < count; i++)
		wrong += rows[i].wrong;
	if (wrong && !ret)
		ret = base_error_set(&b->fabric.error, -EBADMSG, "check",
				     "Run `mrguard selftest' on both hosts.",
				     "The check found %llu wrong bytes.",
				     (unsigned long long)wrong);
	return ret;
}

static int bench(struct bench *b)
{
	struct bench_row rows[3 * BENCH_SIZES];
	unsigned int count = 0;
	int ret = fabric_open(&b->fabric, &b->args.fabric);

	b->samples = calloc(MAX_SAMPLES, sizeof(*b->samples));
	if (!ret && !b->samples)
		ret = base_error_set(&b->fabric.error, -ENOMEM, "bench", "Give smaller --sizes.",
				     "There is no memory for the measurement.");
	for (uint32_t i = 0; i < b->args.threads && !ret; i++)
		ret = start_runner(b, i);
	if (!ret)
		ret = measure_all(b, rows, &count);
	if (!ret)
		ret = report(b, rows, count);
	for (uint32_t i = 0; i < b->args.threads; i++)
		end_runner(&b->runners[i]);
	free(b->samples);
	if (b->fabric.verbs)
		fabric_close(&b->fabric);
	return ret;
}

int cmd_bench(int argc, char **argv)
{
	static struct bench b = { .lock = PTHREAD_MUTEX_INITIALIZER,
				  .told = PTHREAD_COND_INITIALIZER,
				  .args = { .ops = { BENCH_READ, BENCH_WRITE },
					    .op_count = 2,
					    .sizes = { 64, 4096, 65536, 1 << 20 },
					    .size_count = 4,
					    .batch = 1,
					    .flight = 16,
					    .threads = 1,
					    .seconds = 1 } };
	if (args_parse(&command, argc, argv, &b.args))
		return EXIT_FAILED;
	return fail_status(bench(&b), &b.fabric.error);
}
