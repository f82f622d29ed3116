/* SPDX-License-Identifier: MIT */
/*
 * Callers without privilege: what they are refused, what they see instead of
 * DMA addresses, and that a plan made from it equals the one made from the
 * truth.  The importer is a real RDMA device, simnic.
 */
#include "ioctl_kit.h"

#include <grp.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <mrguard/host.h>

#define NOBODY 65534
#define MAX_EXTENTS 24

static struct mrg_dev *dev;
static struct mrg_pci_addr nic;

/* The capabilities in force go and come back with the effective user. */
static void privileged(int yes)
{
	assert_int_equal(seteuid(yes ? 0 : NOBODY), 0);
}

static int call_as_nobody(unsigned long cmd, void *arg)
{
	int ret;

	privileged(0);
	ret = call(cmd, arg);
	privileged(1);
	return ret;
}

/* ---- what is refused ------------------------------------------------------- */

static void the_node_is_closed_to_all_but_root_until_a_rule_says_otherwise(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(stat("/dev/mrguard", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_uid, 0);
	privileged(0);
	fd = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	privileged(1);
	assert_int_equal(fd, -1);
}

static void a_member_of_the_nodes_group_may_open_it(void **state)
{
	gid_t group = 12345;
	int fd;

	(void)state;
	assert_int_equal(chown("/dev/mrguard", 0, group), 0);
	assert_int_equal(chmod("/dev/mrguard", 0660), 0);
	assert_int_equal(setgroups(1, &group), 0);
	privileged(0);
	fd = open("/dev/mrguard", O_RDWR | O_CLOEXEC);
	privileged(1);
	assert_int_equal(setgroups(0, NULL), 0);
	assert_int_equal(chown("/dev/mrguard", 0, 0), 0);
	assert_int_equal(chmod("/dev/mrguard", 0600), 0);
	assert_true(fd >= 0);
	close(fd);
}

/* Any function with a driver and no RDMA device below it will do. */
static int other_function(struct mrg_ioc_importer *out)
{
	static const char *const drivers[] = { "virtio-pci", "ahci", "lpc_ich", "i801_smbus" };

	for (int i = 0; i < 4; i++)
		if (functions_of(drivers[i], out, 1))
			return 0;
	return -1;
}

static void an_importer_without_an_rdma_device_is_for_the_privileged(void **state)
{
	struct mrg_ioc_blocks blocks = blocks_of(NULL, 0, 0, 0);
	struct mrg_ioc_layout arg = layout_of(make_buffer("1G,fake"), NULL, 0);

	(void)state;
	assert_int_equal(other_function(&arg.importer), 0);
	assert_int_equal(call(MRG_IOC_LAYOUT, &arg), 0);
	assert_int_equal(call_as_nobody(MRG_IOC_LAYOUT, &arg), -EPERM);
	blocks.flags = MRG_BLOCKS_DMABUF;
	blocks.dmabuf_fd = arg.dmabuf_fd;
	blocks.importer = arg.importer;
	assert_int_equal(call(MRG_IOC_BLOCKS, &blocks), 0);
	assert_int_equal(call_as_nobody(MRG_IOC_BLOCKS, &blocks), -EPERM);
	arg.importer = importer;
	assert_int_equal(call_as_nobody(MRG_IOC_LAYOUT, &arg), 0);
	close(arg.dmabuf_fd);
}

static void vmas_of_others_are_for_the_privileged_and_ones_own_for_all(void **state)
{
	struct mrg_ioc_vma arg = { .size = sizeof(arg) };

	(void)state;
	assert_int_equal(call_as_nobody(MRG_IOC_VMA, &arg), 0);
	arg.pid = getpid();
	assert_int_equal(call_as_nobody(MRG_IOC_VMA, &arg), 0);
	arg.pid = 1;
	assert_int_equal(call(MRG_IOC_VMA, &arg), 0);
	assert_true(arg.map_count > 0);
	assert_int_equal(call_as_nobody(MRG_IOC_VMA, &arg), -EPERM);
	arg.flags = MRG_VMA_RANGE;
	arg.end = UINT64_MAX;
	assert_int_equal(call_as_nobody(MRG_IOC_VMA, &arg), -EPERM);
	arg.pid = 4194303;
	assert_int_equal(call_as_nobody(MRG_IOC_VMA, &arg), -ESRCH);
}

static void the_unprivileged_get_no_block_addresses_of_a_dmabuf(void **state)
{
	struct mrg_ioc_run run = { 0x100000000, 16 * PAGE };
	struct mrg_ioc_blocks arg = blocks_of(NULL, 0, 0x700000000000, 0), given;
	uint64_t out[16];

	(void)state;
	arg.flags = MRG_BLOCKS_DMABUF;
	arg.dmabuf_fd = make_pages(0x100000000);
	arg.importer = importer;
	arg.pgsz_bitmap = PAGE;
	arg.blocks = (uintptr_t)out;
	arg.blocks_cap = 16;
	assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 16);
	memset(out, 0x5a, sizeof(out));
	assert_int_equal(call_as_nobody(MRG_IOC_BLOCKS, &arg), 0);
	assert_int_equal(arg.blocks_out, 0);
	assert_int_equal(arg.total_blocks, 16);
	for (int i = 0; i < 16; i++)
		assert_int_equal(out[i], 0x5a5a5a5a5a5a5a5a);
	given = blocks_of(&run, 1, 0x700000000000, run.len);
	given.pgsz_bitmap = PAGE;
	given.blocks = (uintptr_t)out;
	given.blocks_cap = 16;
	assert_int_equal(call_as_nobody(MRG_IOC_BLOCKS, &given), 0);
	assert_int_equal(given.blocks_out, 16);
	close(arg.dmabuf_fd);
}

