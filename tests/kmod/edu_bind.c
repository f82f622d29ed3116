/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * edu_bind: a driver that binds QEMU's edu function and does nothing but let
 * others map DMA for it, as a NIC's driver would: 64-bit mask, segments of up
 * to max_seg bytes (2 GiB as mlx5 sets it).  Not loaded beside simnic, which
 * drives the same function.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>

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
	return 0;
}

static const struct pci_device_id edu_bind_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, {} };

/* No MODULE_DEVICE_TABLE: nothing loads this module but a test. */
static struct pci_driver edu_bind_driver = {
	.name = "edu_bind",
	.id_table = edu_bind_ids,
	.probe = edu_bind_probe,
};
module_pci_driver(edu_bind_driver);

MODULE_DESCRIPTION("Binds QEMU's edu function as an importer of DMA-BUFs");
MODULE_LICENSE("GPL");
