/* SPDX-License-Identifier: MIT */
/*
 * Transfers for long: several endpoints move both ways at once, READ and WRITE
 * mixed in a batch, 1 byte to 4 MiB, unaligned, gathered and scattered.  Every
 * byte is compared, those between the ranges too; each request must be handed
 * out once; memory and the kernel's objects are sampled while endpoints and
 * buffers beside them come and go.
 *
 * The checker itself is tested first: a byte flipped after the transfer, and a
 * completion dropped or taken twice, must show.
 */
#include <stdatomic.h>

#include "transfer_kit.h"

#define ENDPOINTS 3
#define WORKERS (2 * ENDPOINTS)
#define AREA (8 * MIB) /* of a worker, on either side */
#define LARGEST_SHIFT 22 /* 4 MiB */
#define MOVES 64 /* of a round, over its requests */
#define REQUESTS 4
#define GAP 64 /* between ranges, at most */
#define CI_SECONDS 30
#define FULL_SECONDS 3600
#define ROUND_SECONDS 900 /* without an end: lost */
#define PATIENCE_MS 300000 /* of passers-by, on a machine that has other work */
#define SAMPLES 6 /* at least, however slow the machine */
#define RSS_SLACK_KB 1024 /* malloc's own unrest */
#define VMA_SLACK 8

enum injury { UNHURT, BYTE_FLIPPED, GAP_FLIPPED, COMPLETION_DROPPED, COMPLETION_TWICE };

/* One operation: bytes at @at of this side and @there of the peer's. */
struct move {
	enum mrg_op_code code;
	uint64_t at, there, length, seed;
	uint64_t gap, peer_gap; /* before it, on either side */
};

struct worker {
	struct mrg_ep *ep;
	struct kit_buffer *mine, *theirs;
	uint64_t base; /* of its area in both buffers */
	unsigned int dice;
	enum injury injury; /* of the next round */
	pthread_t thread;

	struct move moves[MOVES];
	size_t count;
	uint64_t serial; /* of the next request */
	uint64_t first; /* of this round's */
	uint64_t totals[REQUESTS];
	unsigned int handed_out[REQUESTS];

	uint64_t rounds, ops, bytes, requests;
	uint64_t wrong, failed, lost, twice, strange, part;
};

static struct mrg_ep *eps[ENDPOINTS], *peers[ENDPOINTS];
static struct kit_pair pair;
static struct kit_buffer l, r;
static atomic_bool over;

static uint64_t roll(struct worker *w, uint64_t n)
{
	return ((uint64_t)rand_r(&w->dice) << 31 ^ (uint64_t)rand_r(&w->dice)) % n;
}

/* As many small ones as large ones, by powers of two. */
static uint64_t a_length(struct worker *w)
{
	return 1 + roll(w, 1ull << roll(w, LARGEST_SHIFT + 1));
}

static void plan_round(struct worker *w)
{
	uint64_t at = 0, there = 0, length;

	for (w->count = 0; w->count < MOVES; w->count++) {
		struct move *m = &w->moves[w->count];

		length = a_length(w);
		if ((at > there ? at : there) + length + GAP > AREA)
			break;
		m->gap = 1 + roll(w, GAP - 1);
		m->peer_gap = 1 + roll(w, GAP - 1);
		m->at = w->base + at + m->gap;
		m->there = w->base + there + m->peer_gap;
		m->length = length;
		m->code = roll(w, 2) ? MRG_OP_READ : MRG_OP_WRITE;
		m->seed = kit_mix(w->base + w->rounds * MOVES + w->count);
		at += m->gap + length;
		there += m->peer_gap + length;
	}
}

static unsigned char *source_of(struct worker *w, const struct move *m)
{
	return m->code == MRG_OP_READ ? w->theirs->bytes + m->there : w->mine->bytes + m->at;
}

static unsigned char *target_of(struct worker *w, const struct move *m)
{
	return m->code == MRG_OP_READ ? w->mine->bytes + m->at : w->theirs->bytes + m->there;
}