/*
 * Asked for one page size alone, the pick answers whether address and iova
 * agree below it.  @right gets what can be found of an address that way.
 */
static int find_address_by_page_sizes(int fd, uint64_t *right)
{
	struct mrg_ioc_blocks arg = blocks_of(NULL, 0, 0, 0);
	int ret;

	arg.flags = MRG_BLOCKS_DMABUF;
	arg.dmabuf_fd = fd;
	arg.importer = importer;
	for (unsigned int bit = PAGE_BITS; bit < 40; bit++) {
		arg.pgsz_bitmap = 2ULL << bit;
		ret = call_as_nobody(MRG_IOC_BLOCKS, &arg);
		if (ret)
			return ret;
		if (!arg.page_size)
			arg.iova |= 1ULL << bit;
	}
	*right = arg.iova;
	return 0;
}

static void the_unprivileged_cannot_find_addresses_by_page_sizes(void **state)
{
	const uint64_t gaps[] = { 2 * PAGE, 2 * MIB, PAGE | 2 * MIB, ~(2 * PAGE - 1) };
	struct mrg_ioc_blocks arg = blocks_of(NULL, 0, 0x700000000000, 0);
	uint64_t found = 0;

	(void)state;
	arg.flags = MRG_BLOCKS_DMABUF;
	arg.dmabuf_fd = make_pages(0x1234500000 + PAGE);
	arg.importer = importer;
	assert_int_equal(find_address_by_page_sizes(arg.dmabuf_fd, &found), -EPERM);
	assert_int_equal(found, 0);
	for (int i = 0; i < 4; i++) {
		arg.pgsz_bitmap = gaps[i];
		assert_int_equal(call(MRG_IOC_BLOCKS, &arg), 0);
		assert_int_equal(call_as_nobody(MRG_IOC_BLOCKS, &arg), -EPERM);
	}
	for (unsigned int limit = PAGE_BITS; limit < 64; limit++) {
		arg.pgsz_bitmap = ~0ULL >> (63 - limit) & ~(PAGE - 1);
		assert_int_equal(call_as_nobody(MRG_IOC_BLOCKS, &arg), 0);
		assert_int_equal(arg.page_size, PAGE);
	}
	close(arg.dmabuf_fd);
}

