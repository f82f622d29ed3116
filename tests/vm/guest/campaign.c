/* SPDX-License-Identifier: MIT */
/*
 * Random layouts, iovas, page limits and strategies, with real bytes.  Plain
 * verbs is the control: wrong where the model says and nowhere else.  With
 * mrguard_cap.ko, which is loaded and unloaded each time, it is right.  By
 * mrguard every byte is right, and no MR is made that nothing asked for.
 */
#include "loop.h"
#include "predict.h"

#define CI_LAYOUTS 30
#define CI_CAPPED 5 /* in CI each so many layouts is tried under the cap */
#define FULL_LAYOUTS 320
#define MAX_EXTENTS 10
#define MAX_SEGS 8192
#define WINDOW_START (4 * GIB)
#define WINDOW_SIZE (16 * GIB)
#define MAX_BYTES (12 * GIB)
#define BLOCKS 24
#define BLOCK 4096

/* MRG_SEED repeats a campaign. */
static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 16) % n;
}

static bool one_in(uint64_t n)
{
	return !random_below(n);
}

struct layout {
	struct mrg_sg sg[MAX_EXTENTS];
	uint32_t count;
	uint64_t bytes; /* of the DMA-BUF */
	uint64_t seg;
	uint64_t offset; /* the range that is registered */
	uint64_t length;
	uint64_t iova;
	uint32_t limit; /* the device's largest page */
	uint64_t cap;
	uint64_t unit;
	bool limit_known;
	bool iova_equal;
	bool no_module;
	char text[512];
};

/* Sizes that matter: multiples of 4 GiB, 2 GiB, 2 MiB, a page. */
static uint64_t random_length(uint64_t room)
{
	const uint64_t grains[] = { 4 * GIB, 2 * GIB, GIB, 2 * MIB, host_page() };
	uint64_t grain = grains[random_below(5)];

	if (room < grain)
		grain = host_page();
	return (1 + random_below(room / grain)) * grain;
}

static void random_extents(struct layout *l)
{
	uint64_t at = WINDOW_START, end = WINDOW_START + WINDOW_SIZE;
	uint32_t want = one_in(2) ? 1 : 1 + (uint32_t)random_below(MAX_EXTENTS);

	/* Mostly on the boundary where the fault lives. */
	if (one_in(2))
		at += one_in(2) ? 4 * GIB : random_below(GIB / host_page()) * host_page();
	while (l->count < want && l->bytes < MAX_BYTES && at < end) {
		uint64_t room = end - at;

		if (room > MAX_BYTES - l->bytes)
			room = MAX_BYTES - l->bytes;
		l->sg[l->count] = (struct mrg_sg){ at, random_length(room) };
		at += l->sg[l->count].len;
		l->bytes += l->sg[l->count++].len;
		if (!one_in(3))
			at += one_in(2) ? host_page() : random_below(64) * 2 * MIB;
	}
	for (uint32_t i = l->count - 1; i && one_in(2); i--) {
		uint32_t j = (uint32_t)random_below(i + 1);
		struct mrg_sg t = l->sg[i];

		l->sg[i] = l->sg[j];
		l->sg[j] = t;
	}
}

/* The iova agrees with the DMA address of the first byte below bit k alone. */
static void random_iova(struct layout *l)
{
	static const unsigned int bits[] = { 12, 21, 30, 31, 32, 32, 32, 33, 33, 34, 35, 40 };
	unsigned int k = bits[random_below(sizeof(bits) / sizeof(bits[0]))];
	/* Where the two must agree, in the page's offset, they do. */
	unsigned int least = (unsigned int)__builtin_ctzll(host_page());
	uint64_t dma, at = l->offset, below;
	uint32_t i = 0;

	if (k < least)
		k = least;
	below = (1ULL << k) - 1;
	while (at >= l->sg[i].len)
		at -= l->sg[i++].len;
	dma = l->sg[i].addr + at;
	l->iova = 0x700000000000 | (random_below(1ULL << 43) & ~below);
	l->iova = (l->iova & ~below) | (dma & below);
	l->iova = (l->iova & ~(below + 1)) | (~dma & (below + 1));
}

static void random_layout(struct layout *l)
{
	const uint64_t segs[] = { 2 * GIB, GIB, 4 * GIB - host_page(), 64 * MIB };

	memset(l, 0, sizeof(*l));
	random_extents(l);
	l->seg = segs[random_below(4)];
	l->length = l->bytes;
	if (one_in(4)) {
		l->offset = random_below(l->bytes);
		l->offset -= one_in(2) ? l->offset % host_page() : 0;
		l->length = 1 + random_below(l->bytes - l->offset);
	}
	random_iova(l);
	l->limit = one_in(2) ? 63 : 29 + (uint32_t)random_below(9);
	l->limit_known = one_in(3);
	l->iova_equal = one_in(3);
	l->no_module = one_in(8);
	if (one_in(6))
		l->cap = (1 + random_below(8)) * 512 * MIB;
	if (one_in(4))
		l->unit = (1 + random_below(64)) * 65536;
}

