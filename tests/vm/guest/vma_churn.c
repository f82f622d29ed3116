/* SPDX-License-Identifier: MIT */
/*
 * The churn of the field report: buffers of 64 KiB to 8 MiB, registered and
 * deregistered at addresses of an allocator that churns.  Through mrguard the
 * number of VMAs stays flat in every mode; through plain verbs, with pages
 * marked, it must rise, or this test proves nothing.
 */
#include "vma_kit.h"

#define CYCLES 20000 /* of the full run */
#define CYCLES_SHORT 500
#define SAMPLES 10
#define FLAT 8
#define RATCHET(cycles) ((cycles) / 4)

#define MIN_SIZE (64ul << 10)
#define MAX_SIZE (8ul << 20)
#define LIVE 16

/*
 * Half of the buffers come from malloc(), half from extents: mappings of their
 * own with a guard page between, whose pages are given back, while the address
 * space is kept (as jemalloc does it).  An extent that is cut while nothing of
 * it was written, and whose neighbouring bytes are written while it is cut, stays
 * in three pieces.  Within one large mapping that has seen a write cuts heal, and
 * since 6.16 they heal where one side was never written.
 */
#define EXTENT (MAX_SIZE + 3 * KIT_PAGE)

/*
 * An extent a cycle that takes one, so that each is fresh.  Without the module
 * each registration of marked memory reads smaps, which takes as long as there
 * are VMAs: there the extents come round again.
 */
#define EXTENTS_NO_MODULE 256

enum setup {
	NETLINK_REFUSED = 1 << 0,
	ENV_SAFE = 1 << 1,
	OTHER_INIT = 1 << 2, /* somebody else called ibv_fork_init() first */
	NO_MODULE = 1 << 3,
	PLAIN = 1 << 4, /* plain verbs */
};

struct churn {
	const char *name;
	unsigned int setup;
	enum mrg_fork_policy policy;
	enum mrg_fork_mode mode; /* expected */
};

struct buffer {
	char *addr;
	size_t size;
	bool from_extent;
	struct mrg_mr *mr;
	struct ibv_mr *plain;
};

struct state {
	const struct churn *churn;
	struct ibv_pd *pd;
	struct mrg_ctx *ctx;
	struct mrg_dev *dev;
	char *extents;
	size_t next_extent;
	size_t nextents;
	struct buffer live[LIVE];
	uint64_t seed;
	uint64_t first, lowest, highest, last;
	struct mrg_error error;
};

static uint64_t next_random(struct state *s)
{
	s->seed = s->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return s->seed >> 24;
}

/* The byte before and the byte behind are somebody's, and in use. */
static void touch_neighbours(const struct buffer *b)
{
	if (b->from_extent)
		b->addr[-(ssize_t)KIT_PAGE] = b->addr[b->size] = 1;
}

static char *next_extent(struct state *s)
{
	return s->extents + s->next_extent++ % s->nextents * EXTENT + KIT_PAGE;
}

static int take(struct state *s, struct buffer *b, bool from_extent)
{
	/* Small ones are the most: each octave is half as frequent. */
	uint64_t octave = MIN_SIZE << __builtin_ctzll(next_random(s) | 1 << 6);

	b->size = octave + next_random(s) % (octave / KIT_PAGE + 1) * KIT_PAGE;
	b->from_extent = from_extent;
	b->addr = from_extent ? next_extent(s) : malloc(b->size);
	CHECK(b->addr);
	if (s->churn->setup & PLAIN) {
		b->plain = ibv_reg_mr(s->pd, b->addr, b->size, KIT_ACCESS);
		CHECK(b->plain);
		touch_neighbours(b);
		return 0;
	}
	if (mrg_reg(s->ctx, s->pd, b->addr, b->size, KIT_ACCESS, NULL, &b->mr)) {
		mrg_last_error(s->ctx, &s->error);
		return __LINE__;
	}
	touch_neighbours(b);
	return 0;
}

static int give(struct buffer *b)
{
	if (!b->addr)
		return 0;
	CHECK(!(b->plain ? ibv_dereg_mr(b->plain) : mrg_dereg(b->mr)));
	if (b->from_extent)
		madvise(b->addr - KIT_PAGE, b->size + 2 * KIT_PAGE, MADV_DONTNEED);
	else
		free(b->addr);
	*b = (struct buffer){ .addr = NULL };
	return 0;
}

static int sample(struct state *s)
{
	for (int i = 0; i < LIVE; i++)
		CHECK(!give(&s->live[i]));
	CHECK(!mrg_vma_count(s->dev, 0, &s->last));
	if (!s->first)
		s->first = s->lowest = s->highest = s->last;
	if (s->last < s->lowest)
		s->lowest = s->last;
	if (s->last > s->highest)
		s->highest = s->last;
	return 0;
}

