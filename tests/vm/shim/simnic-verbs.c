/* SPDX-License-Identifier: MIT */
/*
 * TEST CODE, never part of the library: preloaded, it gives librxe the
 * ibv_reg_dmabuf_mr() that it lacks, so that what is tested on simnic calls
 * the plain function as it would on a NIC whose provider has it.
 *
 * It asks the real function first and stands in only where that one says that
 * the provider has no such operation.  ibv_dereg_mr() needs no help.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <sys/ioctl.h>

/*
 * What librxe hands to free() and libibverbs looks into, in libibverbs' own
 * driver.h: the MR, its type, its access.  The room after it is for later
 * versions of that structure.
 */
struct shim_mr {
	struct ibv_mr mr;
	int type;
	int access;
	char room[64];
};

/* IBV_MR_TYPE_DMABUF_MR: no madvise() for fork when it is deregistered. */
#define SHIM_MR_TYPE_DMABUF 3

#define SHIM_ATTRS 9

static void add(struct ib_uverbs_ioctl_hdr *r, __u16 id, __u16 len, __u64 data)
{
	r->attrs[r->num_attrs++] = (struct ib_uverbs_attr){
		.attr_id = id,
		.len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
	r->length += sizeof(r->attrs[0]);
}

static void fill(struct ib_uverbs_ioctl_hdr *r, struct ibv_mr *mr, uint64_t iova, int fd,
		 int access)
{
	r->object_id = UVERBS_OBJECT_MR;
	r->method_id = UVERBS_METHOD_REG_DMABUF_MR;
	r->driver_id = RDMA_DRIVER_RXE;
	r->length = sizeof(*r);
	/* Handles have no length; numbers lie in the attribute; results are pointers. */
	add(r, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, mr->pd->handle);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, sizeof(__u64), (uintptr_t)mr->addr);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, sizeof(__u64), mr->length);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_IOVA, sizeof(__u64), iova);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_FD, sizeof(__u32), (__u32)fd);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, sizeof(__u32), (__u32)access);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, sizeof(mr->lkey), (uintptr_t)&mr->lkey);
	add(r, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, sizeof(mr->rkey), (uintptr_t)&mr->rkey);
}

static int reg(struct ibv_mr *mr, uint64_t iova, int fd, int access)
{
	struct ib_uverbs_ioctl_hdr *r = calloc(1, sizeof(*r) + SHIM_ATTRS * sizeof(r->attrs[0]));
	int err = 0;

	if (!r)
		return ENOMEM;
	fill(r, mr, iova, fd, access);
	if (ioctl(mr->context->cmd_fd, RDMA_VERBS_IOCTL, r))
		err = errno;
	else
		mr->handle = (uint32_t)r->attrs[0].data;
	free(r);
	return err;
}

static struct ibv_mr *shim_reg(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
			       int fd, int access)
{
	struct shim_mr *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return NULL;
	m->mr.context = pd->context;
	m->mr.pd = pd;
	/* The offset, as libibverbs has it for DMA-BUFs. */
	m->mr.addr = (void *)(uintptr_t)offset;
	m->mr.length = length;
	m->type = SHIM_MR_TYPE_DMABUF;
	m->access = access;
	err = reg(&m->mr, iova, fd, access);
	if (err) {
		free(m);
		errno = err;
		return NULL;
	}
	return &m->mr;
}

typedef struct ibv_mr *reg_dmabuf_fn(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

/* The version, IBVERBS_1.12, is given by simnic-verbs.map. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	reg_dmabuf_fn *real =
		(reg_dmabuf_fn *)dlvsym(RTLD_NEXT, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	struct ibv_mr *mr;

	if (real) {
		mr = real(pd, offset, length, iova, fd, access);
		if (mr || errno != EOPNOTSUPP)
			return mr;
	}
	return shim_reg(pd, offset, length, iova, fd, access);
}
