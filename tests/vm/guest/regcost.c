/* SPDX-License-Identifier: MIT */
/*
 * What safety costs: registration and deregistration by mrguard against plain
 * verbs, turn by turn on the same buffer, which is safe as one MR.
 *
 * A buffer that crosses a multiple of 2 GiB on an affected kernel can only be
 * called safe once its addresses were seen.  That is the plan's own part, which
 * is shown apart and comes back as little for a DMA-BUF seen before.
 */
#include <time.h>

#include <mrguard/host.h>

#include "ground.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TURNS 100
#define ROUNDS 6 /* the best one counts: others use this machine too */
#define BAR 1.10
/* Its DMA addresses and this iova differ in bit 31: pages of 2 GiB, no wrap. */
#define SAFE_IOVA 0x700080000000ULL

struct sample {
	double plain[TURNS];
	double guarded[TURNS];
	double first[TURNS];
	double plan[TURNS];
};

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct mrg_ctx *ctx;
static struct mrg_dev *dev;
static struct mrg_dev_info info;
static struct mrg_pci_addr pci;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The tenth part is below it: what the work costs, without what else this
 * machine does meanwhile. */
static double low(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 10];
}

struct buffer {
	const char *name;
	int fd;
	void *memory;
	uint64_t addr;
	uint64_t length;
	uint64_t seg;
	int turns;
};

static double plain(const struct buffer *b)
{
	double start = now_us();
	struct ibv_mr *mr = b->fd < 0 ? ibv_reg_mr(pd, b->memory, b->length, ACCESS) :
					ibv_reg_dmabuf_mr(pd, 0, b->length, b->addr, b->fd, ACCESS);

	if (!mr || ibv_dereg_mr(mr))
		bail("plain registration: %s", strerror(errno));
	return now_us() - start;
}

static double guarded(const struct buffer *b)
{
	const struct mrg_dmabuf buf = { .fd = b->fd, .base = b->addr };
	double start = now_us();
	struct mrg_mr *mr;
	int ret = b->fd < 0 ? mrg_reg(ctx, pd, b->memory, b->length, ACCESS, NULL, &mr) :
			      mrg_reg_dmabuf(ctx, pd, &buf, b->addr, b->length, ACCESS, NULL, &mr);

	if (ret || mrg_mr_count(mr) != 1)
		bail("%s: registration by mrguard: %d", b->name, ret);
	if (mrg_dereg(mr))
		bail("deregistration");
	return now_us() - start;
}

/* The plan alone, as registration makes it where it needs the addresses. */
static double plan(const struct buffer *b)
{
	struct mrg_plan_opts opts = { .size = sizeof(opts),
				      .walk = info.walk,
				      .iova = b->addr,
				      .length = b->length,
				      .flags = MRG_PLAN_IOVA_FREE };
	double start = now_us();
	struct mrg_layout layout;
	struct mrg_plan *p;
	size_t count;

	mrg_plan_make(NULL, 0, &opts, &p);
	mrg_plan_pieces(p, &count);
	mrg_plan_free(p);
	if (count > 1 && b->fd >= 0 &&
	    !mrg_dev_layout(dev, b->fd, &pci, b->addr, 0, b->length, MRG_LAYOUT_COALESCE,
			    &layout)) {
		mrg_plan_make(layout.sg, layout.count, &opts, &p);
		mrg_plan_free(p);
		mrg_layout_release(&layout);
	}
	return now_us() - start;
}

/* A DMA-BUF that the context has never seen. */
static double first(const struct buffer *b)
{
	const struct mrg_sg sg = { 4 * GIB, b->length };
	struct buffer other = *b;
	double us;

	if (b->fd < 0)
		return guarded(b);
	other.fd = make_dmabuf(&sg, 1, b->seg);
	us = guarded(&other);
	close(other.fd);
	return us;
}

