/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A DMA-BUF is attached and mapped for an importer, its scatter list is looked
 * at under the reservation lock, and all is undone.
 */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iommu.h>
#include <linux/ktime.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "compat.h"
#include "internal.h"

/* ---- the range and the importer ---------------------------------------- */

int mrg_check_range(struct mrg_mapped *mapped, u64 size)
{
	u64 end;

	if (!mapped->length && mapped->offset < size)
		mapped->length = size - mapped->offset;
	if (!mapped->length || check_add_overflow(mapped->offset, mapped->length, &end) ||
	    end > size)
		return -EINVAL;
	if (check_add_overflow(mapped->iova, mapped->length, &end))
		return -EINVAL;
	return (mapped->iova ^ mapped->offset) & ~PAGE_MASK ? -EINVAL : 0;
}

/* ib_device's parent: the function itself, or a device of the auxiliary bus below it. */
static int is_rdma(struct device *dev, void *depth)
{
	long levels = (long)depth;

	if (dev->class && !strcmp(dev->class->name, "infiniband"))
		return 1;
	return levels ? device_for_each_child(dev, (void *)(levels - 1), is_rdma) : 0;
}

static int check_importer(struct pci_dev *pdev)
{
	if (!device_is_registered(&pdev->dev))
		return -ENODEV;
	if (!pdev->dev.driver || mrg_driver_managed_dma(pdev))
		return -ENXIO;
	if (!device_for_each_child(&pdev->dev, (void *)2L, is_rdma) && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	return 0;
}

/*
 * Undoing a mapping that bounces copies the bounce buffer back over the memory,
 * and on a device that is not coherent it drops what caches hold.  What somebody
 * wrote between map and unmap would be lost, and a look writes nothing.  Mapping
 * for reading by the device only is no way out: until 6.15 the attach maps as
 * well, and both ways.
 */
static int check_mappings(struct device *dev)
{
	return dma_max_mapping_size(dev) != SIZE_MAX || !dev_is_dma_coherent(dev) ? -EADDRNOTAVAIL :
										    0;
}

static u32 iommu_kind(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	if (!domain)
		return device_iommu_mapped(dev) ? MRG_LAYOUT_IOMMU_UNKNOWN : MRG_LAYOUT_IOMMU_NONE;
	if (domain->type == IOMMU_DOMAIN_IDENTITY)
		return MRG_LAYOUT_IOMMU_IDENTITY;
	return domain->type & __IOMMU_DOMAIN_PAGING ? MRG_LAYOUT_IOMMU_TRANSLATED :
						      MRG_LAYOUT_IOMMU_UNKNOWN;
}

/* ---- map, look, undo --------------------------------------------------- */

/* Nothing of ours outlives the reservation lock, so there is nothing to do. */
static void nothing_left(struct dma_buf_attachment *attach)
{
}

static const struct dma_buf_attach_ops mrg_attach_ops = {
	.allow_peer2peer = true,
	.mrg_invalidate = nothing_left,
};

/*
 * Until 6.15 a static exporter's buffer is mapped by the attach already, so
 * both are timed.
 */
static int look_attached(struct mrg_mapped *mapped, struct dma_buf_attachment *attach,
			 u64 attach_ns, mrg_look_fn look, void *arg)
{
	struct sg_table *sgt;
	u64 began;
	int ret;

	/* Restarted after a signal's handler: nothing was done yet. */
	if (dma_resv_lock_interruptible(attach->dmabuf->resv, NULL))
		return -ERESTARTSYS;
	began = ktime_get_ns();
	sgt = dma_buf_map_attachment(attach, DMA_BIDIRECTIONAL);
	mapped->map_ns = attach_ns + ktime_get_ns() - began;
	if (IS_ERR(sgt)) {
		ret = PTR_ERR(sgt);
	} else {
		ret = look(mapped, sgt, arg);
		dma_buf_unmap_attachment(attach, sgt, DMA_BIDIRECTIONAL);
	}
	dma_resv_unlock(attach->dmabuf->resv);
	return ret;
}

static int look_as(struct mrg_mapped *mapped, struct device *dev, struct dma_buf *buf,
		   mrg_look_fn look, void *arg)
{
	struct dma_buf_attachment *attach;
	u64 began = ktime_get_ns();
	int ret;

	mapped->max_seg_size = dma_get_max_seg_size(dev);
	mapped->iommu = iommu_kind(dev);
	attach = dma_buf_dynamic_attach(buf, dev, &mrg_attach_ops, mapped);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	ret = look_attached(mapped, attach, ktime_get_ns() - began, look, arg);
	dma_buf_detach(buf, attach);
	return ret;
}

/* The importer's driver can neither go nor change while its lock is held. */
static int look_for_importer(struct mrg_mapped *mapped, struct dma_buf *buf, mrg_look_fn look,
			     void *arg)
{
	const struct mrg_ioc_importer *imp = &mapped->importer;
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(imp->domain, imp->bus, imp->devfn);
	int ret;

	if (!pdev)
		return -ENODEV;
	if (device_lock_interruptible(&pdev->dev)) {
		ret = -ERESTARTSYS;
		goto put;
	}
	ret = check_importer(pdev);
	if (!ret)
		ret = check_mappings(&pdev->dev);
	if (!ret)
		ret = look_as(mapped, &pdev->dev, buf, look, arg);
	device_unlock(&pdev->dev);
put:
	pci_dev_put(pdev);
	return ret;
}

int mrg_look_at(struct mrg_mapped *mapped, mrg_look_fn look, void *arg)
{
	struct dma_buf *buf = dma_buf_get(mapped->fd);
	int ret;

	if (IS_ERR(buf)) /* -EINVAL stands for an fd of another kind */
		return PTR_ERR(buf) == -EINVAL ? -EMEDIUMTYPE : PTR_ERR(buf);
	mapped->dmabuf_size = buf->size;
	strscpy(mapped->exporter, buf->exp_name, sizeof(mapped->exporter));
	/* Who never moves has nothing to pin. */
	mapped->moves = buf->ops->pin;
	ret = mapped->importer.reserved ? -EINVAL : mrg_check_range(mapped, buf->size);
	if (!ret)
		ret = look_for_importer(mapped, buf, look, arg);
	dma_buf_put(buf);
	return ret;
}

/* ---- for both calls ---------------------------------------------------- */

bool mrg_may_see_raw(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

void *mrg_alloc_room(u64 count, size_t size)
{
	return count ? kvmalloc_array(count, size, GFP_KERNEL_ACCOUNT) : NULL;
}