static int cycles(struct state *s, int count)
{
	int line;

	for (int i = 0; i <= count; i++) {
		struct buffer *b = &s->live[i % LIVE];

		if (i % (count / SAMPLES) == 0 && (line = sample(s)))
			return line;
		if ((line = give(b)) || (line = take(s, b, i & 1)))
			return line;
	}
	return sample(s);
}

static int make_extents(struct state *s)
{
	size_t length = s->nextents * EXTENT;

	s->extents =
		mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(s->extents != MAP_FAILED);
	/* Small pieces of huge pages would make this a test of their splitting. */
	CHECK(!madvise(s->extents, length, MADV_NOHUGEPAGE));
	for (size_t i = 0; i < s->nextents; i++)
		CHECK(!mprotect(s->extents + i * EXTENT, EXTENT - KIT_PAGE,
				PROT_READ | PROT_WRITE));
	return 0;
}

static int open_all(struct state *s)
{
	const struct churn *churn = s->churn;
	struct mrg_open_opts opts = {
		.size = sizeof(opts),
		.flags = churn->setup & NO_MODULE ? MRG_OPEN_NO_MODULE : 0,
		.fork = churn->policy,
	};
	struct ibv_context *device;

	if (churn->setup & NETLINK_REFUSED)
		CHECK(!kit_refuse_rdma_netlink());
	if (churn->setup & ENV_SAFE)
		setenv("RDMAV_FORK_SAFE", "1", 1);
	if (churn->setup & OTHER_INIT)
		CHECK(!ibv_fork_init());
	device = kit_open_device();
	CHECK(device);
	s->pd = ibv_alloc_pd(device);
	CHECK(s->pd);
	CHECK(!mrg_dev_open(&s->dev));
	if (!(churn->setup & PLAIN))
		CHECK(!mrg_open(&s->ctx, device, &opts));
	return make_extents(s);
}

static int churn(const void *arg)
{
	struct state s = { .churn = arg, .seed = 42 };
	int count = kit_full() ? CYCLES : CYCLES_SHORT;
	double start = kit_seconds();
	struct mrg_fork_info info;
	int line;

	s.nextents = s.churn->setup & NO_MODULE ? EXTENTS_NO_MODULE : (size_t)count / 2 + LIVE;
	line = open_all(&s);
	if (!line)
		line = cycles(&s, count);
	mrg_fork_query(&info);
	snprintf(kit_note, KIT_NOTE / 2,
		 "%d cycles: %lu VMAs at first, %lu to %lu, %lu at last; mode %s%s, %.1f s %s",
		 count, s.first, s.lowest, s.highest, s.last, mrg_fork_mode_name(info.mode),
		 info.reliable ? "" : " (unreliable)", kit_seconds() - start, s.error.cause);
	if (line)
		return line;
	if (s.churn->setup & PLAIN) {
		CHECK(s.last > s.first + RATCHET((uint64_t)count));
		return 0;
	}
	CHECK(s.highest - s.first <= FLAT && s.first - s.lowest <= FLAT);
	CHECK(info.mode == s.churn->mode && info.observed && info.reliable);
	CHECK((info.kernel == MRG_KERNEL_UNREACHED) == ((s.churn->setup & NETLINK_REFUSED) != 0));
	CHECK(info.kernel != MRG_KERNEL_UNREACHED || info.netlink_error == EPERM);
	return 0;
}

static const struct churn churns[] = {
	{ "plain verbs, pages marked since netlink is refused: the number of VMAs rises (control)",
	  NETLINK_REFUSED | OTHER_INIT | PLAIN, MRG_FORK_AUTO, MRG_FORK_MARKED },
	{ "mrguard, netlink refused, so that pages are marked: flat", NETLINK_REFUSED,
	  MRG_FORK_AUTO, MRG_FORK_MARKED },
	{ "mrguard, policy auto on a kernel that copies: nothing is marked, flat", 0, MRG_FORK_AUTO,
	  MRG_FORK_COPIED },
	{ "mrguard, policy never: flat", 0, MRG_FORK_NEVER, MRG_FORK_COPIED },
	{ "mrguard, policy always with a libibverbs that marks all the same: flat", 0,
	  MRG_FORK_ALWAYS, MRG_FORK_MARKED },
	{ "mrguard, RDMAV_FORK_SAFE set: the marks are seen, flat", ENV_SAFE, MRG_FORK_AUTO,
	  MRG_FORK_MARKED },
	{ "mrguard, ibv_fork_init() called by another: the marks are seen, flat", OTHER_INIT,
	  MRG_FORK_AUTO, MRG_FORK_MARKED },
	{ "mrguard without its module, pages marked: flat", NETLINK_REFUSED | NO_MODULE,
	  MRG_FORK_AUTO, MRG_FORK_MARKED },
};
#define CHURNS (sizeof(churns) / sizeof(churns[0]))

int main(void)
{
	kit_start(CHURNS);
	for (size_t i = 0; i < CHURNS; i++)
		kit_run(churns[i].name, churn, &churns[i]);
	return kit_end();
}
