/* SPDX-License-Identifier: MIT */
/*
 * Registrations that fail, at each piece and for each reason that the kernel
 * and the exporter have: nothing is left behind, and the cause is named.
 */
#include <dirent.h>

#include "ground.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define SIZE (12 * GIB)
#define IOVA 0x700000000000ULL
#define PIECES 12
#define CYCLES 2048
#define WARM_UP 256
/* Slabs breathe; a leak of one object a cycle would be far above this. */
#define SLAB_SLACK_KIB 1024

static const struct mrg_sg wrapping = { 4 * GIB, SIZE };
static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct mrg_ctx *ctx;

/* What must be as before. */
struct state {
	uint64_t fds;
	uint64_t vmas;
	uint64_t mrs;
	uint64_t rdma_mrs; /* as the kernel's own resource tracking has it */
	uint64_t dmabufs;
	uint64_t attached;
	uint64_t mapped;
	uint64_t slab_kib;
};

static uint64_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static uint64_t count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	uint64_t n = 0;
	int c;

	if (!f)
		bail("%s: %s", path, strerror(errno));
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static uint64_t read_number(const char *command)
{
	unsigned long long value = 0;
	FILE *f = popen(command, "r");

	if (!f || fscanf(f, "%llu", &value) != 1)
		bail("%s gives no number", command);
	pclose(f);
	return value;
}

static struct state look(void)
{
	struct simgpu_stat stat = { .fd = -1 };
	int device = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
	struct state s = {
		.fds = count_fds(),
		.vmas = count_lines("/proc/self/maps"),
		.mrs = simnic_stat("simnic0", "mrs_live"),
	};

	if (ioctl(device, SIMGPU_IOC_STAT, &stat))
		bail("simgpu: %s", strerror(errno));
	close(device);
	s.attached = stat.attached;
	s.mapped = stat.mapped;
	s.rdma_mrs = read_number("rdma resource show mr | grep -c simnic0");
	s.dmabufs = read_number(
		"sed -n 's/^Total \\([0-9]*\\) objects.*/\\1/p' /sys/kernel/debug/dma_buf/bufinfo");
	s.slab_kib = read_number("sed -n 's/^SUnreclaim: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo");
	return s;
}

static bool same(const struct state *a, const struct state *b)
{
	printf("# fds %llu %llu, VMAs %llu %llu, MRs %llu %llu and %llu %llu, DMA-BUFs %llu %llu, attached %llu %llu, mapped %llu %llu, slab %llu %llu KiB\n",
	       (unsigned long long)a->fds, (unsigned long long)b->fds, (unsigned long long)a->vmas,
	       (unsigned long long)b->vmas, (unsigned long long)a->mrs, (unsigned long long)b->mrs,
	       (unsigned long long)a->rdma_mrs, (unsigned long long)b->rdma_mrs,
	       (unsigned long long)a->dmabufs, (unsigned long long)b->dmabufs,
	       (unsigned long long)a->attached, (unsigned long long)b->attached,
	       (unsigned long long)a->mapped, (unsigned long long)b->mapped,
	       (unsigned long long)a->slab_kib, (unsigned long long)b->slab_kib);
	return a->fds == b->fds && a->vmas == b->vmas && a->mrs == b->mrs &&
	       a->rdma_mrs == b->rdma_mrs && a->dmabufs == b->dmabufs &&
	       a->attached == b->attached && a->mapped == b->mapped;
}

static int reg(int fd, uint64_t cap, struct mrg_mr **mr)
{
	const struct mrg_dmabuf buf = { .fd = fd, .base = IOVA };
	const struct mrg_reg_opts opts = { .size = sizeof(opts),
					   .max_mr_size = cap,
					   .flags = MRG_REG_IOVA_EQUAL };

	return mrg_reg_dmabuf(ctx, pd, &buf, IOVA, SIZE, ACCESS, &opts, mr);
}

static void fail_each_piece(int fd, int err)
{
	struct state before = look(), after;
	struct mrg_error error = { 0 };
	size_t wrong = 0;
	struct mrg_mr *mr;

	simnic_set("simnic0", "fail_reg_errno", (uint64_t)err);
	for (int piece = 0; piece < PIECES; piece++) {
		simnic_set("simnic0", "fail_reg_nth", (uint64_t)piece + 1);
		if (reg(fd, GIB, &mr) != -err || mrg_last_error(ctx, &error) ||
		    error.piece != piece || error.code != -err || !error.cause[0])
			wrong++;
		wrong += simnic_stat("simnic0", "mrs_live") != before.mrs;
	}
	printf("# %s\n", error.cause);
	ok(!wrong, "failure with %s at each of %d pieces is reported and undone", strerror(err),
	   PIECES);
	ok(!reg(fd, GIB, &mr) && mrg_mr_count(mr) == PIECES,
	   "and then the same registration succeeds");
	ok(look().rdma_mrs == before.rdma_mrs + PIECES &&
		   look().attached == before.attached + PIECES,
	   "which the kernel's own counts show");
	mrg_dereg(mr);
	after = look();
	ok(same(&before, &after), "after failures with %s all is as before", strerror(err));
}

