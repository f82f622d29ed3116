/* SPDX-License-Identifier: MIT */
/* The real outside world of registration. */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "explain/pin.h"
#include "region/context.h"

/* Not the macro: that one needs a constant to choose between two symbols. */
static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/* The documented way to a DMA-BUF's size (Documentation/driver-api/dma-buf.rst);
 * it has no position that this could move. */
static int64_t dmabuf_size(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);

	return size < 0 ? -errno : size;
}

static bool is_dmabuf(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC;
}

/*
 * DMA-BUFs count their inodes with 64 bits ("dma-buf: ensure unique directory
 * name for dmabuf stats", 2022).  Before, they shared a 32-bit counter that
 * starts over: there the time of creation tells two of one number apart.
 */
static bool dmabuf_id(int fd, struct region_dmabuf_id *id)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	id->inode = st.st_ino;
	id->created_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000ULL + (uint64_t)st.st_ctim.tv_nsec;
	return true;
}

#define PROBE_ATTRS 9
#define DRIVER_IDS 64 /* enum rdma_driver_id ends far below */

/*
 * The provider's answer to fd -1 does not tell a provider that lacks the call
 * from a kernel that does.  This is the call that a provider would make; a
 * kernel and a driver that know DMA-BUF MRs answer EBADF.  The kernel refuses
 * a driver id that is not the device's with EINVAL, and verbs does not tell it.
 */
static int kernel_probe(struct ibv_pd *pd)
{
	union {
		struct ib_uverbs_ioctl_hdr hdr;
		char room[sizeof(struct ib_uverbs_ioctl_hdr) +
			  PROBE_ATTRS * sizeof(struct ib_uverbs_attr)];
	} cmd = { 0 };
	uint32_t lkey, rkey;
	const struct ib_uverbs_attr attrs[PROBE_ATTRS] = {
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_HANDLE },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, .data = pd->handle },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_OFFSET, .len = 8 },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_LENGTH, .len = 8, .data = 4096 },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_IOVA, .len = 8 },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_FD, .len = 4, .data_s64 = -1 },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
		  .len = 4,
		  .data = IBV_ACCESS_LOCAL_WRITE },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY,
		  .len = 4,
		  .data = (uintptr_t)&lkey },
		{ .attr_id = UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY,
		  .len = 4,
		  .data = (uintptr_t)&rkey },
	};

	cmd.hdr.length = sizeof(cmd.room);
	cmd.hdr.object_id = UVERBS_OBJECT_MR;
	cmd.hdr.method_id = UVERBS_METHOD_REG_DMABUF_MR;
	cmd.hdr.num_attrs = PROBE_ATTRS;
	memcpy(cmd.hdr.attrs, attrs, sizeof(attrs));
	for (size_t i = 0; i < PROBE_ATTRS; i++)
		cmd.hdr.attrs[i].flags = UVERBS_ATTR_F_MANDATORY;
	while (ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd) && errno == EINVAL &&
	       cmd.hdr.driver_id < DRIVER_IDS)
		cmd.hdr.driver_id++;
	return -errno;
}

const struct region_env region_env_host = {
	.reg = reg,
	.reg_dmabuf = ibv_reg_dmabuf_mr,
	.dereg = ibv_dereg_mr,
	.query_device = ibv_query_device,
	.kernel_probe = kernel_probe,
	.dmabuf_size = dmabuf_size,
	.is_dmabuf = is_dmabuf,
	.dmabuf_id = dmabuf_id,
	.ask_drivers = explain_pin_ask_drivers,
	.dev_open = mrg_dev_open,
	.dev_close = mrg_dev_close,
	.dev_info = mrg_dev_info,
	.walk_ask = mrg_walk_ask_host,
	.dev_layout = mrg_dev_layout,
	.layout_release = mrg_layout_release,
	.sys = "/sys",
	.proc = "/proc",
	.guards_vmas = true,
};