static void describe(struct layout *l)
{
	size_t n = (size_t)snprintf(
		l->text, sizeof(l->text),
		"iova 0x%llx, offset 0x%llx, length 0x%llx, entries of 0x%llx, page limit %u%s%s%s, cap 0x%llx, unit 0x%llx:",
		(unsigned long long)l->iova, (unsigned long long)l->offset,
		(unsigned long long)l->length, (unsigned long long)l->seg, l->limit,
		l->limit_known ? " known" : "", l->iova_equal ? ", iova equal" : "",
		l->no_module ? ", no module" : "", (unsigned long long)l->cap,
		(unsigned long long)l->unit);

	for (uint32_t i = 0; i < l->count && n < sizeof(l->text); i++)
		n += (size_t)snprintf(l->text + n, sizeof(l->text) - n, " 0x%llx@0x%llx",
				      (unsigned long long)l->sg[i].len,
				      (unsigned long long)l->sg[i].addr);
}

/* What is tested: a list of segments, and what to hold it against. */
struct tested {
	struct mrg_mr *mr;
	uint64_t iova;
	struct mrg_seg segs[MAX_SEGS];
	size_t count;
	const struct prediction *prediction;
	uint64_t surprises;
	struct verify_span surprise;
};

static ssize_t keys(void *arg, uint64_t offset, uint64_t length, struct mrg_seg *segs, size_t cap)
{
	struct tested *t = arg;

	if (t->mr)
		return mrg_keys(t->mr, t->iova + offset, length, segs, cap);
	return segs_range(t->segs, t->count, offset, length, segs, cap);
}

static void look(void *arg, const struct verify_span *span, const struct verify_fault *faults,
		 size_t count)
{
	struct tested *t = arg;
	uint64_t bad = 0;

	for (size_t i = 0; i < count; i++)
		bad += faults[i].length;
	if (t->prediction &&
	    !as_predicted(t->prediction, span, count ? faults[0].offset : 0, bad)) {
		t->surprises++;
		t->surprise = *span;
	}
}

/* Wrong bytes; bails out if they cannot be counted. */
static uint64_t verify(const struct layout *l, char *map, struct tested *t)
{
	const struct verify_truth truth = { mapped_read, mapped_write, map + l->offset };
	struct verify v = {
		.end = &ends[0],
		.tested_is_local = one_in(2),
		.keys = keys,
		.keys_arg = t,
		.bounce_mem = bounce,
		.truth = &truth,
		.bounce = { .wire = (uintptr_t)bounce,
			    .length = BOUNCE,
			    .lkey = bounce_mr->lkey,
			    .rkey = bounce_mr->rkey },
		.size = l->length,
		.span_done = look,
		.span_done_arg = t,
	};
	struct verify_spans spans;
	uint64_t wrong;
	int ret = verify_spans_make(&spans, l->length, l->iova, BLOCKS, BLOCK);

	for (int way = 0; way < VERIFY_WAYS && !ret; way++)
		ret = verify_spans_run(&v, (enum verify_way)way, &spans);
	if (ret)
		bail("transfer: %s: %s", ends[0].fault, l->text);
	wrong = v.bad + v.overwritten;
	verify_release(&v);
	verify_spans_free(&spans);
	return wrong;
}

static uint64_t wrong_raw, wrong_capped, surprises, wrong_guarded, unneeded, refused;
static size_t wrapping;

static void remark(const struct layout *l, const char *what)
{
	printf("# %s: %s\n", what, l->text);
}

/* The device's largest page, under the cap if it has such pages at all. */
static uint32_t largest_shift(const struct layout *l, bool capped)
{
	return capped && l->limit > CAP_SHIFT ? CAP_SHIFT : l->limit;
}

static void run_raw(const struct layout *l, int fd, char *map, bool capped)
{
	static struct tested t;
	struct prediction p;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, l->offset, l->length, l->iova, fd, ACCESS);
	uint64_t wrong;

	if (!mr)
		bail("plain registration: %s: %s", strerror(errno), l->text);
	predict(&p, l->sg, l->count, l->offset, l->length, l->iova, largest_shift(l, capped),
		walk_is_truncating());
	memset(&t, 0, sizeof(t));
	t.prediction = &p;
	t.segs[t.count++] = (struct mrg_seg){ l->iova, l->length, mr->lkey, mr->rkey };
	wrong = verify(l, map, &t);
	if (t.surprises) {
		remark(l, capped ? "plain verbs, capped, not as the model says" :
				   "plain verbs, not as the model says");
		printf("# at offset 0x%llx\n", (unsigned long long)t.surprise.offset);
	}
	if (capped) {
		wrong_capped += wrong;
	} else {
		wrong_raw += wrong;
		wrapping += wrong > 0;
	}
	surprises += t.surprises;
	ibv_dereg_mr(mr);
}

