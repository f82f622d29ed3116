/* SPDX-License-Identifier: MIT */
/*
 * The wrap once more, through the engine: 12 GiB of a DMA-BUF behind a device
 * whose kernel path is the real one.  One MR by plain verbs must show the fault
 * where the kernel has it; what mrg_reg_dmabuf() made must not, on either side.
 */
#include "transfer_kit.h"

#define SIZE (12 * GIB)
#define BLOCK 65536ull
#define BLOCKS 96ull
#define IOVA 0x700000000000ull

static struct kit_side a, b;
static struct mrg_ep *ep, *peer;
static struct kit_buffer bounce;
static unsigned char *truth;
static int fd;

static uint64_t place(uint64_t i)
{
	/* Both ends, and at odd distances in between. */
	return i == BLOCKS - 1 ? SIZE - BLOCK : i * (SIZE / BLOCKS / 4096 * 4096);
}

/* Where a buffer of the engine's own MRs is, or that of plain verbs. */
static struct mrg_remote *remote_of(const struct mrg_mr *mr, const struct ibv_mr *plain)
{
	struct mrg_desc_piece pieces[64] = { { .length = SIZE, .wire = IOVA } };
	struct mrg_remote *remote;
	size_t count = 1;

	if (plain)
		pieces[0].rkey = plain->rkey;
	else
		count = mrg_remote_pieces(mr, pieces, 64);
	if (count > 64 || mrg_remote_make(IOVA, pieces, count, 0, &remote))
		bail("no remote buffer of %zu pieces", count);
	return remote;
}

static int move_block(enum mrg_op_code code, const struct mrg_remote *remote, uint64_t i)
{
	struct mrg_local part = { .mr = bounce.mr,
				  .addr = (uintptr_t)bounce.bytes,
				  .length = BLOCK };
	struct mrg_op op = { .code = code,
			     .local_count = 1,
			     .local = &part,
			     .remote = remote,
			     .remote_addr = IOVA + place(i) };

	return kit_move(ep, &op, 1);
}

/* All are written before any is compared: a block that fell on another shows. */
static uint64_t write_and_compare(const struct mrg_remote *remote, int *failed)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < BLOCKS; i++) {
		kit_fill(bounce.bytes, BLOCK, i * BLOCK);
		*failed += move_block(MRG_OP_WRITE, remote, i) != 0;
	}
	for (uint64_t i = 0; i < BLOCKS; i++)
		wrong += kit_wrong(truth + place(i), BLOCK, i * BLOCK);
	return wrong;
}

static uint64_t read_and_compare(const struct mrg_remote *remote, int *failed)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < BLOCKS; i++)
		kit_fill(truth + place(i), BLOCK, (i + BLOCKS) * BLOCK);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		*failed += move_block(MRG_OP_READ, remote, i) != 0;
		wrong += kit_wrong(bounce.bytes, BLOCK, (i + BLOCKS) * BLOCK);
	}
	return wrong;
}

static void assess(const char *name, bool plain, uint64_t written, uint64_t fetched, int failed)
{
	bool faulty = plain && walk_is_truncating();

	printf("# %s: %llu bytes written wrong, %llu read wrong, of %llu each\n", name,
	       (unsigned long long)written, (unsigned long long)fetched,
	       (unsigned long long)(BLOCKS * BLOCK));
	ok(!failed, "%s: all transfers end well", name);
	if (faulty)
		ok(written && fetched, "%s: the kernel's fault shows in both directions", name);
	else
		ok(!written && !fetched, "%s: every byte is right", name);
}

static void remote_side(const char *name, const struct mrg_mr *mr, const struct ibv_mr *plain)
{
	struct mrg_remote *remote = remote_of(mr, plain);
	uint64_t written, fetched;
	int failed = 0;

	written = write_and_compare(remote, &failed);
	fetched = read_and_compare(remote, &failed);
	assess(name, plain != NULL, written, fetched, failed);
	mrg_remote_free(remote);
}