static void fill_round(struct worker *w)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct move *m = &w->moves[i];

		kit_fill(source_of(w, m), m->length, m->seed);
		kit_fill(w->mine->bytes + m->at - m->gap, m->gap, ~m->seed);
		kit_fill(w->theirs->bytes + m->there - m->peer_gap, m->peer_gap, ~m->seed);
	}
}

static void compare_round(struct worker *w)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct move *m = &w->moves[i];

		w->wrong += kit_wrong(target_of(w, m), m->length, m->seed);
		w->wrong += kit_wrong(w->mine->bytes + m->at - m->gap, m->gap, ~m->seed);
		w->wrong +=
			kit_wrong(w->theirs->bytes + m->there - m->peer_gap, m->peer_gap, ~m->seed);
	}
}

/* One range of this side, or three for every fourth operation. */
static uint32_t cut_local(struct worker *w, const struct move *m, struct mrg_local parts[3])
{
	uint64_t at = (uintptr_t)w->mine->bytes + m->at;
	uint64_t a = m->length / 3, b = m->length / 2;

	if (m->length < 8 || roll(w, 4)) {
		parts[0] = (struct mrg_local){ .mr = w->mine->mr, .addr = at, .length = m->length };
		return 1;
	}
	parts[0] = (struct mrg_local){ .mr = w->mine->mr, .addr = at, .length = a };
	parts[1] = (struct mrg_local){ .mr = w->mine->mr, .addr = at + a, .length = b };
	parts[2] = (struct mrg_local){ .mr = w->mine->mr,
				       .addr = at + a + b,
				       .length = m->length - a - b };
	return 3;
}

/* Moves @from to @to as request @n of the round. */
static void submit_part(struct worker *w, size_t n, size_t from, size_t to)
{
	struct mrg_submit_opts opts = { .size = sizeof(opts),
					.flags = MRG_SUBMIT_WAIT,
					.user = (void *)(uintptr_t)w->serial };
	struct mrg_local parts[MOVES][3];
	struct mrg_op ops[MOVES];

	w->totals[n] = 0;
	w->handed_out[n] = 0;
	for (size_t i = from; i < to; i++) {
		const struct move *m = &w->moves[i];
		uint32_t count = cut_local(w, m, parts[i - from]);

		ops[i - from] =
			(struct mrg_op){ .code = m->code,
					 .local_count = count,
					 .local = parts[i - from],
					 .remote = w->theirs->remote,
					 .remote_addr = (uintptr_t)w->theirs->bytes + m->there };
		w->totals[n] += m->length;
	}
	if (mrg_submit(w->ep, ops, to - from, &opts, NULL))
		bail("a batch was not taken");
	w->serial++;
	w->requests++;
	w->ops += to - from;
	w->bytes += w->totals[n];
}

static size_t submit_round(struct worker *w)
{
	size_t requests = 1 + roll(w, REQUESTS), from = 0, n = 0;

	if (requests > w->count)
		requests = w->count;
	w->first = w->serial;
	for (; n < requests; n++) {
		size_t to = n + 1 == requests ? w->count : from + w->count / requests;

		submit_part(w, n, from, to);
		from = to;
	}
	return n;
}

static void tally(struct worker *w, const struct mrg_done *done, size_t requests)
{
	uint64_t n = (uintptr_t)done->user - w->first;
	struct mrg_result result;

	mrg_request_result(w->ep, done->request, &result);
	w->failed += done->status != 0;
	if (n >= requests) {
		w->strange++; /* of another round, or of none */
		return;
	}
	w->part += result.bytes != w->totals[n];
	w->handed_out[n]++;
}

static int collect_some(struct worker *w, size_t requests)
{
	struct pollfd fd = { .fd = mrg_ep_fd(w->ep), .events = POLLIN };
	struct mrg_done done[REQUESTS];
	int n = mrg_poll(w->ep, done, REQUESTS);

	for (int i = 0; i < n; i++) {
		if (w->injury == COMPLETION_DROPPED)
			w->injury = UNHURT;
		else
			tally(w, &done[i], requests);
		if (w->injury == COMPLETION_TWICE) {
			w->injury = UNHURT;
			tally(w, &done[i], requests);
		}
		mrg_request_free(w->ep, done[i].request);
	}
	if (!n && !mrg_ep_arm(w->ep))
		poll(&fd, 1, 100);
	return n;
}