/* The fewest MRs that cap and unit allow where the walk asks for none. */
static uint64_t fewest(const struct layout *l)
{
	uint64_t page_off = l->iova % host_page(), largest = l->cap & ~(host_page() - 1);

	if (!l->cap || l->length <= l->cap)
		return 1;
	if (l->unit && l->unit < largest)
		largest -= largest % l->unit;
	return (l->length + page_off + largest - 1) / largest + 1;
}

static void check_count(const struct layout *l, const struct tested *t)
{
	if (walk_is_truncating() || l->no_module || mrg_mr_count(t->mr) <= fewest(l))
		return;
	unneeded++;
	remark(l, "more MRs than anything asked for");
}

static void run_guarded(const struct layout *l, int fd, char *map, enum mrg_strategy strategy)
{
	const struct mrg_open_opts open = { .size = sizeof(open),
					    .max_page_shift = l->limit_known ? l->limit : 0,
					    .flags = l->no_module ? MRG_OPEN_NO_MODULE : 0 };
	const struct mrg_reg_opts opts = {
		.size = sizeof(opts),
		.max_mr_size = l->cap,
		.unit = l->unit,
		.strategy = strategy,
		.flags = l->iova_equal && strategy != MRG_STRATEGY_REBASE ? MRG_REG_IOVA_EQUAL : 0
	};
	const struct mrg_dmabuf buf = { .fd = fd, .base = l->iova - l->offset };
	static struct tested t;
	struct mrg_error error;
	struct mrg_ctx *ctx;

	memset(&t, 0, sizeof(t));
	t.iova = l->iova;
	if (mrg_open(&ctx, verbs, &open))
		bail("mrg_open");
	if (mrg_reg_dmabuf(ctx, pd, &buf, l->iova, l->length, ACCESS, &opts, &t.mr)) {
		mrg_last_error(ctx, &error);
		remark(l, error.cause);
		refused++;
	} else {
		uint64_t wrong = verify(l, map, &t);

		if (wrong)
			remark(l, "WRONG by mrguard");
		wrong_guarded += wrong;
		check_count(l, &t);
		mrg_dereg(t.mr);
	}
	mrg_close(ctx);
}

static void run_layout(bool capped)
{
	struct layout l;
	char *map;
	int fd;

	random_layout(&l);
	describe(&l);
	fd = make_dmabuf(l.sg, l.count, l.seg);
	map = mmap(NULL, l.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
	simnic_set("simnic0", "max_page_shift", l.limit);
	run_raw(&l, fd, map, false);
	if (capped) {
		cap_load();
		run_raw(&l, fd, map, true);
		cap_unload();
	}
	for (int s = MRG_STRATEGY_AUTO; s <= MRG_STRATEGY_REBASE; s++)
		run_guarded(&l, fd, map, (enum mrg_strategy)s);
	munmap(map, l.bytes);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *seed = getenv("MRG_SEED");
	int layouts = full_run() ? FULL_LAYOUTS : CI_LAYOUTS;

	(void)argc;
	preload_shim(argv);
	random_state = seed ? strtoull(seed, NULL, 0) : full_run() ? 20260604 : 20250224;
	printf("# MRG_SEED=%llu\n", (unsigned long long)random_state);
	ground_up();
	/* A walk that goes astray leaves the buffer: the device then drops it. */
	simnic_set("simnic0", "absorb_strays", 1);
	open_loop();
	for (int i = 0; i < layouts; i++)
		run_layout(full_run() || i % CI_CAPPED == 0);
	close_loop();
	printf("# %d layouts, %zu of them wrap as one MR; %llu wrong bytes by plain verbs, %llu of them capped\n",
	       layouts, wrapping, (unsigned long long)(wrong_raw + wrong_capped),
	       (unsigned long long)wrong_capped);
	if (walk_is_truncating())
		ok(wrapping >= (size_t)layouts / 10, "plain verbs: the kernel's fault shows");
	else
		ok(!wrapping, "plain verbs: every byte is right");
	ok(!wrong_capped, "plain verbs, capped: every byte is right");
	ok(!surprises, "plain verbs: exactly the bytes are wrong that the model names");
	ok(!wrong_guarded, "mrguard: every byte is right in all %d runs", 3 * layouts);
	ok(!refused, "mrguard: every layout can be registered");
	ok(!unneeded, "mrguard: no MR is made that nothing asked for");
	ok(!simnic_stat("simnic0", "mrs_live"), "no MR is left");
	ground_down();
	tap_end();
	return 0;
}