/* Root of a user namespace of its own has every capability, but not here. */
static void root_of_another_namespace_is_nobody_here(void **state)
{
	struct mrg_ioc_run run = { 0, 0 };
	struct mrg_ioc_layout arg = layout_of(make_buffer("1G@0x123450000,fake"), &run, 1);
	struct mrg_ioc_vma vma = { .size = sizeof(vma), .pid = 1 };
	int status;
	pid_t pid;

	(void)state;
	arg.iova = 0x700000000000;
	pid = fork();
	if (!pid) {
		int bad = unshare(CLONE_NEWUSER) ? 1 : 0;

		bad |= call(MRG_IOC_LAYOUT, &arg) ? 2 : 0;
		bad |= arg.info & MRG_LAYOUT_INFO_EQUIVALENT ? 0 : 4;
		bad |= run.addr == 0x123450000 ? 8 : 0;
		bad |= call(MRG_IOC_VMA, &vma) == -EPERM ? 0 : 16;
		vma.pid = 0;
		bad |= call(MRG_IOC_VMA, &vma) ? 32 : 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(arg.dmabuf_fd);
}

/* ---- what is seen instead -------------------------------------------------- */

struct shape {
	struct simgpu_extent extents[MAX_EXTENTS];
	struct simgpu_create create;
	uint64_t length;
	uint64_t iova;
};

static uint64_t random_address(uint64_t *seed, uint64_t iova)
{
	unsigned int k = PAGE_BITS + (unsigned int)random_below(seed, 28);
	uint64_t above = random_below(seed, 1ULL << 28) << (k + 1);

	return (iova ^ (1ULL << k) ^ above) & ((1ULL << 47) - 1) & ~(PAGE - 1);
}

static void random_shape(uint64_t *seed, struct shape *s)
{
	uint32_t n = 1 + (uint32_t)random_below(seed, MAX_EXTENTS);

	s->length = 0;
	s->iova = (0x7000ULL << 32) +
		  (random_below(seed, 1ULL << 20) << (PAGE_BITS + random_below(seed, 12)));
	for (uint32_t i = 0; i < n; i++) {
		struct simgpu_extent *e = &s->extents[i];

		e->len = (1 + random_below(seed, 1ULL << random_below(seed, 10))) * PAGE
			 << random_below(seed, 12);
		e->addr = i && !random_below(seed, 3) ? e[-1].addr + e[-1].len :
							random_address(seed, s->iova + s->length);
		s->length += e->len;
	}
	s->create = (struct simgpu_create){
		.size = sizeof(s->create),
		.flags = SIMGPU_FAKE,
		.extents = (uintptr_t)s->extents,
		.extents_n = n,
		.seg = random_below(seed, 2) ? 0 : PAGE << (4 + random_below(seed, 28 - PAGE_BITS)),
	};
}

static int same_outcome(const struct mrg_outcome *a, const struct mrg_outcome *b)
{
	return a->verdict == b->verdict && a->page_shift == b->page_shift &&
	       a->blocks == b->blocks && a->wrong_blocks == b->wrong_blocks &&
	       a->first_bad_offset == b->first_bad_offset && a->period == b->period;
}

static int same_plan(const struct mrg_plan *a, const struct mrg_plan *b)
{
	size_t n, m, i;
	const struct mrg_piece *p = mrg_plan_pieces(a, &n), *q = mrg_plan_pieces(b, &m);

	if (n != m || mrg_plan_strategy(a) != mrg_plan_strategy(b) ||
	    !same_outcome(mrg_plan_single(a), mrg_plan_single(b)))
		return 0;
	for (i = 0; i < n; i++)
		if (p[i].offset != q[i].offset || p[i].length != q[i].length ||
		    p[i].iova != q[i].iova || !same_outcome(&p[i].outcome, &q[i].outcome))
			return 0;
	return 1;
}

/* The range that the layouts were asked for begins @offset after their start. */
static void expect_same_plans(const struct mrg_layout *raw, const struct mrg_layout *seen,
			      uint64_t iova, uint64_t offset, uint64_t *seed)
{
	for (uint32_t i = 0; i < 8; i++) {
		struct mrg_plan_opts opts = {
			.size = sizeof(opts),
			.flags = i & 1 ? MRG_PLAN_IOVA_FREE : 0,
			.walk = i & 2 ? MRG_WALK_TRUNCATING : MRG_WALK_EXACT,
			.max_page_shift = i & 4 ? 31 + (uint32_t)random_below(seed, 33) : 0,
			.iova = iova,
			.offset = offset,
			.page_size = PAGE,
		};
		struct mrg_plan *a, *b;

		assert_int_equal(mrg_plan_make(raw->sg, raw->count, &opts, &a), 0);
		assert_int_equal(mrg_plan_make(seen->sg, seen->count, &opts, &b), 0);
		assert_true(same_plan(a, b));
		mrg_plan_free(a);
		mrg_plan_free(b);
	}
}

/* Contiguous where the truth is, and nowhere else; no address but by accident. */
static void expect_same_shape(const struct mrg_layout *raw, const struct mrg_layout *seen)
{
	assert_false(raw->equivalent);
	assert_true(seen->equivalent);
	assert_int_equal(raw->count, seen->count);
	assert_int_equal(raw->start, seen->start);
	for (size_t i = 0; i < raw->count; i++) {
		const struct mrg_sg *r = &raw->sg[i], *s = &seen->sg[i];

		assert_int_equal(r->len, s->len);
		assert_true(s->addr + s->len > s->addr);
		if (i)
			assert_int_equal(r[-1].addr + r[-1].len == r->addr,
					 s[-1].addr + s[-1].len == s->addr);
	}
}

static void compare(int fd, const struct shape *s, uint64_t offset, uint32_t flags, uint64_t *seed)
{
	struct mrg_layout raw, seen;
	int ret;

	assert_int_equal(mrg_dev_layout(dev, fd, &nic, s->iova + offset, offset, 0, flags, &raw),
			 0);
	privileged(0);
	ret = mrg_dev_layout(dev, fd, &nic, s->iova + offset, offset, 0, flags, &seen);
	privileged(1);
	assert_int_equal(ret, 0);
	expect_same_shape(&raw, &seen);
	expect_same_plans(&raw, &seen, s->iova + offset, offset - raw.start, seed);
	mrg_layout_release(&raw);
	mrg_layout_release(&seen);
}

static void plans_from_what_nobody_sees_equal_those_from_the_truth(void **state)
{
	int rounds = getenv("MRG_FULL") && *getenv("MRG_FULL") ? 10000 : 400;
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < rounds; i++) {
		struct shape s;
		uint64_t offset;
		int fd;

		random_shape(&seed, &s);
		offset = random_below(&seed, 2) ? 0 : random_below(&seed, s.length);
		fd = ioctl(simgpu, SIMGPU_IOC_CREATE, &s.create);
		assert_true(fd >= 0);
		compare(fd, &s, 0, MRG_LAYOUT_COALESCE, &seed);
		compare(fd, &s, offset, MRG_LAYOUT_COALESCE, &seed);
		compare(fd, &s, offset, 0, &seed);
		close(fd);
	}
}