/* The large buffer is this side's: the peer of before submits. */
static void local_side(const char *name, struct mrg_mr *mr)
{
	uint64_t written = 0, fetched = 0;
	int failed = 0;

	for (uint64_t i = 0; i < BLOCKS; i++) {
		struct mrg_local part = { .mr = mr, .addr = IOVA + place(i), .length = BLOCK };
		struct mrg_op op = { .code = MRG_OP_READ,
				     .local_count = 1,
				     .local = &part,
				     .remote = bounce.remote,
				     .remote_addr = (uintptr_t)bounce.bytes };

		kit_fill(bounce.bytes, BLOCK, i * BLOCK + 7);
		failed += kit_move(peer, &op, 1) != 0;
	}
	for (uint64_t i = 0; i < BLOCKS; i++)
		written += kit_wrong(truth + place(i), BLOCK, i * BLOCK + 7);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		struct mrg_local part = { .mr = mr, .addr = IOVA + place(i), .length = BLOCK };
		struct mrg_op op = { .code = MRG_OP_WRITE,
				     .local_count = 1,
				     .local = &part,
				     .remote = bounce.remote,
				     .remote_addr = (uintptr_t)bounce.bytes };

		failed += kit_move(peer, &op, 1) != 0;
		fetched += kit_wrong(bounce.bytes, BLOCK, i * BLOCK + 7);
	}
	assess(name, false, written, fetched, failed);
}

/* One batch over the whole: each operation crosses many MRs or few. */
static void across(struct mrg_mr *mr)
{
	struct mrg_remote *remote = remote_of(mr, NULL);
	uint64_t wrong = 0, at = 4 * GIB - 3 * MIB;
	struct mrg_local part = { .mr = bounce.mr,
				  .addr = (uintptr_t)bounce.bytes,
				  .length = 6 * MIB };
	struct mrg_op op = { .code = MRG_OP_WRITE,
			     .local_count = 1,
			     .local = &part,
			     .remote = remote,
			     .remote_addr = IOVA + at };

	kit_fill(bounce.bytes, 6 * MIB, 3);
	ok(!kit_move(ep, &op, 1), "a transfer over the border of 4 GiB ends well");
	wrong = kit_wrong(truth + at, 6 * MIB, 3);
	ok(!wrong, "and its bytes are right");
	mrg_remote_free(remote);
}

static struct mrg_mr *reg(enum mrg_strategy strategy)
{
	struct mrg_reg_opts opts = { .size = sizeof(opts), .strategy = strategy };
	const struct mrg_dmabuf buf = { .fd = fd, .base = IOVA };
	struct mrg_mr *mr;

	if (mrg_reg_dmabuf(b.ctx, b.pd, &buf, IOVA, SIZE, KIT_ACCESS, &opts, &mr))
		bail("mrg_reg_dmabuf");
	return mr;
}

static void guarded(const char *name, enum mrg_strategy strategy)
{
	struct mrg_mr *mr = reg(strategy);
	char words[80];

	printf("# %s: %zu MRs\n", name, mrg_mr_count(mr));
	snprintf(words, sizeof(words), "%s, remote side", name);
	remote_side(words, mr, NULL);
	snprintf(words, sizeof(words), "%s, local side", name);
	local_side(words, mr);
	across(mr);
	mrg_dereg(mr);
}

int main(int argc, char **argv)
{
	struct mrg_sg sg = { 4 * GIB, SIZE };
	struct mrg_listener *listener;
	struct ibv_mr *plain;
	char port[8];

	(void)argc;
	preload_shim(argv);
	ground_up();
	side_open_on(&a, "simnic0", NULL);
	side_open_on(&b, "simnic1", NULL);
	if (mrg_listener_open(b.transfer, "127.0.0.1", NULL, &listener))
		bail("no listener");
	snprintf(port, sizeof(port), "%u", mrg_listener_port(listener));
	if (mrg_ep_connect(a.transfer, "127.0.0.1", port, &ep)) {
		struct mrg_error error;

		mrg_transfer_last_error(a.transfer, &error);
		bail("%s", error.cause);
	}
	if (mrg_listener_accept(listener, 5000, &peer))
		bail("nobody came");
	kit_buffer_make(&bounce, &a, 8 * MIB, 0);
	fd = make_dmabuf(&sg, 1, 2 * GIB);
	truth = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (truth == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
	plain = ibv_reg_dmabuf_mr(b.pd, 0, SIZE, IOVA, fd, KIT_ACCESS);
	if (!plain)
		bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	remote_side("plain verbs", NULL, plain);
	ibv_dereg_mr(plain);
	guarded("mrguard", MRG_STRATEGY_AUTO);
	guarded("mrguard, split", MRG_STRATEGY_SPLIT);
	munmap(truth, SIZE);
	close(fd);
	kit_buffer_free(&bounce);
	mrg_ep_close(ep);
	mrg_ep_close(peer);
	mrg_listener_close(listener);
	if (kit_side_close(&a) || kit_side_close(&b))
		ok(false, "nothing keeps the devices open");
	ground_down();
	tap_end();
	return 0;
}
