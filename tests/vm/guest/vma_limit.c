/* SPDX-License-Identifier: MIT */
/*
 * Where plain verbs leave libibverbs' counts wrong: at the VMA limit, over a
 * hole, inside huge pages.  mrguard refuses before libibverbs is called, says
 * why, and goes on working.
 */
#include <linux/mman.h>

#include "vma_kit.h"

#define LIMIT 4000 /* vm.max_map_count of these tests */
/* Pages of 4 KiB have huge pages of 2 MiB; so have those of 16 and 64 KiB (arm64:
 * contiguous entries), but not by default. */
#define HUGE (2ul << 20)
#define HUGE_COUNT "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define HUGE_PAGES 20

struct ground {
	struct ibv_pd *pd;
	struct mrg_ctx *ctx;
	struct mrg_error error;
};

static int open_ground(struct ground *g, enum mrg_fork_policy policy)
{
	const struct mrg_open_opts opts = { .size = sizeof(opts), .fork = policy, .vma_floor = 10 };
	struct ibv_context *device;

	CHECK(!mrg_open(&g->ctx, NULL, &opts));
	device = kit_open_device();
	CHECK(device);
	g->pd = ibv_alloc_pd(device);
	CHECK(g->pd);
	return 0;
}

static int try_reg(struct ground *g, void *addr, size_t len)
{
	struct mrg_mr *mr;
	int ret = mrg_reg(g->ctx, g->pd, addr, len, KIT_ACCESS, NULL, &mr);

	memset(&g->error, 0, sizeof(g->error));
	if (ret)
		mrg_last_error(g->ctx, &g->error);
	else if (mrg_dereg(mr))
		return -EIO;
	snprintf(kit_note, KIT_NOTE / 2, "%s", g->error.cause);
	return ret;
}

static bool reliable(void)
{
	struct mrg_fork_info info;

	mrg_fork_query(&info);
	return info.reliable;
}

static int set_number(const char *path, unsigned long value)
{
	FILE *file = fopen(path, "w");
	int ok;

	if (!file)
		return -errno;
	ok = fprintf(file, "%lu\n", value) > 0;
	return fclose(file) || !ok ? -EIO : 0;
}

