/* SPDX-License-Identifier: MIT */
/*
 * What the size of the kernel's pages decides about an MR over a DMA-BUF: the
 * iova's offset in a page is that of the place in the DMA-BUF, the range that is
 * looked at is whole pages, and a rebased MR keeps the offset.  Report: on hosts
 * of 64 KiB pages engines that rounded to 4 KiB were refused with EINVAL.
 */
#include "loop.h"

#define SIZE (12 * GIB)
#define INSIDE 0x12345ULL /* on no boundary of a page of any size */
#define LENGTH (SIZE - INSIDE - 77)
#define BASE 0x700000000000ULL
#define PART 100000ULL
#define BITS 20

static uint64_t page;
static char *map;

static uint64_t offset_in_page(uint64_t addr)
{
	return addr & (page - 1);
}

static bool verbs_takes(int fd, uint64_t iova)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, INSIDE, PART, iova, fd, ACCESS);
	bool refused = !mr && errno == EINVAL;

	if (mr)
		ibv_dereg_mr(mr);
	else if (!refused)
		bail("plain registration: %s", strerror(errno));
	return !refused;
}

static bool mrguard_takes(struct mrg_ctx *ctx, int fd, uint64_t addr)
{
	const struct mrg_dmabuf buf = { .fd = fd, .base = addr - INSIDE };
	struct mrg_mr *mr;
	int ret = mrg_reg_dmabuf(ctx, pd, &buf, addr, PART, ACCESS, NULL, &mr);

	if (!ret)
		mrg_dereg(mr);
	else if (ret != -EINVAL)
		bail("mrg_reg_dmabuf: %s", strerror(-ret));
	return !ret;
}

static void the_offset_in_a_page_is_kept(struct mrg_ctx *ctx, int fd)
{
	bool verbs_right = verbs_takes(fd, BASE + INSIDE);
	bool mrguard_right = mrguard_takes(ctx, fd, BASE + INSIDE);

	for (unsigned int bit = 0; bit < BITS; bit++) {
		uint64_t iova = (BASE + INSIDE) ^ 1ULL << bit;
		bool good = 1ULL << bit >= page;

		verbs_right &= verbs_takes(fd, iova) == good;
		mrguard_right &= mrguard_takes(ctx, fd, iova) == good;
	}
	ok(verbs_right,
	   "plain verbs: an iova is refused if one of its low %d bits is not the offset's, and then alone",
	   __builtin_ctzll(page));
	ok(mrguard_right, "mrguard: so it is");
}

static void whole_pages_are_looked_at(int fd)
{
	struct mrg_layout layout;
	struct mrg_pci_addr pci;
	struct mrg_dev_info info;
	struct mrg_dev *dev;
	uint64_t bytes = 0;

	if (mrg_dev_open(&dev) || mrg_dev_info(dev, &info) ||
	    mrg_importer_find(NULL, "simnic0", &pci) ||
	    mrg_dev_layout(dev, fd, &pci, BASE + INSIDE, INSIDE, PART, MRG_LAYOUT_COALESCE,
			   &layout))
		bail("no layout");
	for (size_t i = 0; i < layout.count; i++)
		bytes += layout.sg[i].len;
	ok(layout.start == INSIDE - offset_in_page(INSIDE),
	   "a layout starts at the start of a page");
	ok(layout.start + bytes == ((INSIDE + PART + page - 1) & ~(page - 1)),
	   "and ends at the end of one");
	mrg_layout_release(&layout);
	mrg_dev_close(dev);
}

/* Writes 64 bytes to place @at of what is registered: do they arrive there? */
static bool arrives(const struct mrg_seg *segs, size_t count, uint64_t at)
{
	const struct mrg_seg from = { .wire = (uintptr_t)bounce,
				      .length = 64,
				      .lkey = bounce_mr->lkey,
				      .rkey = bounce_mr->rkey };
	struct mrg_seg_pair pairs[4];
	char *to = map + INSIDE + at;
	ssize_t n = mrg_seg_pairs(&from, 1, segs, count, pairs, 4);

	for (int i = 0; i < 64; i++) {
		((unsigned char *)bounce)[i] = (unsigned char)(at / 3 + (uint64_t)i * 7 + 1);
		to[i] = 0;
	}
	if (n < 1 || rc_transfer(&ends[0], IBV_WR_RDMA_WRITE, pairs, (size_t)n))
		bail("transfer: %s", ends[0].fault);
	return !memcmp(to, bounce, 64);
}

