/* SPDX-License-Identifier: MIT */
/* The client of /dev/mrguard: see mrguard(4) and kmod/uapi/mrguard.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mrguard/cap.h>
#include <mrguard/host.h>

#include "host/walk_bits.h"
#include "uapi/mrguard.h"

_Static_assert(sizeof(struct mrg_sg) == sizeof(struct mrg_ioc_run) &&
		       offsetof(struct mrg_sg, addr) == offsetof(struct mrg_ioc_run, addr) &&
		       offsetof(struct mrg_sg, len) == offsetof(struct mrg_ioc_run, len),
	       "runs travel as struct mrg_sg");

#define DEVICE_PATH "/dev/" MRG_DEVICE_NAME
#define FIRST_RUNS 256 /* enough for most buffers, so that one call does */
#define MOVE_RETRIES 8

struct mrg_dev {
	int fd;
	dev_t rdev; /* of the file that was opened */
	uint32_t page_size;
};

/* A signal before the module got its locks leaves nothing done: ask again. */
static int dev_ioctl(struct mrg_dev *dev, unsigned long cmd, void *arg)
{
	while (ioctl(dev->fd, cmd, arg) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int open_node(struct mrg_dev *dev)
{
	struct stat st;

	dev->fd = open(DEVICE_PATH, O_RDWR | O_CLOEXEC);
	if (dev->fd < 0)
		return errno == ENXIO || errno == ENODEV ? -ENOENT : -errno;
	if (fstat(dev->fd, &st) == 0 && S_ISCHR(st.st_mode)) {
		dev->rdev = st.st_rdev;
		return 0;
	}
	close(dev->fd);
	return -EPROTO;
}

/* Programs close descriptors that they do not know, and open other files. */
static bool is_ours(const struct mrg_dev *dev)
{
	struct stat st;

	return !fstat(dev->fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == dev->rdev;
}

static int ask_info(struct mrg_dev *dev, struct mrg_ioc_info *info)
{
	int ret;

	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	ret = dev_ioctl(dev, MRG_IOC_INFO, info);
	return ret == -ENOTTY ? -EPROTO : ret;
}

int mrg_dev_open(struct mrg_dev **out)
{
	struct mrg_ioc_info info;
	struct mrg_dev *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return -ENOMEM;
	ret = open_node(dev);
	if (ret)
		goto free_dev;
	ret = ask_info(dev, &info);
	/* Structures only grow, so any later ABI still speaks the first. */
	if (!ret && !info.abi)
		ret = -EPROTO;
	if (ret)
		goto close_fd;
	dev->page_size = info.page_size;
	*out = dev;
	return 0;

close_fd:
	close(dev->fd);
free_dev:
	free(dev);
	return ret;
}

void mrg_dev_close(struct mrg_dev *dev)
{
	if (!dev)
		return;
	close(dev->fd);
	free(dev);
}

enum mrg_walk host_walk_of_bits(uint32_t bits)
{
	if (!(bits & MRG_WALK_INFO_KNOWN))
		return MRG_WALK_UNKNOWN;
	if (!(bits & MRG_WALK_INFO_CROSSES))
		return bits & MRG_WALK_INFO_NARROW ? MRG_WALK_PER_ENTRY_NARROW : MRG_WALK_PER_ENTRY;
	if (!(bits & MRG_WALK_INFO_OFFSET32))
		return MRG_WALK_EXACT;
	return bits & MRG_WALK_INFO_UNBOUNDED ? MRG_WALK_TRUNCATING_UNBOUNDED : MRG_WALK_TRUNCATING;
}

_Static_assert((int)MRG_CAP_OFF == MRG_CAP_INFO_OFF && (int)MRG_CAP_LOST == MRG_CAP_INFO_LOST,
	       "the library's states have the module's numbers");

const char *mrg_cap_name(enum mrg_cap cap)
{
	static const char *const names[] = {
		[MRG_CAP_OFF] = "off",
		[MRG_CAP_WAITING] = "waiting",
		[MRG_CAP_SET] = "set",
		[MRG_CAP_EFFECTIVE] = "capped",
		[MRG_CAP_NOT_EFFECTIVE] = "not effective",
		[MRG_CAP_LOST] = "lost",
	};

	return (size_t)cap < sizeof(names) / sizeof(names[0]) ? names[cap] : "unknown";
}

int mrg_dev_info(struct mrg_dev *dev, struct mrg_dev_info *info)
{
	struct mrg_ioc_info got;
	int ret = is_ours(dev) ? ask_info(dev, &got) : -EBADF;

	if (ret)
		return ret;
	*info = (struct mrg_dev_info){
		.abi = got.abi,
		.has_layout = got.features & MRG_FEATURE_LAYOUT,
		.has_vma = got.features & MRG_FEATURE_VMA,
		.has_walk = got.features & MRG_FEATURE_WALK,
		.walk = host_walk_of_bits(got.walk),
		.cap = (enum mrg_cap)got.cap,
		.cap_asked = got.cap_asked,
		.cap_capped = got.cap_capped,
		.cap_uncapped = got.cap_uncapped,
	};
	memcpy(info->version, got.version, sizeof(info->version) - 1);
	return 0;
}

static struct mrg_ioc_importer importer_of(const struct mrg_pci_addr *pci)
{
	return (struct mrg_ioc_importer){
		.domain = pci->domain,
		.bus = pci->bus,
		.devfn = (uint8_t)(pci->device << 3 | (pci->function & 7)),
	};
}

/* Runs collected over one or more calls. */
struct pages {
	struct mrg_sg *sg;
	size_t count;
	size_t room;
};

static int make_room(struct pages *p, uint64_t room)
{
	struct mrg_sg *sg;

	if (room <= p->room)
		return 0;
	if (room > SIZE_MAX / sizeof(*sg))
		return -ENOMEM;
	sg = realloc(p->sg, room * sizeof(*sg));
	if (!sg)
		return -ENOMEM;
	p->sg = sg;
	p->room = room;
	return 0;
}

static uint64_t wanted(const struct mrg_ioc_layout *req)
{
	return req->flags & MRG_LAYOUT_COALESCE ? req->total_runs : req->total_entries;
}

/* One call that fills from index @start on. */
static int fetch(struct mrg_dev *dev, struct mrg_ioc_layout *req, struct pages *p, size_t start)
{
	uint64_t room = p->room - start;

	req->start = start;
	req->runs = (uintptr_t)(p->sg + start);
	req->runs_cap = room > MRG_LAYOUT_MAX_RUNS ? MRG_LAYOUT_MAX_RUNS : (uint32_t)room;
	return dev_ioctl(dev, MRG_IOC_LAYOUT, req);
}

/*
 * Each call maps the buffer anew.  Pages fit together only if nothing moved in
 * between: the totals stay, and the last run of one page is the first of the
 * next.
 */
static int fetch_rest(struct mrg_dev *dev, struct mrg_ioc_layout *req, struct pages *p)
{
	uint64_t total = wanted(req);

	while (req->info & MRG_LAYOUT_INFO_MORE) {
		struct mrg_sg last = p->sg[p->count - 1];
		int ret = fetch(dev, req, p, p->count - 1);

		if (ret)
			return ret;
		if (wanted(req) != total || req->runs_out < 2 ||
		    memcmp(&last, &p->sg[p->count - 1], sizeof(last)))
			return -EAGAIN;
		p->count += req->runs_out - 1;
	}
	return p->count == total ? 0 : -EAGAIN;
}

/*
 * All runs in as few calls as there can be: one, if they fit; a second one,
 * with room for all, if they do not; and pages only beyond what one call
 * gives.  Behind a translating IOMMU no two calls see the same addresses, so
 * there pages would be a patchwork of several mappings, and are refused.
 */
static int collect(struct mrg_dev *dev, struct mrg_ioc_layout *req, struct pages *p)
{
	int ret;

	p->count = 0;
	ret = fetch(dev, req, p, 0);
	if (ret)
		return ret;
	if (req->info & MRG_LAYOUT_INFO_MORE && p->room < wanted(req)) {
		ret = make_room(p, wanted(req));
		if (!ret)
			ret = fetch(dev, req, p, 0);
		if (ret)
			return ret;
	}
	p->count = req->runs_out;
	if (!(req->info & MRG_LAYOUT_INFO_MORE))
		return 0;
	if (wanted(req) > p->room)
		return -EAGAIN;
	if (req->iommu == MRG_LAYOUT_IOMMU_TRANSLATED)
		return -EOVERFLOW;
	return fetch_rest(dev, req, p);
}

static enum mrg_iommu iommu_of(uint32_t iommu)
{
	_Static_assert((int)MRG_IOMMU_MODE_UNKNOWN == MRG_LAYOUT_IOMMU_UNKNOWN,
		       "both sides number the modes alike");
	return iommu < MRG_LAYOUT_IOMMU_UNKNOWN ? (enum mrg_iommu)iommu : MRG_IOMMU_MODE_UNKNOWN;
}

static void fill_layout(struct mrg_layout *layout, const struct mrg_ioc_layout *req,
			const struct pages *p, uint32_t page_size)
{
	*layout = (struct mrg_layout){
		.sg = p->sg,
		.count = p->count,
		.start = req->offset & ~((uint64_t)page_size - 1),
		.dmabuf_size = req->dmabuf_size,
		.entries = req->total_entries,
		.max_seg_size = req->max_seg_size,
		.map_ns = req->map_ns,
		.iommu = iommu_of(req->iommu),
		.equivalent = req->info & MRG_LAYOUT_INFO_EQUIVALENT,
		.moves = req->info & MRG_LAYOUT_INFO_MOVES,
	};
	memcpy(layout->exporter, req->exporter, sizeof(layout->exporter) - 1);
}

int mrg_dev_layout(struct mrg_dev *dev, int fd, const struct mrg_pci_addr *importer, uint64_t iova,
		   uint64_t offset, uint64_t length, uint32_t flags, struct mrg_layout *layout)
{
	struct mrg_ioc_layout req = {
		.size = sizeof(req),
		.flags = flags,
		.dmabuf_fd = fd,
		.importer = importer_of(importer),
		.iova = iova,
		.offset = offset,
		.length = length,
	};
	struct pages p = { 0 };
	int tries, ret;

	if (flags & ~MRG_LAYOUT_COALESCE || importer->reserved)
		return -EINVAL;
	ret = make_room(&p, FIRST_RUNS);
	if (ret)
		return ret;
	for (tries = 0, ret = -EAGAIN; ret == -EAGAIN && tries < MOVE_RETRIES; tries++)
		ret = collect(dev, &req, &p);
	if (ret) {
		free(p.sg);
		return ret;
	}
	fill_layout(layout, &req, &p, dev->page_size);
	return 0;
}

void mrg_layout_release(struct mrg_layout *layout)
{
	if (!layout)
		return;
	free(layout->sg);
	memset(layout, 0, sizeof(*layout));
}

/* A scatter-list entry holds its length in 32 bits; longer runs become several. */
#define ENTRY_MAX UINT32_MAX
#define ENTRY_CUT (1ULL << 31)

static uint64_t entries_of(const struct mrg_sg *sg)
{
	return sg->len <= ENTRY_MAX ? 1 : (sg->len - 1) / ENTRY_CUT + 1;
}

static void cut_run(struct mrg_sg run, struct mrg_sg **out)
{
	while (run.len > ENTRY_MAX) {
		*(*out)++ = (struct mrg_sg){ run.addr, ENTRY_CUT };
		run.addr += ENTRY_CUT;
		run.len -= ENTRY_CUT;
	}
	*(*out)++ = run;
}

/* @cut gets a copy with entries that fit, or NULL where @sg fits as it is. */
static int cut_list(const struct mrg_sg *sg, size_t count, struct mrg_sg **cut, uint64_t *entries)
{
	struct mrg_sg *out;
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		n += entries_of(&sg[i]);
		if (n > MRG_BLOCKS_MAX_RUNS)
			return -E2BIG;
	}
	*entries = n;
	*cut = NULL;
	if (n == count)
		return 0;
	out = malloc(n * sizeof(*out));
	if (!out)
		return -ENOMEM;
	*cut = out;
	for (i = 0; i < count; i++)
		cut_run(sg[i], &out);
	return 0;
}

static void fill_blocks(struct mrg_kernel_blocks *out, const struct mrg_ioc_blocks *req)
{
	*out = (struct mrg_kernel_blocks){
		.page_size = req->page_size,
		.total_blocks = req->total_blocks,
		.walked = req->walked,
		.wrong = req->wrong,
		.first_wrong = req->first_wrong,
		.endless = req->info & MRG_BLOCKS_INFO_ENDLESS,
	};
}

static ssize_t ask_blocks(struct mrg_dev *dev, struct mrg_ioc_blocks *req, uint64_t *addrs,
			  size_t cap, struct mrg_kernel_blocks *out)
{
	uint64_t start = req->start;
	size_t have = 0;
	int ret;

	if (!addrs)
		cap = 0;
	do {
		size_t room = cap - have;

		req->size = sizeof(*req);
		req->start = start + have;
		req->blocks = (uintptr_t)(addrs ? addrs + have : NULL);
		req->blocks_cap = room > MRG_BLOCKS_MAX_OUT ? MRG_BLOCKS_MAX_OUT : (uint32_t)room;
		ret = dev_ioctl(dev, MRG_IOC_BLOCKS, req);
		if (ret && ret != -EOVERFLOW)
			return ret;
		have += req->blocks_out;
	} while (!ret && have < cap && req->blocks_out == MRG_BLOCKS_MAX_OUT);
	fill_blocks(out, req);
	return ret ? ret : (ssize_t)have;
}

ssize_t mrg_dev_blocks(struct mrg_dev *dev, const struct mrg_sg *sg, size_t count, uint64_t iova,
		       uint64_t offset, uint64_t length, uint64_t pgsz_bitmap, uint64_t start,
		       uint64_t *addrs, size_t addrs_cap, struct mrg_kernel_blocks *out)
{
	struct mrg_ioc_blocks req = {
		.dmabuf_fd = -1,
		.iova = iova,
		.offset = offset,
		.length = length,
		.pgsz_bitmap = pgsz_bitmap,
		.start = start,
	};
	struct mrg_sg *cut;
	uint64_t entries;
	ssize_t ret = cut_list(sg, count, &cut, &entries);

	if (ret)
		return ret;
	req.runs = (uintptr_t)(cut ? cut : sg);
	req.runs_cap = (uint32_t)entries;
	ret = ask_blocks(dev, &req, addrs, addrs_cap, out);
	free(cut);
	return ret;
}

ssize_t mrg_dev_dmabuf_blocks(struct mrg_dev *dev, int fd, const struct mrg_pci_addr *importer,
			      uint64_t iova, uint64_t offset, uint64_t length, uint64_t pgsz_bitmap,
			      uint64_t start, uint64_t *addrs, size_t addrs_cap,
			      struct mrg_kernel_blocks *out)
{
	struct mrg_ioc_blocks req = {
		.flags = MRG_BLOCKS_DMABUF,
		.dmabuf_fd = fd,
		.importer = importer_of(importer),
		.iova = iova,
		.offset = offset,
		.length = length,
		.pgsz_bitmap = pgsz_bitmap,
		.start = start,
	};

	if (importer->reserved)
		return -EINVAL;
	return ask_blocks(dev, &req, addrs, addrs_cap, out);
}

int mrg_dev_vma(struct mrg_dev *dev, pid_t pid, uint64_t start, uint64_t end,
		struct mrg_vma_counts *out)
{
	struct mrg_ioc_vma req = {
		.size = sizeof(req),
		.flags = start || end ? MRG_VMA_RANGE : 0,
		.pid = pid,
		.start = start,
		.end = end,
	};
	int ret = dev_ioctl(dev, MRG_IOC_VMA, &req);

	if (ret)
		return ret;
	*out = (struct mrg_vma_counts){
		.map_count = req.map_count,
		.vmas = req.vmas,
		.dontcopy = req.dontcopy,
		.joinable = req.joinable,
		.stuck_anon = req.stuck_anon,
		.stuck_special = req.stuck_special,
		.stuck_file = req.stuck_file,
		.stuck_other = req.stuck_other,
		.mapped = req.mapped,
		.special = req.special,
		.unwritten = req.unwritten,
		.page_size = req.page_size,
	};
	return 0;
}

ssize_t mrg_dev_holders(struct mrg_dev *dev, uint32_t *pids, size_t cap)
{
	struct mrg_ioc_holders req = {
		.size = sizeof(req),
		.pids = (uintptr_t)pids,
		.pids_cap = cap > UINT32_MAX ? UINT32_MAX : (uint32_t)cap,
	};
	int ret = dev_ioctl(dev, MRG_IOC_HOLDERS, &req);

	if (ret == -ENOTTY)
		return -EOPNOTSUPP;
	return ret ? ret : (ssize_t)req.total;
}