/* Cuts VMAs until there is no room; every two that are joined make two free. */
static char *fill(size_t *size)
{
	size_t cut = 1;
	char *area;

	*size = 2 * LIMIT * KIT_PAGE;
	area = mmap(NULL, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	while (cut < 2 * LIMIT && !mprotect(area + cut * KIT_PAGE, KIT_PAGE, PROT_READ))
		cut += 2;
	return area;
}

static int at_the_limit(enum mrg_fork_policy policy)
{
	struct ground g;
	char *area = kit_map(8), *filler;
	size_t size;
	int line = open_ground(&g, policy);

	if (line)
		return line;
	CHECK(!set_number("/proc/sys/vm/max_map_count", LIMIT));
	CHECK(!try_reg(&g, area + KIT_PAGE, KIT_PAGE));
	/* Before the fill: there is no room for a file's buffer after it. */
	filler = fill(&size);
	CHECK(filler);
	CHECK(try_reg(&g, area + KIT_PAGE, KIT_PAGE) == -ENOSPC);
	CHECK(!munmap(filler + size / 4, size / 4));
	CHECK(strstr(g.error.cause, "vm.max_map_count"));
	CHECK(strstr(g.error.remedy, "mrguard vma"));
	CHECK(kit_vmas(area, 8 * KIT_PAGE, true) == 0);
	CHECK(!try_reg(&g, area + KIT_PAGE, KIT_PAGE));
	CHECK(kit_vmas(area, 8 * KIT_PAGE, false) == 1);
	CHECK(reliable());
	snprintf(kit_note, KIT_NOTE / 2, "%s", g.error.cause);
	return 0;
}

static int at_the_limit_marked(const void *arg)
{
	(void)arg;
	return at_the_limit(MRG_FORK_ALWAYS);
}

static int at_the_limit_copied(const void *arg)
{
	(void)arg;
	return at_the_limit(MRG_FORK_AUTO);
}

/* What mrguard saves from: after one failure later registrations go unmarked. */
static int at_the_limit_plain(const void *arg)
{
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	char *area = kit_map(8), *filler;
	size_t size;
	int error;

	(void)arg;
	CHECK(!ibv_fork_init());
	pd = ibv_alloc_pd(kit_open_device());
	CHECK(pd && area);
	memset(area, 1, 8 * KIT_PAGE);
	CHECK(!set_number("/proc/sys/vm/max_map_count", LIMIT));
	filler = fill(&size);
	CHECK(filler);
	errno = 0;
	mr = ibv_reg_mr(pd, area + KIT_PAGE, KIT_PAGE, KIT_ACCESS);
	error = errno;
	CHECK(!munmap(filler, size));
	CHECK(!mr);
	snprintf(kit_note, KIT_NOTE / 2, "ibv_reg_mr: %s; ", strerror(error));
	CHECK(error == EAGAIN || error == ENOMEM);
	mr = ibv_reg_mr(pd, area + KIT_PAGE, KIT_PAGE, KIT_ACCESS);
	CHECK(mr);
	CHECK(!kit_page_marked(area, 1));
	strcat(kit_note, "the next try succeeds, and its page is not marked");
	return 0;
}

static int hole_at_registration(const void *arg)
{
	struct ground g;
	char *area = kit_map(3);
	int line = open_ground(&g, MRG_FORK_ALWAYS);

	(void)arg;
	if (line)
		return line;
	CHECK(!munmap(area + KIT_PAGE, KIT_PAGE));
	CHECK(try_reg(&g, area, 3 * KIT_PAGE) == -EFAULT);
	CHECK(strstr(g.error.cause, "hole"));
	CHECK(kit_vmas(area, 3 * KIT_PAGE, true) == 0);
	CHECK(!try_reg(&g, area, KIT_PAGE));
	CHECK(reliable());
	return 0;
}

/* Its middle is unmapped before it is deregistered. */
static int hole_at_deregistration(const void *arg)
{
	struct ground g;
	struct mrg_mr *mr;
	char *area = kit_map(3);
	int line = open_ground(&g, MRG_FORK_ALWAYS);

	(void)arg;
	if (line)
		return line;
	CHECK(!mrg_reg(g.ctx, g.pd, area, 3 * KIT_PAGE, KIT_ACCESS, NULL, &mr));
	CHECK(kit_page_marked(area, 0) && kit_page_marked(area, 2));
	CHECK(!munmap(area + KIT_PAGE, KIT_PAGE));
	CHECK(!mrg_dereg(mr));
	CHECK(!kit_page_marked(area, 0) && !kit_page_marked(area, 2));
	CHECK(reliable());
	return 0;
}

static bool since_7_2(void)
{
	const char *release = getenv("MRG_KERNEL");
	int major = 0, minor = 0;

	if (release)
		sscanf(release, "%d.%d", &major, &minor);
	return major > 7 || (major == 7 && minor >= 2);
}

/* Suites that ran before may have left no stretch of memory of that size at once. */
static char *huge_map(void)
{
	char *area = MAP_FAILED;

	for (int tries = 0; tries < 10 && area == MAP_FAILED; tries++) {
		set_number("/proc/sys/vm/drop_caches", 3);
		set_number("/proc/sys/vm/compact_memory", 1);
		if (set_number(HUGE_COUNT, HUGE_PAGES))
			return NULL;
		area = mmap(NULL, HUGE_PAGES * HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	}
	return area == MAP_FAILED ? NULL : area;
}

/* 33 MiB in 16 parts: each would cut huge pages. */
static int huge_pages_cut(const void *arg)
{
	struct ground g;
	char *area;
	int line = open_ground(&g, MRG_FORK_ALWAYS);

	(void)arg;
	if (line)
		return line;
	area = huge_map();
	CHECK(area);
	CHECK(try_reg(&g, area, (33ul << 20) / 16) == -EINVAL);
	CHECK(strstr(g.error.cause, "huge pages of 2097152 bytes"));
	CHECK(strstr(g.error.remedy, "RDMAV_HUGEPAGES_SAFE"));
	CHECK(kit_vmas(area, HUGE_PAGES * HUGE, false) == 1);
	CHECK(!try_reg(&g, area, HUGE_PAGES * HUGE));
	CHECK(reliable());
	/* Since 7.2 the kernel does not take marks off hugetlb memory. */
	CHECK((kit_vmas(area, HUGE_PAGES * HUGE, true) == 1) == since_7_2());
	return 0;
}

static int huge_pages_cut_plain(const void *arg)
{
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	char *area;

	(void)arg;
	CHECK(!ibv_fork_init());
	pd = ibv_alloc_pd(kit_open_device());
	area = huge_map();
	CHECK(pd && area);
	errno = 0;
	mr = ibv_reg_mr(pd, area, (33ul << 20) / 16, KIT_ACCESS);
	CHECK(!mr && errno == EINVAL);
	return 0;
}

static int huge_pages_copied(const void *arg)
{
	struct ground g;
	char *area;
	int line = open_ground(&g, MRG_FORK_AUTO);

	(void)arg;
	if (line)
		return line;
	area = huge_map();
	CHECK(area);
	CHECK(!try_reg(&g, area, (33ul << 20) / 16));
	CHECK(kit_vmas(area, HUGE_PAGES * HUGE, false) == 1);
	return 0;
}

/* More than the device takes in one MR: cut at huge pages, or a clear refusal. */
static int huge_pages_in_parts(const void *arg)
{
	const struct mrg_reg_opts parts = { .size = sizeof(parts),
					    .max_mr_size = (33ul << 20) / 16 };
	const struct mrg_reg_opts below = { .size = sizeof(below), .max_mr_size = 1ul << 20 };
	struct ground g;
	struct mrg_mr *mr;
	char *area;
	int line = open_ground(&g, MRG_FORK_AUTO);

	(void)arg;
	if (line)
		return line;
	area = huge_map();
	CHECK(area);
	CHECK(!mrg_reg(g.ctx, g.pd, area, 34ul << 20, KIT_ACCESS, &parts, &mr));
	CHECK(mrg_mr_count(mr) == 17);
	for (size_t i = 0; i < 17; i++)
		CHECK(mrg_mr_verbs(mr, i)->length == HUGE);
	CHECK(!mrg_dereg(mr));
	CHECK(mrg_reg(g.ctx, g.pd, area, 34ul << 20, KIT_ACCESS, &below, &mr) == -EINVAL);
	mrg_last_error(g.ctx, &g.error);
	snprintf(kit_note, KIT_NOTE / 2, "%s", g.error.cause);
	CHECK(strstr(g.error.cause, "largest MR of 1 MiB") &&
	      strstr(g.error.cause, "huge page of 2 MiB"));
	return 0;
}

/* The caller's own marks outlive registrations through the whole stack. */
static int own_marks(const void *arg)
{
	struct ground g;
	char *area = kit_map(8);
	int line = open_ground(&g, MRG_FORK_ALWAYS);

	(void)arg;
	if (line)
		return line;
	memset(area, 1, 8 * KIT_PAGE);
	CHECK(!madvise(area + 2 * KIT_PAGE, KIT_PAGE, MADV_DONTFORK));
	CHECK(!try_reg(&g, area, 6 * KIT_PAGE));
	CHECK(kit_page_marked(area, 2) && !kit_page_marked(area, 1));
	CHECK(kit_vmas(area, 8 * KIT_PAGE, false) == 3);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const void *arg);
} scenarios[] = {
	{ "plain verbs at the limit leave later pages unmarked (control)", at_the_limit_plain },
	{ "at the limit, pages marked: refused before libibverbs, and works when VMAs are free",
	  at_the_limit_marked },
	{ "at the limit, pages copied: the same", at_the_limit_copied },
	{ "a hole is refused before libibverbs", hole_at_registration },
	{ "memory freed before it is deregistered keeps no mark", hole_at_deregistration },
	{ "plain verbs inside huge pages get EINVAL (control)", huge_pages_cut_plain },
	{ "a range that cuts huge pages is refused with the page's size", huge_pages_cut },
	{ "where nothing is marked huge pages can be cut", huge_pages_copied },
	{ "MRs of hugetlb memory end at huge pages, or the limit is named", huge_pages_in_parts },
	{ "pages that the caller marked stay marked", own_marks },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

int main(void)
{
	uint64_t limit;

	mrg_vma_limit(&limit);
	kit_start(SCENARIOS);
	for (size_t i = 0; i < SCENARIOS; i++) {
		kit_run(scenarios[i].name, scenarios[i].run, NULL);
		set_number("/proc/sys/vm/max_map_count", limit);
		set_number(HUGE_COUNT, 0);
	}
	return kit_end();
}