/* The exporter's own failures; with the module the first map is the layout's. */
static void exporter_fails(void)
{
	struct state before = look(), after;
	size_t wrong = 0;

	for (uint32_t good = 0; good < PIECES; good++) {
		struct simgpu_create create = { .size = sizeof(create),
						.seg = 2 * GIB,
						.extents_n = 1,
						.extents = (uintptr_t)&wrapping,
						.fail_errno = ENOMEM,
						.fail_after = good };
		int device = open(SIMGPU_DEVICE, O_RDWR | O_CLOEXEC);
		int fd = ioctl(device, SIMGPU_IOC_CREATE, &create);
		struct mrg_mr *mr = NULL;
		int ret = reg(fd, GIB, &mr);

		if (ret != -ENOMEM)
			wrong++;
		if (!ret)
			mrg_dereg(mr);
		close(fd);
		close(device);
	}
	after = look();
	ok(!wrong, "an exporter that fails to map at any piece is reported");
	ok(same(&before, &after), "and leaves all as before");
}

static void short_fd(void)
{
	const struct mrg_sg chunk = { 4 * GIB, 20 * MIB };
	int fd = make_dmabuf(&chunk, 1, 2 * GIB);
	uint64_t asked = simnic_stat("simnic0", "mrs_failed");
	struct mrg_error error;
	struct mrg_mr *mr;

	ok(reg(fd, 0, &mr) == -EINVAL && !mrg_last_error(ctx, &error) &&
		   !strcmp(error.stage, "check fd") && strstr(error.cause, "20971520"),
	   "a DMA-BUF shorter than the range is named with its size");
	ok(simnic_stat("simnic0", "mrs_failed") == asked, "and the device is not asked");
	close(fd);
}

/* Stock librxe lacks the call: the shim is left out of this process's view. */
static void provider_without_dmabuf(void)
{
	ok(!run_command("LD_PRELOAD= %s without-shim >&2", "/proc/$PPID/exe"),
	   "a provider without DMA-BUF MRs is distinguished from a kernel without");
}

static int without_shim(void)
{
	int fd = make_dmabuf(&wrapping, 1, 2 * GIB);
	struct mrg_error error = { 0 };
	struct mrg_mr *mr;
	int ret = reg(fd, 0, &mr);

	mrg_last_error(ctx, &error);
	fprintf(stderr, "%d: %s\n", ret, error.cause);
	return ret == -EOPNOTSUPP && strstr(error.cause, "provider lacks") ? 0 : 1;
}

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 20) % n;
}

/* One registration, of a DMA-BUF or of memory, that may fail at some piece. */
static void cycle(void *memory, size_t *failed)
{
	struct mrg_mr *mr;
	int fd = -1, ret;

	simnic_set("simnic0", "fail_reg_nth", random_below(2 * PIECES));
	if (random_below(4)) {
		fd = make_dmabuf(&wrapping, 1, 2 * GIB);
		ret = reg(fd, random_below(2) ? GIB : 0, &mr);
	} else {
		ret = mrg_reg(ctx, pd, memory, 1 + random_below(4 * MIB), ACCESS, NULL, &mr);
	}
	*failed += ret != 0;
	if (fd >= 0)
		close(fd);
	if (!ret && mrg_dereg(mr))
		bail("deregistration failed");
	simnic_set("simnic0", "fail_reg_nth", 0);
}

static void churn(void)
{
	void *memory =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct state before, after;
	size_t failed = 0;

	memset(memory, 1, 4 * MIB);
	simnic_set("simnic0", "fail_reg_errno", ENOMEM);
	for (int i = 0; i < WARM_UP; i++)
		cycle(memory, &failed);
	failed = 0;
	before = look();
	for (int i = 0; i < CYCLES; i++)
		cycle(memory, &failed);
	after = look();
	printf("# %zu of %d failed\n", failed, CYCLES);
	ok(failed > CYCLES / 8 && failed < CYCLES / 2 + CYCLES / 4,
	   "registrations and failures are mixed");
	ok(same(&before, &after), "after %d cycles fds, VMAs, MRs and DMA-BUFs are as before",
	   CYCLES);
	ok(after.slab_kib < before.slab_kib + SLAB_SLACK_KIB, "and so is the kernel's slab");
	munmap(memory, 4 * MIB);
}

int main(int argc, char **argv)
{
	bool child = argc > 1;
	int fd, status;

	if (!child) {
		preload_shim(argv);
		ground_up();
	}
	verbs = rc_device_open("simnic0");
	pd = verbs ? ibv_alloc_pd(verbs) : NULL;
	if (!pd || mrg_open(&ctx, verbs, NULL))
		bail("simnic0 cannot be opened");
	if (child)
		return without_shim();
	fd = make_dmabuf(&wrapping, 1, 2 * GIB);
	fail_each_piece(fd, ENOMEM);
	fail_each_piece(fd, EIO);
	fail_each_piece(fd, EINVAL);
	fail_each_piece(fd, 524);
	close(fd);
	exporter_fails();
	short_fd();
	provider_without_dmabuf();
	churn();
	mrg_close(ctx);
	status = ibv_dealloc_pd(pd) | ibv_close_device(verbs);
	ok(!status, "the protection domain is free");
	ground_down();
	tap_end();
	return 0;
}
