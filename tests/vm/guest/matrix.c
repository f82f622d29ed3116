/* SPDX-License-Identifier: MIT */
/*
 * Every way of registering a 12 GiB buffer, with real bytes, between two
 * processes: plain verbs must show the fault where the kernel has it, and where
 * the model says; registration by mrguard must not, nor may plain verbs while
 * mrguard_cap.ko is loaded.  It is unloaded before each row's first column, so
 * that the rows show also that the kernel is then as it was.
 */
#include "pair.h"
#include "predict.h"

#define FULL_SIZE (12 * GIB)
/* Pinning pages one by one takes a minute for 12 GiB under emulation. */
#define CI_HOST_SIZE (5 * GIB)
#define BLOCK 65536
#define FULL_BLOCKS 1152
#define CI_BLOCKS 72
#define SEGMENT (2 * GIB)
#define HOST_ADDR 0x700000000000ULL

struct row {
	const char *name;
	struct mrg_sg sg[3]; /* none: ordinary memory */
	uint32_t count;
	uint32_t flags; /* SIMGPU_* */
	uint64_t iova;
	bool page_past; /* all of it a page further */
	bool local;
	uint64_t cap;
	bool faulty; /* plain verbs, affected kernel */
	uint64_t clean_until; /* where the fault starts, if not predicted only */
};

