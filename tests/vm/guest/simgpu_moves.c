/* SPDX-License-Identifier: MIT */
/*
 * Memory that moves under an MR: the page is picked again then, so an MR that was
 * registered right can become wrong, and mrguard_cap.ko keeps it right only as
 * long as it is loaded.
 */
#include "loop.h"

#define SIZE (5 * GIB)
#define IOVA 0x700000000000ULL
/* The iova differs from the first in bit 31, from the second in bit 32. */
#define NARROW (6 * GIB)
#define WIDE (12 * GIB)
#define WIDE_SHIFT 32

static int move_buffer(int fd, uint64_t addr, uint64_t size, uint32_t flags)
{
	const struct mrg_sg sg = { addr, size };
	struct simgpu_move arg = {
		.fd = fd, .flags = flags, .extents = (uintptr_t)&sg, .extents_n = 1
	};
	int device = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	int err = ioctl(device, SIMGPU_IOC_MOVE, &arg) ? errno : 0;

	close(device);
	return err;
}

static uint64_t pins(int fd)
{
	struct simgpu_stat st = { .fd = fd };
	int device = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);

	if (ioctl(device, SIMGPU_IOC_STAT, &st))
		bail("simgpu: %s", strerror(errno));
	close(device);
	return st.pinned;
}

static int make_buffer(uint64_t addr, uint64_t size)
{
	const struct mrg_sg sg = { addr, size };

	return make_dmabuf(&sg, 1, 2 * GIB);
}

static char *map_buffer(int fd, uint64_t size)
{
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
	return map;
}

static struct ibv_mr *register_buffer(int fd, uint64_t size)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, size, IOVA, fd, ACCESS);

	if (!mr)
		bail("registration: %s", strerror(errno));
	return mr;
}

/* ---- what moves, and what does not ----------------------------------------- */

static void a_move_keeps_the_bytes(void)
{
	int fd = make_buffer(NARROW, 4 * MIB);
	char *map = map_buffer(fd, 4 * MIB);
	bool same = true;

	for (uint64_t at = 0; at < 4 * MIB; at += 4099)
		map[at] = (char)(at / 4099 + 1);
	ok(!move_buffer(fd, WIDE, 4 * MIB, 0), "a buffer that nobody has pinned moves");
	for (uint64_t at = 0; at < 4 * MIB; at += 4099)
		same &= map[at] == (char)(at / 4099 + 1);
	ok(same, "its bytes are those that it had");
	munmap(map, 4 * MIB);
	close(fd);
}

static void wrong_moves_are_refused(void)
{
	int fd = make_buffer(NARROW, 4 * MIB);

	ok(move_buffer(fd, NARROW + 2 * MIB, 4 * MIB, 0) == EINVAL, "not onto its own memory");
	ok(move_buffer(fd, WIDE, 2 * MIB, 0) == EINVAL, "not into less memory");
	ok(move_buffer(fd, 0, 4 * MIB, 0) == ERANGE, "not out of the reserved memory");
	ok(move_buffer(fd, WIDE, 4 * MIB, 1u << 31) == EINVAL, "not with flags that are not known");
	close(fd);
}

static void mrguard_sees_that_it_can_move(void)
{
	int fd = make_buffer(NARROW, 4 * MIB);
	struct mrg_layout layout;
	struct mrg_pci_addr pci;
	struct mrg_dev_info info;
	struct mrg_dev *dev;

	if (mrg_dev_open(&dev) || mrg_dev_info(dev, &info) ||
	    mrg_importer_find(NULL, "simnic0", &pci) ||
	    mrg_dev_layout(dev, fd, &pci, 0, 0, 4 * MIB, 0, &layout))
		bail("no layout");
	ok(layout.moves, "a layout says that the memory can move");
	mrg_layout_release(&layout);
	mrg_dev_close(dev);
	close(fd);
}

static void what_is_pinned_stays(void)
{
	int fd = make_buffer(NARROW, 4 * MIB);
	struct ibv_mr *mr = register_buffer(fd, 4 * MIB);

	ok(pins(fd) > 0 && move_buffer(fd, WIDE, 4 * MIB, 0) == EBUSY,
	   "a pinned MR keeps the buffer where it is");
	ibv_dereg_mr(mr);
	ok(!pins(fd) && !move_buffer(fd, WIDE, 4 * MIB, 0), "it moves when the MR is gone");
	close(fd);
}

/* ---- an MR that follows ------------------------------------------------------ */

struct following {
	int fd;
	char *map;
	struct ibv_mr *mr;
	uint32_t flags; /* that it takes to move it on this kernel */
};