/* A start inside a page of 4 GiB: the first two of these are walked right. */
static const uint64_t places[] = { 0, 1, 2 * GIB - 32, 5 * GIB + 3, 9 * GIB + 70001, LENGTH - 64 };
#define PLACES (sizeof(places) / sizeof(*places))

static void plain_verbs_is_the_control(int fd)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, INSIDE, LENGTH, BASE + INSIDE, fd, ACCESS);
	size_t wrong = 0;

	if (!mr)
		bail("plain registration: %s", strerror(errno));
	for (size_t i = 0; i < PLACES; i++) {
		const struct mrg_seg seg = { .wire = BASE + INSIDE + places[i],
					     .length = 64,
					     .lkey = mr->lkey,
					     .rkey = mr->rkey };

		wrong += !arrives(&seg, 1, places[i]);
	}
	ibv_dereg_mr(mr);
	printf("# plain verbs: %zu of %zu places wrong\n", wrong, PLACES);
	ok(wrong == (walk_is_truncating() ? 2 : 0),
	   "plain verbs, an MR that starts inside a page: %s",
	   walk_is_truncating() ? "all beyond 8 GiB goes astray" : "every byte is right");
}

static void every_byte_is_right(struct mrg_ctx *ctx, int fd, enum mrg_strategy strategy)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .strategy = strategy };
	const struct mrg_dmabuf buf = { .fd = fd, .base = BASE };
	size_t right = 0, kept = 0;
	struct mrg_seg segs[4];
	struct mrg_mr *mr;
	char words[400];

	if (mrg_reg_dmabuf(ctx, pd, &buf, BASE + INSIDE, LENGTH, ACCESS, &opts, &mr))
		bail("mrg_reg_dmabuf, %s", mrg_strategy_name(strategy));
	mrg_mr_describe(mr, words, sizeof(words));
	printf("# %s\n", words);
	for (size_t i = 0; i < PLACES; i++) {
		ssize_t n = mrg_keys(mr, BASE + INSIDE + places[i], 64, segs, 4);

		kept += n > 0 && offset_in_page(segs[0].wire) == offset_in_page(INSIDE + places[i]);
		right += n > 0 && arrives(segs, (size_t)n, places[i]);
	}
	mrg_dereg(mr);
	ok(kept == PLACES, "mrguard, %s: the address on the wire keeps the offset in the page",
	   mrg_strategy_name(strategy));
	ok(right == PLACES, "mrguard, %s: every byte is right", mrg_strategy_name(strategy));
}

int main(int argc, char **argv)
{
	const struct mrg_sg sg = { 4 * GIB, SIZE };
	struct mrg_ctx *ctx;
	int fd;

	(void)argc;
	preload_shim(argv);
	page = host_page();
	ground_up();
	open_loop();
	fd = make_dmabuf(&sg, 1, 2 * GIB);
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || mrg_open(&ctx, verbs, NULL))
		bail("no buffer, or no context");
	printf("# pages of %llu KiB\n", (unsigned long long)(page >> 10));
	the_offset_in_a_page_is_kept(ctx, fd);
	whole_pages_are_looked_at(fd);
	plain_verbs_is_the_control(fd);
	for (int s = MRG_STRATEGY_AUTO; s <= MRG_STRATEGY_REBASE; s++)
		every_byte_is_right(ctx, fd, (enum mrg_strategy)s);
	mrg_close(ctx);
	munmap(map, SIZE);
	close(fd);
	close_loop();
	ground_down();
	tap_end();
	return 0;
}
