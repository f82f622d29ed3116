/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * edu_bind: a driver that binds QEMU's edu function and does nothing but let
 * others map DMA for it, as a NIC's driver would: 64-bit mask, segments of up
 * to max_seg bytes (2 GiB as mlx5 sets it).  Not loaded beside simnic, which
 * drives the same function.
 *
 * A descriptor of a DMA-BUF written to the parameter `hold' is mapped for the
 * function, until -1 is written: what a look would do, and its time drawn out.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

static struct device *function; /* the one bound last */
static struct dma_buf_attachment *held;
static struct sg_table *held_list;

static void let_go(void)
{
	struct dma_buf *buf;

	if (!held)
		return;
	buf = held->dmabuf;
	if (held_list) {
		dma_resv_lock(buf->resv, NULL);
		dma_buf_unmap_attachment(held, held_list, DMA_BIDIRECTIONAL);
		dma_resv_unlock(buf->resv);
	}
	dma_buf_detach(buf, held);
	dma_buf_put(buf);
	held = NULL;
	held_list = NULL;
}

static int take(int fd)
{
	struct dma_buf *buf = dma_buf_get(fd);
	struct sg_table *list;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	held = dma_buf_attach(buf, function);
	if (IS_ERR(held)) {
		int ret = PTR_ERR(held);

		held = NULL;
		dma_buf_put(buf);
		return ret;
	}
	dma_resv_lock(buf->resv, NULL);
	list = dma_buf_map_attachment(held, DMA_BIDIRECTIONAL);
	dma_resv_unlock(buf->resv);
	if (!IS_ERR(list)) {
		held_list = list;
		return 0;
	}
	let_go();
	return PTR_ERR(list);
}

/* Parameters' own lock keeps writers apart. */
static int set_hold(const char *text, const struct kernel_param *param)
{
	int fd, ret = kstrtoint(text, 0, &fd);

	if (ret || !function)
		return ret ?: -ENODEV;
	let_go();
	return fd < 0 ? 0 : take(fd);
}

static const struct kernel_param_ops hold_ops = { .set = set_hold };
module_param_cb(hold, &hold_ops, NULL, 0200);
MODULE_PARM_DESC(hold, "descriptor of the DMA-BUF that is mapped for the function, or -1");

static unsigned int max_seg = SZ_2G;
module_param(max_seg, uint, 0444);
MODULE_PARM_DESC(max_seg, "largest segment in bytes (default 2 GiB)");

static int edu_bind_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int ret = pcim_enable_device(pdev);

	if (ret)
		return ret;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;
	dma_set_max_seg_size(&pdev->dev, max_seg);
	pci_set_master(pdev);
	function = &pdev->dev;
	return 0;
}

static void edu_bind_remove(struct pci_dev *pdev)
{
	let_go();
	function = NULL;
}

static const struct pci_device_id edu_bind_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, {} };

/* No MODULE_DEVICE_TABLE: nothing loads this module but a test. */
static struct pci_driver edu_bind_driver = {
	.name = "edu_bind",
	.id_table = edu_bind_ids,
	.probe = edu_bind_probe,
	.remove = edu_bind_remove,
};
module_pci_driver(edu_bind_driver);

MODULE_DESCRIPTION("Binds QEMU's edu function as an importer of DMA-BUFs");
MODULE_LICENSE("GPL");