static void collect_round(struct worker *w, size_t requests)
{
	double from = kit_now();
	size_t seen = 0;

	while (seen < requests && kit_now() - from < ROUND_SECONDS)
		seen += (size_t)collect_some(w, requests);
	/* One that comes twice would be there by now, or in a later round. */
	collect_some(w, requests);
	for (size_t n = 0; n < requests; n++) {
		w->lost += !w->handed_out[n];
		w->twice += w->handed_out[n] > 1;
	}
}

static void injure(struct worker *w)
{
	const struct move *m = &w->moves[w->count / 2];

	if (w->injury == BYTE_FLIPPED)
		target_of(w, m)[m->length / 2] ^= 0x10;
	if (w->injury == GAP_FLIPPED)
		w->theirs->bytes[m->there - 1] ^= 0x01;
	w->injury = UNHURT;
}

static void one_round(struct worker *w)
{
	plan_round(w);
	fill_round(w);
	collect_round(w, submit_round(w));
	injure(w);
	compare_round(w);
	w->rounds++;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!over && !w->lost)
		one_round(w);
	return NULL;
}

/* ---- the checker ---- */

static struct worker hurt(enum injury injury)
{
	struct worker w = { .ep = eps[0], .mine = &l, .theirs = &r, .dice = 7, .injury = injury };

	one_round(&w);
	return w;
}

static bool clean(const struct worker *w)
{
	return !w->wrong && !w->failed && !w->lost && !w->twice && !w->strange && !w->part;
}

static void controls(void)
{
	struct worker w = hurt(UNHURT);

	ok(clean(&w), "a round of %zu operations is clean", w.count);
	w = hurt(BYTE_FLIPPED);
	ok(w.wrong == 1 && !w.lost && !w.twice,
	   "control: one flipped bit of what was moved is one wrong byte");
	w = hurt(GAP_FLIPPED);
	ok(w.wrong == 1, "control: so is one beside it");
	w = hurt(COMPLETION_DROPPED);
	ok(w.lost == 1 && !w.twice && !w.wrong, "control: a completion that is dropped is missed");
	w = hurt(COMPLETION_TWICE);
	ok(w.twice == 1 && !w.lost && !w.wrong, "control: one that comes twice is counted");
}

/* ---- what must stay flat ---- */

struct sample {
	long rss_kb, vmas, files, qps, mrs, cqs, pds, contexts;
};

struct flat {
	struct sample first, early, late; /* maxima of the two halves */
	struct sample low; /* minima of all */
	int count;
};