/* One round: plain and mrguard, turn by turn. */
static double round_ratio(const struct buffer *b, double *p, double *g)
{
	static struct sample s;

	for (int i = 0; i < b->turns; i++) {
		/* Whoever comes second finds warm caches: take turns at that. */
		if (i % 2)
			s.plain[i] = plain(b);
		s.guarded[i] = guarded(b);
		if (!(i % 2))
			s.plain[i] = plain(b);
	}
	*p = low(s.plain, b->turns);
	*g = low(s.guarded, b->turns);
	return *g / *p;
}

/* Whether its addresses must be seen before it can be called safe. */
static bool needs_layout(const struct buffer *b)
{
	return b->fd >= 0 && info.walk != MRG_WALK_EXACT &&
	       b->addr >> 31 != (b->addr + b->length - 1) >> 31;
}

static void show_plan(const struct buffer *b, double repeated)
{
	static struct sample s;
	double once;

	for (int i = 0; i < b->turns; i++) {
		s.first[i] = first(b);
		s.plan[i] = plan(b);
	}
	once = low(s.first, b->turns);
	printf("# %s: a buffer not seen before %.1f us; the plan alone %.1f us%s\n", b->name, once,
	       low(s.plan, b->turns), needs_layout(b) ? ", its addresses among it" : "");
	if (needs_layout(b))
		ok(repeated < once, "%s: a DMA-BUF seen before costs less", b->name);
}

static void compare(const struct buffer *b)
{
	double p, g, ratio = 1e9, best_g = 0;

	plain(b);
	guarded(b);
	for (int i = 0; i < ROUNDS && ratio > BAR; i++) {
		double r = round_ratio(b, &p, &g);

		printf("# %s: plain %.1f us, mrguard %.1f us, ratio %.3f\n", b->name, p, g, r);
		if (r < ratio) {
			ratio = r;
			best_g = g;
		}
	}
	if (b->fd >= 0 && !needs_layout(b))
		ok(ratio <= BAR, "%s: mrguard costs at most %.2f times plain verbs", b->name, BAR);
	show_plan(b, best_g);
}

static void compare_dmabuf(const char *name, uint64_t length, uint64_t seg, int turns)
{
	const struct mrg_sg sg = { 4 * GIB, length };
	struct buffer b = { .name = name,
			    .fd = make_dmabuf(&sg, 1, seg),
			    .addr = SAFE_IOVA,
			    .length = length,
			    .seg = seg,
			    .turns = turns };

	compare(&b);
	close(b.fd);
}

static void compare_memory(const char *name, uint64_t length)
{
	struct buffer b = { .name = name, .fd = -1, .length = length, .turns = TURNS };

	b.memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(b.memory, 1, length);
	b.addr = (uintptr_t)b.memory;
	compare(&b);
	munmap(b.memory, length);
}

int main(int argc, char **argv)
{
	(void)argc;
	preload_shim(argv);
	ground_up();
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd || mrg_open(&ctx, verbs, NULL) || mrg_dev_open(&dev) || mrg_dev_info(dev, &info) ||
	    mrg_importer_find(NULL, "simnic0", &pci))
		bail("simnic0 cannot be opened");
	compare_dmabuf("DMA-BUF of 2 MiB", 2 * MIB, 2 * GIB, TURNS);
	compare_dmabuf("DMA-BUF of 1 GiB", GIB, 2 * GIB, TURNS);
	compare_dmabuf("DMA-BUF of 12 GiB in entries of 2 GiB", 12 * GIB, 2 * GIB, TURNS);
	compare_dmabuf("DMA-BUF of 12 GiB in entries of 2 MiB", 12 * GIB, 2 * MIB, 20);
	compare_memory("memory of 4 KiB", 4096);
	compare_memory("memory of 1 MiB", MIB);
	compare_memory("memory of 64 MiB", 64 * MIB);
	mrg_dev_close(dev);
	mrg_close(ctx);
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
	ground_down();
	tap_end();
	return 0;
}