static const struct row rows[] = {
	{ .name = "DMA-BUF, remote side, agrees to bit 31",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700080000000 },
	{ .name = "DMA-BUF, remote side, agrees to bit 32",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000,
	  .faulty = true,
	  .clean_until = 4 * GIB },
	{ .name = "DMA-BUF, remote side, agrees to bit 33",
	  .sg = { { 8 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000,
	  .faulty = true,
	  .clean_until = 8 * GIB },
	{ .name = "DMA-BUF, local side, agrees to bit 32",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000,
	  .local = true,
	  .faulty = true,
	  .clean_until = 4 * GIB },
	{ .name = "DMA-BUF, a page past the boundary",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000,
	  .page_past = true,
	  .faulty = true,
	  .clean_until = 8 * GIB },
	{ .name = "DMA-BUF, 2 MiB past the boundary",
	  .sg = { { 4 * GIB + 2 * MIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000200000,
	  .faulty = true,
	  .clean_until = 8 * GIB - 2 * MIB },
	{ .name = "DMA-BUF, runs out of order",
	  .sg = { { 12 * GIB, 4 * GIB }, { 4 * GIB, 4 * GIB }, { 8 * GIB, 4 * GIB } },
	  .count = 3,
	  .iova = 0x700000000000,
	  .faulty = true,
	  .clean_until = 4 * GIB },
	{ .name = "DMA-BUF, MRs of at most 2 GiB",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000,
	  .cap = 2 * GIB },
	{ .name = "ordinary memory", .iova = HOST_ADDR },
};

/*
 * The same where an IOMMU translates: what decides is its own addresses.  12 GiB
 * mapped as one piece start on a multiple of 16 GiB there, on x86 and arm64;
 * pieces mapped one by one lie each below the one before.
 */
static const struct row translated_rows[] = {
	{ .name = "DMA-BUF mapped as one piece, remote side, agrees to bit 31",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .flags = SIMGPU_WHOLE,
	  .iova = 0x700080000000 },
	{ .name = "DMA-BUF mapped as one piece, remote side, agrees to bit 32",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .flags = SIMGPU_WHOLE,
	  .iova = 0x700100000000,
	  .faulty = true,
	  .clean_until = 4 * GIB },
	{ .name = "DMA-BUF mapped as one piece, remote side, agrees to bit 33",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .flags = SIMGPU_WHOLE,
	  .iova = 0x700200000000,
	  .faulty = true,
	  .clean_until = 8 * GIB },
	{ .name = "DMA-BUF mapped as one piece, local side, agrees to bit 32",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .flags = SIMGPU_WHOLE,
	  .iova = 0x700100000000,
	  .local = true,
	  .faulty = true,
	  .clean_until = 4 * GIB },
	{ .name = "DMA-BUF mapped piece by piece",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .iova = 0x700000000000 },
	{ .name = "DMA-BUF mapped as one piece, MRs of at most 2 GiB",
	  .sg = { { 4 * GIB, FULL_SIZE } },
	  .count = 1,
	  .flags = SIMGPU_WHOLE,
	  .iova = 0x700100000000,
	  .cap = 2 * GIB },
};

struct column {
	const char *name;
	enum pair_by by;
	bool capped; /* with mrguard_cap.ko */
};

static const struct column columns[] = {
	{ .name = "plain verbs", .by = BY_RAW },
	{ .name = "plain verbs, capped", .by = BY_RAW, .capped = true },
	{ .name = "mrguard", .by = BY_AUTO },
	{ .name = "mrguard, split", .by = BY_SPLIT },
	{ .name = "mrguard, rebase", .by = BY_REBASE },
};

/* What one run showed, gathered in the posting process. */
struct seen {
	struct prediction prediction;
	bool predicted; /* there is a prediction to hold against */
	uint64_t spans;
	uint64_t first_bad;
	uint64_t first_surprise; /* a span unlike its prediction, or ~0 */
};

static void look(void *arg, enum verify_way way, const struct verify_span *span,
		 const struct verify_fault *faults, size_t count)
{
	struct seen *seen = arg;
	uint64_t bad = 0;

	(void)way;
	for (size_t i = 0; i < count; i++)
		bad += faults[i].length;
	seen->spans++;
	if (bad && faults[0].offset < seen->first_bad)
		seen->first_bad = faults[0].offset;
	if (seen->predicted && seen->first_surprise == UINT64_MAX &&
	    !as_predicted(&seen->prediction, span, count ? faults[0].offset : 0, bad))
		seen->first_surprise = span->offset;
}

static struct pair_shared *sh;
static struct seen *seen;
static bool translated;
static struct verify_spans spans;
static uint64_t size;

static void *map_row(const struct row *row, int *fd)
{
	char *base;

	*fd = -1;
	if (row->count) {
		*fd = make_dmabuf_as(row->flags, row->sg, row->count, SEGMENT);
		base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
		if (base == MAP_FAILED)
			bail("mmap of the DMA-BUF: %s", strerror(errno));
		return base;
	}
	return map_sparse(HOST_ADDR, size, &spans);
}

static void check_raw(const struct row *row, const struct column *column)
{
	bool want = row->faulty && walk_is_truncating() && !column->capped;

	if (!want) {
		ok(!sh->bad && !sh->overwritten, "%s, %s: every byte is right", row->name,
		   column->name);
		return;
	}
	ok(sh->bad > 0, "%s, %s: the kernel's fault shows", row->name, column->name);
	ok(seen->first_bad == row->clean_until, "%s, %s: bytes are wrong from 0x%llx on", row->name,
	   column->name, (unsigned long long)row->clean_until);
}

/*
 * The addresses seen are not the MRs': mrguard says so, and ends its MRs at
 * multiples of 2 GiB, rebasing none.
 */
static void check_translated(const struct row *row, const struct column *column)
{
	ok(strstr(sh->words, "the IOMMU gives each mapping new ones") != NULL,
	   "%s, %s: it says that the addresses are not the MR's own", row->name, column->name);
	ok(sh->strategy == MRG_STRATEGY_SPLIT && sh->seg_count == FULL_SIZE / SEGMENT,
	   "%s, %s: split at multiples of 2 GiB", row->name, column->name);
}

static void check_guarded(const struct row *row, const struct column *column)
{
	bool one = !walk_is_truncating() && !row->cap;

	ok(!sh->bad && !sh->overwritten, "%s, %s: every byte is right", row->name, column->name);
	if (one)
		ok(sh->seg_count == 1, "%s, %s: one MR, for nothing asks for more", row->name,
		   column->name);
	else if (translated && !row->cap)
		check_translated(row, column);
	else if (!row->cap && row->faulty && column->by != BY_SPLIT)
		ok(sh->seg_count == 1 && sh->strategy == MRG_STRATEGY_REBASE,
		   "%s, %s: one MR with another iova", row->name, column->name);
}

static void run_cell(const struct row *row, const struct column *column, int fd, void *map)
{
	struct pair_job job = {
		.fd = fd,
		.map = map,
		.size = size,
		.iova = row->iova,
		.by = column->by,
		.raw_piece = row->cap,
		.local = row->local,
		.spans = &spans,
		.opts = { .max_mr_size = row->cap },
	};
	uint64_t want = 2 * verify_spans_count(&spans);
	struct timespec start, end;

	memset(seen, 0, sizeof(*seen));
	seen->first_bad = seen->first_surprise = UINT64_MAX;
	seen->predicted = column->by == BY_RAW && row->count && !row->cap && !translated;
	if (seen->predicted)
		predict(&seen->prediction, row->sg, row->count, 0, size, row->iova,
			column->capped ? CAP_SHIFT : 63, walk_is_truncating());
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pair_run(&job, sh, look, seen)) {
		ok(false, "%s, %s: runs (%s)", row->name, column->name, sh->fault);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("# %s, %s, %lld s: %zu MRs, %llu bytes compared, %llu wrong, %llu overwritten later. %s\n",
	       row->name, column->name, (long long)(end.tv_sec - start.tv_sec), sh->seg_count,
	       (unsigned long long)sh->compared, (unsigned long long)sh->bad,
	       (unsigned long long)sh->overwritten, sh->words);
	ok(seen->spans == want, "%s, %s: READ and WRITE went over all %llu places", row->name,
	   column->name, (unsigned long long)want);
	if (column->by == BY_RAW)
		check_raw(row, column);
	else
		check_guarded(row, column);
	if (seen->predicted)
		ok(seen->first_surprise == UINT64_MAX,
		   "%s, %s: exactly the bytes are wrong that the model names", row->name,
		   column->name);
}

/* CI has the columns that a row of its own tells nothing new about left out. */
static bool wanted(const struct row *row, const struct column *column)
{
	if (full_run())
		return true;
	if (column->capped)
		return row->faulty && walk_is_truncating();
	return row->count || column->by <= BY_AUTO;
}

static void run_row(const struct row *row)
{
	void *map;
	int fd;

	size = full_run() || row->count ? FULL_SIZE : CI_HOST_SIZE;
	if (verify_spans_make(&spans, size, row->iova, full_run() ? FULL_BLOCKS : CI_BLOCKS, BLOCK))
		bail("no memory");
	map = map_row(row, &fd);
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		if (!wanted(row, &columns[i]))
			continue;
		if (columns[i].capped)
			cap_load();
		run_cell(row, &columns[i], fd, map);
		if (columns[i].capped)
			cap_unload();
	}
	munmap(map, size);
	if (fd >= 0)
		close(fd);
	verify_spans_free(&spans);
}

static void run_rows(const struct row *all, size_t count, const char *part)
{
	for (size_t i = 0; i < count; i++) {
		struct row row = all[i];

		if (part && !strstr(row.name, part))
			continue;
		if (row.page_past) {
			row.sg[0].addr += host_page();
			row.iova += host_page();
			row.clean_until -= host_page();
		}
		run_row(&row);
	}
}

int main(int argc, char **argv)
{
	const char *part = argc < 2 ? NULL : argv[1];

	preload_shim(argv);
	ground_up();
	translated = machine_is("iommu");
	sh = pair_shared_make();
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (translated)
		run_rows(translated_rows, sizeof(translated_rows) / sizeof(*translated_rows), part);
	else
		run_rows(rows, sizeof(rows) / sizeof(*rows), part);
	ok(simnic_stat("simnic0", "mrs_live") + simnic_stat("simnic1", "mrs_live") == 0,
	   "no MR is left");
	ground_down();
	tap_end();
	return 0;
}