static long lines_of(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static long open_files(void)
{
	long n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* `rdma resource' has a line a device: "0: rxe_a: qp 7 cm_id 0 mr 29 ..." */
static void count_objects(struct sample *s)
{
	const struct {
		const char *name;
		long *count;
	} kinds[] = { { "qp", &s->qps },
		      { "mr", &s->mrs },
		      { "cq", &s->cqs },
		      { "pd", &s->pds },
		      { "ctx", &s->contexts } };
	FILE *f = popen("rdma resource", "r");
	char kind[32], number[32] = "";

	while (f && fscanf(f, "%31s", kind) == 1) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (!strcmp(kind, kinds[i].name) && fscanf(f, "%31s", number) == 1)
				*kinds[i].count += atol(number);
	}
	if (!f || pclose(f) || !s->qps || !s->mrs)
		bail("rdma resource shows nothing");
}

static struct sample sample_now(void)
{
	struct sample s = { .rss_kb = kit_resident_kb(),
			    .vmas = lines_of("/proc/self/maps"),
			    .files = open_files() };

	count_objects(&s);
	return s;
}

/* Samples are all longs. */
static void each(struct sample *into, const struct sample *s, bool larger)
{
	const long *from = (const long *)s;
	long *to = (long *)into;

	for (size_t i = 0; i < sizeof(*s) / sizeof(long); i++)
		if (larger ? from[i] > to[i] : from[i] < to[i])
			to[i] = from[i];
}

static void take_sample(struct flat *flat, bool late)
{
	struct sample s = sample_now();

	if (!flat->count++)
		flat->first = flat->early = flat->late = flat->low = s;
	each(&flat->low, &s, false);
	each(late ? &flat->late : &flat->early, &s, true);
}

static void show(const char *when, const struct sample *s)
{
	printf("# %s: resident %ld KiB, VMAs %ld, files %ld, qp %ld, mr %ld, cq %ld, pd %ld, ctx %ld\n",
	       when, s->rss_kb, s->vmas, s->files, s->qps, s->mrs, s->cqs, s->pds, s->contexts);
}

/* All but memory and VMAs. */
static bool objects_flat(const struct flat *flat)
{
	struct sample low = flat->low, early = flat->early, late = flat->late;

	low.rss_kb = early.rss_kb = late.rss_kb = 0;
	low.vmas = early.vmas = late.vmas = 0;
	return !memcmp(&low, &early, sizeof(low)) && !memcmp(&low, &late, sizeof(low));
}

/* An endpoint and a buffer that come, move, and go. */
static bool passer_by(uint64_t seed)
{
	struct kit_buffer mine;
	struct mrg_local part;
	struct mrg_ep *ep = kit_connect(&pair.a, pair.port), *peer;
	uint64_t request;
	uint64_t spare = (uint64_t)WORKERS * AREA, length = 100001 + seed % 900000;
	struct mrg_op op;
	bool good;

	if (mrg_listener_accept(pair.listener, PATIENCE_MS, &peer))
		bail("a passer-by did not come");
	kit_buffer_make(&mine, &pair.a, MIB, 65536);
	op = kit_op(MRG_OP_WRITE, &part, &mine, 3, &r, spare + 5, length);
	kit_fill(mine.bytes + 3, length, seed);
	good = !mrg_submit(ep, &op, 1, NULL, &request) && !kit_finish(ep, request, PATIENCE_MS) &&
	       !kit_wrong(r.bytes + spare + 5, length, seed);
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	kit_buffer_free(&mine);
	return good;
}

/* ---- for long ---- */

static void sum_up(const struct worker *w, struct worker *sum)
{
	for (int i = 0; i < WORKERS; i++) {
		sum->rounds += w[i].rounds;
		sum->ops += w[i].ops;
		sum->bytes += w[i].bytes;
		sum->requests += w[i].requests;
		sum->wrong += w[i].wrong;
		sum->failed += w[i].failed;
		sum->lost += w[i].lost;
		sum->twice += w[i].twice;
		sum->strange += w[i].strange;
		sum->part += w[i].part;
	}
}

/* Returns how many passers-by failed. */
static unsigned int watch(double from, double seconds, struct flat *flat, unsigned int *came)
{
	double pause = seconds / 100 > 1 ? seconds / 100 : 1;
	unsigned int bad = 0;

	/* Threads, arenas and spare requests have come to be by then. */
	usleep((useconds_t)(seconds < 100 ? seconds * 1e5 : 1e7));
	while (kit_now() - from < seconds || *came < SAMPLES) {
		bool late = kit_now() - from > seconds / 2 && *came >= SAMPLES / 2;

		bad += !passer_by(++*came);
		take_sample(flat, late);
		if (*came % 10 == 0)
			show("now", late ? &flat->late : &flat->early);
		usleep((useconds_t)(pause * 1e6));
	}
	return bad;
}

/* What the endpoints counted must be what was asked of them. */
static bool counted(const struct worker *sum)
{
	struct mrg_ep_stats stats;
	uint64_t requests = 0, bytes = 0, repeated = 0, remade = 0;

	for (int i = 0; i < WORKERS; i++) {
		mrg_ep_stats(i % 2 ? peers[i / 2] : eps[i / 2], &stats);
		requests += stats.requests;
		bytes += stats.bytes;
		repeated += stats.repeated;
		remade += stats.remade;
	}
	printf("# the endpoints count %llu requests, %llu bytes, %llu slices repeated, %llu lanes re-made\n",
	       (unsigned long long)requests, (unsigned long long)bytes,
	       (unsigned long long)repeated, (unsigned long long)remade);
	return requests == sum->requests && bytes == sum->bytes;
}

static void soak(double seconds)
{
	static struct worker w[WORKERS];
	struct worker sum = { 0 };
	struct flat flat = { .count = 0 };
	struct mrg_ep_stats before;
	unsigned int came = 0, bad;
	double from = kit_now();

	/* The controls' rounds are not of this sum. */
	mrg_ep_stats(eps[0], &before);
	sum.requests = before.requests;
	sum.bytes = before.bytes;
	for (int i = 0; i < WORKERS; i++) {
		w[i].ep = i % 2 ? peers[i / 2] : eps[i / 2];
		w[i].mine = i % 2 ? &r : &l;
		w[i].theirs = i % 2 ? &l : &r;
		w[i].base = (uint64_t)i * AREA;
		w[i].dice = (unsigned int)i + 100;
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	bad = watch(from, seconds, &flat, &came);
	over = true;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(w[i].thread, NULL);
	sum_up(w, &sum);
	printf("# %.0f s: %llu rounds, %llu requests, %llu operations, %llu MiB; %u endpoints came and went; %d samples\n",
	       kit_now() - from, (unsigned long long)sum.rounds, (unsigned long long)sum.requests,
	       (unsigned long long)sum.ops, (unsigned long long)(sum.bytes / MIB), came,
	       flat.count);
	show("first", &flat.first);
	show("first half, at most", &flat.early);
	show("second half, at most", &flat.late);
	printf("# bytes wrong %llu, requests failed %llu, in part %llu, lost %llu, twice %llu, unknown %llu\n",
	       (unsigned long long)sum.wrong, (unsigned long long)sum.failed,
	       (unsigned long long)sum.part, (unsigned long long)sum.lost,
	       (unsigned long long)sum.twice, (unsigned long long)sum.strange);
	ok(!sum.wrong, "every byte is right, those beside the ranges too");
	ok(!sum.failed && !sum.part, "every request ends well, with all of its bytes");
	ok(!sum.lost && !sum.twice && !sum.strange, "every request is handed out, and once");
	ok(counted(&sum), "the endpoints count what was asked of them");
	ok(came && !bad, "endpoints that come and go move their bytes");
	ok(flat.count >= SAMPLES && objects_flat(&flat),
	   "files and the kernel's objects are as many in each sample");
	ok(flat.late.rss_kb - flat.early.rss_kb <= RSS_SLACK_KB &&
		   flat.late.vmas - flat.early.vmas <= VMA_SLACK,
	   "memory and VMAs stay flat");
}

int main(void)
{
	struct mrg_transfer_opts opts = { .size = sizeof(opts),
					  .lanes = 2,
					  .handshake_ms = PATIENCE_MS };
	int qps, mrs;

	kit_up();
	qps = kit_resources("qp");
	mrs = kit_resources("mr");
	kit_pair_open(&pair, &opts);
	eps[0] = pair.ep;
	peers[0] = pair.peer;
	for (int i = 1; i < ENDPOINTS; i++) {
		eps[i] = kit_connect(&pair.a, pair.port);
		if (mrg_listener_accept(pair.listener, PATIENCE_MS, &peers[i]))
			bail("nobody came");
	}
	/* Cut at the borders of MRs on one side. */
	kit_buffer_make(&l, &pair.a, (WORKERS + 1) * AREA, MIB);
	kit_buffer_make(&r, &pair.b, (WORKERS + 1) * AREA, 0);
	controls();
	soak(full_run() ? FULL_SECONDS : CI_SECONDS);
	for (int i = 1; i < ENDPOINTS; i++) {
		mrg_ep_close(eps[i]);
		mrg_ep_close(peers[i]);
	}
	kit_buffer_free(&l);
	kit_buffer_free(&r);
	kit_end(&pair, qps, mrs);
	return 0;
}