/* Places before and after the first 4 GiB, which is where the fault begins. */
static const uint64_t places[] = { 3, 2 * GIB + 5, 4 * GIB - 64, 4 * GIB + 70001, SIZE - 64 };
#define PLACES (sizeof(places) / sizeof(*places))

static bool arrives(const struct following *f, uint64_t at)
{
	const struct mrg_seg from = { .wire = (uintptr_t)bounce,
				      .length = 64,
				      .lkey = bounce_mr->lkey,
				      .rkey = bounce_mr->rkey };
	const struct mrg_seg to = {
		.wire = IOVA + at, .length = 64, .lkey = f->mr->lkey, .rkey = f->mr->rkey
	};
	const struct mrg_seg_pair pair = { .local = from, .remote = to };

	for (int i = 0; i < 64; i++)
		((unsigned char *)bounce)[i] = (unsigned char)(at / 3 + (uint64_t)i * 7 + 1);
	memset(f->map + at, 0, 64);
	if (rc_transfer(&ends[0], IBV_WR_RDMA_WRITE, &pair, 1))
		bail("transfer: %s", ends[0].fault);
	return !memcmp(f->map + at, bounce, 64);
}

static size_t wrong_places(const struct following *f)
{
	size_t wrong = 0;

	for (size_t i = 0; i < PLACES; i++)
		wrong += !arrives(f, places[i]);
	return wrong;
}

/* Moves it, and says which page it has then and how many places are wrong. */
static void expect(const struct following *f, uint64_t addr, bool capped, const char *when)
{
	unsigned int want = addr == NARROW || capped ? CAP_SHIFT : WIDE_SHIFT, shift;
	bool wraps = want == WIDE_SHIFT && walk_is_truncating();
	uint64_t moves = simnic_stat("simnic0", "moves");
	int err = move_buffer(f->fd, addr, SIZE, f->flags);
	size_t wrong;

	if (err)
		bail("the buffer does not move: %s", strerror(err));
	wrong = wrong_places(f);
	shift = mr_page_shift("simnic0", f->mr);
	printf("# %s: a page of 2^%u, %zu of %zu places wrong\n", when, shift, wrong, PLACES);
	ok(simnic_stat("simnic0", "moves") == moves + 1 && shift == want,
	   "%s: the page is picked again, 2^%u", when, want);
	ok(wraps ? wrong == 2 : !wrong, "%s: %s", when,
	   wraps ? "all beyond 4 GiB goes astray" : "every byte is right");
}

static void follow(struct following *f)
{
	simnic_set("simnic0", "follow_moves", 1);
	f->fd = make_buffer(NARROW, SIZE);
	f->map = map_buffer(f->fd, SIZE);
	f->mr = register_buffer(f->fd, SIZE);
	/* Without CONFIG_DMABUF_MOVE_NOTIFY the core pins what is mapped. */
	if (pins(f->fd)) {
		printf("# this kernel pins what dynamic importers map\n");
		ok(move_buffer(f->fd, WIDE, SIZE, 0) == EBUSY,
		   "a kernel without move_notify moves nothing under an MR");
		f->flags = SIMGPU_MOVE_PINNED;
	}
	ok(mr_page_shift("simnic0", f->mr) == CAP_SHIFT && !wrong_places(f),
	   "where it is registered every byte is right");
}

static void an_mr_follows_its_memory(void)
{
	struct following f = { 0 };

	follow(&f);
	expect(&f, WIDE, false, "moved without the cap");
	cap_load();
	expect(&f, NARROW, true, "moved back under the cap");
	expect(&f, WIDE, true, "moved under the cap");
	cap_unload();
	expect(&f, NARROW, false, "moved back after the cap");
	expect(&f, WIDE, false, "moved after the cap");
	ibv_dereg_mr(f.mr);
	ok(!pins(f.fd), "no pin is left");
	munmap(f.map, SIZE);
	close(f.fd);
	simnic_set("simnic0", "follow_moves", 0);
}

int main(int argc, char **argv)
{
	(void)argc;
	preload_shim(argv);
	if (run_command("modprobe simgpu dynamic=1"))
		bail("simgpu does not load");
	ground_up();
	open_loop();
	simnic_set("simnic0", "absorb_strays", 1);
	a_move_keeps_the_bytes();
	wrong_moves_are_refused();
	mrguard_sees_that_it_can_move();
	what_is_pinned_stays();
	an_mr_follows_its_memory();
	close_loop();
	ground_down();
	tap_end();
	return 0;
}
