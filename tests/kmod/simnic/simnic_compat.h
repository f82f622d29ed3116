/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every difference between kernels.  The SIMNIC_ switches come from Kbuild,
 * which reads them off the headers; the code is written for the newest form.
 */
#ifndef SIMNIC_COMPAT_H
#define SIMNIC_COMPAT_H

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* The block iterator moved into a header of its own with 15fe76e23615. */
#ifdef SIMNIC_ITER_H
#include <rdma/iter.h>
#endif

/* 5f60d5f6bbc1 (6.12) moved it. */
#ifdef SIMNIC_UNALIGNED_H
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* dd6d7f8574d7 (6.12): create_cq takes the whole attribute bundle. */
#ifdef SIMNIC_CQ_ATTRS
#define SIMNIC_CQ_UDATA struct uverbs_attr_bundle
#define simnic_cq_udata(arg) ((arg) ? &(arg)->driver_udata : NULL)
#else
#define SIMNIC_CQ_UDATA struct ib_udata
#define simnic_cq_udata(arg) (arg)
#endif

/* 3aa73c6b795b (6.12) does the same to reg_user_mr_dmabuf. */
#ifdef SIMNIC_DMABUF_ATTRS
#define SIMNIC_DMABUF_UDATA struct uverbs_attr_bundle
#else
#define SIMNIC_DMABUF_UDATA struct ib_udata
#endif

/* e1bed9a94da9 (6.17): registration takes a DMA handle, which we have none of. */
#ifdef SIMNIC_MR_DMAH
#define SIMNIC_DMAH struct ib_dmah *dmah,
#define simnic_dmah() (dmah)
#else
#define SIMNIC_DMAH
#define simnic_dmah() (NULL)
#endif

/* 7.1: move_notify() got another name. */
#ifdef SIMNIC_INVALIDATE_MAPPINGS
#define simnic_invalidate invalidate_mappings
#else
#define simnic_invalidate move_notify
#endif

/* 7.2: ib_umem_get() went, ib_umem_get_va() came. */
#ifdef SIMNIC_UMEM_GET_VA
#define simnic_umem_get ib_umem_get_va
#else
#define simnic_umem_get ib_umem_get
#endif

#endif /* SIMNIC_COMPAT_H */
