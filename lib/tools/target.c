/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/exporter.h"
#include "tools/fail.h"
#include "tools/parse.h"
#include "tools/target.h"

#define STAGE "make buffer"
#define DEFAULT_IOVA 0x700000000000ULL
#define LOOK (2ULL << 20) /* the longest stretch of one look */

struct mapping {
	void *at;
	uint64_t size;
	int fd;
};

static void unmap(void *owned)
{
	struct mapping *mapping = owned;

	if (mapping->at)
		munmap(mapping->at, mapping->size);
	if (mapping->fd >= 0)
		close(mapping->fd);
	free(mapping);
}

static int keep_mapping(struct target *target, int fd, struct mrg_error *error)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping) {
		if (fd >= 0)
			close(fd);
		return base_error_set(error, -ENOMEM, STAGE, "",
				      "There is no memory for the buffer.");
	}
	*mapping = (struct mapping){ .at = target->map, .size = target->size, .fd = fd };
	target->owned = mapping;
	target->give_back = unmap;
	return 0;
}

static int target_host(struct target *target, const char *size, struct mrg_error *error)
{
	void *at;

	if (parse_size(size, &target->size) || !target->size)
		return base_error_set(error, -EINVAL, STAGE,
				      "Sizes are written as 4096, 0x1000 or 4K.",
				      "The size of host memory is \"%s\", which is no size.", size);
	at = mmap(NULL, target->size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return base_error_set(error, -errno, STAGE, "Give a smaller size.",
				      "The %s bytes cannot be mapped: %s.", size, strerror(errno));
	target->map = at;
	target->addr = (uintptr_t)at;
	return keep_mapping(target, -1, error);
}

static int target_made(struct target *target, uint64_t iova, struct mrg_error *error)
{
	int ret = exporter_open(target->spec, &target->buf.fd, &target->size, error);
	void *at;

	if (ret)
		return ret;
	at = mmap(NULL, target->size, PROT_READ | PROT_WRITE, MAP_SHARED, target->buf.fd, 0);
	target->map = at == MAP_FAILED ? NULL : at;
	target->addr = iova ? iova : target->map ? (uintptr_t)at : DEFAULT_IOVA;
	target->buf.base = target->addr;
	return keep_mapping(target, target->buf.fd, error);
}

/*
 * Not mapped: an exporter's own mmap of a large DMA-BUF can show wrong pages
 * (one driver's kept its skip in 32 bits), and would be taken for the truth.
 */
static int target_fd(struct target *target, const char *number, uint64_t iova,
		     struct mrg_error *error)
{
	uint64_t fd;
	off_t size;

	if (parse_size(number, &fd) || fd > INT32_MAX)
		return base_error_set(error, -EINVAL, STAGE, "Write fd:NUMBER.",
				      "The file descriptor \"%s\" is no number.", number);
	size = lseek((int)fd, 0, SEEK_END);
	if (size <= 0)
		return base_error_set(error, size ? -errno : -EINVAL, STAGE,
				      "Hand in a DMA-BUF that is open in this process.",
				      "The file descriptor %s has no size.", number);
	target->buf.fd = (int)fd;
	target->size = (uint64_t)size;
	target->addr = target->buf.base = iova ? iova : DEFAULT_IOVA;
	return 0;
}

int target_open(struct target *target, const char *spec, uint64_t iova, struct mrg_error *error)
{
	*target = (struct target){ .spec = spec, .buf.fd = -1 };
	if (!strncmp(spec, "host:", 5))
		return target_host(target, spec + 5, error);
	if (!strncmp(spec, "cuda:", 5))
		return target_cuda(target, spec + 5, error);
	if (!strncmp(spec, "fd:", 3))
		return target_fd(target, spec + 3, iova, error);
	if (!strncmp(spec, "udmabuf:", 8) || !strncmp(spec, "simgpu:", 7))
		return target_made(target, iova, error);
	return base_error_set(error, -EINVAL, STAGE,
			      "Write host:SIZE, cuda:SIZE, udmabuf:SIZE or fd:NUMBER.",
			      "The --buffer \"%s\" names no kind of buffer.", spec);
}

void target_close(struct target *target)
{
	if (target->give_back)
		target->give_back(target->owned);
	target->give_back = NULL;
}

static int map_read(void *arg, uint64_t offset, void *buf, uint64_t length)
{
	memcpy(buf, (char *)arg + offset, length);
	return 0;
}

static int map_write(void *arg, uint64_t offset, const void *buf, uint64_t length)
{
	memcpy((char *)arg + offset, buf, length);
	return 0;
}

int small_truth_open(struct small_truth *truth, struct rc_end *end, const struct target *target)
{
	*truth = (struct small_truth){ .end = end, .target = target };
	truth->bounce = malloc(LOOK);
	if (!truth->bounce)
		return -ENOMEM;
	truth->bounce_mr = ibv_reg_mr(end->pd, truth->bounce, LOOK, IBV_ACCESS_LOCAL_WRITE);
	if (truth->bounce_mr)
		return 0;
	free(truth->bounce);
	return -errno;
}

void small_truth_close(struct small_truth *truth)
{
	if (truth->bounce_mr)
		ibv_dereg_mr(truth->bounce_mr);
	free(truth->bounce);
	*truth = (struct small_truth){ 0 };
}

static int look(struct small_truth *truth, enum ibv_wr_opcode opcode, uint64_t offset,
		uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at, iova;
	struct mrg_seg_pair pair;
	struct ibv_mr *mr;
	int ret;

	if (mrg_dmabuf_offset(&truth->target->buf, truth->target->addr + offset, &at))
		return -ERANGE;
	iova = at & (page - 1);
	mr = ibv_reg_dmabuf_mr(truth->end->pd, at, length, iova, truth->target->buf.fd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		return -errno;
	pair.local = (struct mrg_seg){ .wire = (uintptr_t)truth->bounce,
				       .length = length,
				       .lkey = truth->bounce_mr->lkey };
	pair.remote = (struct mrg_seg){ .wire = iova, .length = length, .rkey = mr->rkey };
	ret = rc_transfer(truth->end, opcode, &pair, 1);
	ibv_dereg_mr(mr);
	return ret;
}

static int small_read(void *arg, uint64_t offset, void *buf, uint64_t length)
{
	struct small_truth *truth = arg;
	int ret = 0;

	for (uint64_t done = 0, n; done < length && !ret; done += n) {
		n = length - done < LOOK ? length - done : LOOK;
		ret = look(truth, IBV_WR_RDMA_READ, offset + done, n);
		memcpy((char *)buf + done, truth->bounce, n);
	}
	return ret;
}

static int small_write(void *arg, uint64_t offset, const void *buf, uint64_t length)
{
	struct small_truth *truth = arg;
	int ret = 0;

	for (uint64_t done = 0, n; done < length && !ret; done += n) {
		n = length - done < LOOK ? length - done : LOOK;
		memcpy(truth->bounce, (const char *)buf + done, n);
		ret = look(truth, IBV_WR_RDMA_WRITE, offset + done, n);
	}
	return ret;
}

struct verify_truth target_truth(const struct target *target, struct small_truth *small)
{
	if (target->map)
		return (struct verify_truth){ map_read, map_write, target->map };
	return (struct verify_truth){ small_read, small_write, small };
}