static void two_truths_that_differ_above_the_lowest_difference_look_alike(void **state)
{
	struct mrg_layout a, b;
	int fd[2] = { make_buffer("2G@0x540000000,fake"), make_buffer("2G@0x7c40000000,fake") };

	(void)state;
	privileged(0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(mrg_dev_layout(dev, fd[i], &nic, 0x700000000000, 0, 0,
						MRG_LAYOUT_COALESCE, i ? &b : &a),
				 0);
	privileged(1);
	assert_int_equal(a.count, b.count);
	assert_memory_equal(a.sg, b.sg, a.count * sizeof(*a.sg));
	assert_int_equal(a.sg[0].addr & (2 * GIB - 1), GIB);
	mrg_layout_release(&a);
	mrg_layout_release(&b);
	close(fd[0]);
	close(fd[1]);
}

/* ---- set-up ---------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	if (kit_open("mrguard mrguard_walk simnic simgpu", "simnic"))
		return -1;
	nic = (struct mrg_pci_addr){
		.domain = importer.domain,
		.bus = importer.bus,
		.device = importer.devfn >> 3,
		.function = importer.devfn & 7,
	};
	return mrg_dev_open(&dev);
}

static int tear_down(void **state)
{
	(void)state;
	mrg_dev_close(dev);
	return kit_close("mrguard_walk mrguard simgpu simnic");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_node_is_closed_to_all_but_root_until_a_rule_says_otherwise),
		cmocka_unit_test(a_member_of_the_nodes_group_may_open_it),
		cmocka_unit_test(an_importer_without_an_rdma_device_is_for_the_privileged),
		cmocka_unit_test(vmas_of_others_are_for_the_privileged_and_ones_own_for_all),
		cmocka_unit_test(the_unprivileged_get_no_block_addresses_of_a_dmabuf),
		cmocka_unit_test(the_unprivileged_cannot_find_addresses_by_page_sizes),
		cmocka_unit_test(root_of_another_namespace_is_nobody_here),
		cmocka_unit_test(plans_from_what_nobody_sees_equal_those_from_the_truth),
		cmocka_unit_test(two_truths_that_differ_above_the_lowest_difference_look_alike),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
