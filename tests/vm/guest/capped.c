/* SPDX-License-Identifier: MIT */
/*
 * Registration through the library under mrguard_cap.ko: a buffer that would
 * wrap is one MR with the right bytes while the cap holds, and is made safe in
 * other ways while it does not.
 */
#include <sys/wait.h>

#include <mrguard/region.h>

#include "ground.h"

#define SIZE (12 * GIB)
#define IOVA 0x700000000000ULL
#define BLOCK 4096u
#define PLACE (5 * GIB) /* repeats what is at 1 GiB, where it wraps */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define KPROBES "/sys/kernel/debug/kprobes/enabled"

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct mrg_dmabuf buffer = { .base = IOVA };
static char *map;
static unsigned char bounce[BLOCK] __attribute__((aligned(4096)));

static void make_buffer(void)
{
	const struct mrg_sg sg = { 4 * GIB, SIZE };

	buffer.fd = make_dmabuf(&sg, 1, 2 * GIB);
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.fd, 0);
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (map == MAP_FAILED || !pd)
		bail("no buffer, or no device: %s", strerror(errno));
	memset(map + PLACE, 0x55, BLOCK);
	memset(map + PLACE - 4 * GIB, 0xaa, BLOCK);
}

/* READs a block of the buffer through the device. */
static bool bytes_are_right(const struct mrg_mr *mr)
{
	struct ibv_mr *to = ibv_reg_mr(pd, bounce, sizeof(bounce), ACCESS);
	struct mrg_seg_pair pair = { .local = { (uintptr_t)bounce, BLOCK, to ? to->lkey : 0, 0 } };
	struct rc_end a, b;
	int ret;

	memset(bounce, 0, BLOCK);
	if (!to || mrg_keys(mr, IOVA + PLACE, BLOCK, &pair.remote, 1) != 1 ||
	    rc_open(&a, verbs, pd) || rc_open(&b, verbs, pd) || rc_connect(&a, &b.addr) ||
	    rc_connect(&b, &a.addr))
		return false;
	ret = rc_transfer(&a, IBV_WR_RDMA_READ, &pair, 1);
	rc_close(&a);
	rc_close(&b);
	ibv_dereg_mr(to);
	return !ret && !memcmp(bounce, map + PLACE, BLOCK);
}

static struct mrg_mr *reg(struct mrg_ctx *ctx)
{
	const struct mrg_reg_opts opts = { .size = sizeof(opts), .flags = MRG_REG_IOVA_EQUAL };
	struct mrg_error error;
	struct mrg_mr *mr;

	if (!mrg_reg_dmabuf(ctx, pd, &buffer, IOVA, SIZE, ACCESS, &opts, &mr))
		return mr;
	mrg_last_error(ctx, &error);
	bail("no registration: %s", error.cause);
}

static bool is_described(const struct mrg_mr *mr, const char *words)
{
	char text[2048];

	mrg_mr_describe(mr, text, sizeof(text));
	printf("# %s\n", text);
	return strstr(text, words);
}

/* Of a context that was opened before; the next registration asks again. */
static void check_mrs(struct mrg_ctx *ctx, size_t count, const char *what)
{
	struct mrg_mr *mr = reg(ctx);
	size_t made = mrg_mr_count(mr);

	ok(made == count, "%s: %zu MRs", what, made);
	ok(is_described(mr, "(capped)") == (count == 1), "%s: the handle says so", what);
	ok(bytes_are_right(mr), "%s: the bytes are right", what);
	ok(mr_page_shift("simnic0", mrg_mr_verbs(mr, 0)) == 31, "%s: in pages of 2 GiB", what);
	mrg_dereg(mr);
}

/* The model and the kernel's own functions are of one mind about the same buffer. */
static void check_plan(const char *holds, const char *what)
{
	ok(!run_command(
		   "mrguard plan --dmabuf-from simgpu:12G,seg=2G,fake --importer simnic0 --iova 0x700000000000 --json >/tmp/plan; cat /tmp/plan >&2; jq -e '.kernel.agrees and %s' /tmp/plan >&2",
		   holds),
	   "%s: the plan agrees with the kernel", what);
}

static struct mrg_ctx *open_context(void)
{
	struct mrg_ctx *ctx;

	if (mrg_open(&ctx, verbs, NULL))
		bail("no context");
	return ctx;
}

static bool cap_unloads(void)
{
	return !run_command("rmmod mrguard_cap 2>/dev/null");
}

static void a_handle_keeps_the_cap_longer_than_its_context(void)
{
	struct mrg_ctx *ctx = open_context();
	struct mrg_mr *mr = reg(ctx);

	mrg_close(ctx);
	ok(!cap_unloads(), "with a live MR the cap stays, although the context is closed");
	ok(bytes_are_right(mr), "and the MR moves the right bytes");
	mrg_dereg(mr);
	ok(cap_unloads(), "it goes once the last MR is gone");
}

int main(int argc, char **argv)
{
	struct mrg_ctx *before, *ctx;

	(void)argc;
	preload_shim(argv);
	ground_up();
	if (!walk_is_truncating()) {
		ok(true, "this kernel's walk is exact: there is nothing to cap");
		ground_down();
		tap_end();
		return 0;
	}
	make_buffer();
	before = open_context();
	check_mrs(before, 6, "without the cap");
	check_plan("(.capped | not) and .verdict == \"wraps\"", "without the cap");
	cap_load();
	check_plan(
		".capped and .kernel.capped and .kernel.page_shift == 31 and .strategy == \"none\"",
		"under the cap");
	check_mrs(before, 6, "a context from before the cap");
	mrg_close(before);
	ctx = open_context();
	check_mrs(ctx, 1, "under the cap");
	ok(!run_command(
		   "mrguard check --prometheus | grep -q 'mrguard_cap_state{state=\"capped\"} 1'"),
	   "the state is a metric");
	ok(!run_command(
		   "mrguard check --json | jq -e '.results[] | select(.id == \"walk\" and .subject == \"\").verdict == \"ok\"' >&2"),
	   "the line walk is ok by what was asked");
	ok(!run_command(
		   "mrguard check --json | jq -e '.results[] | select(.id == \"device-pages\" and .subject == \"simnic0\").verdict == \"ok\"' >&2"),
	   "the line device-pages says that the cap holds for the driver");
	run_command("echo 0 >" KPROBES);
	check_mrs(ctx, 6, "with kprobes switched off");
	check_plan("(.capped | not) and (.kernel.capped | not) and .kernel.page_shift == 32",
		   "with kprobes switched off");
	run_command("echo 1 >" KPROBES);
	check_mrs(ctx, 1, "with kprobes on again");
	ok(!cap_unloads(), "an open context keeps the cap");
	mrg_close(ctx);
	a_handle_keeps_the_cap_longer_than_its_context();
	ok(!run_command("mrguard info --json | jq -e '.rdma[0].pick == \"kernel\"' >&2"),
	   "the driver is known to use the kernel's pick");
	munmap(map, SIZE);
	close(buffer.fd);
	ibv_dealloc_pd(pd);
	ibv_close_device(verbs);
	ground_down();
	tap_end();
	return 0;
}
