/* SPDX-License-Identifier: MIT */
/*
 * Registrations that overlap, and a child forked at each step: which pages are
 * marked, what the child can read and write, and whether the memory region goes
 * on carrying the parent's bytes, checked through the device.
 */
#include <signal.h>

#include "simnic_pair.h"
#include "vma_kit.h"

#define PAGES 4
#define PDS 8

struct ground {
	struct pair pair;
	struct mrg_ctx *ctx;
	struct ibv_pd *pds[PDS];
	char *area;
	enum mrg_fork_mode mode;
};

static int open_ground(struct ground *g, enum mrg_fork_policy policy, enum mrg_fork_mode mode)
{
	static const struct pair_options options = { .a = "rxe_simnic0" };
	const struct mrg_open_opts opts = { .size = sizeof(opts), .fork = policy };

	g->mode = mode;
	/* Fork protection comes first: it cannot be switched on later. */
	CHECK(!mrg_open(&g->ctx, NULL, &opts));
	pair_open(&g->pair, &options);
	for (int i = 0; i < PDS; i++) {
		g->pds[i] = ibv_alloc_pd(g->pair.a.context);
		CHECK(g->pds[i]);
	}
	g->area = kit_map(PAGES);
	CHECK(g->area);
	memset(g->area, 'p', PAGES * KIT_PAGE);
	return 0;
}

static int reg_pages(struct ground *g, struct ibv_pd *pd, int first, int count, struct mrg_mr **mr)
{
	return mrg_reg(g->ctx, pd, g->area + (size_t)first * KIT_PAGE, (size_t)count * KIT_PAGE,
		       KIT_ACCESS, NULL, mr);
}

/* Which pages are marked, as a string: "-mm-". */
static bool marked_as(const struct ground *g, const char *wanted)
{
	for (int i = 0; i < PAGES; i++) {
		bool want = g->mode == MRG_FORK_MARKED && wanted[i] == 'm';

		if (kit_page_marked(g->area, i) != want)
			return false;
	}
	return true;
}

/* What the child does with one page: reads the parent's byte, writes its own.
 * A marked page is not there: the child dies of it. */
static int child_with(const struct ground *g, int page)
{
	volatile char *at = g->area + (size_t)page * KIT_PAGE;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (*at != 'p')
			_exit(1);
		*at = 'c';
		_exit(*at == 'c' ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int children_see(const struct ground *g, const char *marks)
{
	for (int i = 0; i < PAGES; i++) {
		bool gone = g->mode == MRG_FORK_MARKED && marks[i] == 'm';

		CHECK(child_with(g, i) == (gone ? -SIGSEGV : 0));
		CHECK(g->area[(size_t)i * KIT_PAGE] == 'p');
	}
	return 0;
}

/* The device reads what the parent wrote, and writes what the parent reads. */
static int device_sees(struct ground *g, const struct mrg_mr *mr)
{
	char *other = kit_map(1);
	struct ibv_mr *to = ibv_reg_mr(g->pair.a.pd, other, KIT_PAGE, KIT_ACCESS);
	struct ibv_mr *from = mrg_mr_verbs(mr, 0);
	char *first = (char *)(uintptr_t)mrg_mr_addr(mr);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	CHECK(to);
	*first = 'q';
	sge = sge_of(to, 0, KIT_PAGE);
	wr = request(IBV_WR_RDMA_READ, &sge, from, 0);
	CHECK(status_of(&g->pair, &wr) == IBV_WC_SUCCESS);
	CHECK(*other == 'q');
	memset(other, 'p', KIT_PAGE);
	wr = request(IBV_WR_RDMA_WRITE, &sge, from, 0);
	CHECK(status_of(&g->pair, &wr) == IBV_WC_SUCCESS);
	CHECK(*first == 'p');
	CHECK(!ibv_dereg_mr(to));
	munmap(other, KIT_PAGE);
	return 0;
}

static int step(struct ground *g, const char *marks, const struct mrg_mr *mr)
{
	int line;

	CHECK(marked_as(g, marks));
	if ((line = children_see(g, marks)))
		return line;
	/* After the forks: the parent must not have got other pages. */
	return mr ? device_sees(g, mr) : 0;
}

/* The pair's remote end, since that is where the region is registered. */
static struct ibv_pd *remote_pd(struct ground *g)
{
	return g->pair.b.pd;
}

static int two_that_overlap(struct ground *g)
{
	struct mrg_mr *a, *b;
	int line;

	CHECK(!reg_pages(g, g->pds[0], 0, 2, &a));
	CHECK(!reg_pages(g, remote_pd(g), 1, 2, &b));
	if ((line = step(g, "mmm-", b)))
		return line;
	CHECK(!mrg_dereg(a));
	if ((line = step(g, "-mm-", b)))
		return line;
	CHECK(!mrg_dereg(b));
	if ((line = step(g, "----", NULL)))
		return line;
	CHECK(kit_vmas(g->area, PAGES * KIT_PAGE, false) == 1);
	return 0;
}

static int one_range_on_eight(struct ground *g)
{
	struct mrg_mr *mrs[PDS];
	int line;

	for (int i = 0; i < PDS; i++)
		CHECK(!reg_pages(g, i ? g->pds[i] : remote_pd(g), 0, 3, &mrs[i]));
	for (int i = PDS - 1; i > 0; i--) {
		CHECK(!mrg_dereg(mrs[i]));
		if ((line = step(g, "mmm-", mrs[0])))
			return line;
	}
	CHECK(!mrg_dereg(mrs[0]));
	if ((line = step(g, "----", NULL)))
		return line;
	CHECK(kit_vmas(g->area, PAGES * KIT_PAGE, false) == 1);
	return 0;
}

struct scenario {
	const char *name;
	enum mrg_fork_policy policy;
	enum mrg_fork_mode mode;
	int (*run)(struct ground *g);
};

static int play(const void *arg)
{
	const struct scenario *scenario = arg;
	struct ground g = { .area = NULL };
	struct mrg_fork_info info;
	int line = open_ground(&g, scenario->policy, scenario->mode);

	if (!line)
		line = scenario->run(&g);
	if (line)
		return line;
	mrg_fork_query(&info);
	CHECK(info.observed && info.mode == scenario->mode && info.reliable);
	return 0;
}

static const struct scenario scenarios[] = {
	{ "pages marked: of two that overlap each page stays marked as long as one needs it",
	  MRG_FORK_ALWAYS, MRG_FORK_MARKED, two_that_overlap },
	{ "pages marked: of eight on one range the last takes the marks away", MRG_FORK_ALWAYS,
	  MRG_FORK_MARKED, one_range_on_eight },
	{ "pages copied: two that overlap, and children that write", MRG_FORK_AUTO, MRG_FORK_COPIED,
	  two_that_overlap },
	{ "pages copied: eight on one range, and children that write", MRG_FORK_AUTO,
	  MRG_FORK_COPIED, one_range_on_eight },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

int main(void)
{
	kit_start(SCENARIOS);
	for (size_t i = 0; i < SCENARIOS; i++)
		kit_run(scenarios[i].name, play, &scenarios[i]);
	return kit_end();
}
